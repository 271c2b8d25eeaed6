"""ode: a chain of equations, solved by a Runge-Kutta method of order 4."""

from __future__ import annotations

import numpy as np
from eval_function import EvalFunction, Message

import calque


def slope(x, y):
    dy = np.empty_like(y)
    dy[0] = x[0]
    dy[1:] = x[1:] * y[:-1]
    return dy


def solution(x, steps):
    """Return the solution at time 2."""
    h = 2.0 / steps
    y = np.zeros_like(x)
    for _ in range(steps):
        k1 = slope(x, y)
        k2 = slope(x, y + 0.5 * h * k1)
        k3 = slope(x, y + 0.5 * h * k2)
        k4 = slope(x, y + h * k3)
        y += h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    return y


def last(x, steps):
    return solution(x, steps)[-1]


def arguments(message: Message) -> tuple[np.ndarray, int]:
    """Return the coefficients and the number of steps."""
    return np.array(message["x"]), message["s"]


EVALUATIONS = {
    "primal": EvalFunction(calque.jit(solution), arguments, np.ndarray.tolist),
    "gradient": EvalFunction(calque.jit(calque.grad(last)), arguments, np.ndarray.tolist),
}
