"""``calque.random`` draws what ``jax.random`` draws, called plainly and within transformations."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import calque
import calque.random as by_module
from calque import random
from calque.random import normal as normal_by_name

jax.config.update("jax_enable_x64", True)


@pytest.fixture(scope="module", autouse=True)
def optimized_jax():
    """JAX as its users have it: where it multiplies and adds, it rounds once."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", False)
    jax.clear_caches()
    yield
    jax.config.update("jax_disable_most_optimizations", before)
    jax.clear_caches()


SHAPES = [(), (3,), (0,), (5, 1001)]
SEEDS = [0, 42, -1, (1 << 40) + 5, np.int32(-5), np.uint32(7)]


def units_apart(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the distance of two arrays, element by element, in units in the last place."""
    kind = f"i{a.dtype.itemsize}"
    places = [x.view(kind).astype(np.int64) for x in (np.atleast_1d(a), np.atleast_1d(b))]
    return np.abs(places[0] - places[1])


def same(mine, theirs) -> None:
    """Equal in all bits, dtype and shape."""
    theirs = np.asarray(theirs)
    assert np.shape(mine) == theirs.shape
    assert np.asarray(mine).dtype == theirs.dtype
    np.testing.assert_array_equal(mine, theirs)


# plain calls


@pytest.mark.parametrize("seed", SEEDS)
def test_keys_are_those_of_jax(seed):
    same(random.key(seed), jax.random.key_data(jax.random.key(seed)))
    key, theirs = random.PRNGKey(seed), jax.random.PRNGKey(seed)
    same(key, theirs)
    same(random.split(key), jax.random.split(theirs))
    same(random.split(key, 5), jax.random.split(theirs, 5))
    same(random.split(key, (2, 3)), jax.random.split(theirs, (2, 3)))
    for data in (0, 7, np.int64(1 << 31)):
        same(random.fold_in(key, data), jax.random.fold_in(theirs, data))
    same(random.wrap_key_data(random.key_data(key)), theirs)
    same(random.clone(key), theirs)


@pytest.mark.parametrize("shape", SHAPES)
def test_bits_and_uniform_numbers_are_exact(shape):
    key, theirs = random.key(7), jax.random.key(7)
    for dtype in (np.uint8, np.uint16, np.uint32, np.uint64):
        same(random.bits(key, shape, dtype), jax.random.bits(theirs, shape, dtype))
    same(random.bits(key, shape), jax.random.bits(theirs, shape))
    for dtype in (np.float16, np.float32, np.float64):
        same(random.uniform(key, shape, dtype), jax.random.uniform(theirs, shape, dtype))
    same(random.uniform(key, shape), jax.random.uniform(theirs, shape))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("bounds", [(0.1, 0.2), (-0.3, 1.7), (2.0, 1.0), (3.0, 3.0), (0.0, np.nan)])
def test_uniform_numbers_between_bounds_are_exact(dtype, bounds):
    found = random.uniform(random.key(1), (40000,), dtype, *bounds)
    same(found, jax.random.uniform(jax.random.key(1), (40000,), dtype, *bounds))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_normal_numbers_differ_in_the_last_place_only(dtype):
    for seed in range(2):
        found = random.normal(random.key(seed), (200000,), dtype)
        apart = units_apart(
            found, np.asarray(jax.random.normal(jax.random.key(seed), (200000,), dtype))
        )
        assert found.dtype == dtype and apart.max() <= 3 and np.mean(apart == 0) > 0.98


def test_half_and_complex_normal_numbers():
    key, theirs = random.key(3), jax.random.key(3)
    same(random.normal(key, (500,), np.float16), jax.random.normal(theirs, (500,), np.float16))
    for dtype in (np.complex128,):
        found, wanted = random.normal(key, (500,), dtype), jax.random.normal(theirs, (500,), dtype)
        np.testing.assert_allclose(found, wanted, rtol=4e-7 if dtype == np.complex64 else 1e-15)
        assert found.dtype == dtype


@pytest.mark.parametrize("dtype", [np.int8, np.uint32, np.int64])
def test_integers_are_exact(dtype):
    key, theirs = random.key(5), jax.random.key(5)
    info = np.iinfo(dtype)
    bounds = [(0, 10), (7, 3), (5, 5), (-3, 1000), (info.min, int(info.max))]
    bounds += [(info.min, int(info.max) + 1)] if info.bits < 64 else []
    for low, high in bounds:
        found = random.randint(key, (50,), low, high, dtype)
        same(found, jax.random.randint(theirs, (50,), low, high, dtype))
    low, high = np.array([[0], [100]]), np.array([7, 8, 1000])
    same(
        random.randint(key, (2, 3), low, high, dtype),
        jax.random.randint(theirs, (2, 3), low, high, dtype),
    )


def test_integers_of_more_than_half_the_range_are_exact():
    found = random.randint(random.key(0), (9,), -(1 << 63), (1 << 63) - 1)
    same(
        found,
        jax.random.randint(jax.random.key(0), (9,), np.int64(-(1 << 63)), np.int64((1 << 63) - 1)),
    )


def test_permutations_are_exact():
    key, theirs = random.key(9), jax.random.key(9)
    for n in (0, 1, 3000):
        same(random.permutation(key, n), jax.random.permutation(theirs, n))
    x = np.arange(24.0).reshape(2, 3, 4)
    for axis in (0, -1):
        for independent in (False, True):
            same(
                random.permutation(key, x, axis, independent),
                jax.random.permutation(theirs, x, axis, independent),
            )
    same(random.permutation(key, x[0, 0]), jax.random.permutation(theirs, x[0, 0]))


def test_bernoulli_numbers_are_exact():
    key, theirs = random.key(11), jax.random.key(11)
    p = np.array([0.1, 0.5, 0.9], np.float32)
    same(random.bernoulli(key, 0.3, (50,)), jax.random.bernoulli(theirs, 0.3, (50,)))
    same(random.bernoulli(key, p), jax.random.bernoulli(theirs, p))
    same(random.bernoulli(key, p, (9, 3), "high"), jax.random.bernoulli(theirs, p, (9, 3), "high"))


def test_a_batch_of_keys_draws_what_each_key_draws():
    keys = random.split(random.key(0), (2, 3))
    for draw in (random.normal, random.uniform, random.bits):
        for shape in SHAPES:
            found = draw(keys, shape)
            assert found.shape == (2, 3, *shape)
            same(found[1, 2], draw(keys[1, 2], shape))
    same(random.split(keys, 4)[1, 2], random.split(keys[1, 2], 4))
    same(random.fold_in(keys, 7)[0, 1], random.fold_in(keys[0, 1], 7))
    same(random.randint(keys, (4,), 0, 9)[0, 1], random.randint(keys[0, 1], (4,), 0, 9))
    same(random.order(keys, (4,))[0, 1], random.permutation(keys[0, 1], 4))


def test_the_first_numbers_do_not_depend_on_how_many_are_drawn():
    key = random.key(1)
    many = random.normal(key, (20000,))
    for size in (1, 4, 5, 9000):
        same(random.normal(key, (size,)), many[:size])


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: random.normal(7), TypeError, "takes a key, two uint32"),
        (lambda: random.normal(random.key(0), 3), TypeError, "shape must be a tuple of ints such as (3,), and is 3"),
        (lambda: random.normal(random.key(0), (3,), int), ValueError, "gives floats"),
        (lambda: random.bits(random.key(0), (3,), int), ValueError, "unsigned integers"),
        (lambda: random.randint(random.key(0), (3,), 0, 1, float), TypeError, "gives integers"),
        (lambda: random.key(1.5), TypeError, "seed must be an integer"),
        (lambda: random.key(0, impl="rbg"), ValueError, "impl must be None or 'threefry2x32'"),
        (lambda: random.bernoulli(random.key(0), 1), TypeError, "is a float, not int64"),
        (lambda: random.bernoulli(random.key(0), np.ones(3), (2,)), ValueError, "shape"),
        (lambda: random.permutation(random.key(0), 2.5), TypeError, "an integer or an array"),
    ],
)
def test_what_is_refused(call, error, text):
    with pytest.raises(error) as found:
        call()
    assert text in str(found.value)


def test_the_module_can_be_imported_in_every_way():
    assert by_module is random is calque.random
    assert normal_by_name is random.normal


# within transformations


def walk(key, scale, start):
    x = start
    for _ in range(6):
        key, subkey = random.split(key)
        x = scale * x + random.normal(subkey, (3,))
    return np.sum(x**2)


def walk_of_jax(key, scale, start):
    x = start
    for _ in range(6):
        key, subkey = jax.random.split(key)
        x = scale * x + jax.random.normal(subkey, (3,))
    return jax.numpy.sum(x**2)


def test_keys_are_carried_through_loops():
    given = random.key(2), 0.7, np.array([1.0, 2.0, 3.0])
    wanted = jax.jit(jax.value_and_grad(walk_of_jax, argnums=(1, 2)))(jax.random.key(2), *given[1:])
    for transformed in (
        calque.value_and_grad(walk, (1, 2)),
        calque.jit(calque.value_and_grad(walk, (1, 2))),
    ):
        value, slopes = transformed(*given)
        np.testing.assert_allclose(value, wanted[0], rtol=1e-13)
        for mine, theirs in zip(slopes, wanted[1]):
            np.testing.assert_allclose(mine, theirs, rtol=1e-13)


def test_the_gradient_by_bounds_of_uniform_numbers():
    def f(low, high, key):
        return np.sum(random.uniform(key, (4,), minval=low, maxval=high) ** 2)

    def of_jax(low, high, key):
        return jax.numpy.sum(jax.random.uniform(key, (4,), minval=low, maxval=high) ** 2)

    wanted = jax.grad(of_jax, (0, 1))(0.5, 2.0, jax.random.key(4))
    for transformed in (calque.grad(f, (0, 1)), calque.jit(calque.grad(f, (0, 1)))):
        np.testing.assert_allclose(transformed(0.5, 2.0, random.key(4)), wanted, rtol=1e-13)
    _, tangent = calque.jvp(
        f, (0.5, 2.0, random.key(4)), (1.0, 0.0, np.zeros(2, [("float0", "V")]))
    )
    np.testing.assert_allclose(tangent, wanted[0], rtol=1e-13)


PROGRAMS = {
    "a seed": lambda seed, key: random.normal(random.key(seed), (2,)),
    "a list of draws": lambda seed, key: np.array(
        [random.normal(k, (2,)) for k in random.split(key, 3)]
    ),
    "an index": lambda seed, key: random.uniform(random.split(key, 9)[seed], (2,)),
    "a dictionary": lambda seed, key: random.bits(dict(zip("ab", random.split(key)))["b"], (2,)),
    "folded in": lambda seed, key: random.normal(random.fold_in(key, seed), (2,)),
    "integers": lambda seed, key: random.randint(key, (3,), 0, seed + 5),
    "an order": lambda seed, key: random.permutation(key, np.arange(5.0) * seed),
    "an order of rows": lambda seed, key: random.permutation(
        key, np.arange(6.0).reshape(3, 2), 1, independent=True
    ),
    "decisions": lambda seed, key: random.bernoulli(key, 0.1 * seed, (5,)),
    "a shape": lambda seed, key: random.normal(key, (seed + 1, 2)).sum(),
    "single": lambda seed, key: random.normal(key, (3,), dtype=np.float32),
    "a mode": lambda seed, key: random.bernoulli(key, mode="high"),
    "many": lambda seed, key: random.split(key, (2, 3)),
    "raw": lambda seed, key: random.key_data(random.clone(random.PRNGKey(seed))),
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_compiled_programs_draw_the_same(program):
    key = random.key(8)
    for seed in (0, 3):
        np.testing.assert_allclose(calque.jit(program)(seed, key), program(seed, key), rtol=1e-15)


BATCHED = [name for name in PROGRAMS if name != "a shape"]


@pytest.mark.parametrize("program", [PROGRAMS[n] for n in BATCHED], ids=BATCHED)
def test_examples_of_a_batch_draw_as_they_would_alone(program):
    keys, seeds = random.split(random.key(8), 3), np.arange(3)
    by_key = [program(4, k) for k in keys]
    by_seed = [program(s, keys[0]) for s in seeds]
    by_both = [program(s, k) for s, k in zip(seeds, keys)]
    for transform in (calque.vmap, lambda f, axes: calque.jit(calque.vmap(f, axes))):
        np.testing.assert_allclose(transform(program, (None, 0))(4, keys), by_key, rtol=1e-15)
        np.testing.assert_allclose(
            transform(program, (0, None))(seeds, keys[0]), by_seed, rtol=1e-15
        )
        np.testing.assert_allclose(transform(program, (0, 0))(seeds, keys), by_both, rtol=1e-15)


def test_the_source_calls_by_name():
    def sample(key, mean, scale):
        return mean + scale * random.normal(key, (3,))

    text = calque.source(
        calque.vmap(sample, (0, None, 0)), random.split(random.key(0), 4), 1.0, np.ones(4)
    )
    assert "random.normal(key, (3,))" in text

    def shadowed(random, key):
        return random * normal_by_name(key, (2,))

    random_given = 2.0
    found = calque.grad(lambda r, k: np.sum(shadowed(r, k)))(random_given, random.key(0))
    np.testing.assert_allclose(found, normal_by_name(by_module.key(0), (2,)).sum())


def test_saved_modules_import_what_they_call(tmp_path):
    def noisy(key, x):
        return np.sum(x * random.normal(key, (3,)))

    given = random.key(1), np.ones(3)
    file = tmp_path / "noisy_grad.py"
    calque.save(calque.grad(noisy, argnums=1), file, *given)
    names: dict = {}
    exec(compile(file.read_text(), str(file), "exec"), names)
    assert "from calque import random" in file.read_text()
    same(names["noisy_grad"](*given), random.normal(given[0], (3,)))


def test_what_is_no_key_is_refused_with_the_line():
    with pytest.raises(TypeError, match="takes a key"):
        calque.jit(lambda x: random.normal(x, (3,)))(np.ones(2))
    with pytest.raises(TypeError, match="a tuple of ints such as"):
        calque.jit(lambda k: random.normal(k, 3))(random.key(0))
