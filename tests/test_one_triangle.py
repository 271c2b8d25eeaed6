"""Functions that read one triangle of a matrix, and vectors where other values coincide."""

import numpy as np
import pytest

import calque

WAYS = {
    "grad": calque.grad,
    "jit": lambda f: calque.jit(calque.grad(f)),
    "jvp": lambda f: lambda x: calque.jvp(f, (x,), (1.0,))[1],
    "vmap": lambda f: lambda x: calque.vmap(calque.grad(f))(np.array([x, x]))[1],
}


def top(x):
    return np.linalg.eigh(np.array([[1.0, 0.0], [x, 2.0]]))[0][1]


def vector(x):
    return np.linalg.eigh(np.array([[1.0, 0.0], [x, 2.0]]))[1][0, 0] * np.linalg.eigh(
        np.array([[1.0, 0.0], [x, 2.0]])
    )[1][1, 0]


def upper_values(x):
    return np.sum(np.linalg.eigvalsh(np.array([[1.0, x], [0.0, 2.0]]), UPLO="U") ** 3)


def stored(x):
    a = np.eye(3) * 2.0
    for k in range(2):
        a[k + 1, k] = x
    return np.sum(np.linalg.cholesky(a))


def upper_factor(x):
    a = np.array([[2.0, x], [0.0, 2.0]])
    return np.sum(np.linalg.cholesky(a, upper=True))


def masked(x):
    return np.sum(np.linalg.cholesky(np.tril(np.full((2, 2), x)) + 2.0 * np.eye(2)))


def both(x):
    return np.linalg.eigvalsh(np.array([[1.0, x], [x, 2.0]]))[1]


def simple(x):
    w, v = np.linalg.eigh(np.array([[x, 0.0, 0.0], [x - 1.0, 1.0, 0.0], [0.0, 0.0, 3.0]]))
    return v[2, 2] ** 2 + w[2]


FUNCTIONS = [top, vector, upper_values, stored, upper_factor, masked, both]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("x", [0.3, 0.0])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_derivative_is_that_of_what_is_read(way, x, function):
    """Also at 0, where the matrix happens to be symmetric."""
    want = (function(x + 1e-6) - function(x - 1e-6)) / 2e-6
    np.testing.assert_allclose(WAYS[way](function)(x), want, atol=1e-8)


@pytest.mark.parametrize("function", [np.linalg.cholesky, np.linalg.eigvalsh])
def test_an_argument_filled_below_the_diagonal(function):
    """The slope of an entry is that of the function; above the diagonal it is zero."""
    a = np.array([[4.0, 0.0, 0.0], [1.0, 5.0, 0.0], [0.5, 0.2, 6.0]])

    def total(a):
        return np.sum(function(a) ** 3)

    want = np.zeros((3, 3))
    for place in np.ndindex(3, 3):
        step = np.zeros((3, 3))
        step[place] = 1e-6
        want[place] = (total(a + step) - total(a - step)) / 2e-6
    for gradient in (calque.grad(total), calque.jacfwd(total), calque.jit(calque.grad(total))):
        np.testing.assert_allclose(gradient(a), want, rtol=1e-6, atol=1e-7)


def filtered(q, f, p):
    for _ in range(2):
        p = f @ p @ f.T + q
    return np.sum(np.linalg.cholesky(p + 0.1 * np.eye(2)))


@pytest.mark.parametrize("argument", [0, 2])
def test_by_symmetric_arguments_the_gradient_is_symmetric(argument):
    q, f = np.array([[2.0, 0.3], [0.3, 1.0]]), np.array([[1.0, 0.5], [-0.2, 0.9]])
    found = calque.grad(filtered, argument)(q, f, 2.0 * q)
    np.testing.assert_allclose(found, found.T, rtol=1e-12)
    step = np.array([[0.3, 1.0], [1.0, -0.4]])
    args = [[q, f, 2.0 * q], [q, f, 2.0 * q]]
    for side, sign in zip(args, (1, -1)):
        side[argument] = side[argument] + sign * 1e-6 * step
    want = (filtered(*args[0]) - filtered(*args[1])) / 2e-6
    np.testing.assert_allclose(np.sum(found * step), want, rtol=1e-7)


@pytest.mark.parametrize("way", ["grad", "jit"])
def test_a_simple_vector_where_others_coincide(way):
    np.testing.assert_allclose(WAYS[way](simple)(1.0), 0.0, atol=1e-9)


def first_of_svd(a):
    u, _, vt = np.linalg.svd(a, full_matrices=False)
    return np.sum(u[:, 0] * vt[0] * np.array([1.0, 2.0, 3.0]))


@pytest.mark.parametrize("others", [1.0, 0.0])
def test_a_simple_singular_vector_where_others_coincide(others):
    a, step = np.diag([3.0, others, others]), np.arange(9.0).reshape(3, 3) / 10
    with np.errstate(all="ignore"):
        found = np.sum(calque.grad(first_of_svd)(a) * step)
    want = (first_of_svd(a + 1e-6 * step) - first_of_svd(a - 1e-6 * step)) / 2e-6
    np.testing.assert_allclose(found, want, rtol=1e-6)
