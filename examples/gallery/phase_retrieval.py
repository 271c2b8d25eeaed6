"""Phase retrieval: a picture from the sizes of its Fourier transform

Detectors of X-rays see how strong a wave is and lose its phase. Four coded masks before the object
make up for it: the program looks for the picture whose masked Fourier transforms have the strengths
that were seen. The derivative goes through `np.fft` and complex numbers.

For JAX and for Autograd, the program can stay as it is.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import calque

SIZE, MASKS = 32, 4


def strengths(picture, masks):
    """The strength of the wave at each pixel of the detector, behind each mask."""
    return np.abs(np.fft.fft2(masks * picture)) ** 2 / SIZE**2


def misfit(flat, masks, seen):
    picture = flat.reshape(SIZE, SIZE)
    return np.mean((strengths(picture, masks) - seen) ** 2)


random = np.random.default_rng(0)
y, x = np.mgrid[:SIZE, :SIZE]
true = 1.0 * ((x - 12) ** 2 + (y - 14) ** 2 < 60) + 0.7 * ((abs(x - 22) < 4) & (abs(y - 20) < 7))
masks = np.exp(2j * np.pi * random.integers(0, 4, size=(MASKS, SIZE, SIZE)) / 4)
seen = strengths(true, masks)
start = 0.3 + 0.1 * random.normal(size=SIZE**2)
objective = calque.value_and_grad(misfit)
fit = minimize(
    objective,
    start,
    args=(masks, seen),
    jac=True,
    method="L-BFGS-B",
    options={"maxiter": 2000, "maxfun": 9000, "ftol": 0.0, "gtol": 1e-10},
)
found = fit.x.reshape(SIZE, SIZE)
found *= np.sign(found.sum())  # the sign of all is lost with the phases
print(f"largest error of a pixel {np.abs(found - true).max():.4f}, expected below 0.01")
assert np.abs(found - true).max() < 0.01

direction, h = random.normal(size=SIZE**2), 1e-6
ahead = (
    misfit(start + h * direction, masks, seen) - misfit(start - h * direction, masks, seen)
) / (2 * h)
print(
    f"slope {objective(start, masks, seen)[1] @ direction:.6f}, expected by differences {ahead:.6f}"
)
assert np.isclose(objective(start, masks, seen)[1] @ direction, ahead, rtol=1e-6)

figure, panels = plt.subplots(1, 3, figsize=(7.4, 2.8))
for axes, picture, title in zip(
    panels, (true, np.log(seen[0] + 1e-3), found), ("object", "strength behind a mask", "found")
):
    axes.imshow(picture, cmap="gray")
    axes.set_title(title, fontsize=10)
    axes.axis("off")
plt.show()

print(calque.source(calque.grad(misfit), start, masks, seen))
# Timed beside JAX and Autograd: misfit(start, masks, seen)
