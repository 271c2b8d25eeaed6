"""Three stars on one path: the figure eight

Three equal masses can chase each other along one closed curve in the shape of an eight (Moore 1993,
Chenciner and Montgomery 2000). The program looks for it: it follows the stars by leapfrog steps,
with loops over all pairs and stores into the accelerations, and asks that after a third of the
period each star stands where the next one began. The gradient goes back through all steps.

For JAX, the stores into `pull` would become sums over a table of all pairs, and the loop over time
a `lax.scan`.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import calque

PERIOD = 6.32591398
PLACES = np.array([[0.97000436, -0.24308753], [-0.97000436, 0.24308753], [0.0, 0.0]])


def accelerations(places):
    """The pull of all others on each star."""
    pull = np.zeros_like(places)
    for i in range(len(places)):
        for j in range(i):
            apart = places[j] - places[i]
            force = apart / np.sum(apart**2) ** 1.5
            pull[i] += force
            pull[j] -= force
    return pull


def speeds_at_start(v):
    """The star in the middle moves against the two others."""
    return np.array([[v[0], v[1]], [v[0], v[1]], [-2.0 * v[0], -2.0 * v[1]]])


def moved(v, time, steps):
    """Places and speeds of the stars after leapfrog steps."""
    places, speeds = PLACES, speeds_at_start(v)
    dt = time / steps
    speeds = speeds + 0.5 * dt * accelerations(places)
    for _ in range(steps):
        places = places + dt * speeds
        speeds = speeds + dt * accelerations(places)
    return places, speeds - 0.5 * dt * accelerations(places)


def gap(v, steps):
    """The distance of the stars from where the next one began, a third of a period before."""
    places, speeds = moved(v, PERIOD / 3.0, steps)
    order = np.array([1, 2, 0])
    return np.sum((places[order] - PLACES) ** 2) + np.sum((speeds[order] - speeds_at_start(v)) ** 2)


v = np.array([0.4, 0.5])
fit = minimize(calque.jit(calque.value_and_grad(gap)), v, args=(400,), jac=True, method="BFGS")
known = np.array([0.466203685, 0.43236573])
print("speed of the outer stars", fit.x.round(5), "expected", known.round(5))
assert np.allclose(fit.x, known, atol=1e-4)

times = np.linspace(0.01, 0.34 * PERIOD, 40)
for start, style, label in ((v, ":", "first guess"), (fit.x, "-", "found")):
    paths = np.array([moved(start, time, 200)[0] for time in times])
    for star in range(3):
        plt.plot(*paths[:, star].T, style, color=f"C{star}", label=label if star == 0 else None)
plt.scatter(*PLACES.T, color=["C0", "C1", "C2"], s=60)
plt.gca().set_aspect("equal")
plt.legend(fontsize=8)
plt.show()

print(calque.source(calque.grad(gap), v, 400))
# Timed beside JAX and Autograd: gap(v, 400)
