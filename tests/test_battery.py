"""Every battery program: its value to the bit, both modes against differences, second order."""

from __future__ import annotations

import functools
import inspect
import linecache
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sampling import sampled

import calque
from battery import oracle
from battery.registry import PROGRAMS, Program, load, vector
from calque.transpiler import errors

ACCEPTED = [program for program in load() if program.refused is None]
REFUSED = [program for program in PROGRAMS if program.refused is not None]
NOT_SCALAR = [
    program
    for program in ACCEPTED
    if not isinstance(program.fn(*program.fresh()), float | np.floating)
]

each = pytest.mark.parametrize("program", ACCEPTED, ids=lambda program: program.id)


def of_moving(program: Program, fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` as a function of the differentiated arguments alone, the way a user would write it."""
    args = program.fresh()
    rest = [position for position in range(len(args)) if position not in program.diff]
    if not rest:
        return fn
    names = list(inspect.signature(program.fn).parameters)
    if min(rest) > max(program.diff):
        return functools.partial(fn, **{names[position]: args[position] for position in rest})

    def moved(*moving):
        full = list(args)
        for position, value in zip(program.diff, moving):
            full[position] = value
        return fn(*full)

    return moved


@functools.cache
def value_and_gradient(identifier: str) -> tuple[Any, Any, tuple[Any, ...]]:
    """The value, the gradient, and the arguments as the call left them."""
    program = next(program for program in PROGRAMS if program.id == identifier)
    args = program.fresh()
    value, gradient = calque.value_and_grad(program.scalar(), argnums=program.diff)(*args)
    return value, gradient, args


def test_the_battery_is_large() -> None:
    assert len(ACCEPTED) >= 170
    assert len({program.id for program in PROGRAMS}) == len(PROGRAMS)


@each
def test_oracle(program: Program) -> None:
    """The oracle itself: deterministic, finite, and differences that agree at two step sizes."""
    fn = program.scalar()
    assert fn(*program.fresh()) == fn(*program.fresh())

    def of(*moving):
        return fn(*program.with_moving(moving))

    coarse = oracle.gradient(of, program.moving(), 1e-3)
    fine = oracle.gradient(of, program.moving(), 2e-4)
    assert oracle.distance(coarse, fine) <= 1e-7


@each
def test_value(program: Program) -> None:
    value, _, _ = value_and_gradient(program.id)
    plain = np.float64(program.scalar()(*program.fresh()))
    assert np.shape(value) == ()
    assert np.asarray(value).dtype == np.float64
    assert np.asarray(value).tobytes() == plain.tobytes()


@each
def test_gradient(program: Program) -> None:
    _, gradient, _ = value_and_gradient(program.id)
    fn = program.scalar()
    expected = oracle.gradient(lambda *moving: fn(*program.with_moving(moving)), program.moving())
    assert oracle.structure(gradient) == oracle.structure(program.moving())
    assert oracle.distance(oracle.flat(gradient), expected) <= 1e-6


@each
def test_arguments_unchanged(program: Program) -> None:
    _, _, args = value_and_gradient(program.id)
    for left, before in zip(oracle.leaves(args), oracle.leaves(program.fresh()), strict=True):
        if isinstance(before, np.ndarray):
            assert left.tobytes() == before.tobytes()
        else:
            assert left == before


@pytest.mark.parametrize("program", sampled(ACCEPTED, 3, 2), ids=lambda program: program.id)
def test_forward_mode(program: Program) -> None:
    """jvp against differences; jvp against vjp by the dot product, which needs no step."""
    fn = of_moving(program, program.scalar())
    moving = program.moving()
    tangents = oracle.direction(moving)
    value, tangent = calque.jvp(fn, program.moving(), tangents)
    plain = program.scalar()(*program.fresh())
    assert np.asarray(value).tobytes() == np.float64(plain).tobytes()
    assert np.shape(tangent) == ()
    expected = oracle.slope(
        lambda *moved: program.scalar()(*program.with_moving(moved)), moving, tangents
    )

    _, pullback = calque.vjp(fn, *program.moving())
    gradient = oracle.flat(pullback(np.float64(1.0)))
    terms = gradient * oracle.flat(tangents)
    size = float(np.sum(np.abs(terms)))
    assert abs(float(tangent) - expected[0]) <= 1e-6 * max(size, abs(expected[0]), 1e-3)
    assert abs(float(tangent) - float(np.sum(terms))) <= 1e-10 * max(size, abs(float(tangent)))


@pytest.mark.parametrize("program", sampled(ACCEPTED, 6), ids=lambda program: program.id)
def test_second_order(program: Program) -> None:
    """Forward over reverse against differences of the gradient."""
    if not program.second:
        pytest.skip("the gradient is not smooth at the sample point")
    moving = program.moving()
    tangents = oracle.direction(moving, 1)
    argnums = tuple(range(len(moving)))
    gradient = calque.grad(of_moving(program, program.scalar()), argnums=argnums)
    _, found = calque.jvp(gradient, moving, tangents)
    assert oracle.structure(found) == oracle.structure(moving)
    expected = oracle.slope(gradient, program.moving(), tangents)
    size = np.max(np.abs(oracle.flat(gradient(*program.moving()))), initial=0.0)
    error = np.max(np.abs(oracle.flat(found) - expected), initial=0.0)
    assert error <= 1e-5 * max(size, np.max(np.abs(expected), initial=0.0), 1e-3)


@pytest.mark.parametrize("program", NOT_SCALAR, ids=lambda program: program.id)
def test_results_that_are_no_scalar(program: Program) -> None:
    """jvp and vjp of the function itself: structure, differences, and the dot product."""
    fn = of_moving(program, program.fn)
    plain = program.fn(*program.fresh())
    tangents = oracle.direction(program.moving(), 2)
    value, moved = calque.jvp(fn, program.moving(), tangents)
    assert oracle.structure(value) == oracle.structure(plain) == oracle.structure(moved)
    assert oracle.flat(value).tobytes() == oracle.flat(plain).tobytes()
    expected = oracle.slope(
        lambda *moving: program.fn(*program.with_moving(moving)), program.moving(), tangents
    )
    assert oracle.distance(oracle.flat(moved), expected) <= 1e-6

    seed = oracle.direction(plain, 3)
    value, pullback = calque.vjp(fn, *program.moving())
    assert oracle.flat(value).tobytes() == oracle.flat(plain).tobytes()
    gradient = oracle.flat(pullback(seed))
    left = oracle.flat(seed) * oracle.flat(moved)
    right = gradient * oracle.flat(tangents)
    size = max(float(np.sum(np.abs(left))), float(np.sum(np.abs(right))))
    assert abs(float(np.sum(left) - np.sum(right))) <= 1e-10 * size


def test_refused() -> None:
    """A program that is flagged as refused ends with the error that the flag names."""
    for program in REFUSED:
        with pytest.raises(getattr(errors, program.refused or "")):
            calque.grad(program.fn, argnums=program.diff)(*program.fresh())


PRINTING = [program for program in ACCEPTED if program.name.startswith("printing")]


@pytest.mark.parametrize("program", PRINTING, ids=lambda program: program.id)
def test_printed_once_per_call(program: Program, capsys: pytest.CaptureFixture[str]) -> None:
    program.fn(*program.fresh())
    plain = capsys.readouterr().out
    assert plain
    gradient = calque.grad(program.fn)
    capsys.readouterr()
    for _ in range(2):
        gradient(*program.fresh())
        assert capsys.readouterr().out == plain


def checked_logarithm(x):
    if np.any(x <= 0.0):
        raise ValueError(f"log of {x[0]}")
    assert x[0] < 5.0, "too big"
    return np.sum(np.log(x))


def test_raise_and_assert_are_kept() -> None:
    gradient = calque.grad(checked_logarithm)
    np.testing.assert_allclose(gradient(np.array([2.0, 4.0])), [0.5, 0.25])
    with pytest.raises(ValueError, match=r"log of -1\.0"):
        gradient(np.array([-1.0, 4.0]))
    with pytest.raises(AssertionError, match="too big"):
        gradient(np.array([6.0, 4.0]))


TABLE = {"scale": 2.0, "shift": np.array([1.0, 2.0])}
FACTOR = 3.0


def reads_globals(x):
    return FACTOR * TABLE["scale"] * np.sum((x - TABLE["shift"]) ** 2)


def test_captured_values_do_not_go_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    """A captured array changed in place or replaced, and a captured scalar, are seen at each call."""
    x = np.array([3.0, 5.0])
    gradient = calque.grad(reads_globals)
    np.testing.assert_allclose(gradient(x), 12.0 * np.array([2.0, 3.0]))
    monkeypatch.setitem(TABLE, "shift", np.array([0.0, 1.0]))
    np.testing.assert_allclose(gradient(x), 12.0 * np.array([3.0, 4.0]))
    TABLE["shift"][0] = 2.0
    np.testing.assert_allclose(gradient(x), 12.0 * np.array([1.0, 4.0]))
    monkeypatch.setitem(TABLE, "scale", 1.0)
    np.testing.assert_allclose(gradient(x), 6.0 * np.array([1.0, 4.0]))
    monkeypatch.setitem(globals(), "FACTOR", 1.0)
    np.testing.assert_allclose(gradient(x), 2.0 * np.array([1.0, 4.0]))


def test_closure_cells_do_not_go_stale() -> None:
    rate, target = 2.0, np.array([1.0, 1.0])

    def loss(x):
        return rate * np.sum((x - target) ** 2)

    gradient = calque.grad(loss)
    np.testing.assert_allclose(gradient(np.zeros(2)), [-4.0, -4.0])
    rate = 1.0
    np.testing.assert_allclose(gradient(np.zeros(2)), [-2.0, -2.0])
    target = np.array([2.0, 3.0])
    np.testing.assert_allclose(gradient(np.zeros(2)), [-4.0, -6.0])


def sum_of_sines(x):
    total = 0.0
    for i in range(x.shape[0]):
        total += np.sin(x[i]) * i
    return total


def test_one_source_for_every_size() -> None:
    gradient = calque.grad(sum_of_sines)
    for size in (3, 1, 0, 7):
        x = vector(size)
        np.testing.assert_allclose(gradient(x), np.cos(x) * np.arange(size), rtol=1e-14)


def store_by_ravel(a):
    a = a * 1.0
    line = a.ravel()
    line[0] = 2.0 * a[0, 0]
    line[1] = 3.0
    return np.sum(a * a)


def store_by_reshape(a):
    line = a.reshape(-1)
    line[1] = a[0, 0] ** 2
    return np.sum(a * a * a)


def right_or_refused(fn: Callable[..., Any], a: np.ndarray) -> None:
    """The value to the bit and the gradient against differences, or an error: never wrong."""
    kept = a.copy("K")
    try:
        value, gradient = calque.value_and_grad(fn)(a)
    except (errors.CalqueError, ValueError):
        return
    assert np.array_equal(a, kept)

    def plain(numbers: np.ndarray) -> float:
        """`fn` on an array of the same memory layout as `a`, which is put back afterwards."""
        a[...] = numbers
        try:
            return fn(a)
        finally:
            a[...] = kept

    assert value == plain(kept)
    for i, j in np.ndindex(a.shape):

        def along(length: float, i: int = i, j: int = j) -> float:
            moved = kept.copy()
            moved[i, j] += length
            return plain(moved)

        np.testing.assert_allclose(gradient[i, j], oracle.extrapolated(along), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("fn", [store_by_ravel, store_by_reshape])
@pytest.mark.parametrize("layout", ["C", "F", "sliced", "reversed"])
def test_views_depend_on_the_layout(fn: Callable[..., Any], layout: str) -> None:
    """`ravel` and `reshape` give a view of a contiguous array and a copy of any other."""
    base = np.random.default_rng(0).uniform(-1.0, 1.0, (3, 8))
    a = {
        "C": base[:, :4].copy(),
        "F": np.asfortranarray(base[:, :4]),
        "sliced": base[:, ::2],
        "reversed": base[::-1, :4],
    }[layout]
    right_or_refused(fn, a)


def add_into_first(a, b):
    a += b
    a[0] *= b[1]
    return np.sum(a * b)


def test_one_array_for_two_arguments() -> None:
    """Plain Python would see the two arguments change together."""
    x = vector(3)
    plain = add_into_first(*[x.copy()] * 2)
    try:
        value, _ = calque.value_and_grad(add_into_first, argnums=(0, 1))(x, x)
    except (errors.CalqueError, ValueError):
        return
    assert value == plain


def test_source_from_exec_with_linecache(monkeypatch: pytest.MonkeyPatch) -> None:
    """A notebook or a REPL compiles text and registers its lines with linecache."""
    text = "import numpy as np\n\ndef f(x):\n    return np.sum(x * x * x)\n"
    entry = (len(text), None, text.splitlines(True), "<cell-7>")
    monkeypatch.setitem(linecache.cache, "<cell-7>", entry)
    scope: dict[str, Any] = {}
    exec(compile(text, "<cell-7>", "exec"), scope)
    np.testing.assert_allclose(calque.grad(scope["f"])(np.array([1.0, 2.0])), [3.0, 12.0])
