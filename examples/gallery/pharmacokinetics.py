"""A drug's way through the body: doses by mouth, fitted through `solve_ivp`

A drug goes from the gut to the blood, from there to tissue and back, and out through an enzyme that
saturates. Every twelve hours comes a dose, so the program calls SciPy's `solve_ivp` once for each
interval and adds the dose between them. The fit of four rates to blood samples uses gradients
through SciPy's own adaptive steps.

For JAX, the solver would be one written in JAX, such as diffrax: SciPy's takes no traced values.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import minimize

import calque

SAMPLES = np.array([0.5, 1.0, 2.0, 4.0, 8.0, 12.0])  # hours after each dose
DOSES = 3


def flow(t, amounts, uptake, fastest, out, back):
    """Amounts in the gut, the blood and tissue; elimination saturates (Michaelis and Menten)."""
    gut, blood, tissue = amounts
    gone = fastest * blood / (2.0 + blood)
    moved = out * blood - back * tissue
    return np.array([-uptake * gut, uptake * gut - gone - moved, moved])


def blood_samples(log_rates, hours):
    """The amount in blood at some hours after each dose."""
    rates = np.exp(log_rates)
    amounts = np.zeros(3)
    seen = np.zeros((DOSES, hours.size))
    for dose in range(DOSES):
        amounts[0] += 10.0
        found = solve_ivp(
            flow, (0.0, 12.0), amounts, t_eval=hours, args=tuple(rates), rtol=1e-7, atol=1e-9
        )
        seen[dose] = found.y[1]
        amounts = found.y[:, -1].copy()
    return seen


def misfit(log_rates, seen):
    return np.sum((blood_samples(log_rates, SAMPLES) - seen) ** 2)


random = np.random.default_rng(1)
true = np.log([0.9, 1.2, 0.5, 0.3])
seen = blood_samples(true, SAMPLES) * (1.0 + 0.03 * random.normal(size=(DOSES, SAMPLES.size)))
guess = np.log([0.5, 2.0, 0.3, 0.3])
fit = minimize(
    calque.value_and_grad(misfit),
    guess,
    args=(seen,),
    jac=True,
    method="BFGS",
    options={"gtol": 1e-4},
)
print("rates", np.exp(fit.x).round(2), "expected about", np.exp(true).round(2))
assert np.allclose(np.exp(fit.x), np.exp(true), rtol=0.15)

hours = np.linspace(0.0, 12.0, 100)
plt.plot((SAMPLES + 12.0 * np.arange(DOSES)[:, None]).ravel(), seen.ravel(), "o", label="samples")
for rates, style, label in ((guess, "--", "first guess"), (fit.x, "-", "fitted")):
    curve = blood_samples(rates, hours).ravel()
    plt.plot((hours + 12.0 * np.arange(DOSES)[:, None]).ravel(), curve, style, label=label)
plt.xlabel("hours")
plt.ylabel("amount in the blood, mg")
plt.legend()
plt.show()

print(calque.source(calque.jacobian(flow, argnums=1), 0.0, np.ones(3), *np.exp(guess)))
# Timed beside JAX and Autograd: misfit(guess, seen)
