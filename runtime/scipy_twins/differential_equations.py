"""Initial value problems: SciPy's steps by explicit Runge-Kutta methods, written out.

The steps are those that SciPy takes; their lengths are held constant, and the derivative
is that of the steps ("discretize, then differentiate"). Methods and error estimates are those of
``scipy.integrate``: Bogacki and Shampine (RK23), Dormand and Prince (RK45, DOP853).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calque.runtime.api import stop_gradient
from calque.runtime.scipy_twins import solver_hosts
from calque.runtime.scipy_twins.host_functions import runge_kutta_tables
from calque.runtime.scipy_twins.solver_results import Solved, arguments
from calque.runtime.scipy_twins.stiff_equations import states_on_steps
from calque.transpiler.frontend.library.scipy_twins import twin


def _norm(x: Any) -> Any:
    return np.sqrt(np.mean(np.abs(x) ** 2))


def first_step_of(
    fun: Any, start: Any, direction: Any, order: Any, tolerances: tuple[Any, Any]
) -> Any:
    """The length of the first step (Hairer, Norsett and Wanner, section II.4)."""
    (t0, y0, t_bound, max_step, f0), (rtol, atol) = start, tolerances
    interval = np.abs(t_bound - t0)
    scale = atol + np.abs(y0) * rtol
    d0, d1 = _norm(y0 / scale), _norm(f0 / scale)
    h0 = 1e-6
    if d0 >= 1e-5 and d1 >= 1e-5:
        h0 = 0.01 * d0 / d1
    h0 = min(h0, interval)
    f1 = fun(t0 + h0 * direction, y0 + h0 * direction * f0)
    d2 = 0.0
    if h0 > 0.0:
        d2 = _norm((f1 - f0) / scale) / h0
    h1 = max(1e-6, h0 * 1e-3)
    if d1 > 1e-15 or d2 > 1e-15:
        h1 = (0.01 / max(d1, d2)) ** (1.0 / (order + 1.0))
    return min(min(100.0 * h0, h1), min(interval, max_step))


def stages_of(fun: Any, t: Any, y: Any, h: Any, f: Any, A: Any, B: Any, C: Any) -> tuple[Any, Any]:
    """The slopes of the stages, and that at the end, in rows; and the state at the end."""
    count = B.shape[0]
    K = np.zeros((count + 1, y.shape[0]), dtype=y.dtype)
    K[0] = f
    for s in range(1, count):
        K[s] = fun(t + C[s] * h, y + h * (A[s, :s] @ K[:s]))
    y_new = y + h * (B @ K[:count])
    K[count] = fun(t + h, y_new)
    return K, y_new


@twin("scipy.integrate", "solve_ivp")
def solve_ivp(
    fun: Callable[..., Any],
    t_span: Any,
    y0: Any,
    method: Any = "RK45",
    t_eval: Any = None,
    dense_output: bool = False,
    events: Any = None,
    vectorized: bool = False,
    args: Any = None,
    rtol: Any = 1e-3,
    atol: Any = 1e-6,
    first_step: Any = None,
    max_step: Any = np.inf,
    jac: Any = None,
) -> Any:
    """The solution of an initial value problem at SciPy's steps, or at the times ``t_eval``."""
    if events is not None or dense_output:
        raise NotImplementedError(
            "integrate.solve_ivp takes no events and no dense_output here: give the times as t_eval"
        )
    if jac is not None and callable(jac):
        raise NotImplementedError("integrate.solve_ivp takes no jac here: leave it out")
    given = () if args is None else arguments(args)
    if method in ("Radau", "BDF", "LSODA"):
        return _implicit(
            fun, t_span, y0, method, t_eval, given, rtol, atol, first_step, max_step, jac
        )
    table = runge_kutta_tables(method)
    weights, of_eighth = table["weights"], table["of DOP853"]
    A, B, C = np.array(weights[0]), np.array(weights[1]), np.array(weights[2])
    E, P = np.array(weights[3]), np.array(weights[4])
    E3, A_extra = np.array(of_eighth[0]), np.array(of_eighth[1])
    C_extra, D = np.array(of_eighth[2]), np.array(of_eighth[3])
    order, eighth = table["order"], table["eighth"]
    exponent = -1.0 / (order + 1.0)

    def slope(t: Any, y: Any) -> Any:
        return np.asarray(fun(t, y, *given)) * 1.0

    t, t_bound = t_span[0] * 1.0, t_span[1] * 1.0
    y = np.ravel(np.asarray(y0) * 1.0)
    direction = 1.0
    if t_bound < t:
        direction = -1.0
    f = slope(t, y)
    fixed = stop_gradient((t, y, t_bound, max_step, f))
    if first_step is None:
        h_abs = first_step_of(slope, fixed, direction, order, (rtol, atol))
    else:
        h_abs = first_step * 1.0
    h_abs = stop_gradient(h_abs)
    reached, asked = 0, 0
    times, states = [t], [y]
    if t_eval is not None:
        asked = t_eval.shape[0]
        at = np.zeros((asked, y.shape[0]), dtype=y.dtype)
    status, rejected = 0, False
    while direction * (t_bound - t) > 0.0 and status == 0:
        fixed_t = stop_gradient(t)
        smallest = 10.0 * np.abs(np.nextafter(fixed_t, direction * np.inf) - fixed_t)
        if not rejected:
            h_abs = min(max(h_abs, smallest), max_step)
        if h_abs < smallest:
            status = -1
        t_new = stop_gradient(t + h_abs * direction)
        if direction * (t_new - t_bound) > 0.0:
            t_new = t_bound
        h = t_new - t
        K, y_new = stages_of(slope, t, y, h, f, A, B, C)
        scale = stop_gradient(atol + np.maximum(np.abs(y), np.abs(y_new)) * rtol)
        error = stop_gradient(h * (E @ K)) / scale
        size = _norm(error)
        if eighth:
            other = _norm(stop_gradient(h * (E3 @ K)) / scale)
            both = size * size + 0.01 * other * other
            size = size * size / np.sqrt(both) if both > 0.0 else 0.0
        if size < 1.0 and status == 0:
            factor = 10.0
            if size > 0.0:
                factor = min(10.0, 0.9 * size**exponent)
            if rejected:
                factor = min(1.0, factor)
            rejected = False
            h_abs = stop_gradient(np.abs(h)) * factor
            if t_eval is not None:
                if reached < asked and direction * (t_eval[reached] - t_new) <= 0.0:
                    if eighth:
                        F = _coefficients(slope, t, y, h, K, y_new, A_extra, C_extra, D)
                    else:
                        F = h * (P.T @ K)
                    while reached < asked and direction * (t_eval[reached] - t_new) <= 0.0:
                        x = (t_eval[reached] - t) / h
                        at[reached] = y + (_nested(x, F) if eighth else _powers(x, F))
                        reached += 1
            else:
                times.append(t_new)
                states.append(y_new)
            t, y, f = t_new, y_new, K[-1]
        else:
            h_abs = stop_gradient(np.abs(h)) * max(0.2, 0.9 * size**exponent)
            rejected = True
    if t_eval is None:
        return Solved(t=np.array(times), y=np.array(states).T, status=status, success=status == 0)
    return Solved(t=t_eval, y=at.T, status=status, success=status == 0)


def _powers(x: Any, F: Any) -> Any:
    """The sum of ``F[k] x^(k + 1)``: the change of the state in a part of a step."""
    total = F[F.shape[0] - 1] * x
    for k in range(F.shape[0] - 2, -1, -1):
        total = (total + F[k]) * x
    return total


def _nested(x: Any, F: Any) -> Any:
    """The change of the state in a part of a step of DOP853."""
    total = F[6] * x
    for k in range(5, -1, -1):
        total = (total + F[k]) * (x if k % 2 == 0 else 1.0 - x)
    return total


def _coefficients(
    fun: Any, t: Any, y: Any, h: Any, K: Any, y_new: Any, A: Any, C: Any, D: Any
) -> Any:
    """The polynomial of a step of DOP853, by three more stages."""
    count = K.shape[0]
    every = np.zeros((count + 3, y.shape[0]), dtype=y.dtype)
    every[:count] = K
    for s in range(3):
        rows = count + s
        every[rows] = fun(t + C[s] * h, y + h * (A[s, :rows] @ every[:rows]))
    change = y_new - y
    F = np.zeros((7, y.shape[0]), dtype=y.dtype)
    F[0] = change
    F[1] = h * K[0] - change
    F[2] = 2.0 * change - h * (K[count - 1] + K[0])
    F[3:] = h * (D @ every)
    return F


def _implicit(
    fun: Any,
    t_span: Any,
    y0: Any,
    method: str,
    t_eval: Any,
    given: Any,
    rtol: Any,
    atol: Any,
    first_step: Any,
    max_step: Any,
    jac: Any,
) -> Any:
    """The solution by one of SciPy's implicit methods."""

    def slope(t: Any, y: Any) -> Any:
        return np.asarray(fun(t, y, *given)) * 1.0

    y = np.ravel(np.asarray(y0) * 1.0)
    times = np.zeros(0) if t_eval is None else np.asarray(t_eval) * 1.0
    options = {"method": method, "rtol": rtol, "atol": atol, "first_step": first_step}
    options = {**options, "max_step": None if max_step == np.inf else max_step}
    found = states_on_steps(
        slope,
        t_span[0] * 1.0,
        t_span[1] * 1.0,
        y,
        times,
        given,
        [slope],
        solver_hosts.implicit_steps,
        **options,
    )
    t = found[0] if t_eval is None else times
    return Solved(t=t, y=found[1].T, status=0, success=True)
