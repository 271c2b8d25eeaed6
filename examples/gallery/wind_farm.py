"""Twelve wind turbines, out of each other's wakes

Behind each turbine the wind is slower in a cone that widens (Jensen's model). Two loops ask of each
pair whether one stands behind the other, and add up the losses, for sixteen directions of the wind.
SLSQP moves the turbines within a square kilometre; the gradient of the farm's power takes each
branch as it was taken.

For JAX, all pairs would be one table, and the branches `where`.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import calque

RADIUS, WIDENING, SIDE = 40.0, 0.06, 1000.0
ANGLES = np.arange(16) * np.pi / 8.0
OFTEN = 1.0 + 0.8 * np.cos(ANGLES - 0.5)  # how often the wind comes from there


def power(places):
    """The power of all turbines, as a share of what it would be without wakes."""
    count = places.shape[0]
    total = 0.0
    for a in range(ANGLES.size):
        along = places[:, 0] * np.cos(ANGLES[a]) + places[:, 1] * np.sin(ANGLES[a])
        across = places[:, 1] * np.cos(ANGLES[a]) - places[:, 0] * np.sin(ANGLES[a])
        lost = np.zeros(count)
        for i in range(count):
            for j in range(count):
                behind = along[i] - along[j]
                if behind > 0.0:
                    width = RADIUS + WIDENING * behind
                    aside = (across[i] - across[j]) / width
                    lost[i] += (2.0 / 3.0 * (RADIUS / width) ** 2 * np.exp(-(aside**2))) ** 2
        total += OFTEN[a] * np.sum((1.0 - np.sqrt(lost + 1e-12)) ** 3)
    return total / (count * np.sum(OFTEN))


def cost(flat):
    return -power(SIDE * flat.reshape(-1, 2))


random = np.random.default_rng(0)
x, y = np.meshgrid(np.linspace(0.05, 0.95, 4), np.linspace(0.1, 0.9, 3))
start = np.stack([x, y], axis=-1).ravel() + 0.02 * random.normal(size=24)
objective = calque.jit(calque.value_and_grad(cost))
fit = minimize(
    objective, start, jac=True, method="SLSQP", bounds=[(0.0, 1.0)] * 24, options={"maxiter": 150}
)
print(f"power {-cost(start):.3f} becomes {-fit.fun:.3f}, expected at least 0.04 more")
assert -fit.fun > -cost(start) + 0.04

direction, step = random.normal(size=24), 1e-6
ahead = (cost(start + step * direction) - cost(start - step * direction)) / (2.0 * step)
slope = objective(start)[1] @ direction
print(f"slope along a line {slope:.7f}, expected by differences {ahead:.7f}")
assert np.isclose(slope, ahead, rtol=1e-5)

plt.figure(figsize=(4.4, 4.4))
for flat, style, label in ((start, "o", "before"), (fit.x, "^", "after")):
    plt.plot(*(SIDE * flat.reshape(-1, 2)).T, style, label=label)
plt.gca().set_aspect("equal")
plt.xlabel("m")
plt.legend(loc="upper center", bbox_to_anchor=(0.5, 1.12), ncols=2)
plt.show()

print(calque.source(calque.grad(power), SIDE * start.reshape(-1, 2)))
# Timed beside JAX and Autograd: cost(start)
