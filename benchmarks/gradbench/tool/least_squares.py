"""llsq: fit a polynomial to the sign function by least squares."""

from __future__ import annotations

import numpy as np
from eval_function import EvalFunction, Message

import calque


def objective(x, n):
    total = 0.0
    for i in range(n):
        t = 2.0 * i / (n - 1) - 1.0
        residual = np.sign(t)
        power = 1.0
        for j in range(x.size):
            residual -= x[j] * power
            power *= t
        total += residual**2
    return 0.5 * total


def arguments(message: Message) -> tuple[np.ndarray, int]:
    """Return the polynomial's coefficients and the number of points."""
    return np.array(message["x"]), message["n"]


EVALUATIONS = {
    "primal": EvalFunction(calque.jit(objective), arguments, float),
    "gradient": EvalFunction(calque.jit(calque.grad(objective)), arguments, np.ndarray.tolist),
}
