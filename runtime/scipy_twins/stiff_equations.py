"""Initial value problems by SciPy's implicit methods, and ``odeint``.

SciPy's solution is the value. Its derivative is that of Radau's collocation of order 5 on SciPy's
steps, linearized about that solution: one linear system a step, stable where the equation is stiff.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calque.runtime.custom_root import custom_root
from calque.runtime.scipy_twins import solver_hosts
from calque.runtime.scipy_twins.host_functions import steps_of
from calque.runtime.scipy_twins.solver_results import arguments, refuse_options
from calque.transpiler.frontend.library.scipy_twins import twin

# Hairer and Wanner, table IV.5.6
_ROOT = 6.0**0.5
PLACES = ((4.0 - _ROOT) / 10.0, (4.0 + _ROOT) / 10.0, 1.0)
WEIGHTS = (
    ((88.0 - 7.0 * _ROOT) / 360.0, (296.0 - 169.0 * _ROOT) / 1800.0, (-2.0 + 3.0 * _ROOT) / 225.0),
    ((296.0 + 169.0 * _ROOT) / 1800.0, (88.0 + 7.0 * _ROOT) / 360.0, (-2.0 - 3.0 * _ROOT) / 225.0),
    ((16.0 - _ROOT) / 36.0, (16.0 + _ROOT) / 36.0, 1.0 / 9.0),
)


def checked_times(times: Any, span: Any) -> Any:
    """The times, if they are in order within the span; raises ValueError as SciPy does."""
    t0, t1 = span
    if np.any(times < min(t0, t1)) or np.any(times > max(t0, t1)):
        raise ValueError("Values in `t_eval` are not within `t_span`.")
    steps = np.diff(times)
    if (t1 > t0 and np.any(steps <= 0.0)) or (t1 < t0 and np.any(steps >= 0.0)):
        raise ValueError("Values in `t_eval` are not properly sorted.")
    return times


def states_on_steps(
    slope: Any, span: Any, y0: Any, times: Any, host: Any, **options: Any
) -> tuple[Any, Any]:
    """The ends of the steps, and the states there, or at the times where some are asked for."""
    ends, stages, wanted = steps_of(host, [slope], (*span, y0, times), **options)
    count = stages.shape[0]
    states = np.zeros((count + 1, y0.shape[0]))
    states[0] = y0
    start, y, asked = span[0], y0, 0
    for k in range(count):
        stop = ends[k + 1]
        if times.shape[0] == 0 and k + 1 == count:
            stop = span[1]
        while asked < times.shape[0] and wanted[asked] < k + 1:
            asked += 1
        if asked < times.shape[0] and wanted[asked] == k + 1:
            stop = times[asked]
        y = _step(slope, start, stop, y, stages[k])
        states[k + 1] = y
        start = stop
    return ends, states[wanted]


def _step(slope: Any, start: Any, stop: Any, y: Any, stages: Any) -> Any:
    """The state after a step, an implicit function of that before."""
    h = stop - start

    def equation(Y: Any) -> Any:
        f = [slope(start + PLACES[j] * h, Y[j]) for j in range(3)]
        return np.stack(
            [
                Y[i] - y - h * (WEIGHTS[i][0] * f[0] + WEIGHTS[i][1] * f[1] + WEIGHTS[i][2] * f[2])
                for i in range(3)
            ]
        )

    return custom_root(equation, stages, _as_given)[2]


def _as_given(function: Any, value: Any) -> Any:
    return value


@twin("scipy.integrate", "odeint")
def odeint(
    func: Callable[..., Any],
    y0: Any,
    t: Any,
    args: Any = (),
    Dfun: Any = None,
    col_deriv: Any = 0,
    full_output: Any = 0,
    ml: Any = None,
    mu: Any = None,
    rtol: Any = None,
    atol: Any = None,
    tcrit: Any = None,
    h0: float = 0.0,
    hmax: float = 0.0,
    hmin: float = 0.0,
    ixpr: Any = 0,
    mxstep: int = 0,
    mxhnil: int = 0,
    mxordn: int = 12,
    mxords: int = 5,
    printmessg: Any = 0,
    tfirst: bool = False,
) -> Any:
    """The states of an initial value problem at the times t, by LSODA."""
    unused = {"full_output": full_output or None, "Dfun": Dfun, "tcrit": tcrit, "ml": ml, "mu": mu}
    refuse_options("integrate.odeint", "leave it out", **unused)
    given = arguments(args)
    times = np.asarray(t) * 1.0
    start = np.atleast_1d(np.asarray(y0) * 1.0)

    def slope(t: Any, y: Any) -> Any:
        value = func(t, y, *given) if tfirst else func(y, t, *given)
        return np.atleast_1d(np.asarray(value)) * 1.0

    if times.shape[0] == 1:
        return start[None]
    options = {"rtol": rtol, "atol": atol, "mxstep": mxstep or None, "h0": h0 or None}
    options = {**options, "hmax": hmax or None, "hmin": hmin or None}
    span = times[0], times[times.shape[0] - 1]
    found = states_on_steps(slope, span, start, times[1:], solver_hosts.lsoda_steps, **options)
    return np.concatenate([start[None], found[1]])
