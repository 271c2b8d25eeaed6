"""Two stars in one blot of light

On a photograph of the sky two stars overlap. Each pixel is the integral of both images over its
square, plus the sky, and the camera counts photons. The program fits places, brightness and the
width of the image by the likelihood of the counts; its Hessian gives the errors. A branch leaves
out a pixel that is saturated.

For JAX, the loop over pixels would be arithmetic on whole arrays, and the branch a `where`.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize
from scipy.special import erf

import calque

SIZE, FULL = 15, 1500.0


def share(edge, centre, width):
    """The part of a star's image that falls between an edge and the next one."""
    z = np.sqrt(0.5) / width
    return 0.5 * (erf((edge + 1.0 - centre) * z) - erf((edge - centre) * z))


def expected_counts(model):
    """Place, place and brightness of both stars, the width of their images, the sky."""
    x1, y1, flux1, x2, y2, flux2, width, sky = model
    counts = np.zeros((SIZE, SIZE))
    for i in range(SIZE):
        for j in range(SIZE):
            first = flux1 * share(j, x1, width) * share(i, y1, width)
            second = flux2 * share(j, x2, width) * share(i, y2, width)
            counts[i, j] = sky + first + second
    return counts


def cost(model, photograph):
    """Minus the logarithm of Poisson's likelihood, without pixels that are full."""
    counts = expected_counts(model)
    total = 0.0
    for i in range(SIZE):
        for j in range(SIZE):
            if photograph[i, j] < FULL:
                total += counts[i, j] - photograph[i, j] * np.log(counts[i, j])
    return total


true = np.array([6.2, 7.1, 8000.0, 9.0, 8.3, 3000.0, 1.3, 20.0])
random = np.random.default_rng(0)
photograph = np.minimum(random.poisson(expected_counts(true)).astype(float), FULL)
photograph[2, 11] = FULL  # a cosmic ray
scale = np.array([1.0, 1.0, 1000.0, 1.0, 1.0, 1000.0, 1.0, 10.0])
guess = np.array([6.0, 7.0, 6.0, 9.5, 8.0, 6.0, 1.0, 3.0])
scaled = lambda model, picture: cost(scale * model, picture)
fit = minimize(
    calque.jit(calque.value_and_grad(scaled)), guess, args=(photograph,), jac=True, method="BFGS"
)
model = scale * fit.x
errors = scale * np.sqrt(np.diag(np.linalg.inv(calque.hessian(scaled)(fit.x, photograph))))
for name, value, error, truth in zip(
    "x1 y1 flux1 x2 y2 flux2 width sky".split(), model, errors, true
):
    print(f"{name:6} {value:8.2f} +- {error:6.2f}, expected {truth}")
assert np.all(np.abs(model - true) < 3.5 * errors)

figure, panels = plt.subplots(1, 3, figsize=(7.4, 2.7))
pictures = (
    photograph,
    expected_counts(model),
    (photograph - expected_counts(model)) * (photograph < FULL),
)
for axes, picture, title in zip(panels, pictures, ("photograph", "model", "what is left")):
    axes.imshow(picture, origin="lower", cmap="magma", extent=(0, SIZE, 0, SIZE))
    axes.plot(model[[0, 3]], model[[1, 4]], "w+")
    axes.set_title(title, fontsize=10)
    axes.axis("off")
plt.show()

print(calque.source(calque.grad(cost), model, photograph))
# Timed beside JAX and Autograd: cost(true, photograph)
