"""hello: the square of a number, and its derivative."""

from __future__ import annotations

from eval_function import EvalFunction

import calque


def square(x):
    return x * x


def arguments(message: float) -> tuple[float]:
    """Return the number; this eval sends no minimum of runs or seconds."""
    return (float(message),)


EVALUATIONS = {
    "square": EvalFunction(calque.jit(square), arguments, float),
    "double": EvalFunction(calque.jit(calque.grad(square)), arguments, float),
}
