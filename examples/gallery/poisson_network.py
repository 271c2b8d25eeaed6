"""A network that solves Poisson's equation

A physics-informed network (Raissi and others 2019) is trained on the equation itself: at points of
a square, the Laplacian of its output must be the given source. `calque.laplacian` writes second
derivatives by each coordinate, `vmap` takes all points, and `grad` goes through both. The source is
made so that the solution is known: sin(pi x) sin(pi y).

For JAX, `calque.laplacian` would be the trace of `jax.hessian`, and `calque.vmap` be `jax.vmap`.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import calque

HIDDEN = 16


def solution(weights, point):
    """The network, zero at the edges of the square."""
    W = weights[: 2 * HIDDEN].reshape(HIDDEN, 2)
    b, v = weights[2 * HIDDEN : 3 * HIDDEN], weights[3 * HIDDEN :]
    x, y = point
    return x * (1.0 - x) * y * (1.0 - y) * (v @ np.tanh(W @ point + b))


def residual(weights, point):
    """The amount by which Poisson's equation is missed at a point."""
    source = -2.0 * np.pi**2 * np.sin(np.pi * point[0]) * np.sin(np.pi * point[1])
    return calque.laplacian(lambda p: solution(weights, p))(point) - source


def loss(weights, points):
    return np.mean(calque.vmap(lambda p: residual(weights, p))(points) ** 2)


def known(x, y):
    return np.sin(np.pi * x) * np.sin(np.pi * y)


random = np.random.default_rng(0)
points = random.uniform(size=(150, 2))
start = np.concatenate([random.normal(size=3 * HIDDEN), 0.1 * random.normal(size=HIDDEN)])
train = calque.jit(calque.value_and_grad(loss))
fit = minimize(train, start, args=(points,), jac=True, method="BFGS", options={"maxiter": 250})
weights = fit.x
x, y = np.meshgrid(np.linspace(0, 1, 41), np.linspace(0, 1, 41))
found = np.array(
    [solution(weights, np.array([a, b])) for a, b in zip(x.ravel(), y.ravel())]
).reshape(x.shape)
error = np.abs(found - known(x, y)).max()
print(f"largest error of the solution {error:.1e}, expected below 5e-3")
assert error < 5e-3
here, h = np.array([0.3, 0.7]), 1e-3
shifts = (np.array([h, 0.0]), np.array([0.0, h]))
by_differences = (
    sum(
        solution(weights, here + s) - 2 * solution(weights, here) + solution(weights, here - s)
        for s in shifts
    )
    / h**2
)
laplacian = calque.laplacian(lambda p: solution(weights, p))(here)
print(f"Laplacian {laplacian:.4f}, expected by differences {by_differences:.4f}")
assert np.isclose(laplacian, by_differences, rtol=1e-4)

figure, panels = plt.subplots(1, 2, figsize=(7.0, 3.0), layout="constrained")
for axes, picture, title in zip(
    panels, (found, found - known(x, y)), ("solution by the network", "its error")
):
    shown = axes.contourf(x, y, picture, 12)
    axes.set_title(title, fontsize=10)
    axes.set_aspect("equal")
    figure.colorbar(shown, ax=axes)
panels[0].plot(*points.T, "k.", ms=2)
plt.show()

print(calque.source(calque.laplacian(lambda p: solution(weights, p)), here))
