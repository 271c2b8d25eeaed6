"""Functions of NumPy that NumPy writes in Python: what their dtype or length depends on is tested."""

import numpy as np
import pytest
from numpy.lib.scimath import arcsin

import calque
from calque.transpiler.errors import CalqueError

X = np.array([[2.0, 3.0, 5.0], [4.0, 5.5, 9.0]])


def in_two_planes(a):
    """A store through the view of ``ijj->ij``."""
    made = np.einsum("ij,k->ijk", a, np.ones(3))
    np.einsum("ijj->ij", made)[...] = a * a
    return made


def on_the_diagonal(a):
    made = a @ a.T
    np.einsum("ii->i", made)[:] = a[:, 0] ** 2
    return made


def turned(a):
    made = a.copy()
    np.einsum("ij->ji", made)[0] = 7.0 * a[0, 0]
    np.einsum("ij", made)[0] += a[1]
    return made


def protected(x):
    y = 2.0 * x
    y.setflags(write=False)
    return y * x


def said_in_an_error(x):
    if x.ndim != 2:
        raise ValueError("shape " + str(x.shape) + " %s" % (x.shape,) + f"{x.shape}" + repr(x))
    return x * len(str(x.shape))


def checked_elements(x):
    if not set(np.unique(x)) <= {2.0, 3.0, 4.0, 5.0, 5.5, 9.0}:
        raise ValueError("no such number")
    more = set(x[0]) > {2.0, 3.0} and {7.0} != set(x[0]) and 5.0 in set(x[0])
    return x * len(set(x[0])) if more else -x


def elements_of_known(x):
    seen = np.array([0.0, 1.0, np.nan])
    return x if set(np.unique(seen[~np.isnan(seen)])) <= {0, 1} else 2.0 * x


def powers(x):
    """Exponents that are a loop's index."""
    a, total = x[:, :2], np.zeros((2, 2))
    for i in range(x.shape[1]):
        total = total + x[0, i] * np.linalg.matrix_power(a, i)
    return total + np.linalg.matrix_power(a, 2)


SMOOTH = {
    "matrix powers": powers,
    "fmax.accumulate": lambda x: np.fmax.accumulate(x, axis=1),
    "logaddexp.accumulate": lambda x: np.logaddexp.accumulate(x),
    "divide.accumulate": lambda x: np.divide.accumulate(x, axis=1),
    "logaddexp.reduce": lambda x: np.logaddexp.reduce(x, axis=None),
    "hypot.reduce": lambda x: np.hypot.reduce(x, axis=(0, 1), keepdims=True),
    "logaddexp.reduce from a number": lambda x: np.logaddexp.reduce(x, axis=1, initial=0.5),
    "planes": in_two_planes,
    "diagonal": on_the_diagonal,
    "turned": turned,
    "setflags": protected,
    "texts": said_in_an_error,
    "a set": checked_elements,
    "a known set": elements_of_known,
    "i0": np.i0,
    "roots": lambda x: np.abs(np.roots(x[0])) * x[1, 0],
    "roots of known": lambda x: np.roots([0.0, 1.0, -3.0, 2.0, 0.0]).real * x[0, 0],
    "require": lambda x: np.require(2.0 * x, dtype=float, requirements=["C"]),
    "real_if_close": lambda x: np.real_if_close(x),
    "emath of known": lambda x: np.abs(np.emath.sqrt(np.array([4.0, -9.0]))) * x[0, 0],
    "emath of complex": lambda x: np.abs(np.emath.log(x + 1j)),
    "array_equiv": lambda x: x if np.array_equiv(x, x) else -x,
}
OF_NUMBERS = {
    "arcsin": lambda x: abs(arcsin(x)) ** 2,
    "arccos": lambda x: np.real(np.emath.arccos(x)),
    "arctanh": lambda x: np.abs(np.emath.arctanh(x)),
    "sqrt": lambda x: np.abs(np.emath.sqrt(x - 1.0)),
    "log": lambda x: np.abs(np.emath.log(x - 1.1)),
    "log2": lambda x: np.abs(np.emath.log2(x - 1.1)),
    "log10": lambda x: np.abs(np.emath.log10(x - 1.1)),
    "logn": lambda x: np.abs(np.emath.logn(2, x - 1.1)),
    "power": lambda x: np.abs(np.emath.power(x - 1.1, -2)) + np.emath.power(x, 0.5),
    "real_if_close": lambda x: np.abs(np.real_if_close(np.complex128(x) + 0j) + 2.0),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_of_arrays(name):
    f = SMOOTH[name]
    np.testing.assert_allclose(calque.jit(f)(X), f(X), rtol=1e-12)
    rows = np.stack([X, X])
    if name != "a set":
        calque.check_grads(lambda x: np.sum(f(x)), (X,), order=1)
        np.testing.assert_allclose(calque.vmap(f)(rows), [f(row) for row in rows], rtol=1e-12)


@pytest.mark.filterwarnings("error::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize("name", OF_NUMBERS)
@pytest.mark.parametrize("x", [0.3, 1.3])
def test_the_values_decide_of_numbers(name, x):
    f = OF_NUMBERS[name]
    np.testing.assert_allclose(calque.value_and_grad(f)(x)[0], f(x), rtol=1e-12)
    np.testing.assert_allclose(calque.jit(f)(x), f(x), rtol=1e-12)
    calque.check_grads(f, (x,), order=1)
    rows = np.array([0.3, 1.3])
    np.testing.assert_allclose(calque.vmap(f)(rows), [f(v) for v in rows], rtol=1e-12)


def test_a_gradient_is_of_the_real_result():
    assert calque.grad(lambda x: arcsin(x))(0.3) == 1.0 / np.sqrt(1.0 - 0.3 * 0.3)
    with pytest.raises(TypeError, match="the result is complex here"):
        calque.grad(lambda x: arcsin(x))(1.3)


@pytest.mark.parametrize("f", [np.emath.sqrt, np.emath.power, np.real_if_close])
def test_the_values_of_an_array_do_not_decide(f):
    given = (2.5,) if f is np.emath.power else ()
    with pytest.raises(CalqueError, match="gives real or complex numbers, by the values"):
        calque.grad(
            lambda x: np.sum(np.abs(f(x if f is not np.real_if_close else x + 0j, *given)))
        )(X)


@pytest.mark.parametrize("name", ["union1d", "intersect1d", "setdiff1d", "setxor1d"])
def test_sets_of_numbers(name):
    function, other = getattr(np, name), np.array([3.0, 7.0, 9.0])

    def f(x):
        return function(x, other)

    np.testing.assert_array_equal(calque.jit(f)(X), f(X))
    slope = calque.grad(lambda x: np.sum(f(x) ** 2))(X)
    np.testing.assert_allclose(slope, np.where(np.isin(X, f(X)), 2.0 * X, 0.0) * (slope != 0.0))
    kept = np.isin(X, other) if name == "intersect1d" else ~np.isin(X, other)
    assert np.all((slope != 0.0) >= kept) or name == "intersect1d"


def test_powers_of_inverses():
    def f(x):
        return np.linalg.matrix_power(x[:, :2], -np.argmax(x[0]))

    np.testing.assert_allclose(calque.jvp(f, (X,), (X,))[0], f(X), rtol=1e-12)
    calque.check_grads(f, (X,), order=1)


def test_what_may_not_be():
    with pytest.raises(ValueError, match="is zero; leave it out"):
        calque.grad(lambda x: np.sum(np.abs(np.roots(x))))(np.array([0.0, 1.0, 2.0]))

    def stored(x):
        y = 2.0 * x
        y.setflags(write=False)
        y[0] = 1.0
        return y

    with pytest.raises(ValueError, match="read-only"):
        calque.jit(stored)(X)
    with pytest.raises(ValueError, match="no such number"):
        calque.jit(checked_elements)(X + 1.0)
    with pytest.raises(CalqueError, match="order of a set"):
        calque.jit(lambda x: sum(v for v in set(x[0])))(X)


def test_what_nothing_reads_has_no_slope():
    """``inf`` times the zero of an element that is not read."""

    def f(x):
        phases = np.array([1.0, 2.0, 4.0]) * x * np.array([np.inf, 2.0, 3.0])
        return phases[1] + phases[2]

    assert calque.grad(f)(0.5) == calque.jit(calque.grad(f))(0.5) == 16.0
