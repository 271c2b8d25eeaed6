"""Integer powers and shifts whose exponents have any sign are what Python and NumPy make of them.

Python's integer to a negative power is a float; NumPy's, and shifts of Python's integers by a
negative count, raise ValueError. The oracle is the function itself.
"""

from __future__ import annotations

import math
import operator

import numpy as np
import power_programs
import pytest
from programs_as_files import as_numpy, imported, outcome
from sampling import sampled

import calque
from calque.transpiler.errors import CalqueError

X = np.array([0.3, -1.2, 2.5, 0.7])
WHOLE, ANY_SIGN = np.array([3, 1, 0, 2]), np.array([3, -1, 0, 2])


def digits(x):
    s = 0.0
    for i in range(x.shape[0]):
        s += x[i] * 10 ** (-i)
    return s


def inverse_squares(x):
    s = 0.0
    for i in range(x.shape[0]):
        s += x[i] * (i + 1) ** -2
    return s


def builtin_power(x):
    s = 0.0
    for i in range(x.shape[0]):
        s += x[i] * pow(2, -i)
    return s


def of_pythons_integers(e):
    s = 0.0
    for i in range(e.shape[0]):
        s += 2 ** int(e[i] - 2)
    return s


def of_elements(x, e):
    s = 0.0
    for i in range(e.shape[0]):
        s += x[i] * 2 ** e[i]
    return s


def before_a_loop(x, k):
    t = 2**k
    for i in range(x.size):
        t = t * x[i]
    return t


def added_to_an_array(n):
    return np.zeros(2) + 2**-n


def of_arrays(e):
    return 2**e, e**2, e[0] ** e[1]


def negative_of_arrays(e):
    return e**-2


def negative_of_an_element(e):
    return e[0] ** -2


def left(k):
    return 1 << k


def right(k):
    return 8 >> k


def shifts_in_a_loop(e):
    s = 0
    for i in range(e.size):
        s += 1 << int(e[i])
    return s


def numpy_shifts(e):
    s = 0
    for i in range(e.size):
        s += 1 << e[i]
    return s, 1 << e, np.left_shift(1, e)


def reduced(k):
    return np.mean(3**k), np.sum(3**k), np.prod(3**k), round(3**k), max(3**k, 0), [3**k, 1][0]


def as_size(k):
    return np.ones(2**k)


def as_range(x, k):
    s = 0.0
    for i in range(2**k):
        s += x[i % x.size]
    return s


def of_floats(x, n):
    return x**n, x[0] ** n, np.power(x, n), np.float_power(x, n)


def numpy_power(n):
    return np.power(2, n)


def other_functions(n):
    return math.pow(2, n), np.float_power(2, n), operator.pow(2, n)


def in_place(n):
    n **= -1
    return n


def of_truths(x):
    return 2 ** (x[0] > 0), 2 ** (not x[0] > 0), (x[0] > 0) ** 2, (x > 0) ** 2, (x > 0) ** 3, np.power(x > 0, 2)


def by_counting(x):
    s, k = 0.0, 0
    for v in x:
        if v > 0:
            k += 1
        s += v / 2**k
    return s


def by_while(x):
    s, k = x[0], 0
    while s > 1e-3:
        s = s / 2**k
        k += 1
    return s, k


def of_sizes(x):
    return x[0] * 2 ** len(x), x[0] * 2 ** (x.size - 5)


def of_sums(n):
    return (n - 3) ** (n - 2), 2 ** (n // 2), 2 ** max(n, 0), 2 ** abs(n), 2 ** (n * n)


def by_test(n):
    if n < 0:
        return 1 / 2**-n
    return 2**n


def into_lists(x, n):
    out = []
    for i in range(x.size):
        out.append(2 ** (i - n))
    return np.array(out) * 1.0


def with_modulus(k):
    return pow(3, k, 7)


def used_further(k):
    p = 2**k
    return p // 3, p % 3, -p, p > 0.3, p == 0.25, p / 3, p**2


def large(k):
    return (-1) ** k, 3**k


SIGNS = [(3,), (-3,), (0,), (1,)]
CASES = [
    *[(f, a) for f in (left, right, reduced, as_size, numpy_power, other_functions) for a in SIGNS],
    *[(f, a) for f in (in_place, added_to_an_array, by_test, with_modulus) for a in SIGNS],
    *[(f, a) for f in (used_further, of_sums) for a in SIGNS],
    *[(f, (X, *a)) for f in (before_a_loop, as_range, of_floats, into_lists) for a in SIGNS],
    *[(f, (X,)) for f in (digits, inverse_squares, builtin_power, of_sizes, by_counting, of_truths)],
    *[(by_while, (X,)), (of_elements, (X, WHOLE)), (of_elements, (X, ANY_SIGN))],
    *[(f, (e,)) for f in (of_pythons_integers, of_arrays) for e in (WHOLE, ANY_SIGN)],
    *[(f, (e,)) for f in (shifts_in_a_loop, numpy_shifts) for e in (WHOLE, ANY_SIGN)],
    *[(f, (WHOLE,)) for f in (negative_of_arrays, negative_of_an_element)],
]


def parts(value):
    return [p for v in value for p in parts(v)] if isinstance(value, (tuple, list)) else [value]


def assert_same(found, wanted, tolerance):
    if isinstance(wanted, Exception):
        assert isinstance(found, type(wanted)), (found, wanted)
        return
    if isinstance(found, Exception):
        raise found
    for f, w in zip(parts(found), parts(wanted), strict=True):
        f, w = np.asarray(f), np.asarray(w)
        assert f.shape == w.shape
        np.testing.assert_allclose(f.astype(float), w.astype(float), rtol=tolerance)


@pytest.mark.parametrize("f, args", CASES, ids=lambda v: getattr(v, "__name__", None))
def test_a_power_is_pythons(f, args):
    wanted = outcome(f, args)
    assert_same(outcome(as_numpy(f), args), wanted, 0.0)
    assert_same(outcome(calque.jit(f), args), wanted, 1e-14)


def test_dtypes_of_powers_of_truths():
    for f in (as_numpy(of_truths), calque.jit(of_truths)):
        assert [np.asarray(v).dtype for v in f(X)[2:]] == [np.asarray(v).dtype for v in of_truths(X)[2:]]


@pytest.mark.parametrize("f", [left, reduced, before_a_loop, as_range, used_further])
def test_calls_of_one_function_with_all_signs(f):
    forms = as_numpy(f), calque.jit(f)
    for k in (2, -1, 3, -2, 0, 5, -2, 2):
        args = (X, k) if f in (before_a_loop, as_range) else (k,)
        for form in forms:
            assert_same(outcome(form, args), outcome(f, args), 1e-14)


def test_signs_make_few_programs():
    fast = calque.jit(before_a_loop)
    for k in (2, -1, 3, -2, 0, 5, -7, 4, -9):
        fast(X, k)
    assert fast.cache_info().programs <= 3


@pytest.mark.parametrize("k, n", [(5, 70_001), (4, 70_000)])
def test_large_exponents_wrap_around(k, n):
    def f(e):
        return e[0] ** e[2], e[1] ** e[2]

    e = np.array([-1, k, n])
    with np.errstate(all="ignore"):
        assert calque.jit(f)(e) == f(e)


def test_gradients_and_batches():
    np.testing.assert_allclose(calque.jit(calque.grad(digits))(X), 10.0 ** -np.arange(4))
    np.testing.assert_allclose(calque.grad(inverse_squares)(X), (np.arange(4) + 1.0) ** -2)
    batched = calque.vmap(lambda x, k: x[0] * 2 ** int(k), in_axes=(None, 0))
    for form in (batched, calque.jit(batched)):
        np.testing.assert_allclose(form(X, np.array([2, -2])), X[0] * np.array([4.0, 0.25]))
    for form in (calque.vmap(left_of_an_element), calque.jit(calque.vmap(left_of_an_element))):
        np.testing.assert_array_equal(form(np.array([1, 3])), [2, 8])
        with pytest.raises(ValueError, match="negative shift count"):
            form(np.array([1, -3]))


def left_of_an_element(k):
    return 1 << int(k)


@pytest.mark.parametrize("k", [3, -3])
def test_saved_modules_hold_for_one_sign(k, tmp_path):
    path = tmp_path / "saved_power.py"
    calque.save(calque.jit(calque.grad(scaled)), path, X, k)
    text = path.read_text()
    module: dict = {}
    exec(compile(text, str(path), "exec"), module)
    made = module["scaled_grad_jit"]
    np.testing.assert_allclose(made(X, k), np.full(4, 2.0**k))
    with pytest.raises(ValueError, match="scaled_grad_jit needs"):
        made(X, -k)
    assert "No command" not in text


def scaled(x, k):
    s = 0.0
    for i in range(x.size):
        s += x[i] * 2**k
    return s


SEEDS = range(600)


def check(seed, form, tolerance, folder):
    f = imported(power_programs.text(seed), folder / f"power_program_{seed}.py")
    made = form(f)
    for args in power_programs.arguments(seed):
        wanted, found = outcome(f, args), outcome(made, args)
        if isinstance(wanted, Exception):
            assert isinstance(found, Exception), (found, wanted)  # maybe another one, first
        elif not isinstance(found, CalqueError):
            assert_same(found, wanted, tolerance)


@pytest.mark.parametrize("seed", sampled(SEEDS, 4))
def test_random_powers_in_numpy_source(seed, tmp_path):
    check(seed, as_numpy, 0.0, tmp_path)


@pytest.mark.parametrize("seed", sampled(SEEDS, 20, 1))
def test_random_powers_in_kernels(seed, tmp_path):
    check(seed, calque.jit, 1e-12, tmp_path)
