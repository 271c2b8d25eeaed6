"""A bridge of bars: as stiff as its steel allows

A truss of two rows of joints carries loads at its lower row. Loops assemble the stiffness matrix
bar by bar, NumPy solves for the displacements, and the work of the loads says how soft the bridge
is. The program shares a given volume of steel among the bars so that it is as stiff as possible.
The gradient has a closed form, by the stretch of each bar, which checks what calque writes.

For JAX, the stores into blocks of the matrix would be `.at[...].add`.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import calque

PANELS = 8
joints = np.array([[i, j] for j in (0.0, 1.0) for i in range(PANELS + 1)])
lower, upper = np.arange(PANELS + 1), np.arange(PANELS + 1) + PANELS + 1
bars = np.array(
    [(row[i], row[i + 1]) for row in (lower, upper) for i in range(PANELS)]
    + [(lower[i], upper[i]) for i in range(PANELS + 1)]
    + [pair for i in range(PANELS) for pair in ((lower[i], upper[i + 1]), (upper[i], lower[i + 1]))]
)
lengths = np.linalg.norm(joints[bars[:, 1]] - joints[bars[:, 0]], axis=1)
free = np.setdiff1d(
    np.arange(2 * len(joints)), [0, 1, 2 * PANELS + 1]
)  # pinned left, on rollers right
loads = np.zeros(2 * len(joints))
loads[2 * lower[1:-1] + 1] = -1.0


def displacements(areas):
    """Solve for the displacements of all joints; bar k joins two of them."""
    stiffness = np.zeros((2 * len(joints), 2 * len(joints)))
    for k in range(len(bars)):
        a, b = bars[k]
        along = (joints[b] - joints[a]) / lengths[k]
        block = areas[k] / lengths[k] * np.outer(along, along)
        stiffness[2 * a : 2 * a + 2, 2 * a : 2 * a + 2] += block
        stiffness[2 * b : 2 * b + 2, 2 * b : 2 * b + 2] += block
        stiffness[2 * a : 2 * a + 2, 2 * b : 2 * b + 2] -= block
        stiffness[2 * b : 2 * b + 2, 2 * a : 2 * a + 2] -= block
    moved = np.zeros(2 * len(joints))
    moved[free] = np.linalg.solve(stiffness[free][:, free], loads[free])
    return moved


def softness(areas):
    """The work of the loads."""
    return np.sum(loads * displacements(areas))


def shared(weights):
    """The areas of bars whose volume is 10, none of them nothing."""
    portions = np.exp(weights)
    return 1e-3 + 10.0 * portions / np.sum(portions * lengths)


areas = shared(np.zeros(len(bars)))
u = displacements(areas).reshape(-1, 2)
stretch = (
    np.sum((u[bars[:, 1]] - u[bars[:, 0]]) * (joints[bars[:, 1]] - joints[bars[:, 0]]), axis=1)
    / lengths
)
energy = areas * stretch**2 / lengths
slope = calque.grad(softness)(areas)
print(
    "gradient by area, first bars", slope[:3].round(3), "expected", (-energy / areas)[:3].round(3)
)
assert np.allclose(slope, -energy / areas)

objective = calque.value_and_grad(lambda weights: softness(shared(weights)))
fit = minimize(
    objective, np.zeros(len(bars)), jac=True, method="L-BFGS-B", bounds=[(-8.0, 4.0)] * len(bars)
)
print(f"softness {softness(areas):.1f} becomes {fit.fun:.1f}, expected less than two thirds")
assert fit.fun < 2.0 / 3.0 * softness(areas)

figure, panels = plt.subplots(2, 1, figsize=(6.4, 3.4), sharex=True)
for axes, size, title in zip(
    panels, (areas, shared(fit.x)), ("equal areas", "as stiff as possible")
):
    for k in range(len(bars)):
        axes.plot(*joints[bars[k]].T, color="C0", lw=4.0 * np.sqrt(size[k]), solid_capstyle="round")
    axes.set_aspect("equal")
    axes.set_title(title, fontsize=10)
    axes.axis("off")
plt.show()

print(calque.source(calque.grad(softness), areas))
# Timed beside JAX and Autograd: softness(areas)
