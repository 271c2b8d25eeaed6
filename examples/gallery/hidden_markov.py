"""A hidden Markov model: the gradient is the backward pass

A casino now and then swaps a fair die for a loaded one. The forward algorithm sums the likelihood
over all hidden sequences, in place, one row of a table a throw. Its derivative by the logarithm of
each emission's probability is the posterior probability that the loaded die was in use: what
textbooks compute by a second, hand-written recursion. calque writes that recursion.

For JAX, the rows of `alpha` would be the carried value of a `lax.scan`.
"""

import matplotlib.pyplot as plt
import numpy as np

import calque

CHANGE = np.array([[0.95, 0.05], [0.10, 0.90]])
FACES = np.array([[1 / 6] * 6, [0.1, 0.1, 0.1, 0.1, 0.1, 0.5]])


def log_likelihood(log_emitted):
    """The log-probability of all throws; log_emitted[t, s] is that of throw t by die s."""
    throws, dice = log_emitted.shape
    alpha = np.zeros((throws, dice))
    total = 0.0
    for t in range(throws):
        if t == 0:
            alpha[t] = 0.5
        else:
            for s in range(dice):
                alpha[t, s] = np.sum(alpha[t - 1] * CHANGE[:, s])
        alpha[t] *= np.exp(log_emitted[t])
        scale = np.sum(alpha[t])
        alpha[t] /= scale
        total += np.log(scale)
    return total


def posterior_by_hand(emitted):
    """Forward and backward recursions, as in textbooks."""
    forth, back = np.zeros_like(emitted), np.ones_like(emitted)
    forth[0] = 0.5 * emitted[0]
    for t in range(1, len(emitted)):
        forth[t] = emitted[t] * (forth[t - 1] @ CHANGE)
    for t in range(len(emitted) - 2, -1, -1):
        back[t] = CHANGE @ (emitted[t + 1] * back[t + 1])
    return forth * back / np.sum(forth[-1])


random = np.random.default_rng(6)
die, dice, faces = 0, [], []
for _ in range(300):
    die = random.choice(2, p=CHANGE[die])
    dice.append(die)
    faces.append(random.choice(6, p=FACES[die]))
emitted = FACES[:, faces].T.copy()

posterior = calque.grad(log_likelihood)(np.log(emitted))
error = np.max(np.abs(posterior - posterior_by_hand(emitted)))
print(f"largest difference from forward-backward by hand {error:.1e}, expected below 1e-12")
assert error < 1e-12
right = np.mean((posterior[:, 1] > 0.5) == np.array(dice))
fair = 1.0 - np.mean(dice)
print(f"the die is told rightly in {right:.0%} of throws, expected over the fair share, {fair:.0%}")
assert right > fair

plt.figure(figsize=(6.4, 3.2))
plt.fill_between(range(len(dice)), dice, step="mid", alpha=0.25, label="loaded die in use")
plt.plot(posterior[:, 1], label="gradient = posterior")
plt.xlabel("throw")
plt.legend(loc="upper right")
plt.show()

print(calque.source(calque.grad(log_likelihood), np.log(emitted)))
# Timed beside JAX and Autograd: log_likelihood(np.log(emitted))
