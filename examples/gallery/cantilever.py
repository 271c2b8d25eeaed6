"""A cantilever of half the material: topology optimization

A plate is held at its left edge and carries a load at its right one. Each of its squares has a
density between nothing and one, and a stiffness that grows with the cube of the density (SIMP,
Bendsøe 1989), which makes half-filled squares a bad bargain. Loops assemble the stiffness matrix
square by square, NumPy solves for the displacements, and the work of the load says how soft the
plate is. A closed form of the gradient, by the energy of each square, checks what calque writes.

For JAX, the stores into blocks of the matrix would be `.at[...].add`.
"""

import matplotlib.pyplot as plt
import numpy as np

import calque

WIDE, HIGH = 24, 10
POISSON, FILLED = 0.3, 0.5


def stiffness_of_square():
    """The stiffness of a square of four corners, by Gauss's four points."""
    corners = np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])
    law = np.array([[1.0, POISSON, 0.0], [POISSON, 1.0, 0.0], [0.0, 0.0, (1.0 - POISSON) / 2.0]])
    total = np.zeros((8, 8))
    for x, y in corners / np.sqrt(3.0):
        along_x = corners[:, 0] * (1.0 + y * corners[:, 1]) / 2.0
        along_y = corners[:, 1] * (1.0 + x * corners[:, 0]) / 2.0
        strain = np.zeros((3, 8))
        strain[0, ::2], strain[1, 1::2] = along_x, along_y
        strain[2, ::2], strain[2, 1::2] = along_y, along_x
        total += strain.T @ law @ strain / 4.0
    return total / (1.0 - POISSON**2)


square = stiffness_of_square()
joint = np.arange((WIDE + 1) * (HIGH + 1)).reshape(WIDE + 1, HIGH + 1)
corners = np.stack([joint[:-1, :-1], joint[1:, :-1], joint[1:, 1:], joint[:-1, 1:]], axis=2)
moves = np.stack([2 * corners, 2 * corners + 1], axis=3).reshape(WIDE, HIGH, 8)
held = 2 * (HIGH + 1)  # the left edge: its joints have the first numbers
load = np.zeros(2 * joint.size)
load[2 * joint[-1, HIGH // 2] + 1] = -1.0


def gathered(design):
    """Twice each square, and its neighbours."""
    total = 2.0 * design
    total[1:] += design[:-1]
    total[:-1] += design[1:]
    total[:, 1:] += design[:, :-1]
    total[:, :-1] += design[:, 1:]
    return total


neighbours = gathered(np.ones((WIDE, HIGH)))


def density(design):
    """The design, averaged over neighbours, so that squares do not form a chessboard."""
    return gathered(design) / neighbours


def displacements(filled):
    stiffness = np.zeros((2 * joint.size, 2 * joint.size))
    for i in range(WIDE):
        for j in range(HIGH):
            own, stiff = moves[i, j], 1e-3 + filled[i, j] ** 3
            for a in range(8):
                for b in range(8):
                    stiffness[own[a], own[b]] += stiff * square[a, b]
    moved = np.zeros(2 * joint.size)
    moved[held:] = np.linalg.solve(stiffness[held:, held:], load[held:])
    return moved


def softness(design):
    """The work of the load."""
    return load @ displacements(density(design))


def redistributed(design, slope):
    """Move material to where it helps most, and keep its amount (optimality criteria)."""
    low, high = 0.0, 1e6
    while high - low > 1e-6 * high:
        price = 0.5 * (low + high)
        wanted = design * np.sqrt(np.maximum(-slope, 0.0) / price)
        changed = np.clip(wanted, np.maximum(design - 0.2, 0.0), np.minimum(design + 0.2, 1.0))
        low, high = (price, high) if np.mean(changed) > FILLED else (low, price)
    return changed


start = np.full((WIDE, HIGH), FILLED)
value_and_slope = calque.jit(calque.value_and_grad(softness))
first, slope = value_and_slope(start)
moved = displacements(density(start))[moves]
energy = np.einsum("ija,ab,ijb->ij", moved, square, moved)
by_energy = calque.vjp(density, start)[1](-3.0 * density(start) ** 2 * energy)[0]
print("gradient at a corner", slope[0, 0].round(3), "expected", by_energy[0, 0].round(3))
assert np.allclose(slope, by_energy)

design = start
for _ in range(40):
    soft, slope = value_and_slope(design)
    design = redistributed(design, slope)
print(f"softness {first:.1f} becomes {soft:.1f}, expected less than half")
print(f"material {np.mean(design):.3f}, expected {FILLED}")
assert soft < 0.5 * first and np.isclose(np.mean(design), FILLED, atol=1e-3)

plt.figure(figsize=(6.0, 2.7))
plt.imshow(density(design).T, cmap="gray_r", vmin=0.0, vmax=1.0, origin="lower")
plt.plot(WIDE - 1, HIGH / 2, "rv", ms=8, label="load")
plt.axis("off")
plt.legend(loc="upper right", fontsize=9)
plt.show()

print(calque.source(calque.grad(softness), start))
# Timed beside JAX and Autograd: softness(design)
