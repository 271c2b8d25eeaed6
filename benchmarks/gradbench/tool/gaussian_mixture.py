"""gmm: the logarithm of the posterior density of a mixture of Gaussians."""

from __future__ import annotations

import math

import numpy as np
from eval_function import EvalFunction, Message

import calque


def log_sum_exp(x):
    """Return the logarithms of the sums of exponentials along the first axis."""
    largest = np.max(x, axis=0)
    return largest + np.log(np.sum(np.exp(x - largest), axis=0))


def objective(alpha, mu, q, l, x, gamma, m):
    """Return the log posterior; ``l`` holds triangles below the diagonal, column by column."""
    (count, dimension), components = x.shape, alpha.size
    sums = np.sum(q, axis=1)
    terms = np.empty((components, count))
    squares = 0.0
    for k in range(components):
        factor = np.zeros((dimension, dimension))
        entry = 0
        for column in range(dimension):
            factor[column, column] = np.exp(q[k, column])
            for row in range(column + 1, dimension):
                factor[row, column] = l[k, entry]
                entry += 1
        y = (x - mu[k]) @ factor.T
        terms[k] = alpha[k] + sums[k] - 0.5 * np.sum(y**2, axis=1)
        squares += np.sum(factor**2)
    likelihood = np.sum(log_sum_exp(terms)) - count * log_sum_exp(alpha)
    prior = m * np.sum(sums) - 0.5 * gamma**2 * squares
    return likelihood + prior + constant(count, dimension, components, gamma, m)


def constant(count, dimension, components, gamma, m):
    """Return the terms that depend on no parameter."""
    freedom = dimension + m + 1
    log_gamma = 0.25 * dimension * (dimension - 1) * math.log(math.pi)
    for j in range(dimension):
        log_gamma += math.lgamma(0.5 * (freedom - j))
    wishart = freedom * dimension * math.log(gamma / math.sqrt(2.0)) - log_gamma
    return components * wishart - 0.5 * count * dimension * math.log(2.0 * math.pi)


def arguments(message: Message) -> tuple[np.ndarray | float, ...]:
    """Return the parameters, the points, and the two numbers of the prior."""
    arrays = (np.array(message[name], dtype=float) for name in ("alpha", "mu", "q", "l", "x"))
    return *arrays, float(message["gamma"]), message["m"]


def named(gradients: tuple[np.ndarray, ...]) -> dict[str, list[object]]:
    """Return the gradients under the names of their parameters."""
    pairs = zip(("alpha", "mu", "q", "l"), gradients, strict=True)
    return {name: gradient.tolist() for name, gradient in pairs}


gradient = calque.jit(calque.grad(objective, argnums=(0, 1, 2, 3)))
EVALUATIONS = {
    "objective": EvalFunction(calque.jit(objective), arguments, float),
    "jacobian": EvalFunction(gradient, arguments, named),
}
