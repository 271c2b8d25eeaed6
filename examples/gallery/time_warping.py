"""Two signals that run at different speeds: dynamic time warping

The distance between two recordings, when either may pause, is the cheapest path through a table of
distances. Dynamic programming fills it cell by cell, with a branch for the cheapest of three
neighbours. The gradient follows the path back. Here it finds the mean of recordings: the curve that
is nearest to all of them, where the plain mean is blurred.

For JAX, cells would be filled along diagonals, by a `lax.scan` over padded rows, and branches be
`minimum`.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import calque


def warped(a, b):
    """The cost of the cheapest alignment of two signals."""
    n, m = a.size, b.size
    table = np.zeros((n, m))
    for i in range(n):
        for j in range(m):
            here = (a[i] - b[j]) ** 2
            if i == 0 and j == 0:
                table[i, j] = here
            elif i == 0:
                table[i, j] = here + table[i, j - 1]
            elif j == 0:
                table[i, j] = here + table[i - 1, j]
            else:
                best = table[i - 1, j - 1]
                if table[i - 1, j] < best:
                    best = table[i - 1, j]
                if table[i, j - 1] < best:
                    best = table[i, j - 1]
                table[i, j] = here + best
    return table[n - 1, m - 1]


def cost(mean, recordings):
    total = 1e-2 * np.sum(np.diff(mean) ** 2)
    for k in range(recordings.shape[0]):
        total += warped(mean, recordings[k])
    return total


def beat(t):
    return (
        np.exp(-(((t - 0.35) / 0.04) ** 2))
        - 0.5 * np.exp(-(((t - 0.5) / 0.06) ** 2))
        + 0.4 * np.exp(-(((t - 0.75) / 0.07) ** 2))
    )


random = np.random.default_rng(0)
t = np.linspace(0.0, 1.0, 80)
recordings = np.array(
    [beat(t ** np.exp(w)) + 0.02 * random.normal(size=80) for w in np.linspace(-0.35, 0.35, 8)]
)
plain = recordings.mean(axis=0)
objective = calque.jit(calque.value_and_grad(cost))
fit = minimize(
    objective, plain, args=(recordings,), jac=True, method="L-BFGS-B", options={"maxiter": 200}
)
print(
    f"distance of the plain mean {cost(plain, recordings):.2f}, of the warped {fit.fun:.2f},",
    "expected below a third",
)
print(f"height of the first wave {fit.x.max():.2f}, expected about 1, plain mean {plain.max():.2f}")
assert fit.fun < cost(plain, recordings) / 3.0 and abs(fit.x.max() - 1.0) < 0.1

h, direction = 1e-7, random.normal(size=80)
ahead = (cost(plain + h * direction, recordings) - cost(plain - h * direction, recordings)) / (
    2 * h
)
print(
    f"slope {objective(plain, recordings)[1] @ direction:.6f}, expected by differences {ahead:.6f}"
)
assert np.isclose(objective(plain, recordings)[1] @ direction, ahead, rtol=1e-5)

plt.plot(t, recordings.T, color="0.8", lw=1)
plt.plot(t, plain, label="plain mean")
plt.plot(t, fit.x, label="warped mean")
plt.legend()
plt.show()

print(calque.source(calque.grad(warped), plain, recordings[0]))
# Timed beside JAX and Autograd: cost(plain, recordings)
