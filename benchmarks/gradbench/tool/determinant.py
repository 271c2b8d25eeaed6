"""det: a determinant by expansion by minors, in a recursion over the rows."""

from __future__ import annotations

import numpy as np
from eval_function import EvalFunction, Message

import calque


def objective(a, n):
    following = np.arange(1, n + 2)  # the column after each one; those in use are left out
    following[n] = 0  # and the first column, at the end

    def minor(row):
        if row == n - 1:
            return a[row, following[n]]
        total, sign = 0.0, 1.0
        before, column = n, following[n]
        for _ in range(n - row):
            following[before] = following[column]
            total += sign * a[row, column] * minor(row + 1)
            following[before] = column
            before, column = column, following[column]
            sign = -sign
        return total

    return minor(0)


def arguments(message: Message) -> tuple[np.ndarray, int]:
    """Return the matrix and its number of rows."""
    n = message["ell"]
    return np.array(message["A"]).reshape(n, n), n


def flat(gradient: np.ndarray) -> list[float]:
    """Return the gradient in row-major order."""
    return gradient.ravel().tolist()


EVALUATIONS = {
    "primal": EvalFunction(calque.jit(objective), arguments, float),
    "gradient": EvalFunction(calque.jit(calque.grad(objective)), arguments, flat),
}
