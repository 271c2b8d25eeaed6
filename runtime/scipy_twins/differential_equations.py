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
from calque.runtime.scipy_twins.host_functions import name_of_method, runge_kutta_tables
from calque.runtime.scipy_twins.solver_results import OdeResult, arguments, refuse_options
from calque.runtime.scipy_twins.stiff_equations import checked_times, states_on_steps
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
    instead = "give the times as t_eval"
    refuse_options("integrate.solve_ivp", instead, events=events, dense_output=dense_output)
    refuse_options("integrate.solve_ivp", "leave it out", jac=jac)
    given = () if args is None else arguments(args)

    def slope(t: Any, y: Any) -> Any:
        return np.asarray(fun(t, y, *given)) * 1.0

    name = name_of_method(method)
    span = t_span[0] * 1.0, t_span[1] * 1.0
    if span[0] == span[1]:
        raise ValueError("integrate.solve_ivp: the ends of `t_span` are equal")
    y = np.ravel(np.asarray(y0) * 1.0)
    times = None if t_eval is None else checked_times(np.asarray(t_eval) * 1.0, span)
    if name in ("Radau", "BDF", "LSODA"):
        options = {"method": name, "rtol": rtol, "atol": atol, "first_step": first_step}
        options = {**options, "max_step": None if max_step == np.inf else max_step}
        host, asked = solver_hosts.implicit_steps, np.zeros(0) if times is None else times
        ends, states = states_on_steps(slope, span, y, asked, host, **options)
        return OdeResult(t=ends if times is None else times, y=states.T, status=0)
    tolerances = np.maximum(rtol, 100.0 * np.finfo(float).eps), atol
    steps = first_step, max_step
    found = _explicit(slope, span, y, times, runge_kutta_tables(name), tolerances, steps)
    return OdeResult(t=found[0], y=found[1].T, status=found[2], success=found[2] == 0)


def _explicit(
    slope: Any, span: Any, y: Any, times: Any, table: Any, tolerances: Any, steps: Any
) -> tuple[Any, Any, Any]:
    """The times, the states there, and the status: -1 where the steps became too small."""
    (t, t_bound), (first_step, max_step) = span, steps
    direction = 1.0
    if t_bound < t:
        direction = -1.0
    A, B, C = np.array(table["A"]), np.array(table["B"]), np.array(table["C"])
    f = slope(t, y)
    if first_step is None:
        start = stop_gradient((t, y, t_bound, max_step, f))
        h_abs = first_step_of(slope, start, direction, table["order"], tolerances)
    else:
        h_abs = first_step * 1.0
    h_abs = stop_gradient(h_abs)
    all_times, all_states, reached = [t], [y], 0
    if times is not None:
        states = np.full((times.shape[0], y.shape[0]), np.nan, dtype=y.dtype)
        while reached < times.shape[0] and times[reached] == t:
            states[reached] = y
            reached += 1
    status, rejected = 0, False
    while direction * (t_bound - t) > 0.0 and status == 0:
        now = stop_gradient(t)
        smallest = 10.0 * np.abs(np.nextafter(now, direction * np.inf) - now)
        if not rejected:
            h_abs = min(max(h_abs, smallest), max_step)
        if h_abs < smallest:
            status = -1
        t_new = stop_gradient(t + h_abs * direction)
        if direction * (t_new - t_bound) > 0.0:
            t_new = t_bound
        h = t_new - t
        K, y_new = stages_of(slope, t, y, h, f, A, B, C)
        size = stop_gradient(_error(h, K, y, y_new, table, tolerances))
        accepted = size < 1.0 and status == 0
        if accepted and times is not None:
            if reached < times.shape[0] and direction * (times[reached] - t_new) <= 0.0:
                F = _polynomial(slope, t, y, h, K, y_new, table)
                while reached < times.shape[0] and direction * (times[reached] - t_new) <= 0.0:
                    states[reached] = y + _change((times[reached] - t) / h, F, table)
                    reached += 1
        h_abs = stop_gradient(np.abs(h)) * _factor(size, table["order"], accepted, rejected)
        rejected = not accepted
        if accepted:
            t, y, f = t_new, y_new, K[-1]
            if times is None:
                all_times.append(t)
                all_states.append(y)
    if times is None:
        return np.array(all_times), np.array(all_states), status
    return times, states, status


def _error(h: Any, K: Any, y: Any, y_new: Any, table: Any, tolerances: Any) -> Any:
    """The estimated error of a step, where 1 is what the tolerances allow."""
    scale = tolerances[1] + np.maximum(np.abs(y), np.abs(y_new)) * tolerances[0]
    size = _norm(h * (np.array(table["E"]) @ K) / scale)
    if not table["eighth"]:
        return size
    other = _norm(h * (np.array(table["E3"]) @ K) / scale)
    both = size * size + 0.01 * other * other
    return size * size / np.sqrt(both) if both > 0.0 else 0.0


def _factor(size: Any, order: Any, accepted: Any, rejected: Any) -> Any:
    """The length of the next step by that of this one."""
    power = 10.0
    if size > 0.0:
        power = 0.9 * size ** (-1.0 / (order + 1.0))
    if accepted:
        return min(1.0 if rejected else 10.0, power)
    return max(0.2, power)


def _polynomial(slope: Any, t: Any, y: Any, h: Any, K: Any, y_new: Any, table: Any) -> Any:
    """The coefficients of the method's own polynomial in a step."""
    if table["eighth"]:
        extra = np.array(table["A_extra"]), np.array(table["C_extra"])
        return _coefficients(slope, t, y, h, K, y_new, *extra, np.array(table["D"]))
    return h * (np.array(table["P"]).T @ K)


def _change(x: Any, F: Any, table: Any) -> Any:
    """The change of the state in the fraction x of a step."""
    return _nested(x, F) if table["eighth"] else _powers(x, F)


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
