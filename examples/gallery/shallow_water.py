"""The origin of a tsunami: shallow water, run backwards

A hump of water spreads over a sea whose floor rises towards the shore. Three buoys record the
height of the surface. The program steps the water's height and flow in place, with walls at both
ends, and asks which hump the buoys have seen: its place, its height and its width, by the gradient
through six hundred time steps.

For JAX, the four stores of each step would be `.at[...].add` within a `lax.scan`, whose states are
kept or run again.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import calque

CELLS, STEPS, BUOYS = 200, 600, np.array([60, 100, 150])
x = (np.arange(CELLS) + 0.5) / CELLS
depth = 1.0 - 0.8 * x**2
DT, DX = 0.004, 1.0 / CELLS


def hump(source):
    place, height, width = source
    return height * np.exp(-(((x - place) / width) ** 2))


def records(source):
    """The height at the buoys at each time; flow[i] goes from cell i - 1 to cell i."""
    surface = hump(source)
    flow = np.zeros(CELLS + 1)
    seen = np.zeros((STEPS, len(BUOYS)))
    for t in range(STEPS):
        water = 0.5 * (depth[1:] + depth[:-1] + surface[1:] + surface[:-1])
        flow[1:-1] -= DT / DX * water * (surface[1:] - surface[:-1])
        flow[1:-1] *= 1.0 - 0.02 * DT * np.abs(flow[1:-1])
        surface -= DT / DX * (flow[1:] - flow[:-1])
        seen[t] = surface[BUOYS]
    return seen


def misfit(source, seen):
    return np.sum((1e2 * (records(source) - seen)) ** 2)


random = np.random.default_rng(0)
true = np.array([0.35, 0.05, 0.06])
seen = records(true) + 0.001 * random.normal(size=(STEPS, len(BUOYS)))
guess = np.array([0.45, 0.03, 0.10])
objective = calque.jit(calque.value_and_grad(misfit))
fit = minimize(
    objective,
    guess,
    args=(seen,),
    jac=True,
    method="L-BFGS-B",
    bounds=[(0.1, 0.9), (0.0, 0.2), (0.02, 0.3)],
)
print("place, height, width", fit.x.round(4), "expected about", true)
assert np.allclose(fit.x, true, rtol=0.02)

figure, (left, right) = plt.subplots(1, 2, figsize=(7.2, 3.2))
left.plot(x, hump(true), label="true hump")
left.plot(x, hump(guess), "--", label="first guess")
left.plot(x, hump(fit.x), ":", lw=3, label="found")
left.legend(fontsize=8)
time = DT * np.arange(STEPS)
right.plot(time, seen, ".", ms=1.5, color="0.6")
right.plot(time, records(fit.x))
right.set_title("at the buoys: seen, fitted", fontsize=10)
right.set_xlabel("time")
plt.show()

print(calque.source(calque.grad(misfit), guess, seen))
# Timed beside JAX and Autograd: misfit(guess, seen)
