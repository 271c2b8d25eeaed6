"""Cameras and points in space from what the cameras saw: least squares with a sparse Jacobian."""

import numpy as np
from scipy.optimize import least_squares

from calque import sparse

CAMERAS, POINTS = 6, 60
rng = np.random.default_rng(1)
camera, point = (part.ravel() for part in np.indices((CAMERAS, POINTS)))


def turned(rotation, x):
    """Points turned about the axes ``rotation``, by its lengths: Rodrigues' formula."""
    angle = np.sqrt(np.sum(rotation**2, axis=1, keepdims=True) + 1e-12)
    axis = rotation / angle
    along = np.sum(axis * x, axis=1, keepdims=True) * (1.0 - np.cos(angle))
    return x * np.cos(angle) + np.cross(axis, x) * np.sin(angle) + axis * along


def seen(poses, places):
    """The places where each camera (3 numbers of its turn, 3 of its place) sees each point."""
    x = turned(poses[camera, :3], places[point] - poses[camera, 3:])
    return x[:, :2] / x[:, 2:]


def unpacked(parameters):
    """The poses and the places that a vector holds."""
    poses = parameters[: 6 * CAMERAS].reshape(CAMERAS, 6)
    return poses, parameters[6 * CAMERAS :].reshape(POINTS, 3)


def misfit(parameters, pictures):
    """The distances between what is seen and what the pictures show."""
    poses, places = unpacked(parameters)
    return (seen(poses, places) - pictures).ravel()


poses = np.concatenate([0.1 * rng.normal(size=(CAMERAS, 3)), rng.normal(size=(CAMERAS, 3))], axis=1)
poses[:, 5] -= 8.0
places = rng.normal(size=(POINTS, 3))
truth = np.concatenate([poses.ravel(), places.ravel()])
pictures = seen(poses, places) + 1e-4 * rng.normal(size=(len(point), 2))

start = truth + 0.02 * rng.normal(size=len(truth))
jac = sparse.jacobian(misfit, start, pictures)
rows, columns = jac.sparsity.shape
print(f"{rows} x {columns}, {jac.sparsity.nnz} entries, {jac.coloring.num_colors} colors")
print(jac.sparsity.spy(20, 40))

found = least_squares(misfit, start, jac=jac, args=(pictures,), x_scale="jac", method="trf")
error = np.sqrt(np.mean(found.fun**2))
print(f"{found.nfev} steps: {np.sqrt(np.mean(misfit(start, pictures) ** 2)):.1e} to {error:.1e}")
print(f"expected: the error of the pictures, 1.0e-04, less what {columns} numbers fit of it")
assert error < 1.2e-4
np.testing.assert_allclose(found.jac @ truth, jac(found.x, pictures) @ truth, rtol=1e-6, atol=1e-8)
