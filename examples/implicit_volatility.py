"""A smile of implied volatilities, each a root by `brentq`, fitted by its gradient.

`--picture` saves it as a picture, with matplotlib.
"""

import argparse
import time

import numpy as np
from scipy.optimize import brentq, minimize
from scipy.special import erf

import calque

STRIKES = np.linspace(80.0, 120.0, 9)
calls = 0


def share_below(x):
    """The normal distribution."""
    return 0.5 + 0.5 * erf(x / np.sqrt(2.0))


def price(volatility, strike):
    """A call on 100 in one year, by Black and Scholes."""
    up = np.log(100.0 / strike) / volatility + 0.5 * volatility
    return 100.0 * share_below(up) - strike * share_below(up - volatility)


def model_price(p, strike):
    """The price of a mixture of two lognormal prices."""
    share = 1.0 / (1.0 + np.exp(-p[2]))
    return share * price(np.exp(p[0]), strike) + (1.0 - share) * price(np.exp(p[1]), strike)


def excess(volatility, strike, wanted):
    """A price beyond the one that is wanted."""
    return price(volatility, strike) - wanted


def smile(p):
    """The volatility that gives the model's price, at each strike."""
    found = np.zeros(STRIKES.size)
    for k in range(STRIKES.size):
        wanted = model_price(p, STRIKES[k])
        found[k] = brentq(excess, 1e-3, 3.0, args=(STRIKES[k], wanted), xtol=1e-12)
    return found


def misfit(p, seen):
    return np.sum((1e2 * (smile(p) - seen)) ** 2)


def misfit_counted(p, seen):
    global calls
    calls += 1
    return misfit(p, seen)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--picture", action="store_true", help="save implicit_volatility.png")
    picture = parser.parse_args().picture

    true = np.array([np.log(0.12), np.log(0.35), 0.4])
    seen = smile(true)
    guess = np.array([np.log(0.15), np.log(0.25), 0.0])
    objective = calque.jit(calque.value_and_grad(misfit))
    objective(guess, seen)  # writes and compiles
    began = time.perf_counter()
    fit = minimize(objective, guess, args=(seen,), jac=True, method="BFGS", options={"gtol": 1e-6})
    ours = time.perf_counter() - began
    began = time.perf_counter()
    plain = minimize(misfit_counted, guess, args=(seen,), method="BFGS", options={"gtol": 1e-4})
    theirs = time.perf_counter() - began
    print(f"volatilities {np.exp(fit.x[:2])}, expected {np.exp(true[:2])}")
    print(f"with gradients: {fit.nfev} smiles with their gradients, {1e3 * ours:.1f} ms")
    print(f"by differences: {calls} smiles, {1e3 * theirs:.1f} ms; misfit {plain.fun:.1e}")
    assert np.allclose(smile(fit.x), seen, atol=1e-5)
    assert fit.nfev < calls

    print()
    print(calque.source(calque.grad(misfit), guess, seen))
    if picture:
        draw("implicit_volatility.png", seen, fit.x, guess)


def draw(file, seen, p, guess):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4))
    axes.plot(STRIKES, seen, "o", label="seen")
    axes.plot(STRIKES, smile(guess), "--", label="first guess")
    axes.plot(STRIKES, smile(p), label="fitted")
    axes.set_xlabel("strike")
    axes.set_ylabel("implied volatility")
    axes.legend()
    figure.savefig(file, dpi=120)
    plt.close(figure)


if __name__ == "__main__":
    main()
