"""Solvers of SciPy as generated modules call them: what converges, and an error for what does not.

Only the texts of these functions are used: they become part of the module that calls them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from scipy import integrate, optimize

Function = Callable[..., Any]
Captured = tuple[Any, ...]


def root_of(equation: Function, x0: Any, captured: Captured, **options: Any) -> Any:
    """The root that SciPy finds; raises RuntimeError where it finds none."""
    found = optimize.root(equation, x0, args=captured, **options)
    if not found.success:
        raise RuntimeError(f"optimize.root has not converged: {found.message}")
    return found.x


def root_by_jacobian(
    equation: Function,
    jacobian: Function,
    x0: Any,
    captured: Captured,
    captured_by_jacobian: Captured,
    **options: Any,
) -> Any:
    """The root that SciPy finds with a Jacobian; raises RuntimeError where it finds none."""
    found = optimize.root(
        lambda x: equation(x, *captured),
        x0,
        jac=lambda x: jacobian(x, *captured_by_jacobian),
        **options,
    )
    if not found.success:
        raise RuntimeError(f"optimize.root has not converged: {found.message}")
    return found.x


def brenth(
    equation: Function, low: Any, high: Any, captured: Captured, **options: Any
) -> Any:
    """The root between two numbers by Brent's method with hyperbolas; raises without one."""
    return optimize.brenth(equation, low, high, args=captured, **options)


def ridder(
    equation: Function, low: Any, high: Any, captured: Captured, **options: Any
) -> Any:
    """The root between two numbers by Ridders' method; raises without one."""
    return optimize.ridder(equation, low, high, args=captured, **options)


def toms748(
    equation: Function, low: Any, high: Any, captured: Captured, **options: Any
) -> Any:
    """The root between two numbers by Alefeld, Potra and Shi's method; raises without one."""
    return optimize.toms748(equation, low, high, args=captured, **options)


def root_from(equation: Function, x0: Any, captured: Captured, **options: Any) -> Any:
    """The root that SciPy's secants find from a first guess; raises where they find none."""
    return optimize.newton(equation, x0, args=captured, **options)


def root_from_two(equation: Function, x0: Any, x1: Any, captured: Captured, **options: Any) -> Any:
    """The root that SciPy's secants find from two guesses; raises where they find none."""
    return optimize.newton(equation, x0, args=captured, x1=x1, **options)


def root_by_slope(
    equation: Function,
    slope: Function,
    x0: Any,
    captured: Captured,
    captured_by_slope: Captured,
    **options: Any,
) -> Any:
    """The root that Newton's method finds; raises where it finds none."""
    return optimize.newton(
        lambda x: equation(x, *captured),
        x0,
        fprime=lambda x: slope(x, *captured_by_slope),
        **options,
    )


def root_by_curvature(
    equation: Function,
    slope: Function,
    curvature: Function,
    x0: Any,
    captured: Captured,
    captured_by_slope: Captured,
    captured_by_curvature: Captured,
    **options: Any,
) -> Any:
    """The root that Halley's method finds; raises where it finds none."""
    return optimize.newton(
        lambda x: equation(x, *captured),
        x0,
        fprime=lambda x: slope(x, *captured_by_slope),
        fprime2=lambda x: curvature(x, *captured_by_curvature),
        **options,
    )


def steady_point(function: Function, x0: Any, captured: Captured, **options: Any) -> Any:
    """The fixed point that SciPy finds; raises RuntimeError where it finds none."""
    return optimize.fixed_point(function, x0, args=captured, **options)


def minimum_of(objective: Function, x0: Any, *rest: Any, **options: Any) -> Any:
    """The place of the minimum that SciPy finds; raises RuntimeError where it finds none."""
    *limits, captured = rest
    if limits:
        options["bounds"] = optimize.Bounds(*limits)
    found = optimize.minimize(objective, x0, args=captured, **options)
    if not found.success:
        raise RuntimeError(f"optimize.minimize has not converged: {found.message}")
    return found.x


def minimum_by_gradient(
    objective: Function, gradient: Function, x0: Any, *rest: Any, **options: Any
) -> Any:
    """The place of the minimum that SciPy finds with a gradient; raises where it finds none."""
    *limits, captured, captured_by_gradient = rest
    if limits:
        options["bounds"] = optimize.Bounds(*limits)
    found = optimize.minimize(
        lambda x: objective(x, *captured),
        x0,
        jac=lambda x: gradient(x, *captured_by_gradient),
        **options,
    )
    if not found.success:
        raise RuntimeError(f"optimize.minimize has not converged: {found.message}")
    return found.x


def minimum_of_one(objective: Function, *rest: Any, **options: Any) -> Any:
    """The place of the minimum of a function of one number; raises where it is not found."""
    *limits, captured = rest
    if limits:
        options["bounds"] = limits
    found = optimize.minimize_scalar(objective, args=captured, **options)
    if not found.success:
        raise RuntimeError(f"optimize.minimize_scalar has not converged: {found.message}")
    return float(found.x)


def least_squares_of(residuals: Function, x0: Any, *rest: Any, **options: Any) -> Any:
    """The least-squares solution that SciPy finds; raises RuntimeError where it finds none."""
    *limits, captured = rest
    if limits:
        options["bounds"] = limits
    found = optimize.least_squares(residuals, x0, args=captured, **options)
    if not found.success:
        raise RuntimeError(f"optimize.least_squares has not converged: {found.message}")
    return found.x


def least_squares_by_jacobian(
    residuals: Function, jacobian: Function, x0: Any, *rest: Any, **options: Any
) -> Any:
    """The least-squares solution that SciPy finds with a Jacobian; raises where it finds none."""
    *limits, captured, captured_by_jacobian = rest
    if limits:
        options["bounds"] = limits
    found = optimize.least_squares(
        lambda x: residuals(x, *captured),
        x0,
        jac=lambda x: jacobian(x, *captured_by_jacobian),
        **options,
    )
    if not found.success:
        raise RuntimeError(f"optimize.least_squares has not converged: {found.message}")
    return found.x


def parameters_of(model: Function, x0: Any, captured: Captured, **options: Any) -> Any:
    """The parameters with the least squares that Levenberg and Marquardt's method finds."""
    found, _, _, message, flag = optimize.leastsq(
        model, x0, args=captured, full_output=True, **options
    )
    if flag not in (1, 2, 3, 4):
        raise RuntimeError(f"Optimal parameters not found: {message}")
    return found


def nonnegative(x0: Any, matrix: Any, right: Any, **options: Any) -> Any:
    """The nonnegative least-squares solution that SciPy finds."""
    return optimize.nnls(matrix, right, **options)[0]


def quadrature(integrand: Function, low: Any, high: Any, captured: Captured, **options: Any) -> Any:
    """QUADPACK's integral and error; then nodes in its intervals: their number, places, weights.

    Places are fractions of a finite range; of an infinite one, distances from its end.
    """
    found, error, report, *message = integrate.quad(
        integrand, low, high, args=captured, full_output=True, **options
    )
    if message:
        warnings.warn(message[0], integrate.IntegrationWarning, stacklevel=2)
    nodes, weights = np.polynomial.legendre.leggauss(20)
    count = report["last"] if low != high else 0
    made = np.arange(options["limit"])[:, None] < count
    left = np.where(made, report["alist"][:, None], low if np.isfinite(low) else 0.5)
    right = np.where(made, report["blist"][:, None], high if np.isfinite(high) else 1.0)
    if low == high:
        left, right, count = 0.0 * left, 0.0 * left + 1.0, 1
    elif np.isfinite(low) and np.isfinite(high):
        left, right = (left - low) / (high - low), (right - low) / (high - low)
    places = 0.5 * (left + right) + 0.5 * (right - left) * nodes
    weights = 0.5 * np.abs(right - left) * weights
    if not (np.isfinite(low) and np.isfinite(high)):
        places, weights = (1.0 - places) / places, weights / places**2
    return float(found), float(error), 20 * int(count), places.ravel(), weights.ravel()


def implicit_steps(
    slope: Function, t0: Any, t1: Any, y0: Any, times: Any, captured: Captured, **options: Any
) -> Any:
    """SciPy's steps, the states at three places in each (Radau's), and where the times are."""
    found = integrate.solve_ivp(
        slope, (t0, t1), y0, args=captured or None, dense_output=True, **options
    )
    if not found.success:
        raise RuntimeError(f"integrate.solve_ivp has failed: {found.message}")
    wanted = times if times.size else found.t
    ends = np.unique(np.concatenate([found.t, wanted]))
    ends = ends if t0 < t1 else ends[::-1]
    last = np.flatnonzero(ends == wanted[-1])[0] if wanted.size else 0
    ends = ends[: last + 1]
    h = np.diff(ends)[:, None]
    places = ends[:-1, None] + h * np.array([0.4 - 0.06**0.5, 0.4 + 0.06**0.5, 1.0])
    stages = found.sol(places.ravel()).T.reshape(h.size, 3, y0.size)
    order = np.searchsorted(ends if t0 < t1 else -ends, wanted if t0 < t1 else -wanted)
    return ends, stages, order


def lsoda_steps(
    slope: Function, t0: Any, t1: Any, y0: Any, times: Any, captured: Captured, **options: Any
) -> Any:
    """The steps of LSODA, the states at three places in each, and where the times are."""
    states, report = integrate.odeint(
        slope,
        y0,
        np.concatenate([[t0], times]),
        captured,
        tfirst=True,
        full_output=True,
        **options,
    )
    if report["message"] != "Integration successful.":
        raise RuntimeError(f"integrate.odeint has failed: {report['message']}")
    given = {name: options.get(name, 1.49012e-8) for name in ("rtol", "atol")}
    names = {"h0": "first_step", "hmax": "max_step", "hmin": "min_step"}
    given |= {new: options[old] for old, new in names.items() if old in options}
    found = integrate.solve_ivp(
        slope, (t0, t1), y0, "LSODA", args=captured or None, dense_output=True, **given
    )
    ends = np.unique(np.concatenate([found.t, times]))
    ends = ends if t0 < t1 else ends[::-1]
    h = np.diff(ends)[:, None]
    places = ends[:-1, None] + h * np.array([0.4 - 0.06**0.5, 0.4 + 0.06**0.5, 1.0])
    stages = found.sol(places.ravel()).T.reshape(h.size, 3, y0.size)
    order = np.searchsorted(ends if t0 < t1 else -ends, times if t0 < t1 else -times)
    stages[order - 1, 2] = states[1:]
    return ends, stages, order
