"""`jit(f, reassociate=False)`: kernels add in the order of the program, as plain Python does.

The oracle is the function itself, or the plain gradient, bit for bit.
"""

from __future__ import annotations

import warnings

import numpy as np
import ordered_programs
import pytest
from cuda_emulator.running import cuda_text
from programs_as_files import imported
from sampling import sampled

import calque
from calque import cli
from calque.transpiler.errors import UnsupportedOption

RNG = np.random.default_rng(0)
X, SQUARE = RNG.uniform(-1.0, 1.0, 3000), RNG.uniform(-1.0, 1.0, (60, 60))


def total(a):
    s = 0.0
    for v in a:
        s = s + v
    return s


def product_of_all(a):
    s = 1.0
    for i in range(a.size):
        s *= 1.0 + 0.01 * a[i]
    return s


def scalar_product(a):
    s = 0.0
    for i in range(a.size):
        s += a[i] * a[a.size - 1 - i]
    return s


def by_cell(a):
    cells = np.zeros(7)
    for i in range(a.size):
        cells[i % 7] += a[i]
    return cells


def columns(m):
    out = np.zeros(m.shape[1])
    for i in range(m.shape[0]):
        for j in range(m.shape[1]):
            out[j] += m[i, j] * 0.3
    return out


def matrix_product(m):
    out = np.zeros_like(m)
    for i in range(m.shape[0]):
        for j in range(m.shape[1]):
            for k in range(m.shape[1]):
                out[i, j] += m[i, k] * m[k, j]
    return out


def substituted(m):
    x = np.zeros(m.shape[0])
    for i in range(m.shape[0]):
        s = m[i, 0]
        for j in range(i):
            s -= 0.1 * m[i, j] * x[j]
        x[i] = s / (2.0 + m[i, i])
    return x


def while_small(a):
    s, i = 0.0, 0
    while i < a.size and abs(s) < 40.0:
        s = s + a[i] - 0.1
        i += 1
    return s, i


def numpys(a):
    y = a * 1.1 + 0.2
    return np.sum(y), np.mean(y * a), np.dot(a, y), y.var(), np.cumsum(y)[-1], sum(a), np.prod(y)


def numpys_in_a_loop(m):
    s, out = 0.0, np.zeros(m.shape[0])
    for i in range(m.shape[0]):
        out[i] = np.sum(m[i] * m[:, i]) + m[i] @ m[:, i]
        s += out[i]
    return s, out


FUNCTIONS = [
    *((total, X), (product_of_all, X), (scalar_product, X), (by_cell, X), (columns, SQUARE)),
    *((matrix_product, SQUARE), (substituted, SQUARE), (while_small, X), (numpys, X)),
    (numpys_in_a_loop, SQUARE),
]


def same_bits(got, want):
    if isinstance(want, tuple):
        return len(got) == len(want) and all(map(same_bits, got, want))
    return np.array_equal(np.asarray(got), np.asarray(want), equal_nan=True)


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("case", range(len(FUNCTIONS)))
def test_bits_are_pythons(case, dtype):
    function, array = FUNCTIONS[case]
    array = array.astype(dtype)
    want = function(array.copy())
    for options in ({}, {"parallel": True}, {"parallel": False, "boundscheck": True}):
        assert same_bits(calque.jit(function, reassociate=False, **options)(array.copy()), want)


@pytest.mark.parametrize("case", range(len(FUNCTIONS)))
def test_bits_of_gradients_are_those_of_the_plain_gradient(case):
    function, array = FUNCTIONS[case]

    def loss(a):
        found = function(a)
        found = found if isinstance(found, tuple) else (found,)
        return sum(np.sum(v) for v in found)

    want = calque.grad(loss)(array)
    assert same_bits(calque.jit(calque.grad(loss), reassociate=False)(array), want)


def test_other_kernels_may_add_in_another_order():
    assert calque.jit(total)(X) != total(X)  # the promise above is not kept by chance
    np.testing.assert_allclose(calque.jit(total)(X), total(X), rtol=1e-12)


def large(a):
    return np.dot(a, a * 1.5), total(a)


def test_numpys_own_sums_run_as_in_numpy_in_each_call():
    """The threads of its BLAS are left alone: a sum in fewer parts has other bits."""
    a = RNG.uniform(-1.0, 1.0, 1 << 18)
    function, want = calque.jit(large, reassociate=False), large(a)
    assert all(same_bits(function(a), want) for _ in range(12))
    repeated = calque.jit(large, deterministic=True)
    assert len({repeated(a)[0] for _ in range(12)}) == 1


def test_on_numpy_first_and_without_kernels(monkeypatch):
    first = calque.jit(total, reassociate=False, first="numpy")
    assert first(X) == total(X)
    first.wait()
    assert first(X) == total(X)
    monkeypatch.setenv("CALQUE_JIT", "0")
    assert calque.jit(total, reassociate=False, boundscheck=True)(X) == total(X)


def test_the_source_says_so():
    ordered = calque.source(calque.jit(total, reassociate=False), X)
    assert "@kernel(reassociate=False)" in ordered
    assert "reassociate" not in calque.source(calque.jit(total), X)
    assert "reassociate=False" in calque.explain(calque.jit(total, reassociate=False), X)


def test_both_ways_of_one_function_are_kept_apart():
    loose, ordered = calque.jit(total), calque.jit(total, reassociate=False)
    again = calque.jit(total, reassociate=False)
    assert (loose(X), ordered(X), again(X)) == (loose(X), total(X), total(X))
    assert loose(X) != ordered(X)
    for nested in (calque.jit(ordered), calque.jit(loose, reassociate=False)):
        assert nested(X) == total(X)


@pytest.mark.parametrize("case", range(len(FUNCTIONS)))
def test_saved_modules_add_in_the_same_order(case, tmp_path):
    function, array = FUNCTIONS[case]
    path = tmp_path / "saved_sums.py"
    calque.save(calque.jit(function, reassociate=False), path, array)
    text = path.read_text()
    assert 'jit(f, reassociate=False)" --args' in text
    module: dict = {}
    exec(compile(text, str(path), "exec"), module)
    assert same_bits(module[f"{function.__name__}_jit"](array.copy()), function(array.copy()))


def test_the_command_takes_it(tmp_path, monkeypatch, capsys):
    (tmp_path / "sums.py").write_text(
        "def total(a):\n    s = 0.0\n    for v in a:\n        s = s + v\n    return s\n"
    )
    monkeypatch.chdir(tmp_path)
    shown = ["show", "sums.py:total", "--transform", "jit(f, reassociate=False)"]
    assert cli.main([*shown, "--args", "f8[n]", "-o", "made.py"]) == 0
    assert "@kernel(reassociate=False)" in (tmp_path / "made.py").read_text()
    assert cli.main(["verify", "made.py"]) == 0
    capsys.readouterr()


def test_what_is_refused():
    with pytest.raises(ValueError, match="reassociate"):
        calque.jit(total, reassociate="no")
    with pytest.raises(UnsupportedOption, match="reassociate=False on a GPU"):
        cuda_text(calque.jit(total, reassociate=False), X)


SEEDS = range(400)


def check(seed, dtype, folder):
    function = imported(ordered_programs.text(seed), folder / "ordered.py")
    args = ordered_programs.arguments(seed, dtype)

    def given():
        return [a.copy() for a in args]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert same_bits(calque.jit(function, reassociate=False)(*given()), function(*given()))
        if dtype == "f8":

            def loss(x, y, a, k):
                return sum(map(np.sum, function(x, y, a, k)))

            gradient = calque.grad(loss, argnums=(0, 1, 2))
            want = gradient(*given())
            assert same_bits(calque.jit(gradient, reassociate=False)(*given()), want)


@pytest.mark.parametrize("seed", sampled(SEEDS, 20))
def test_random_programs_of_float64(seed, tmp_path):
    check(seed, "f8", tmp_path)


@pytest.mark.parametrize("seed", sampled(SEEDS, 20, 7))
def test_random_programs_of_float32(seed, tmp_path):
    check(seed, "f4", tmp_path)
