"""lse: the logarithm of a sum of exponentials."""

from __future__ import annotations

import numpy as np
from eval_function import EvalFunction, Message

import calque


def objective(x):
    largest = np.max(x)
    return largest + np.log(np.sum(np.exp(x - largest)))


def arguments(message: Message) -> tuple[np.ndarray]:
    """Return the numbers."""
    return (np.array(message["x"]),)


EVALUATIONS = {
    "primal": EvalFunction(calque.jit(objective), arguments, float),
    "gradient": EvalFunction(calque.jit(calque.grad(objective)), arguments, np.ndarray.tolist),
}
