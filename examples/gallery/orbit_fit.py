"""The orbit of an unseen planet, from the speed of its star

A star with a planet moves towards us and away. Its speed, seen on some nights, has five unknowns:
the period, the eccentricity, the amplitude, and two angles. Each night needs a root of Kepler's
equation, which Newton's method finds in a `while` loop, and the loop ends by a value. BFGS fits the
orbit to forty noisy nights with the gradient that calque writes.

For JAX, the `while` would become `custom_root` or a fixed number of steps: `lax.while_loop` has no
reverse mode.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import calque


def eccentric_anomaly(mean, eccentricity):
    """The root E of Kepler's equation E - e sin(E) = M."""
    E = mean
    change = 1.0
    while abs(change) > 1e-12:
        change = (E - eccentricity * np.sin(E) - mean) / (1.0 - eccentricity * np.cos(E))
        E -= change
    return E


def speeds(orbit, nights):
    """The speed of the star along the line of sight, at each night."""
    period, eccentricity, amplitude, phase, angle = orbit
    found = np.zeros(nights.size)
    for k in range(nights.size):
        E = eccentric_anomaly(2.0 * np.pi * nights[k] / period + phase, eccentricity)
        up = np.sqrt(1.0 + eccentricity) * np.sin(0.5 * E)
        true = 2.0 * np.arctan2(up, np.sqrt(1.0 - eccentricity) * np.cos(0.5 * E))
        found[k] = amplitude * (np.cos(true + angle) + eccentricity * np.cos(angle))
    return found


def misfit(orbit, nights, seen):
    return np.sum((speeds(orbit, nights) - seen) ** 2)


random = np.random.default_rng(3)
nights = np.sort(random.uniform(0.0, 60.0, 40))
true = np.array([17.3, 0.45, 50.0, 0.6, 0.9])
seen = speeds(true, nights) + random.normal(0.0, 2.0, nights.size)

guess = np.array([17.0, 0.3, 40.0, 0.8, 0.8])
fit = minimize(calque.value_and_grad(misfit), guess, args=(nights, seen), jac=True, method="BFGS")
print("period, eccentricity, amplitude", fit.x[:3].round(2), "expected about", true[:3])
assert np.allclose(fit.x, true, rtol=0.1)

dense = np.linspace(0.0, 60.0, 400)
plt.plot(nights, seen, "o", label="seen")
plt.plot(dense, speeds(guess, dense), "--", label="first guess")
plt.plot(dense, speeds(fit.x, dense), label="fitted")
plt.xlabel("day")
plt.ylabel("speed of the star, m/s")
plt.ylim(top=85)
plt.legend(loc="upper center", ncols=3)
plt.show()

print(calque.source(calque.grad(misfit), guess, nights, seen))
# Timed beside JAX and Autograd: misfit(guess, nights, seen)
