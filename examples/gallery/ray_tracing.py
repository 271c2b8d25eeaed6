"""A lens for a camera: rays through six spherical surfaces

Rays of two colours go through three lenses in air, surface by surface: where does each meet the
sphere, and how does Snell's law bend it? A branch marks flat surfaces. The six curvatures are
chosen by BFGS so that all rays meet in one point of the picture: the gradient goes through square
roots, angles and the loop over surfaces.

For JAX, the stores into `path` would be a stack, and the branch on a curvature a `where` whose
other side must not make a NaN.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import calque

PLACES = np.array([0.0, 8.0, 14.0, 17.0, 24.0, 30.0])  # of the surfaces along the axis, in mm
GLASS = np.array([[1.620, 1.618], [1.650, 1.642], [1.620, 1.618]])  # blue, red
FILM = 100.0
HEIGHTS = np.linspace(0.5, 11.0, 8)


def trace(curvatures, height, colour, path):
    """Follow one ray to the film, and return its height there; curvatures are in 1/m."""
    x, y, slope_x, slope_y, index = -10.0, height, 1.0, 0.0, 1.0
    path[0, 0], path[0, 1] = x, y
    for k in range(6):
        c = 1e-3 * curvatures[k]
        y += (PLACES[k] - x) * slope_y / slope_x
        x = 0.0  # from here, x counts from the surface's vertex
        if abs(c) > 1e-9:
            b = slope_x - c * y * slope_y
            far = c * y * y / (b + np.sqrt(b * b - c * c * y * y))
            x, y = far * slope_x, y + far * slope_y
        normal_x, normal_y = 1.0 - c * x, -c * y
        after = GLASS[k // 2, colour] if k % 2 == 0 else 1.0
        ratio = index / after
        cosine = slope_x * normal_x + slope_y * normal_y
        bend = np.sqrt(1.0 - ratio * ratio * (1.0 - cosine * cosine)) - ratio * cosine
        slope_x, slope_y = ratio * slope_x + bend * normal_x, ratio * slope_y + bend * normal_y
        index = after
        x += PLACES[k]
        path[k + 1, 0], path[k + 1, 1] = x, y
    return y + (FILM - x) * slope_y / slope_x


def blur(curvatures):
    """The mean square of the heights at which rays of both colours meet the film."""
    total = 0.0
    for height in HEIGHTS:
        for colour in range(2):
            total += trace(curvatures, height, colour, np.zeros((7, 2))) ** 2
    return total / (2 * len(HEIGHTS))


start = np.array([20.0, 0.0, -15.0, 15.0, 5.0, -15.0])
fit = minimize(calque.value_and_grad(blur), start, jac=True, method="BFGS", options={"maxiter": 60})
print(
    f"spot of {1e3 * np.sqrt(blur(start)):.0f} um becomes {1e3 * np.sqrt(fit.fun):.1f} um,",
    "expected below 10 um",
)
assert np.sqrt(fit.fun) < 0.010

# a thin ray obeys the lensmaker's equation of paraxial optics
y, slope, index = 1.0, 0.0, 1.0
for k in range(6):
    after = GLASS[k // 2, 0] if k % 2 == 0 else 1.0
    slope = (index * slope - (after - index) * 1e-3 * fit.x[k] * y) / after
    index = after
    y += slope * ((PLACES[k + 1] if k < 5 else FILM) - PLACES[k])
traced = trace(fit.x, 1e-4, 0, np.zeros((7, 2))) / 1e-4
print(f"a thin ray meets the film at {traced:.6f} of its height, expected {y:.6f}")
assert np.isclose(traced, y, atol=1e-6)

plt.figure(figsize=(6.4, 2.8))
for height in (*HEIGHTS, *-HEIGHTS):
    path = np.zeros((7, 2))
    end = trace(fit.x, height, 0, path)
    plt.plot([*path[:, 0], FILM], [*path[:, 1], end], color="C0", lw=0.7)
for k in range(6):
    edge = np.linspace(-13.0, 13.0, 50)
    c = 1e-3 * fit.x[k]
    sag = c * edge**2 / (1.0 + np.sqrt(1.0 - c**2 * edge**2))
    plt.plot(PLACES[k] + sag, edge, color="0.3")
plt.axvline(FILM, color="0.3", ls=":")
plt.xlabel("mm")
plt.show()

print(calque.source(calque.grad(lambda c: trace(c, 5.0, 0, np.zeros((7, 2)))), start))
# Timed beside JAX and Autograd: blur(start)
