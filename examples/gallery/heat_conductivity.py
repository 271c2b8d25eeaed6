"""Inside a plate: conductivity from the temperatures of its edges

A plate with a piece of another material is heated at three of its edges in turn, and thermometers
sit on its edges only. The program relaxes the steady temperature by Gauss-Seidel sweeps with
overrelaxation, cell by cell and in place, and adjusts the conductivity of 25 blocks of the plate
until the edges agree. Differentiating the sweeps gives the adjoint sweeps.

For JAX, sweeps in place have no counterpart: one would solve a linear system, or take Jacobi's
method.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import calque

N, SWEEPS, BLOCKS = 20, 200, 5


def spread_blocks(log_blocks):
    """The conductivity of each cell from that of blocks of cells."""
    found = np.zeros((N, N))
    for i in range(N):
        for j in range(N):
            found[i, j] = np.exp(log_blocks[i * BLOCKS // N, j * BLOCKS // N])
    return found


def temperatures(log_blocks, heat):
    """The steady temperature where heat flows in at an edge, and the right edge is cold."""
    k = spread_blocks(log_blocks)
    T = np.zeros((N, N))
    for _ in range(SWEEPS):
        for i in range(N):
            for j in range(N):
                flow, total = heat[i, j], 0.0
                if i > 0:
                    link = 2.0 * k[i, j] * k[i - 1, j] / (k[i, j] + k[i - 1, j])
                    flow, total = flow + link * T[i - 1, j], total + link
                if i < N - 1:
                    link = 2.0 * k[i, j] * k[i + 1, j] / (k[i, j] + k[i + 1, j])
                    flow, total = flow + link * T[i + 1, j], total + link
                if j > 0:
                    link = 2.0 * k[i, j] * k[i, j - 1] / (k[i, j] + k[i, j - 1])
                    flow, total = flow + link * T[i, j - 1], total + link
                if j < N - 1:
                    link = 2.0 * k[i, j] * k[i, j + 1] / (k[i, j] + k[i, j + 1])
                    flow, total = flow + link * T[i, j + 1], total + link
                else:
                    total += 2.0 * k[i, j]  # the right edge is kept at 0
                T[i, j] += 1.9 * (flow / total - T[i, j])
    return T


def misfit(flat, heats, edges):
    """The distance from what was seen at the edges in all experiments, and a little smoothness."""
    log_blocks = flat.reshape(BLOCKS, BLOCKS)
    total = 1e-4 * (
        np.sum(np.diff(log_blocks, axis=0) ** 2) + np.sum(np.diff(log_blocks, axis=1) ** 2)
    )
    for e in range(heats.shape[0]):
        T = temperatures(log_blocks, heats[e])
        total += (
            np.sum((T[0] - edges[e, 0]) ** 2)
            + np.sum((T[-1] - edges[e, 1]) ** 2)
            + np.sum((T[:, 0] - edges[e, 2]) ** 2)
        )
    return total


# a known answer: a uniform plate heated on the left has a straight profile
heats = np.zeros((3, N, N))
heats[0, :, 0] = heats[1, 0, :] = heats[2, -1, :] = 1.0
line = temperatures(np.zeros((BLOCKS, BLOCKS)), heats[0])[7]
print("a uniform plate falls by", round(line[0] - line[1], 3), "a cell, expected 1.0")
assert np.allclose(line, N - 0.5 - np.arange(N), atol=0.02)

true = np.zeros((BLOCKS, BLOCKS))
true[1:3, 1:4] = 1.2
fields = [temperatures(true, heat) for heat in heats]
edges = np.array([[T[0], T[-1], T[:, 0]] for T in fields])
objective = calque.jit(calque.value_and_grad(misfit))
fit = minimize(
    objective,
    np.zeros(BLOCKS**2),
    args=(heats, edges),
    jac=True,
    method="L-BFGS-B",
    options={"maxiter": 150},
)
found = fit.x.reshape(BLOCKS, BLOCKS)
print(
    f"misfit {misfit(np.zeros(BLOCKS**2), heats, edges):.1f} becomes {fit.fun:.4f},",
    "expected below 0.01",
)
print(
    "the piece conducts",
    np.exp(found[1:3, 1:4].mean()).round(2),
    "times as well, expected about",
    np.exp(1.2).round(2),
)
assert fit.fun < 0.01 and np.isclose(found[1:3, 1:4].mean(), 1.2, atol=0.25)

figure, panels = plt.subplots(1, 3, figsize=(7.4, 2.7), layout="constrained")
for axes, picture, title in zip(
    panels, (fields[0], true, found), ("temperature", "true log conductivity", "found")
):
    shown = axes.imshow(picture, cmap="inferno" if title == "temperature" else "viridis")
    axes.set_title(title, fontsize=10)
    figure.colorbar(shown, ax=axes, shrink=0.7)
plt.show()

print(calque.source(calque.grad(misfit), np.zeros(BLOCKS**2), heats, edges))
# Timed beside JAX and Autograd: misfit(np.zeros(BLOCKS**2), heats, edges)
