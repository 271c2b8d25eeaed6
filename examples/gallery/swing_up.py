"""Swinging up a pendulum: Newton's method on 1200 unknowns

A motor too weak to lift a pendulum swings it up within ten seconds, with the least effort. The
whole trajectory is one vector: angles, speeds and torques at 400 times, tied by the equations of
motion. The conditions for a minimum are solved by Newton's method; `calque.sparse` finds which of
their derivatives can be other than zero and computes them in a few colours.

For JAX, the matrices would be dense, or their patterns found and coloured by hand.
"""

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import spsolve

import calque
from calque import sparse

POINTS, TIME = 400, 10.0
DT = TIME / (POINTS - 1)


def effort(z):
    torque = z[2 * POINTS :]
    return 0.25 * DT * np.sum(torque[1:] ** 2 + torque[:-1] ** 2)


def gaps(z):
    """The equations of motion by the trapezoidal rule, and how it begins and ends."""
    angle, speed, torque = z[:POINTS], z[POINTS : 2 * POINTS], z[2 * POINTS :]
    missing = np.zeros(2 * POINTS + 2)
    for k in range(POINTS - 1):
        push = -np.sin(angle[k]) - 0.1 * speed[k] + torque[k]
        push_after = -np.sin(angle[k + 1]) - 0.1 * speed[k + 1] + torque[k + 1]
        missing[k] = angle[k + 1] - angle[k] - 0.5 * DT * (speed[k] + speed[k + 1])
        missing[POINTS + k] = speed[k + 1] - speed[k] - 0.5 * DT * (push + push_after)
    missing[POINTS - 1], missing[2 * POINTS - 1] = angle[0], speed[0]
    missing[2 * POINTS], missing[2 * POINTS + 1] = angle[-1] - np.pi, speed[-1]
    return missing


def lagrangian(z, prices):
    return effort(z) + np.sum(prices * gaps(z))


t = np.linspace(0.0, TIME, POINTS)
swings = np.pi * (t / TIME) ** 2 * np.cos(0.9 * (TIME - t))  # a first guess
z = np.concatenate([swings, np.gradient(swings, DT), np.zeros(POINTS)])
prices = np.zeros(2 * POINTS + 2)
jacobian = sparse.jacobian(gaps, z)
hessian = sparse.hessian(lagrangian, z, prices)
slope = calque.jit(calque.grad(lagrangian))
steps = 0
while True:
    A, H = jacobian(z), hessian(z, prices)
    residual = np.concatenate([slope(z, prices), gaps(z)])
    if np.linalg.norm(residual) < 1e-9 or steps == 20:
        break
    change = spsolve(sp.block_array([[H, A.T], [A, None]], format="csc"), -residual)
    steps += 1
    z, prices = z + change[: z.size], prices + change[z.size :]
print(f"{z.size} unknowns, {A.nnz} entries in {jacobian.coloring.num_colors} colours")
print(
    f"residual {np.linalg.norm(residual):.1e} after {steps} steps of Newton's method,",
    "expected below 1e-9",
)
assert np.linalg.norm(residual) < 1e-9

# Pontryagin's Hamiltonian is constant along the best trajectory
angle, speed, torque = z[:POINTS], z[POINTS : 2 * POINTS], z[2 * POINTS :]
p, q = -prices[: POINTS - 1], -prices[POINTS : 2 * POINTS - 1]
middle = lambda v: 0.5 * (v[1:] + v[:-1])
push = -np.sin(middle(angle)) - 0.1 * middle(speed) + middle(torque)
constant = p * middle(speed) + q * push + 0.5 * middle(torque) ** 2
print(
    f"the Hamiltonian varies by {np.ptp(constant) / np.abs(constant).mean():.1e} of its mean,",
    "expected below 1e-3",
)
assert np.ptp(constant) < 1e-3 * np.abs(constant).mean()

print(
    f"largest torque {np.abs(torque).max():.2f}, expected below 1, which holds the pendulum level"
)
assert np.abs(torque).max() < 1.0

plt.plot(t, angle, label="angle")
plt.plot(t, speed, label="speed")
plt.plot(t, torque, label="torque")
plt.axhline(np.pi, color="0.6", ls=":")
plt.xlabel("seconds")
plt.legend()
plt.show()

print(calque.source(calque.grad(lagrangian), z, prices))
# Timed beside JAX and Autograd: lagrangian(z, prices)
