"""particle: where to put a charge so that a particle that it repels hits the origin."""

from __future__ import annotations

import numpy as np
from descent import MODES, argmin
from eval_function import EvalFunction, Message

import calque

STEP = 0.1


def particle(outer, inner):
    """Return the function that finds the charge's place, given two ways to differentiate."""

    def distance(control):
        """Return the square of the distance from the origin at which the axis is met."""

        def potential(x):
            total = 0.0
            for height in (10.0 - control[0], 0.0):
                total += 1.0 / np.sqrt((x[0] - 10.0) ** 2 + (x[1] - height) ** 2)
            return total

        position, speed = np.array([0.0, 8.0]), np.array([0.75, 0.0])
        while True:
            force = -inner(potential)(position)
            position = position + STEP * speed
            if position[1] <= 0.0:
                break
            speed = speed + STEP * force
        back = -position[1] / speed[1]
        return (position[0] + back * speed[0]) ** 2

    def found(start):
        return argmin(distance, outer(distance), np.array([start]))[0]

    return found


def arguments(message: Message) -> tuple[float]:
    """Return the control's first value."""
    return (float(message["w"]),)


EVALUATIONS = {
    outer + inner: EvalFunction(calque.jit(particle(MODES[outer], MODES[inner])), arguments, float)
    for outer in MODES
    for inner in MODES
}
