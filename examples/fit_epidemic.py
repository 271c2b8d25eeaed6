"""An epidemic's rates fitted through `solve_ivp`: gradients of SciPy's own steps.

`--picture` saves it as a picture, with matplotlib.
"""

import argparse
import time

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import minimize

import calque

DAYS = np.arange(0.0, 60.0, 2.0)
calls = 0


def spread(t, y, contact, recovery):
    """Susceptible, exposed and infected: shares of a population."""
    susceptible, exposed, infected = y
    caught = contact * susceptible * infected
    return np.array([-caught, caught - 0.2 * exposed, 0.2 * exposed - recovery * infected])


def counted(t, y, contact, recovery):
    """The same, counting its calls."""
    global calls
    calls += 1
    return spread(t, y, contact, recovery)


def infected(rates, slope):
    """The infected of each day, by Dormand and Prince's method."""
    start = np.array([1.0 - np.exp(rates[2]), 0.0, np.exp(rates[2])])
    given = (np.exp(rates[0]), np.exp(rates[1]))
    found = solve_ivp(slope, (0.0, 60.0), start, t_eval=DAYS, args=given, rtol=1e-7, atol=1e-9)
    return found.y[2]


def misfit(rates, seen):
    return np.sum((1e2 * (infected(rates, spread) - seen)) ** 2)


def misfit_counted(rates, seen):
    return np.sum((1e2 * (infected(rates, counted) - seen)) ** 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--picture", action="store_true", help="save fit_epidemic.png")
    picture = parser.parse_args().picture

    true = np.log([0.6, 0.15, 1e-3])
    noise = 1.0 + 0.05 * np.random.default_rng(0).normal(size=DAYS.size)
    seen = infected(true, spread) * noise
    guess = np.log([0.4, 0.3, 1e-2])

    objective = calque.jit(calque.value_and_grad(misfit))
    objective(guess, seen)  # writes and compiles
    began = time.perf_counter()
    fit = minimize(objective, guess, args=(seen,), jac=True, method="BFGS")
    ours = time.perf_counter() - began

    began = time.perf_counter()
    plain = minimize(misfit_counted, guess, args=(seen,), method="BFGS")
    theirs = time.perf_counter() - began
    print(f"rates {np.exp(fit.x)}, expected about {np.exp(true)}")
    print(f"with gradients: {fit.nfev} solutions with their gradients, {1e3 * ours:.1f} ms")
    print(f"by differences: {plain.nfev} solutions, {calls} slopes, {1e3 * theirs:.1f} ms")
    assert np.allclose(np.exp(fit.x[:2]), np.exp(true[:2]), rtol=0.1)
    assert fit.nfev < plain.nfev and fit.fun <= 1.001 * plain.fun

    print()
    print(calque.source(calque.grad(misfit), guess, seen))
    if picture:
        draw("fit_epidemic.png", seen, fit.x, guess)


def draw(file, seen, rates, guess):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4))
    axes.plot(DAYS, seen, "o", label="seen")
    axes.plot(DAYS, infected(guess, spread), "--", label="first guess")
    axes.plot(DAYS, infected(rates, spread), label="fitted")
    axes.set_xlabel("days")
    axes.set_ylabel("infected, as a share")
    axes.legend()
    figure.savefig(file, dpi=120)
    plt.close(figure)


if __name__ == "__main__":
    main()
