"""A neural ODE: a motion learned from its path

A small network says how fast a point moves at each place. The method of Runge and Kutta follows it
from the start of a noisy path, and stores the path into an array; Adam trains the network so that
the path is that of the data. The gradient goes back through all steps of the integrator.

For JAX, the path would be the stacked result of a `lax.scan`.
"""

import matplotlib.pyplot as plt
import numpy as np

import calque

STEPS, DT = 40, 0.05


def velocity(weights, point):
    W, b, V, c = weights
    return V @ np.tanh(W @ point**3 + b) + c


def path(weights, start):
    """Follow the velocity by the classical method of Runge and Kutta."""
    found = np.zeros((STEPS + 1, 2))
    found[0] = start
    for k in range(STEPS):
        y = found[k]
        k1 = velocity(weights, y)
        k2 = velocity(weights, y + 0.5 * DT * k1)
        k3 = velocity(weights, y + 0.5 * DT * k2)
        k4 = velocity(weights, y + DT * k3)
        found[k + 1] = y + DT / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    return found


def loss(weights, seen):
    return np.mean((path(weights, seen[0]) - seen) ** 2)


def true_path():
    y, found = np.array([2.0, 0.0]), []
    for _ in range(STEPS * 20 + 1):
        found.append(y)
        y = y + DT / 20 * np.array([[-0.1, 2.0], [-2.0, -0.1]]) @ y**3 / 2.0
    return np.array(found)[::20]


random = np.random.default_rng(0)
seen = true_path()
seen[1:] += 0.02 * random.normal(size=(STEPS, 2))
weights = (
    0.1 * random.normal(size=(24, 2)),
    np.zeros(24),
    0.1 * random.normal(size=(2, 24)),
    np.zeros(2),
)
step = calque.jit(calque.value_and_grad(loss))
mean, square = (calque.tree.map(np.zeros_like, weights) for _ in range(2))
losses = []
for k in range(1, 1001):
    value, slope = step(weights, seen)
    losses.append(value)
    mean = calque.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, slope)
    square = calque.tree.map(lambda s, g: 0.99 * s + 0.01 * g * g, square, slope)
    rate = 0.01 * np.sqrt(1.0 - 0.99**k) / (1.0 - 0.9**k)
    move = calque.tree.map(lambda m, s: m / (np.sqrt(s) + 1e-8), mean, square)
    weights = tuple(w - rate * m for w, m in zip(weights, move))
print(f"loss {losses[0]:.3f} becomes {losses[-1]:.5f}, expected below 0.01")
assert losses[-1] < 0.01
assert calque.check(loss, weights, seen).agrees

figure, (left, right) = plt.subplots(1, 2, figsize=(7.2, 3.2))
left.plot(*seen.T, ".", label="seen")
left.plot(*path(weights, seen[0]).T, label="learned")
left.set_aspect("equal")
left.legend(fontsize=8)
right.semilogy(losses)
right.set_xlabel("steps of Adam")
right.set_title("loss", fontsize=10)
plt.show()

print(calque.source(calque.grad(loss), weights, seen))
# Timed beside JAX and Autograd: loss(weights, seen)
