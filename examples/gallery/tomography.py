"""Tomography: a picture from sixty shadows

X-rays cross an object at sixty angles; each detector sees the sum along its ray. The program walks
along each ray, reads the picture between its pixels, and skips steps outside by a branch. The
derivative of such a projection is the backprojection: reads become additions to the same four
pixels. No matrix is formed.

For JAX, the branch would become a clamp with a `where`, and the loops a table of all steps of all
rays.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import calque

SIZE, ANGLES, RAYS = 32, 60, 45


def project(picture):
    """The sums along all rays, with bilinear interpolation."""
    shadows = np.zeros((ANGLES, RAYS))
    middle = 0.5 * (SIZE - 1)
    for a in range(ANGLES):
        cosine, sine = np.cos(a * np.pi / ANGLES), np.sin(a * np.pi / ANGLES)
        for r in range(RAYS):
            aside = r - 0.5 * (RAYS - 1)
            for s in range(RAYS):
                along = s - 0.5 * (RAYS - 1)
                x = middle + aside * cosine - along * sine
                y = middle + aside * sine + along * cosine
                if 0.0 <= x < SIZE - 1 and 0.0 <= y < SIZE - 1:
                    i, j = int(y), int(x)
                    v, u = y - i, x - j
                    above = (1.0 - u) * picture[i, j] + u * picture[i, j + 1]
                    below = (1.0 - u) * picture[i + 1, j] + u * picture[i + 1, j + 1]
                    shadows[a, r] += (1.0 - v) * above + v * below
    return shadows


def misfit(flat, shadows):
    picture = flat.reshape(SIZE, SIZE)
    rough = np.sum(np.diff(picture, axis=0) ** 2) + np.sum(np.diff(picture, axis=1) ** 2)
    return 0.5 * np.sum((project(picture) - shadows) ** 2) + 0.3 * rough


y, x = np.mgrid[:SIZE, :SIZE] - 15.5
true = (
    1.0 * (x**2 + (0.8 * y) ** 2 < 121)
    - 0.6 * ((x - 4) ** 2 + (y + 2) ** 2 < 12)
    + 0.5 * ((x + 4) ** 2 + (y - 3) ** 2 < 9)
)
project_quickly = calque.jit(project)
random = np.random.default_rng(0)
shadows = project_quickly(true) + 0.1 * random.normal(size=(ANGLES, RAYS))

# backprojection is the transpose of projection
backproject = calque.jit(calque.linear_transpose(project, true))
p, s = random.normal(size=true.shape), random.normal(size=shadows.shape)
left, right = np.sum(project_quickly(p) * s), np.sum(p * backproject(s)[0])
print(f"<project(p), s> = {left:.9f}, expected <p, backproject(s)> = {right:.9f}")
assert np.isclose(left, right, rtol=1e-10)

objective = calque.jit(calque.value_and_grad(misfit))
fit = minimize(
    objective,
    np.zeros(SIZE**2),
    args=(shadows,),
    jac=True,
    method="L-BFGS-B",
    options={"maxiter": 60},
)
found = fit.x.reshape(SIZE, SIZE)
print(f"mean error of a pixel {np.mean(np.abs(found - true)):.3f}, expected below 0.06")
assert np.mean(np.abs(found - true)) < 0.06

figure, panels = plt.subplots(1, 3, figsize=(7.4, 2.8))
for axes, picture, title in zip(
    panels, (true, shadows, found), ("object", "shadows, by angle", "found")
):
    axes.imshow(picture, cmap="gray", aspect="auto" if picture is shadows else "equal")
    axes.set_title(title, fontsize=10)
    axes.axis("off")
plt.show()

print(calque.source(calque.grad(misfit), true.ravel(), shadows))
# Timed beside JAX and Autograd: misfit(true.ravel(), shadows)
