"""ht: a hand's skin follows its bones; the errors of points on it, and their Jacobian."""

from __future__ import annotations

import numpy as np
from eval_function import EvalFunction, Message

import calque

FINGERS = 5


def turned(x, z, y):
    """Return the rotation matrix of a bone, of its angles about three axes."""
    about_x = np.eye(3)
    about_x[1, 1] = about_x[2, 2] = np.cos(x)
    about_x[2, 1] = np.sin(x)
    about_x[1, 2] = -about_x[2, 1]
    about_y = np.eye(3)
    about_y[0, 0] = about_y[2, 2] = np.cos(y)
    about_y[0, 2] = np.sin(y)
    about_y[2, 0] = -about_y[0, 2]
    about_z = np.eye(3)
    about_z[0, 0] = about_z[1, 1] = np.cos(z)
    about_z[1, 0] = np.sin(z)
    about_z[0, 1] = -about_z[1, 0]
    return about_z @ about_y @ about_x


def rotation(vector):
    """Return the matrix of a rotation about a vector, by the vector's length."""
    angle = np.sqrt(np.sum(vector**2))
    if angle < 1e-4:
        return np.eye(3)
    axis = vector / angle
    x, y, z = axis
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    projection = np.outer(axis, axis)
    return projection + np.cos(angle) * (np.eye(3) - projection) + np.sin(angle) * cross


def bone_angles(theta, bones):
    """Return three angles for each bone: those of the fingers are in theta, the others are zero.

    A finger has a bone of no angle, then one that turns about two axes and two that bend.
    """
    angles = np.zeros((bones, 3))
    entry = 6
    for finger in range(FINGERS):
        first = 2 + 4 * finger
        angles[first, :2] = theta[entry : entry + 2]
        angles[first + 1, 0] = theta[entry + 2]
        angles[first + 2, 0] = theta[entry + 3]
        entry += 4
    return angles


def skin(theta, parents, relatives, inverses, positions, weights):
    """Return the skin's vertices: each follows its bones by its weights."""
    bones = parents.size
    angles = bone_angles(theta, bones)
    absolutes = np.empty((bones, 4, 4))
    vertices = np.zeros((positions.shape[0], 3))
    for bone in range(bones):
        local = np.eye(4)
        local[:3, :3] = turned(angles[bone, 0], angles[bone, 1], angles[bone, 2])
        absolutes[bone] = relatives[bone] @ local
        if parents[bone] >= 0:
            absolutes[bone] = absolutes[parents[bone]] @ absolutes[bone]
        transform = absolutes[bone] @ inverses[bone]
        vertices += weights[:, bone : bone + 1] * (positions @ transform[:3].T)
    return vertices @ rotation(theta[:3]).T + theta[3:6]


def objective(theta, us, model, faces, points):
    """Return the errors of points that lie at ``us`` in faces of the skin, or at its vertices."""
    vertices = skin(theta, *model)
    if faces.ndim == 1:
        return (points - vertices[faces]).ravel()
    u, v = us[:, :1], us[:, 1:]
    a, b, c = vertices[faces[:, 0]], vertices[faces[:, 1]], vertices[faces[:, 2]]
    return (points - (u * a + v * b + (1.0 - u - v) * c)).ravel()


def jacobian(theta, us, model, faces, points):
    """Return a column for each of theta, and first two for a point's own coordinates, if any."""
    if faces.ndim == 1:
        return calque.jacfwd(objective)(theta, us, model, faces, points)

    def moved(both):
        return objective(both[2:], us + both[:2], model, faces, points)

    return calque.jacfwd(moved)(np.concatenate([np.zeros(2), theta]))


def arguments(message: Message) -> tuple[object, ...]:
    """Return the pose, the points' coordinates in their faces, the model, and the points."""
    model = message["data"]["model"]
    names = ("base_relatives", "inverse_base_absolutes", "base_positions", "weights")
    arrays = (np.array(model["parents"]), *(np.array(model[name], dtype=float) for name in names))
    faces = np.array(message["data"]["correspondences"])
    us = np.array(message["us"], dtype=float)
    if us.size:
        faces = np.array(model["triangles"])[faces]
    return np.array(message["theta"]), us, arrays, faces, np.array(message["data"]["points"])


EVALUATIONS = {
    "objective": EvalFunction(calque.jit(objective), arguments, np.ndarray.tolist),
    "jacobian": EvalFunction(calque.jit(jacobian), arguments, np.ndarray.tolist),
}
