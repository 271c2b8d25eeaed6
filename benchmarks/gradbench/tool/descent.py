"""Gradient descent with a step that adapts, as the evals particle and saddle describe it."""

from __future__ import annotations

import numpy as np

import calque


def length(x):
    return np.sqrt(np.sum(x * x))


def argmin(function, gradient, start):
    """Return where descent ends from a starting point.

    It ends at a gradient or a step of 1e-5. Ten steps in a row that lower the value double the
    step's factor; a step that does not is not taken, and halves the factor.
    """
    x, value, slope = start, function(start), gradient(start)
    factor, lowered = 1e-5, 0
    while length(slope) > 1e-5:
        if lowered == 10:
            factor *= 2.0
            lowered = 0
            continue
        trial = x - factor * slope
        if length(x - trial) <= 1e-5:
            break
        trial_value = function(trial)
        if trial_value < value:
            x, value, slope = trial, trial_value, gradient(trial)
            lowered += 1
        else:
            factor *= 0.5
            lowered = 0
    return x


def argmax(function, gradient, start):
    return argmin(lambda x: -function(x), lambda x: -gradient(x), start)


MODES = {"f": calque.jacfwd, "r": calque.grad}  # ways to find a gradient
