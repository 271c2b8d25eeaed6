"""A conditional random field: which words are names?

A linear chain scores each sequence of labels by its words and by which label follows which. The sum
over all sequences goes along the sentence, in place; training needs its gradient, the expected
counts of each feature. Textbooks derive these counts by a forward-backward algorithm; calque writes
it. Enumerating all sequences of a short sentence checks the numbers.

For JAX, the table `score` would be the carried value of a `lax.scan`, and sentences padded to one
length.
"""

import itertools

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import calque

LABELS, FEATURES = 3, 12
SENTENCES, LENGTH = 60, 12


def log_sum(weights, follow, words):
    """The logarithm of the sum over all sequences of labels of one sentence."""
    score = np.zeros((words.size, LABELS))
    score[0] = weights[words[0]]
    for t in range(1, words.size):
        for label in range(LABELS):
            arriving = score[t - 1] + follow[:, label]
            best = np.max(arriving)
            score[t, label] = (
                weights[words[t], label] + best + np.log(np.sum(np.exp(arriving - best)))
            )
    best = np.max(score[-1])
    return best + np.log(np.sum(np.exp(score[-1] - best)))


def score_of(weights, follow, words, labels):
    total = weights[words[0], labels[0]]
    for t in range(1, words.size):
        total += weights[words[t], labels[t]] + follow[labels[t - 1], labels[t]]
    return total


def cost(flat, texts, tags):
    weights = flat[: FEATURES * LABELS].reshape(FEATURES, LABELS)
    follow = flat[FEATURES * LABELS :].reshape(LABELS, LABELS)
    total = 0.05 * np.sum(flat**2)
    for s in range(texts.shape[0]):
        total += log_sum(weights, follow, texts[s]) - score_of(weights, follow, texts[s], tags[s])
    return total


random = np.random.default_rng(0)
true_weights, true_follow = random.normal(0.0, 1.2, (FEATURES, LABELS)), 2.5 * np.eye(LABELS)
follows = np.exp(true_follow) / np.exp(true_follow).sum(axis=1, keepdims=True)
emits = np.exp(true_weights) / np.exp(true_weights).sum(axis=0)
tags = np.zeros((2 * SENTENCES, LENGTH), dtype=int)
texts = np.zeros_like(tags)
for s, t in itertools.product(range(2 * SENTENCES), range(LENGTH)):
    tags[s, t] = random.choice(LABELS, p=follows[tags[s, t - 1]] if t else None)
    texts[s, t] = random.choice(FEATURES, p=emits[:, tags[s, t]])

# the gradient of the sum has the expected number of each transition, here of a short sentence
short = texts[0, :5]
expected, total = np.zeros((LABELS, LABELS)), 0.0
for labels in itertools.product(range(LABELS), repeat=5):
    chance = np.exp(score_of(true_weights, true_follow, short, labels))
    total += chance
    for a, b in itertools.pairwise(labels):
        expected[a, b] += chance
counts = calque.grad(log_sum, argnums=1)(true_weights, true_follow, short)
print(
    "expected counts of transitions",
    counts[0].round(4),
    "expected by enumeration",
    (expected / total)[0].round(4),
)
assert np.allclose(counts, expected / total)

train = calque.jit(calque.value_and_grad(cost))
start = np.zeros(FEATURES * LABELS + LABELS**2)
fit = minimize(
    train, start, args=(texts[:SENTENCES], tags[:SENTENCES]), jac=True, method="L-BFGS-B"
)
weights = fit.x[: FEATURES * LABELS].reshape(FEATURES, LABELS)
follow = fit.x[FEATURES * LABELS :].reshape(LABELS, LABELS)


def with_scores(scores, words):
    """The sum of one sentence by scores of its words: its slope is each label's probability."""
    return log_sum(scores, follow, np.arange(words.size))


marginals = np.array([calque.grad(with_scores)(weights[w], w) for w in texts[SENTENCES:]])
right = np.mean(marginals.argmax(axis=-1) == tags[SENTENCES:])
alone = np.mean(true_weights[texts[SENTENCES:]].argmax(axis=-1) == tags[SENTENCES:])
print(f"labels right in new sentences {right:.0%}, expected more than word by word, {alone:.0%}")
assert right > alone + 0.05

figure, panels = plt.subplots(3, 1, figsize=(6.4, 3.2), sharex=True)
for axes, s in zip(panels, range(3)):
    axes.imshow(marginals[s].T, cmap="Blues", aspect="auto", vmin=0, vmax=1)
    axes.plot(range(LENGTH), tags[SENTENCES + s], "o", color="C1")
    axes.set_ylabel("label")
panels[-1].set_xlabel("word (blue: probability of each label, dots: true label)")
plt.show()

print(calque.source(calque.grad(log_sum), true_weights, true_follow, short))
# Timed beside JAX and Autograd: cost(start, texts[:SENTENCES], tags[:SENTENCES])
