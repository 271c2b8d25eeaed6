"""ba: cameras look at points; the errors of what they see, and their sparse Jacobian."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from eval_function import EvalFunction, Message

import calque


def rotated(rotation, point):
    """Return a point, rotated about an axis by the axis's length (Rodrigues' formula)."""
    square = np.sum(rotation**2)
    if square == 0.0:
        return point + np.cross(rotation, point)
    angle = np.sqrt(square)
    axis = rotation / angle
    turned = np.cross(axis, point) * np.sin(angle)
    along = axis * np.sum(axis * point) * (1.0 - np.cos(angle))
    return point * np.cos(angle) + turned + along


def projected(camera, point):
    """Return the place in its picture at which a camera sees a point.

    A camera has a rotation (3), a centre (3), a focal length, a principal point (2) and two
    coefficients of its radial distortion.
    """
    seen = rotated(camera[:3], point - camera[3:6])
    flat = seen[:2] / seen[2]
    square = np.sum(flat**2)
    distortion = 1.0 + camera[9] * square + camera[10] * square**2
    return camera[6] * distortion * flat + camera[7:9]


def objective(cameras, points, weights, observations, features):
    """Return the weighted errors of all observations, and 1 minus the square of each weight."""
    count = weights.size
    errors = np.empty(3 * count)
    for i in range(count):
        camera, point = observations[i]
        error = projected(cameras[camera], points[point]) - features[i]
        errors[2 * i : 2 * i + 2] = weights[i] * error
        errors[2 * count + i] = 1.0 - weights[i] ** 2
    return errors


def pattern(cameras, points, weights, observations, features):
    """Return where the Jacobian has entries: an error depends on a camera, a point and a weight.

    The eval expects all of their numbers in each row, also those of which an error is independent:
    half of the principal point.
    """
    count = weights.size
    camera = cameras.shape[1] * observations[:, :1] + np.arange(cameras.shape[1])
    point = cameras.size + 3 * observations[:, 1:] + np.arange(3)
    weight = cameras.size + points.size + np.arange(count)[:, np.newaxis]
    blocks = np.repeat(np.concatenate([camera, point, weight], axis=1), 2, axis=0)
    columns = np.concatenate([blocks.ravel(), weight.ravel()])
    starts = np.cumsum([0, *[blocks.shape[1]] * (2 * count), *[1] * count])
    shape = (3 * count, cameras.size + points.size + count)
    return scipy.sparse.csr_array((np.ones(columns.size, bool), columns, starts), shape)


def sparse_jacobian(*args: np.ndarray) -> Any:
    """Return the function for the Jacobian by cameras, points and weights, its columns grouped."""
    return calque.sparse.jacobian(objective, *args, argnums=(0, 1, 2), sparsity=pattern(*args))


def arguments(message: Message) -> tuple[np.ndarray, ...]:
    """Return the arrays: a message holds one row of each, and the number of its copies."""
    observation = np.arange(message["p"])
    return (
        np.tile(message["cam"], (message["n"], 1)),
        np.tile(message["x"], (message["m"], 1)),
        np.full(message["p"], message["w"]),
        np.stack([observation % message["n"], observation % message["m"]], axis=1),
        np.tile(message["feat"], (message["p"], 1)),
    )


def written_errors(errors: np.ndarray) -> Message:
    """Return one error of each kind, and how many there are."""
    count = errors.size // 3
    return {
        "reproj_error": {"elements": errors[:2].tolist(), "repeated": count},
        "w_err": {"element": float(errors[-1]), "repeated": count},
    }


def written_matrix(matrix: scipy.sparse.csr_array) -> Message:
    """Return the first 30 and the last of row offsets, columns and values."""
    parts = {"rows": matrix.indptr, "cols": matrix.indices, "vals": matrix.data}
    return {name: [*part[:30].tolist(), part[-1].item()] for name, part in parts.items()}


EVALUATIONS = {
    "objective": EvalFunction(calque.jit(objective), arguments, written_errors),
    "jacobian": EvalFunction(sparse_jacobian, arguments, written_matrix, prepares=True),
}
