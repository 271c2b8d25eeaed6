"""kmeans: the cost of centroids, and the step that Newton's method takes from them."""

from __future__ import annotations

import numpy as np
from eval_function import EvalFunction, Message

import calque


def objective(centroids, points):
    cost = 0.0
    for i in range(points.shape[0]):
        nearest = np.inf
        for j in range(centroids.shape[0]):
            distance = 0.0
            for axis in range(points.shape[1]):
                distance += (points[i, axis] - centroids[j, axis]) ** 2
            nearest = min(nearest, distance)
        cost += nearest
    return cost


def direction(centroids, points):
    """Divide the gradient by the diagonal of the Hessian, which has no other entries."""

    def gradient(at):
        return calque.grad(objective)(at, points)

    slope, curvature = calque.jvp(gradient, (centroids,), (np.ones_like(centroids),))
    return slope / curvature


def arguments(message: Message) -> tuple[np.ndarray, np.ndarray]:
    """Return the centroids and the points."""
    return np.array(message["centroids"]), np.array(message["points"])


EVALUATIONS = {
    "cost": EvalFunction(calque.jit(objective), arguments, float),
    "dir": EvalFunction(calque.jit(direction), arguments, np.ndarray.tolist),
}
