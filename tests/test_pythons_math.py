"""Python's ``math`` and ``cmath`` on run-time numbers: values as Python's, slopes as differences'."""

import cmath
import math

import numpy as np
import pytest

import calque

EDGES = (0.0, -0.0, 1.5, -2.0, -2.5, math.inf, -math.inf, math.nan, 1.7e308, 5e-324, 7.3)
OF_ONE = (math.modf, math.frexp, math.ulp, lambda x: math.ldexp(x, -3))
SMOOTH = {
    "remainder": (lambda x, y: math.remainder(x, y), (7.3, 2.1)),
    "remainder of less than half": (lambda x, y: math.remainder(x, y), (-6.5, -2.1)),
    "fmod": (lambda x, y: math.fmod(x, y), (7.3, 2.1)),
    "modf": (lambda x, y: math.modf(x * y)[0] + math.modf(x)[1], (-7.3, 2.1)),
    "frexp": (lambda x, y: math.frexp(x * y)[0] * math.frexp(x)[1], (7.3, 2.1)),
    "ldexp": (lambda x, y: math.ldexp(x * y, 3), (7.3, 2.1)),
    "hypot": (lambda x, y: math.hypot(x, y, 2.0) + math.hypot(x) + math.hypot(), (7.3, -2.1)),
    "dist": (lambda x, y: math.dist((x, y, 1.0), (0.5, 2.0, x)), (7.3, 2.1)),
    "dist of arrays": (lambda x, y: math.dist(np.array([x, y]), np.ones(2)), (7.3, 2.1)),
    "fsum": (lambda x, y: math.fsum([x, 1e16, y * x, -1e16]), (7.3, 2.1)),
    "ulp": (lambda x, y: x * y + 1e9 * math.ulp(x), (7.3, 2.1)),
    "isclose": (lambda x, y: x * y if math.isclose(x, y, abs_tol=6.0) else x, (7.3, 2.1)),
    "polar": (lambda x, y: math.fsum(cmath.polar(complex(x, y))), (7.3, 2.1)),
    "rect": (lambda x, y: abs(cmath.rect(x, y) + 1.0), (7.3, 2.1)),
    "phase": (lambda x, y: cmath.phase(complex(x, y)) * cmath.phase(x), (7.3, 2.1)),
    "log of a base": (lambda x, y: abs(cmath.log(complex(x, y), 2.5)), (7.3, 2.1)),
    "tests": (lambda x, y: x if cmath.isfinite(x) and not cmath.isnan(y) else y, (7.3, 2.1)),
}
OF_COMPLEX = [
    *("exp", "log", "log10", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan"),
    *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
]


def compiled(f):
    """The function as kernels; a fall back to NumPy fails the test."""
    return calque.jit(f)


@pytest.mark.filterwarnings("error::calque.JitFallback")
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
@pytest.mark.parametrize("function", OF_ONE)
def test_values_are_pythons_to_the_last_bit(function):
    def f(x):
        return function(x)

    for x in EDGES:
        try:
            want = f(x)
        except OverflowError:
            continue
        for found in (compiled(f)(x), calque.jvp(f, (x,), (1.0,))[0]):
            assert repr(found) == repr(want)


def test_remainders_are_ieees():
    def f(x, y):
        return math.remainder(x, y)

    kernel, forward = compiled(f), lambda x, y: calque.jvp(f, (x, y), (0.0, 0.0))[0]
    for x in (7.3, -7.3, 3.0, 1.0, -1.0, -3.0, 5.0, 0.0, -0.0, 1e300, 4.0, -4.0):
        for y in (2.0, -2.0, math.inf, 0.7, 3.0):
            assert repr(kernel(x, y)) == repr(forward(x, y)) == repr(math.remainder(x, y))


@pytest.mark.filterwarnings("error::calque.JitFallback")
@pytest.mark.parametrize("name", SMOOTH)
def test_slopes_are_those_of_differences(name):
    f, (x, y) = SMOOTH[name]
    calque.check_grads(f, (x, y), order=1, modes=("fwd", "rev"))
    for found in (compiled(f)(x, y), calque.value_and_grad(f)(x, y)[0]):
        assert type(found) is type(f(x, y))
        np.testing.assert_allclose(found, f(x, y), rtol=1e-14)
    jitted = calque.jit(calque.grad(f, argnums=(0, 1)))(x, y)
    np.testing.assert_allclose(jitted, calque.grad(f, argnums=(0, 1))(x, y), rtol=1e-13)
    rows = np.array([[x, y], [1.01 * x, y]])
    batched = calque.vmap(lambda row: f(*row))(rows)
    np.testing.assert_allclose(batched, [f(*row) for row in rows.tolist()], rtol=1e-13)


@pytest.mark.filterwarnings("error::calque.JitFallback")
@pytest.mark.parametrize("name", OF_COMPLEX)
def test_functions_of_complex_numbers(name):
    function = getattr(cmath, name)

    def f(x, y):
        return abs(function(complex(x, y)) * (0.3 - 0.4j) + function(0.5 * x))

    for x, y in ((0.4, 0.7), (-0.4, 0.7), (-1.3, -0.2)):
        np.testing.assert_allclose(compiled(f)(x, y), f(x, y), rtol=1e-13)
        calque.check_grads(f, (x, y), order=2, modes=("fwd", "rev"))

    def given(z):
        return function(z)

    assert type(compiled(given)(0.3 + 0.2j)) is complex


def test_errors_are_pythons():
    def logarithm(z):
        try:
            return abs(cmath.log(z))
        except ValueError:
            return 5.0

    def remainder(x):
        try:
            return math.remainder(x, 2.0)
        except ValueError:
            return 5.0

    for f, x in ((logarithm, 0.0), (logarithm, 2.5), (remainder, 2.5), (remainder, math.inf)):
        np.testing.assert_allclose(calque.value_and_grad(f)(x)[0], f(x))
    with pytest.raises(ValueError, match="math domain error"):
        calque.value_and_grad(lambda z: abs(cmath.log(z)))(0.0)
    with pytest.raises(OverflowError):
        calque.value_and_grad(lambda x: math.ldexp(x, 2000))(1.0)
    with pytest.raises(ValueError, match="same number of dimensions"):
        calque.grad(lambda x: math.dist([x], [x, x]))(1.0)


def test_integers_of_the_data():
    def f(x, i):
        found = math.gcd(i[0], 4) + math.lcm(i[0], i[1]) + math.comb(i[2], 2) * math.perm(i[2], 2)
        return x * (found + math.factorial(i[2]) + math.isqrt(i[1]) + math.perm(i[2]))

    i = np.array([6, 4, 5])
    for found in (compiled(f)(0.5, i), calque.value_and_grad(f)(0.5, i)[0]):
        assert found == f(0.5, i)
    assert calque.grad(lambda x, n: x * math.comb(n, 2) * len(range(math.gcd(n, 4))))(0.5, 6) == 30


@pytest.mark.parametrize("n", [0, 1, 3, 4, 15, 2**52, 2**53 - 1, 94906265**2 - 1, 3037000499**2])
def test_integer_roots(n):
    root = compiled(lambda i: math.isqrt(i[0]))
    assert root(np.array([n])) == math.isqrt(n)


def test_sums_that_cancel():
    def f(x):
        return math.fsum(x) + math.fsum(v * v for v in x)

    x = np.array([1e16, 1.0, -1e16, 0.5])
    assert calque.jit(lambda x: math.fsum(x))(x) == 1.5
    np.testing.assert_allclose(calque.grad(f)(x), 1.0 + 2.0 * x)
    assert calque.jit(lambda x: math.fsum(x))(np.array([math.inf, 1.0])) == math.inf
