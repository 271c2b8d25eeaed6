"""A blurred photograph, made sharp again

A camera moved while the shutter was open, and its sensor is noisy. The program stores the blurred
picture row by row of its kernel, and looks for the sharp one that explains it with few edges (total
variation). The gradient of the blur is the blur with the kernel turned around, which nobody has to
work out.

For JAX, the store into a part of `blurred` would be `lax.conv`, or an `.at[...].add`.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import calque

SIZE = 48
KERNEL = np.diag(np.ones(7)) / 7.0  # a move along the diagonal


def blur(sharp):
    """The picture as the moving camera sees it."""
    blurred = np.zeros((SIZE, SIZE))
    for a in range(7):
        for b in range(7):
            if KERNEL[a, b] != 0.0:
                blurred[3:-3, 3:-3] += KERNEL[a, b] * sharp[a : a + SIZE - 6, b : b + SIZE - 6]
    return blurred


def cost(flat, seen):
    sharp = flat.reshape(SIZE, SIZE)
    right, down = sharp[:-1, 1:] - sharp[:-1, :-1], sharp[1:, :-1] - sharp[:-1, :-1]
    edges = np.sum(np.sqrt(right**2 + down**2 + 1e-6))
    inside = (blur(sharp) - seen)[3:-3, 3:-3]
    return np.sum(inside**2) + 0.004 * edges


y, x = np.mgrid[:SIZE, :SIZE]
true = (
    0.2
    + 0.6 * ((x - 15) ** 2 + (y - 16) ** 2 < 80)
    + 0.5 * ((abs(x - 33) < 7) & (abs(y - 31) < 9))
    + 0.15 * (x > y)
)
random = np.random.default_rng(0)
seen = blur(true) + 0.01 * random.normal(size=true.shape)
objective = calque.jit(calque.value_and_grad(cost))
fit = minimize(
    objective, seen.ravel(), args=(seen,), jac=True, method="L-BFGS-B", options={"maxiter": 300}
)
found = fit.x.reshape(SIZE, SIZE)
before, after = (np.sqrt(np.mean((p - true)[6:-6, 6:-6] ** 2)) for p in (seen, found))
print(f"error of a pixel {before:.3f} becomes {after:.3f}, expected less than a third of it")
assert after < before / 3.0

# the derivative of a blur is the blur with the kernel turned around
pulled = calque.linear_transpose(blur, true)(seen)[0]
turned = np.zeros_like(true)
for a, b in zip(*np.nonzero(KERNEL)):
    turned[a : a + SIZE - 6, b : b + SIZE - 6] += KERNEL[a, b] * seen[3:-3, 3:-3]
print(
    "difference from the blur turned around, expected 0:", np.abs(pulled - turned).max().round(12)
)
assert np.allclose(pulled, turned)

figure, panels = plt.subplots(1, 3, figsize=(7.4, 2.8))
for axes, picture, title in zip(panels, (true, seen, found), ("sharp", "seen", "found")):
    axes.imshow(picture[4:-4, 4:-4], cmap="gray", vmin=0.1, vmax=1.2)
    axes.set_title(title, fontsize=10)
    axes.axis("off")
plt.show()

print(calque.source(calque.grad(cost), seen.ravel(), seen))
# Timed beside JAX and Autograd: cost(seen.ravel(), seen)
