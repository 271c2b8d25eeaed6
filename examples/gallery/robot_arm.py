"""A robot's arm reaches around an obstacle

Six joints of an arm in the plane have limits, and a disc stands in the way. The program adds up the
bones one after the other, and punishes an angle beyond its limit, and a bone too near the disc, by
branches. BFGS turns the joints until the hand is at its target. The Jacobian of the hand, which
robotics writes by hand, checks the derivative.

For JAX, the branches would be `where` or `maximum`, and the stores into the list of places a stack.
"""

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import calque

BONES, LIMIT, DISC, RADIUS = 6, 1.6, np.array([2.2, 1.2]), 0.9


def places(angles):
    """The places of the joints, from shoulder to hand; each angle counts from the bone before."""
    found = np.zeros((BONES + 1, 2))
    turned = 0.0
    for k in range(BONES):
        turned += angles[k]
        found[k + 1, 0] = found[k, 0] + np.cos(turned)
        found[k + 1, 1] = found[k, 1] + np.sin(turned)
    return found


def cost(angles, target):
    arm = places(angles)
    total = 10.0 * np.sum((arm[BONES] - target) ** 2) + 1e-3 * np.sum(angles**2)
    for k in range(BONES):
        if abs(angles[k]) > LIMIT:
            total += 20.0 * (abs(angles[k]) - LIMIT) ** 2
        for part in np.linspace(0.0, 1.0, 7):
            gap = np.linalg.norm((1.0 - part) * arm[k] + part * arm[k + 1] - DISC) - RADIUS
            if gap < 0.1:
                total += 20.0 * (0.1 - gap) ** 2
    return total


def hand(angles):
    return places(angles)[-1]


angles = np.array([1.4, -0.1, -0.6, -0.6, -0.6, -0.6])
arm = places(angles)
by_hand = np.array([[-(arm[-1] - arm[k])[1], (arm[-1] - arm[k])[0]] for k in range(BONES)]).T
print(
    "Jacobian of the hand, first row",
    calque.jacobian(hand)(angles)[0].round(3),
    "expected",
    by_hand[0].round(3),
)
assert np.allclose(calque.jacobian(hand)(angles), by_hand)

target = np.array([4.0, 1.0])
objective = calque.jit(calque.value_and_grad(cost))
fit = minimize(objective, angles, args=(target,), jac=True, method="BFGS")
arm = places(fit.x)
print(
    "hand at",
    arm[-1].round(3),
    "expected",
    target,
    "largest angle",
    np.abs(fit.x).max().round(2),
    "limit",
    LIMIT,
)
assert np.allclose(arm[-1], target, atol=0.02) and np.abs(fit.x).max() < LIMIT + 0.02
bones = np.array([a + s * (b - a) for a, b in pairwise(arm) for s in np.linspace(0, 1, 20)])
assert np.linalg.norm(bones - DISC, axis=1).min() > RADIUS

plt.figure(figsize=(5.6, 4.0))
plt.gca().add_patch(plt.Circle(DISC, RADIUS, color="0.85"))
for found, style in ((places(angles), "o--"), (arm, "o-")):
    plt.plot(*found.T, style, lw=3, label={"o--": "before", "o-": "after"}[style])
plt.plot(*target, "x", color="C3", ms=12, mew=3)
plt.gca().set_aspect("equal")
plt.legend()
plt.show()

print(calque.source(calque.grad(cost), angles, target))
# Timed beside JAX and Autograd: cost(angles, target)
