"""Solvers of ``scipy.optimize`` inside differentiated functions: implicit derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
from calque.transpiler.errors import CalqueError

optimize = pytest.importorskip("scipy.optimize")

A = np.array([0.5, 0.8])
T = np.linspace(0.0, 1.0, 20)
TIGHT = {"xtol": 1e-13, "ftol": 1e-13, "gtol": 1e-13}


def kepler(e: Any, a: Any) -> Any:
    """Kepler's equation."""
    return e - a[0] * np.sin(e) - a[1]


def two(x: Any, p: Any, q: Any) -> list[Any]:
    """Two equations of two unknowns."""
    return [x[0] * x[0] + p * x[1] - 3.0, x[0] * x[1] - q]


def cosines(a: Any) -> Callable[[Any], Any]:
    return lambda x: np.cos(a * x)


ROOTS: dict[str, Callable[[Any], Any]] = {
    "brentq": lambda a: optimize.brentq(lambda e: kepler(e, a), 0.0, 3.0, xtol=1e-14) ** 2,
    "bisect": lambda a: optimize.bisect(kepler, 0.0, 3.0, args=(a,), xtol=1e-14, maxiter=200),
    "ridder": lambda a: optimize.ridder(kepler, 0.0, 3.0, (a,), 1e-14),
    "brenth": lambda a: optimize.brenth(kepler, 0.0, 3.0, args=(a,), xtol=1e-14),
    "toms748": lambda a: optimize.toms748(kepler, 0.0, 3.0, args=(a,), xtol=1e-14),
    "newton": lambda a: optimize.newton(
        kepler, a[1], lambda e, a: 1 - a[0] * np.cos(e), args=(a,), tol=1e-13
    ),
    "secant": lambda a: optimize.newton(lambda x: x**3 - a[0] * x - a[1], 1.5, x1=1.6, tol=1e-13),
    "newton of each element": lambda a: np.sum(
        optimize.newton(lambda e: e - a * np.sin(e) - 0.3, np.ones(2), tol=1e-13) ** 2
    ),
    "root_scalar": lambda a: (
        optimize.root_scalar(
            lambda e: (kepler(e, a), 1 - a[0] * np.cos(e)), x0=a[1], fprime=True, xtol=1e-13
        ).root
    ),
    "halley": lambda a: optimize.root_scalar(
        lambda e: kepler(e, a),
        x0=a[1],
        fprime=lambda e: 1 - a[0] * np.cos(e),
        fprime2=lambda e: a[0] * np.sin(e),
        xtol=1e-13,
    )["root"],
    "fsolve": lambda a: np.sum(
        optimize.fsolve(two, [1.0, 1.0], args=(a[0], a[1]), xtol=1e-13) ** 2
    ),
    "root": lambda a: np.prod(optimize.root(two, np.ones(2), (a[0], a[1]), tol=1e-13).x),
    "root with a Jacobian": lambda a: np.sum(
        optimize.root(
            lambda x: a * x**3 + x - 1.0, np.ones(2), jac=lambda x: np.diag(3 * a * x**2 + 1)
        ).x
    ),
    "fixed_point": lambda a: np.sum(
        optimize.fixed_point(cosines(a), np.array([0.5, 0.6]), xtol=1e-13)
    ),
}


def differences(f: Callable[..., Any], x: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """The derivative by central differences."""
    return np.array([(f(x + e) - f(x - e)) / (2 * step) for e in step * np.eye(x.size)])


@pytest.mark.parametrize("name", ROOTS)
def test_roots(name: str) -> None:
    f = ROOTS[name]
    value, gradient = calque.value_and_grad(f)(A)
    assert value == f(A)
    np.testing.assert_allclose(gradient, differences(f, A), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(calque.jit(calque.grad(f))(A), gradient, rtol=1e-12)
    batch = np.stack([A, 1.1 * A])
    np.testing.assert_allclose(calque.vmap(f)(batch), [f(a) for a in batch], rtol=1e-14)
    second = differences(calque.grad(f), A, 1e-5)
    np.testing.assert_allclose(calque.hessian(f)(A), second, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("method", ["brentq", "bisect"])
def test_steps_are_those_of_scipy(method: str) -> None:
    """The result of a loose tolerance tells one sequence of steps from another."""

    search = getattr(optimize, method)

    def f(a: Any, xtol: Any) -> Any:
        return search(lambda x: x**3 - a[0] * x - a[1], -2.0, 3.0, xtol=xtol) * 1.0

    for xtol in (0.5, 0.1, 1e-2, 1e-3, 1e-5):
        for a in (A, np.array([0.1, 3.0]), np.array([0.3, 0.05])):
            assert calque.jit(f)(a, xtol) == pytest.approx(f(a, xtol), rel=1e-14)


def valley(a: Any) -> Any:
    """A banana whose minimum is at ``(a0, a1 a0^2)``."""
    return optimize.minimize(
        lambda x: (x[0] - a[0]) ** 2 + 100.0 * (x[1] - a[1] * x[0] ** 2) ** 2,
        np.array([0.3, 0.4]),
        method="BFGS",
        jac=lambda x: np.array(
            [
                2.0 * (x[0] - a[0]) - 400.0 * a[1] * x[0] * (x[1] - a[1] * x[0] ** 2),
                200.0 * (x[1] - a[1] * x[0] ** 2),
            ]
        ),
        options={"gtol": 1e-9},
    ).x


def test_minimum_with_closed_form() -> None:
    jacobian = calque.jacrev(valley)(A)
    wanted = [[1.0, 0.0], [2.0 * A[0] * A[1], A[0] ** 2]]
    np.testing.assert_allclose(jacobian, wanted, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(calque.jacfwd(valley)(A), jacobian, rtol=1e-10, atol=1e-12)


def test_variables_at_their_bounds_do_not_move() -> None:
    def f(a: Any) -> Any:
        found = optimize.minimize(
            lambda x: np.sum((x - a) ** 2), np.zeros(2), bounds=[(0.0, 0.4), (None, 2.0)]
        )
        return found.x

    np.testing.assert_allclose(calque.jacrev(f)(A), [[0.0, 0.0], [0.0, 1.0]], atol=1e-12)


def test_envelope_of_a_minimum() -> None:
    """The derivative of the smallest value is that of the objective at the minimum."""

    def f(a: Any) -> Any:
        return optimize.minimize(
            lambda x: np.sum((x - a) ** 4 + a * x**2), A, method="Nelder-Mead", tol=1e-12
        ).fun

    np.testing.assert_allclose(calque.grad(f)(A), differences(f, A), rtol=1e-6)


def test_minimize_scalar() -> None:
    def f(a: Any) -> Any:
        return optimize.minimize_scalar(lambda x: a[0] * (x - a[1]) ** 2 + np.cosh(x)).x

    x = f(A)  # 2 a0 (x - a1) + sinh(x) = 0
    slope = 2.0 * A[0] + np.cosh(x)
    wanted = [-2.0 * (x - A[1]) / slope, 2.0 * A[0] / slope]
    np.testing.assert_allclose(calque.grad(f)(A), wanted, rtol=1e-6)


def decay(a: Any, **options: Any) -> Any:
    """The fit of an exponential to one with a disturbance."""
    y = a[0] * np.exp(-a[1] * T) + 0.1 * np.sin(5.0 * T)
    return optimize.least_squares(lambda p: p[0] * np.exp(-p[1] * T) - y, np.ones(2), **options)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"loss": "soft_l1", "f_scale": 0.1},
        {"loss": "cauchy", "f_scale": 0.1},
        {"method": "lm"},
        {"bounds": ([0.0, 0.0], [3.0, 1.2])},
    ],
)
def test_least_squares(options: dict[str, Any]) -> None:
    def f(a: Any) -> Any:
        return np.sum(decay(a, **TIGHT, **options).x ** 2)

    np.testing.assert_allclose(calque.grad(f)(A), differences(f, A, 1e-3), rtol=2e-4)


def test_curve_fit() -> None:
    def f(a: Any) -> Any:
        y = a[0] * np.exp(-a[1] * T) + 0.1 * np.sin(5.0 * T)
        return optimize.curve_fit(lambda t, u, v: u * np.exp(-v * t), T, y, p0=[1.0, 1.0])

    parameters, covariance = calque.jit(f)(A)
    np.testing.assert_allclose(parameters, f(A)[0], rtol=1e-7)
    np.testing.assert_allclose(covariance, f(A)[1], rtol=1e-4)
    jacobian = calque.jacrev(lambda a: f(a)[0])(A)
    steps = differences(lambda a: f(a)[0], A, 1e-3)
    np.testing.assert_allclose(jacobian.T, steps, rtol=1e-3, atol=1e-4)


def test_nnls() -> None:
    matrix = np.random.default_rng(0).normal(size=(6, 4))
    right = np.linspace(-1.0, 1.0, 6)

    def f(m: Any) -> Any:
        return np.sum(optimize.nnls(m, right)[0] ** 2) + optimize.nnls(m, right)[1]

    found = np.ravel(calque.grad(f)(matrix))
    wanted = differences(lambda m: f(m.reshape(6, 4)), np.ravel(matrix))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-8)


def test_no_convergence_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="not converged"):
        calque.grad(lambda a: optimize.root(lambda x: x**2 + a, 1.0).x[0])(1.0)
    with pytest.raises(RuntimeError, match="Failed to converge"):
        calque.grad(lambda a: optimize.brentq(lambda x: x**3 - a, 0.0, 3.0, maxiter=2))(1.2)
    with pytest.raises(ValueError, match="different signs"):
        calque.grad(lambda a: optimize.brentq(lambda x: x**3 - a, 0.0, 1.0))(2.0)


def test_constraints_are_refused() -> None:
    def f(a: Any) -> Any:
        rule = {"type": "eq", "fun": lambda x: x[0] - 1.0}
        return optimize.minimize(lambda x: np.sum((x - a) ** 2), A, constraints=[rule]).fun

    with pytest.raises((CalqueError, NotImplementedError), match="constraints"):
        calque.grad(f)(A)


def test_solvers_in_loops() -> None:
    def f(a: Any) -> Any:
        total = 0.0
        x = 1.0
        for k in range(4):
            x = optimize.brentq(lambda e: kepler(e, a) - 0.1 * k * x, -5.0, 5.0, xtol=1e-14)
            total += x * a[0]
        return total

    np.testing.assert_allclose(calque.grad(f)(A), differences(f, A), rtol=1e-6)
    np.testing.assert_allclose(calque.jit(f)(A), f(A), rtol=1e-13)


def test_text_shows_equation_and_solver() -> None:
    text = calque.source(calque.grad(ROOTS["toms748"]), A)
    assert "def equation(x, a):\n    return x - a[0] * np.sin(x) - a[1]" in text
    assert "toms748(equation, 0.0, 3.0, (a,), xtol=1e-14, k=1)" in text
    assert "return optimize.toms748(equation, low, high, args=captured, **options)" in text


def test_saved_module_runs_alone(tmp_path: Any) -> None:
    file = tmp_path / "kepler_gradient.py"
    calque.save(calque.grad(ROOTS["toms748"]), file, A)
    names: dict[str, Any] = {"__name__": "kepler_gradient"}
    exec(compile(file.read_text(), str(file), "exec"), names)
    (made,) = [v for n, v in names.items() if n.endswith("_grad")]
    np.testing.assert_allclose(made(A), calque.grad(ROOTS["toms748"])(A))
    assert "calque.runtime" not in file.read_text()
