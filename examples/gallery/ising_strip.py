"""Magnets on a strip: energy and heat from one partition function

The Ising model on a strip, six spins around and endless along, is solved by a transfer matrix whose
largest eigenvalue is the partition function of one column. The matrix is filled by loops over all
pairs of columns, with a branch for spins that agree. Energy is its first derivative by the inverse
temperature, heat capacity its second: `grad` of `grad` through the loops and a power iteration.

For JAX, the loops over bits would be tables, made before, and the stores into the matrix their
product.
"""

import matplotlib.pyplot as plt
import numpy as np

import calque

WIDTH = 6


def agreements(a, b):
    """Neighbours that agree minus those that do not: within column a, between columns a and b."""
    total = 0.0
    for k in range(WIDTH):
        spin, below, beside = (a >> k) & 1, (a >> ((k + 1) % WIDTH)) & 1, (b >> k) & 1
        if spin == below:
            total += 1.0
        else:
            total -= 1.0
        if spin == beside:
            total += 1.0
        else:
            total -= 1.0
    return total


def log_partition(beta):
    """The logarithm of the partition function per spin, by power iteration on a matrix."""
    size = 2**WIDTH
    transfer = np.zeros((size, size))
    for a in range(size):
        for b in range(size):
            transfer[a, b] = np.exp(beta * agreements(a, b))
    state = np.ones(size)
    grown = 1.0
    for _ in range(60):
        state = transfer @ state
        grown = np.sum(state)
        state = state / grown
    return np.log(grown) / WIDTH


energy = calque.jit(calque.grad(log_partition))
heat = calque.jit(calque.grad(calque.grad(log_partition)))


# the largest eigenvalue in closed form (Onsager, Kaufman 1949), for an even number of spins around
def known(beta):
    angles = np.pi * (2 * np.arange(WIDTH) + 1) / WIDTH
    cosh = np.cosh(2 * beta) / np.tanh(2 * beta) - np.cos(angles)
    return 0.5 * np.log(2.0 * np.sinh(2 * beta)) + np.sum(np.arccosh(cosh)) / (2 * WIDTH)


beta, h = 0.4, 1e-4
first = (known(beta + h) - known(beta - h)) / (2 * h)
second = (known(beta + h) - 2 * known(beta) + known(beta - h)) / h**2
print(
    f"energy {energy(beta):.6f}, expected {first:.6f};",
    f"second derivative {heat(beta):.4f}, expected {second:.4f}",
)
assert np.isclose(energy(beta), first, rtol=1e-6) and np.isclose(heat(beta), second, rtol=1e-4)

betas = np.linspace(0.2, 0.7, 40)
figure, axes = plt.subplots(figsize=(6.0, 3.4))
axes.plot(1 / betas, [-energy(b) for b in betas], label="energy of a spin")
axes.plot(1 / betas, [b**2 * heat(b) for b in betas], label="heat capacity of a spin")
axes.axvline(2 / np.log(1 + np.sqrt(2)), color="0.5", ls=":", label="critical point of the plane")
axes.set_xlabel("temperature")
axes.legend(fontsize=8)
plt.show()

print(calque.source(calque.grad(log_partition), 0.4))
# Timed beside JAX and Autograd: log_partition(beta)
