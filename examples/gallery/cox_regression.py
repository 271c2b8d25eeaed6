"""Cox regression: who is still at risk

The partial likelihood of survival times compares each patient who dies with all who are still under
observation. Sorted by time, the sum over those at risk grows by one patient after another, so that
one loop with a branch on "died or was lost" does it all (Breslow's form). Newton's method takes the
gradient and the Hessian, both from the same loop.

For JAX, the loop would be a cumulative sum (`jnp.cumsum`, or a `lax.scan`), and the branch a
product with `died`.
"""

import matplotlib.pyplot as plt
import numpy as np

import calque


def cost(weights, traits, died):
    """Minus the log partial likelihood; patients are sorted, the latest time first."""
    at_risk, total = 0.0, 0.0
    for i in range(len(died)):
        score = np.sum(traits[i] * weights)
        at_risk += np.exp(score)
        if died[i]:
            total += np.log(at_risk) - score
    return total


random = np.random.default_rng(4)
true = np.array([0.8, -0.5, 0.0])
traits = random.normal(size=(600, 3))
death = random.exponential(np.exp(-traits @ true))
lost = random.exponential(2.0, size=600)
times = np.minimum(death, lost)
order = np.argsort(-times)
traits, died, times = traits[order], (death <= lost)[order], times[order]

slope, curvature = calque.grad(cost), calque.hessian(cost)
weights = np.zeros(3)
for _ in range(8):
    weights -= np.linalg.solve(curvature(weights, traits, died), slope(weights, traits, died))
H = curvature(weights, traits, died)
errors = np.sqrt(np.diag(np.linalg.inv(H)))
print("weights", weights.round(2), "+-", errors.round(2), "expected", true)
assert np.linalg.norm(slope(weights, traits, died)) < 1e-9
assert np.all(np.abs(weights - true) < 3.0 * errors)

# the gradient, as textbooks have it: each death minus the mean of those at risk
hazard = np.exp(traits @ weights)
mean = np.cumsum(hazard[:, None] * traits, axis=0) / np.cumsum(hazard)[:, None]
print(
    "largest part of the textbook's gradient, expected 0:",
    abs((traits - mean)[died].sum(axis=0).max()).round(9),
)
assert np.allclose((traits - mean)[died].sum(axis=0), 0.0, atol=1e-9)

for group, label in ((traits @ weights > 0.7, "high risk"), (traits @ weights < -0.7, "low risk")):
    when = np.sort(times[group & died])
    alive = np.cumprod([1.0 - 1.0 / np.sum(times[group] >= t) for t in when])
    plt.step(when, alive, where="post", label=label)
plt.xlabel("time")
plt.ylabel("share alive (Kaplan and Meier)")
plt.xlim(0, 3)
plt.legend()
plt.show()

print(calque.source(calque.grad(cost), weights, traits, died))
# Timed beside JAX and Autograd: cost(np.zeros(3), traits, died)
