"""A cart swings a pole up: a trajectory by direct collocation, with sparse Jacobian and Hessian."""

import numpy as np
from scipy.sparse import block_array, eye_array
from scipy.sparse.linalg import splu

import calque
from calque import sparse

STEPS, DURATION = 40, 2.0
CART, POLE, LENGTH, GRAVITY = 1.0, 0.3, 0.5, 9.81
START, END = np.zeros(4), np.array([1.0, np.pi, 0.0, 0.0])
h = DURATION / STEPS


def slope(state, force):
    """The derivative of place, angle and their speeds, the pole hanging at angle 0."""
    _, angle, speed, turn = state
    sine, cosine = np.sin(angle), np.cos(angle)
    mass = CART + POLE * sine**2
    pull = force + POLE * LENGTH * sine * turn**2
    pushed = (pull + POLE * GRAVITY * cosine * sine) / mass
    turned = -(pull * cosine + (CART + POLE) * GRAVITY * sine) / (LENGTH * mass)
    return np.array([speed, turn, pushed, turned])


def defects(z):
    """The errors of a trajectory, five numbers a time: at its ends, and of the motion between."""
    path = z.reshape(STEPS + 1, 5)
    found = np.zeros((STEPS + 2, 4))
    found[0], found[-1] = path[0, :4] - START, path[-1, :4] - END
    for k in range(STEPS):
        mean = 0.5 * (slope(path[k, :4], path[k, 4]) + slope(path[k + 1, :4], path[k + 1, 4]))
        found[k + 1] = path[k + 1, :4] - path[k, :4] - h * mean
    return found.ravel()


def effort(z):
    """The integral of the squared force, by the trapezoidal rule."""
    force = z.reshape(STEPS + 1, 5)[:, 4]
    return h * (np.sum(force**2) - 0.5 * (force[0] ** 2 + force[-1] ** 2))


def lagrangian(z, multipliers):
    return effort(z) + multipliers @ defects(z)


def merit(z, weight):
    """The effort, with a penalty for the errors."""
    return effort(z) + weight * np.sum(np.abs(defects(z)))


def step_of(H, J, slope, left):
    """A step of Newton's method, and the multipliers after it.

    The Hessian is shifted until the step goes down.
    """
    shift = 0.0
    while True:
        shifted = H + shift * eye_array(len(slope))
        system = block_array([[shifted, J.T], [J, None]], format="csc")
        found = splu(system).solve(-np.concatenate([slope, left]))
        step = found[: len(slope)]
        if step @ (shifted @ step) > 1e-8 * step @ step:
            return step, found[len(slope) :]
        shift = max(1e-3, 4.0 * shift)


def solved(z, jac, hess, tolerance=1e-9):
    """The trajectory of least effort, its multipliers, and how many steps it took to find it."""
    multipliers, weight = np.zeros(jac.sparsity.shape[0]), 1.0
    gradient = calque.grad(effort)
    for count in range(100):
        left, J = jac(z)
        slope = gradient(z)
        if max(np.abs(left).max(), np.abs(slope + J.T @ multipliers).max()) < tolerance:
            return z, multipliers, count
        step, after = step_of(hess(z, multipliers), J, slope, left)
        weight = max(weight, 1.5 * np.abs(after).max())
        before, down = merit(z, weight), slope @ step - weight * np.abs(left).sum()
        length = 1.0
        while length > 1e-8 and merit(z + length * step, weight) > before + 1e-4 * length * down:
            length /= 2.0
        z, multipliers = z + length * step, multipliers + length * (after - multipliers)
    raise RuntimeError("no minimum was found")


line = np.linspace(0.0, 1.0, STEPS + 1)[:, None]
guess = np.hstack([START + line * (END - START), 0.0 * line]).ravel()
jac = sparse.value_and_jacobian(defects, guess)
hess = sparse.hessian(lagrangian, guess, np.zeros(jac.sparsity.shape[0]))
for name, made in (("Jacobian", jac), ("Hessian", hess)):
    rows, columns = made.sparsity.shape
    entries, colors = made.sparsity.nnz, made.coloring.num_colors
    print(f"{name}: {rows} x {columns}, {entries} entries, {colors} colors")

z, multipliers, count = solved(guess, jac, hess)
print(f"{count} steps: effort {effort(z):.6f}, largest defect {np.abs(defects(z)).max():.0e}")
print("expected: effort 59.325536, as Ipopt finds it")
np.testing.assert_allclose(effort(z), 59.325536, rtol=1e-8)
