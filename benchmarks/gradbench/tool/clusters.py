"""kmeans: the cost of centroids, and the step that Newton's method takes from them."""

from __future__ import annotations

import numpy as np
from eval_function import EvalFunction, Message

import calque


def distance(point, centroid):
    """Return the square of the distance between two points."""
    total = 0.0
    for axis in range(point.size):
        total += (point[axis] - centroid[axis]) ** 2
    return total


def objective(centroids, points):
    cost = 0.0
    for i in range(points.shape[0]):
        nearest, least = 0, np.inf
        for j in range(centroids.shape[0]):
            found = distance(points[i], centroids[j])
            if found < least:
                nearest, least = j, found
        cost += distance(points[i], centroids[nearest])
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
