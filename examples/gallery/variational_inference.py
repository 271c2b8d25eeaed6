"""Variational inference, with keys for chance

Eight schools tried a course, and each reports an effect with its error (Rubin 1981). How large are
the effects, and how alike? The program fits a normal distribution to the posterior of ten unknowns
by climbing its evidence bound, whose noise comes from `calque.random` by a key: the same key, the
same number, so that a run can be repeated.

For JAX, `calque.random` would be `jax.random`, whose normal numbers are the same up to their last
digits.
"""

import matplotlib.pyplot as plt
import numpy as np

import calque
from calque import random

EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def log_posterior(z):
    """Up to a constant; z: the mean, the logarithm of the spread, eight standardized effects."""
    mean, log_spread = z[0], z[1]
    total = -0.5 * (mean / 5.0) ** 2 + log_spread - np.log(1.0 + (np.exp(log_spread) / 5.0) ** 2)
    for school in range(8):
        effect = mean + np.exp(log_spread) * z[2 + school]
        total += (
            -0.5 * ((EFFECTS[school] - effect) / ERRORS[school]) ** 2 - 0.5 * z[2 + school] ** 2
        )
    return total


def evidence_bound(means, log_widths, key, draws):
    """The mean of the log posterior over draws, plus the entropy of the distribution."""
    total = 0.0
    for one in random.split(key, draws):
        noise = random.normal(one, (10,))
        total += log_posterior(means + np.exp(log_widths) * noise)
    return total / draws + np.sum(log_widths)


climb = calque.jit(calque.grad(evidence_bound, argnums=(0, 1)))
means, log_widths = np.zeros(10), np.full(10, -1.0)
speed = np.zeros(20)
key = random.key(0)
trace = []
for step in range(1500):
    slope = np.concatenate(climb(means, log_widths, random.fold_in(key, step), 8))
    speed = 0.9 * speed + 0.1 * slope
    rate = 0.05 / (1.0 + step / 300)
    change = rate * speed * np.where(np.arange(20) == 0, 10.0, 1.0)
    means, log_widths = means + change[:10], log_widths + change[10:]
    trace.append(
        evidence_bound(means, log_widths, random.key(99), 16) if step % 25 == 0 else trace[-1]
    )

# the same by brute force: all is normal where the spread is given, and spreads are summed over
spreads = np.linspace(0.01, 60.0, 6000)
variances = ERRORS[:, None] ** 2 + spreads**2
precision = 1 / 25.0 + np.sum(1 / variances, axis=0)
centre = np.sum(EFFECTS[:, None] / variances, axis=0) / precision
weight = np.exp(
    -0.5 * np.sum(np.log(variances) + EFFECTS[:, None] ** 2 / variances, axis=0)
    + 0.5 * precision * centre**2
)
weight *= 1 / np.sqrt(precision) / (1.0 + (spreads / 5.0) ** 2)
exact = np.sum(weight * centre) / np.sum(weight)
width = np.sqrt(np.sum(weight * (1 / precision + (centre - exact) ** 2)) / np.sum(weight))
print(
    f"mean effect {means[0]:.2f} +- {np.exp(log_widths[0]):.2f},",
    f"expected about {exact:.2f} +- {width:.2f}",
)
assert abs(means[0] - exact) < 0.4 and abs(np.exp(log_widths[0]) - width) < 0.8

figure, (left, right) = plt.subplots(1, 2, figsize=(7.2, 3.2))
left.plot(trace)
left.set_title("evidence bound", fontsize=10)
left.set_xlabel("step")
shrunk = means[0] + np.exp(means[1]) * means[2:]
right.errorbar(range(8), EFFECTS, ERRORS, fmt="o", label="reported")
right.plot(range(8), shrunk, "s", label="posterior")
right.axhline(means[0], color="0.6", ls=":")
right.set_xlabel("school")
right.legend(fontsize=8)
plt.show()

print(calque.source(calque.grad(evidence_bound), means, log_widths, key, 8))
# Timed beside JAX and Autograd: log_posterior(means)
