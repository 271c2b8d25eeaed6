"""Initial value problems by ``solve_ivp`` and ``odeint`` inside differentiated functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque

integrate = pytest.importorskip("scipy.integrate")

A = np.array([0.5, 0.8])
TIMES = np.linspace(0.0, 6.0, 25)
TIGHT = {"rtol": 1e-9, "atol": 1e-11}


def predators(t: Any, y: Any, a: Any, b: Any) -> Any:
    """Lotka and Volterra's equations."""
    return np.array([a * y[0] - 0.5 * y[0] * y[1], 0.3 * y[0] * y[1] - b * y[1]])


def kinetics(t: Any, y: Any, a: Any) -> Any:
    """Robertson's stiff equations."""
    slow, fast, back = 0.04 * a[0] * y[0], 3e7 * a[1] * y[1] ** 2, 1e4 * y[1] * y[2]
    return [back - slow, slow - back - fast, fast]


def at_times(method: str) -> Callable[[Any], Any]:
    def f(a: Any) -> Any:
        start = [1.0, a[0]]
        given = (a[0], a[1])
        found = integrate.solve_ivp(
            predators, (0.0, 6.0), start, method, TIMES, args=given, **TIGHT
        )
        return np.sum(found.y**2) + found.t[3]

    return f


def stiff(method: str) -> Callable[[Any], Any]:
    def f(a: Any) -> Any:
        start = np.array([1.0, 0.0, 0.0])
        times = np.array([0.0, 0.5, 1.0, 5.0, 20.0])
        found = integrate.solve_ivp(kinetics, (0.0, 40.0), start, method, times, args=(a,), **TIGHT)
        return np.sum(found.y[:, -1] * np.array([1.0, 2.0, 3.0])) + 1e4 * found.y[1, 1]

    return f


def last(a: Any) -> Any:
    """The end at SciPy's own steps, with both limits and the start differentiated."""
    found = integrate.solve_ivp(
        predators, (0.2 * a[0], 3.0 * a[1]), a, args=(a[0], a[1]), rtol=1e-9, atol=1e-10
    )
    return np.sum(found.y[:, -1] ** 2)


PROBLEMS: dict[str, Callable[[Any], Any]] = {
    **{m: at_times(m) for m in ("RK23", "RK45", "DOP853")},
    **{f"stiff {m}": stiff(m) for m in ("Radau", "BDF")},
    "own steps": last,
    "backwards": lambda a: np.sum(
        integrate.solve_ivp(
            predators, (6.0, 0.0), a, t_eval=TIMES[::-1], args=(a[0], a[1]), **TIGHT
        ).y
    ),
    "largest step": lambda a: integrate.solve_ivp(
        lambda t, y: -a * y, (0.0, 2.0), a, max_step=0.1, first_step=0.01, **TIGHT
    ).y[1, -1],
    "odeint": lambda a: np.sum(
        integrate.odeint(predators, [1.0, a[0]], TIMES, (a[0], a[1]), tfirst=True, **TIGHT)
    ),
    "implicit, both limits": lambda a: integrate.solve_ivp(
        lambda t, y: -50.0 * (y - np.cos(a[0] * t)), (0.1 * a[0], 2.0 * a[1]), a, "Radau", **TIGHT
    ).y[0, -1],
}


def differences(f: Callable[..., Any], x: np.ndarray, step: float) -> np.ndarray:
    """The derivative by central differences of fourth order."""
    rows = step * np.eye(x.size)
    return np.array(
        [(8 * (f(x + e) - f(x - e)) - f(x + 2 * e) + f(x - 2 * e)) / (12 * step) for e in rows]
    )


@pytest.mark.parametrize("name", PROBLEMS)
def test_gradients(name: str) -> None:
    f = PROBLEMS[name]
    value, gradient = calque.value_and_grad(f)(A)
    np.testing.assert_allclose(value, f(A), rtol=1e-12)
    wanted = differences(f, A, 1e-2 if name.startswith("stiff") else 2e-3)
    np.testing.assert_allclose(gradient, wanted, rtol=2e-6, atol=1e-7)
    tangent = calque.jvp(f, (A,), (np.array([0.3, -1.1]),))[1]
    np.testing.assert_allclose(tangent, gradient @ [0.3, -1.1], rtol=1e-8, atol=1e-10)


def test_closed_form() -> None:
    """``y' = -a y``: the derivative by a is ``-t y``."""

    def f(a: Any) -> Any:
        return integrate.solve_ivp(
            lambda t, y: -a * y, (0.0, 2.0), [1.5], rtol=1e-11, atol=1e-13
        ).y[0, -1]

    np.testing.assert_allclose(calque.grad(f)(0.7), -2.0 * 1.5 * np.exp(-1.4), rtol=1e-9)
    np.testing.assert_allclose(calque.grad(calque.grad(f))(0.7), 6.0 * np.exp(-1.4), rtol=1e-8)


@pytest.mark.parametrize("method", ["RK45", "DOP853", "Radau", "BDF", "odeint"])
def test_times_are_differentiated(method: str) -> None:
    """The derivative of a state by its time is the slope there."""
    times = np.array([0.0, 0.4, 0.9, 1.7])

    def f(t: Any) -> Any:
        if method == "odeint":
            return integrate.odeint(lambda y, t: -y * np.cos(t), A, t, **TIGHT)[:, 0]
        return integrate.solve_ivp(
            lambda t, y: -y * np.cos(t), (0.0, 1.8), A, method, t, **TIGHT
        ).y[0]

    wanted = -f(times) * np.cos(times)
    if method == "odeint":  # all states begin at the first time
        exact = f(times) * np.cos(times[0])
        found = calque.jacrev(f)(times)
        np.testing.assert_allclose(found[1:, 0], exact[1:], rtol=1e-6)
        np.testing.assert_allclose(np.diag(found)[1:], wanted[1:], rtol=1e-6)
    else:
        found = calque.jacrev(f)(times)[1:, 1:]
        np.testing.assert_allclose(found, np.diag(wanted[1:]), rtol=1e-6, atol=1e-8)


def test_kernels_and_batches() -> None:
    f = at_times("RK45")
    np.testing.assert_allclose(calque.jit(f)(A), f(A), rtol=1e-13)
    np.testing.assert_allclose(calque.jit(calque.grad(f))(A), calque.grad(f)(A), rtol=1e-11)
    batch = np.stack([A, 1.1 * A, 0.5 * A])
    np.testing.assert_allclose(calque.vmap(f)(batch), [f(a) for a in batch], rtol=1e-12)


@pytest.mark.parametrize("method", ["RK23", "RK45", "DOP853", "LSODA"])
def test_steps_are_those_of_scipy(method: str) -> None:
    def f(a: Any) -> Any:
        found = integrate.solve_ivp(predators, (0.0, 9.0), a, method, args=(a[0], a[1]))
        return found.t, found.y

    times, states = calque.jit(f)(A)
    np.testing.assert_allclose(times, f(A)[0], rtol=1e-10)
    np.testing.assert_allclose(states, f(A)[1], rtol=1e-10)


def test_a_failure_says_so() -> None:
    def f(a: Any) -> Any:
        found = integrate.solve_ivp(lambda t, y: a * y**2, (0.0, 4.0), [1.0])
        return found.status, found.success

    with np.errstate(all="ignore"):
        assert calque.jit(f)(1.0) == (-1, False)


def test_refusals() -> None:
    def with_events(a: Any) -> Any:
        return integrate.solve_ivp(
            lambda t, y: -a * y, (0.0, 1.0), [1.0], events=lambda t, y: y[0] - 0.5
        ).y[0, -1]

    with pytest.raises(NotImplementedError, match="events"):
        calque.grad(with_events)(1.0)
