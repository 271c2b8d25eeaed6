"""A Kalman filter: the likelihood of the Nile's flow

The level of a river drifts, and each year's measurement adds noise (Durbin and Koopman, chapter 2).
The filter goes through the years, keeps its estimate and the variance of that, and skips years
without a measurement by a branch. Its likelihood is maximized over the logarithms of both
variances. The data are simulated with the variances that the book finds for the Nile.

For JAX, the loop would be a `lax.scan`, and the skipped years a `where`.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import calque

NOISE, DRIFT, YEARS = 15099.0, 1469.0, 600


def filtered(log_variances, flow, known):
    """Minus the log-likelihood, and the estimated level of each year."""
    noise, drift = np.exp(log_variances)
    level, variance, cost = 1000.0, 1e5, 0.0
    levels = np.zeros(flow.size)
    for t in range(flow.size):
        if known[t]:
            spread = variance + noise
            surprise = flow[t] - level
            cost += 0.5 * (np.log(2.0 * np.pi * spread) + surprise**2 / spread)
            level += variance / spread * surprise
            variance *= noise / spread
        levels[t] = level
        variance += drift
    return cost, levels


def cost(log_variances, flow, known):
    return filtered(log_variances, flow, known)[0]


def cost_without_filter(log_variances, flow, known):
    """The same from one large normal distribution."""
    noise, drift = np.exp(log_variances)
    years = np.arange(flow.size)
    covariance = 1e5 + drift * np.minimum(years[:, None], years) + noise * np.eye(flow.size)
    covariance, rest = covariance[known][:, known], flow[known] - 1000.0
    _, log_det = np.linalg.slogdet(2.0 * np.pi * covariance)
    return 0.5 * (log_det + rest @ np.linalg.solve(covariance, rest))


random = np.random.default_rng(2)
true_level = 1000.0 + np.cumsum(random.normal(0.0, np.sqrt(DRIFT), YEARS))
flow = true_level + random.normal(0.0, np.sqrt(NOISE), YEARS)
known = np.ones(YEARS, dtype=bool)
known[250:310] = False

start = np.log([1e4, 1e4])
fit = minimize(calque.value_and_grad(cost), start, args=(flow, known), jac=True, method="BFGS")
print("variances", np.exp(fit.x).round(), "expected about", np.array([NOISE, DRIFT]))
assert np.allclose(fit.x, np.log([NOISE, DRIFT]), atol=0.6)
slope, other = (calque.grad(f)(start, flow, known) for f in (cost, cost_without_filter))
print("gradient", slope.round(6), "expected, from one large normal distribution,", other.round(6))
assert np.allclose(slope, other, rtol=1e-8)

plt.figure(figsize=(6.4, 3.2))
plt.plot(np.where(known, flow, np.nan), ".", color="0.6", label="measured")
plt.plot(true_level, color="0.3", lw=1, label="true level")
plt.plot(filtered(fit.x, flow, known)[1], label="filtered")
plt.xlabel("year")
plt.legend(fontsize=8)
plt.show()

print(calque.source(calque.grad(cost), start, flow, known))
# Timed beside JAX and Autograd: cost(start, flow, known)
