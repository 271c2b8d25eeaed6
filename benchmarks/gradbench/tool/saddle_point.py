"""saddle: a minimum of maxima by gradient descent, with derivatives of derivatives."""

from __future__ import annotations

import numpy as np
from descent import MODES, argmax, argmin
from eval_function import EvalFunction, Message

import calque


def height(x, y):
    return np.sum(x**2) - np.sum(y**2)


def saddle(outer, inner):
    """Return the function that finds the saddle point, given two ways to differentiate."""

    def highest(x, start):
        y = argmax(lambda y: height(x, y), inner(lambda y: height(x, y)), start)
        return height(x, y)

    def found(start):
        x = argmin(lambda x: highest(x, start), outer(lambda x: highest(x, start)), start)
        y = argmax(lambda y: height(x, y), outer(lambda y: height(x, y)), start)
        return np.concatenate([x, y])

    return found


def arguments(message: Message) -> tuple[np.ndarray]:
    """Return the point from which all descents start."""
    return (np.array(message["start"]),)


EVALUATIONS = {
    outer + inner: EvalFunction(
        calque.jit(saddle(MODES[outer], MODES[inner])), arguments, np.ndarray.tolist
    )
    for outer in MODES
    for inner in MODES
}
