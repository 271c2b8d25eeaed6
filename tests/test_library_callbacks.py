"""Functions of SciPy that are given one of the user's: never stale, and refused with a way that works."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
import scipy.sparse

import calque
from calque import custom_root, fixed_point, grad, jit
from calque.transpiler.errors import UnsupportedFunction

W = np.array([3.0])
scale = 2.0


class Shift:
    def __init__(self, by: float) -> None:
        self.by = by

    def of(self, x: float) -> float:
        return x - self.by


shift = Shift(1.5)


def above(x: float) -> float:
    return x - W[0] * scale


def twice_above(x: float) -> float:
    return 2.0 * above(x)


def root_of_above(p: float) -> float:
    return p * scipy.optimize.brentq(above, -50.0, 50.0)


def root_of_what_it_calls(p: float) -> float:
    return p * scipy.optimize.bisect(twice_above, -50.0, 50.0, xtol=1e-13)


def root_of_a_method(p: float) -> float:
    return p * scipy.optimize.brentq(shift.of, -50.0, 50.0)


def integral(p: float) -> float:
    return p * scipy.integrate.quad(above, 0.0, 1.0)[0]


@pytest.mark.parametrize("function", [root_of_above, root_of_what_it_calls, root_of_a_method, integral])
@pytest.mark.parametrize("transform", [grad, lambda f: jit(grad(f))])
def test_what_a_function_reads_is_read_again(
    function: Any, transform: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    slope = transform(function)
    for change in ("nothing", "an array", "a number", "an attribute"):
        if change == "an array":
            W[0] = 4.0
        elif change == "a number":
            monkeypatch.setitem(globals(), "scale", 5.0)
        elif change == "an attribute":
            monkeypatch.setattr(shift, "by", -2.5)
        assert slope(2.0) == pytest.approx(function(1.0), rel=1e-12), change
    W[0] = 3.0


def test_what_cannot_be_compared_is_refused() -> None:
    lines = (x for x in [1.0, 2.0])

    def read(x: float) -> float:
        return x - sum(lines)

    def rooted(p: float, f: Any = read) -> float:
        return p * scipy.optimize.brentq(f, -50.0, 50.0)

    with pytest.raises(calque.transpiler.errors.CalqueError):
        grad(rooted)(2.0)


def with_conditions(p: float) -> Any:
    def conditions(left: Any, right: Any) -> Any:
        return np.array([left[0] - p, right[0]])

    line = np.linspace(0.0, 1.0, 5)
    equation = lambda x, y: np.stack([y[1], -y[0]])
    return scipy.integrate.solve_bvp(equation, conditions, line, np.ones((2, 5))).y[0, 1]


ENTERED = {
    "scipy.optimize.newton_krylov": (
        lambda p: scipy.optimize.newton_krylov(lambda x: x**3 - p, np.ones(2))[0],
        "calque.custom_root(f, guess, solve)",
    ),
    "scipy.optimize.dual_annealing": (
        lambda p: scipy.optimize.dual_annealing(lambda x: (x[0] - p) ** 2, [(0.0, 5.0)]).x[0],
        "calque.value_and_grad(f)",
    ),
    "scipy.integrate.nquad": (
        lambda p: scipy.integrate.nquad(lambda x: np.exp(-p * x), [[0.0, 1.0]])[0],
        "np.polynomial.legendre.leggauss(n)",
    ),
    "scipy.integrate.solve_bvp": (with_conditions, "write the steps as a loop"),
}


@pytest.mark.parametrize("name", ENTERED)
def test_a_refusal_names_the_function_and_a_way(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    function, way = ENTERED[name]
    with pytest.raises(UnsupportedFunction) as caught:
        grad(function)(2.0)
    assert caught.value.message.startswith(f"{name} ") and way in str(caught.value.hint)
    assert caught.value.origin is not None and caught.value.origin.file == __file__
    assert capfd.readouterr().err == ""


def by_bisection(p: Any) -> Any:
    def solve(f: Any, guess: Any) -> Any:
        low, high = guess, guess + 10.0
        for _ in range(60):
            middle = 0.5 * (low + high)
            if f(middle) > 0.0:
                high = middle
            else:
                low = middle
        return low

    return custom_root(lambda x: x**3 - p, 0.0, solve)


def kept_root(p: float) -> float:
    return scipy.optimize.brentq(lambda x: x**3 - p, 0.0, 10.0)


calque.opaque(
    kept_root,
    result=lambda p: np.asarray(p),
    jvp=lambda p_dot, y, p: p_dot / (3.0 * y**2),
    vjp=lambda y_bar, y, p: y_bar / (3.0 * y**2),
)


def quadrature(p: Any) -> Any:
    nodes, weights = np.polynomial.legendre.leggauss(12)
    x = 0.5 * (nodes + 1.0)
    return 0.5 * np.sum(weights * np.exp(-p * x))


WAYS = {
    "bisection": (by_bisection, lambda p: p ** (1 / 3)),
    "opaque": (lambda p: kept_root(p) * 1.0, lambda p: p ** (1 / 3)),
    "fixed point": (
        lambda p: fixed_point(lambda x, a: np.cos(x) * a, 0.5, p / 4.0),
        lambda p: scipy.optimize.brentq(lambda x: np.cos(x) * p / 4.0 - x, 0.0, 1.0, xtol=1e-14),
    ),
    "quadrature": (quadrature, lambda p: (1.0 - np.exp(-p)) / p),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_ways_work(way: str) -> None:
    function, plain = WAYS[way]
    wanted = (plain(2.0 + 1e-5) - plain(2.0 - 1e-5)) / 2e-5
    assert grad(function)(2.0) == pytest.approx(wanted, rel=1e-7)
    assert jit(grad(function))(2.0) == pytest.approx(wanted, rel=1e-7)


A = scipy.sparse.csr_matrix(np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]]))


def product(x: np.ndarray) -> np.ndarray:
    return A @ x


def transposed(y: np.ndarray) -> np.ndarray:
    return A.T @ y


calque.linear(product, lambda y_bar, x: transposed(y_bar), result=lambda x: np.zeros(2))
calque.linear(transposed, lambda x_bar, y: product(x_bar), result=lambda y: np.zeros(3))


def test_numpys_functions_of_sparse_matrices_are_refused_with_a_way() -> None:
    with pytest.raises(UnsupportedFunction) as caught:
        grad(lambda x: np.sum(np.dot(A, x)))(np.ones(3))
    assert "csr_matrix" in caught.value.message
    assert "A.indptr" in str(caught.value.hint) and "calque.linear" in str(caught.value.hint)


def by_rows(x: Any, data: Any, indices: Any, indptr: Any) -> Any:
    total = 0.0
    for i in range(indptr.size - 1):
        for k in range(indptr[i], indptr[i + 1]):
            total += (i + 1.0) * data[k] * x[indices[k]]
    return total


def test_the_ways_of_sparse_matrices_work() -> None:
    weights = np.array([1.0, 2.0])
    wanted = A.T @ weights
    parts = A.data, A.indices, A.indptr
    np.testing.assert_allclose(grad(by_rows)(np.ones(3), *parts), wanted)
    np.testing.assert_allclose(jit(grad(by_rows))(np.ones(3), *parts), wanted)
    np.testing.assert_allclose(grad(lambda x: np.sum(weights * product(x)))(np.ones(3)), wanted)


def test_a_key_that_the_run_knows() -> None:
    def heaped(x: Any, table: Any) -> Any:
        import heapq

        heap: list[Any] = []
        for i in range(3):
            heapq.heappush(heap, (x[i], i))
        value, i = heapq.heappop(heap)
        return value * table[i]

    found = grad(lambda x: heaped(x, {0: 1.0, 1: 2.0, 2: 4.0}))(np.array([3.0, 1.0, 2.0]))
    np.testing.assert_array_equal(found, [0.0, 2.0, 0.0])
    with pytest.raises(calque.transpiler.errors.NeedsKnownValue) as caught:
        grad(lambda x: heaped(x, {0: 1.0, 1: [2.0], 2: ()}))(np.array([3.0, 1.0, 2.0]))
    assert caught.value.hint == "make the values an array, and the key an index into it"
