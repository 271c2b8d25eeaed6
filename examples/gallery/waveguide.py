"""Seeing through a wall: Maxwell's equations by FDTD

A pulse of light runs through a wall of layers, and part of it comes back. From the echo alone the
program finds the permittivity of each layer. Yee's scheme (1966) stores electric and magnetic
fields in turns, in place; one cell emits the pulse, and both ends absorb. The gradient is the
adjoint scheme: calque writes what engineers derive by hand.

For JAX, each store would be an `.at[...].add`, and the loop a `lax.scan`.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import calque

CELLS, STEPS, SOURCE = 240, 700, 30
LAYERS = ((90, 110), (110, 135), (135, 155))


def pulse(t):
    return np.exp(-(((t - 40.0) / 12.0) ** 2))


def permittivity(layers):
    found = np.ones(CELLS)
    for k in range(len(LAYERS)):
        found[LAYERS[k][0] : LAYERS[k][1]] = layers[k]
    return found


def echo(layers):
    """The field at the source over time: the pulse, and what comes back."""
    half = 0.5 / permittivity(layers)  # the step of time is half of a cell's
    E, H = np.zeros(CELLS), np.zeros(CELLS)
    seen = np.zeros(STEPS)
    for t in range(STEPS):
        H[:-1] += 0.5 * (E[1:] - E[:-1])
        first, last = E[1], E[-2]
        E[1:-1] += half[1:-1] * (H[1:-1] - H[:-2])
        E[SOURCE] += pulse(t)
        E[0] = first - (E[1] - E[0]) / 3.0  # the ends absorb (Mur 1981)
        E[-1] = last - (E[-2] - E[-1]) / 3.0
        seen[t] = E[SOURCE]
    return seen


def misfit(layers, seen):
    return np.sum((echo(layers) - seen) ** 2)


true = np.array([2.0, 4.5, 3.0])
seen = echo(true)
guess = np.array([1.5, 3.5, 2.5])
objective = calque.jit(calque.value_and_grad(misfit))
fit = minimize(
    objective,
    guess,
    args=(seen,),
    jac=True,
    method="L-BFGS-B",
    bounds=[(1.0, 9.0)] * 3,
    options={"ftol": 1e-14},
)
print("permittivities", fit.x.round(4), "expected", true)
assert np.allclose(fit.x, true, rtol=1e-3)

# a single wall's reflection is Fresnel's
thick = np.array([4.0, 4.0, 4.0])
arrived = echo(np.ones(3))
back = (echo(thick) - arrived)[:400]
reflected = back[np.argmax(np.abs(back))] / arrived.max()
print(f"reflected by a wall of permittivity 4: {reflected:.3f}, expected {(1 - 2) / (1 + 2):.3f}")
assert np.isclose(reflected, -1 / 3, atol=0.02)

figure, (left, right) = plt.subplots(1, 2, figsize=(7.2, 3.2))
for layers, style, label in (
    (true, "-", "true"),
    (guess, "--", "first guess"),
    (fit.x, ":", "found"),
):
    left.plot(permittivity(layers), style, label=label, lw=3 if style == ":" else 1.5)
    right.plot(echo(layers), style, lw=3 if style == ":" else 1.5)
left.set_title("permittivity", fontsize=10)
right.set_title("field at the source", fontsize=10)
left.legend(fontsize=8)
plt.show()

print(calque.source(calque.grad(misfit), guess, seen))
# Timed beside JAX and Autograd: misfit(guess, seen)
