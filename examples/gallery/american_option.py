"""An American option: a tree of prices, updated in place

The holder of a put may sell at any time, so each node of a binomial tree takes the larger of two
values: what the option pays now, and what it is worth if kept. The loop goes back in time and
overwrites the values in place; it starts one step before the end, with the formula of Black and
Scholes. Delta, vega and rho are the gradient; those of a European put, without the choice, are
known from the formula.

For JAX, the slices of `value` that shrink with each step would be one array of fixed size in a
`lax.fori_loop`.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import ndtr

import calque

STRIKE, YEARS = 100.0, 1.0


def european(price, volatility, rate, years):
    """The price of a put that cannot be sold early, by Black and Scholes."""
    spread = volatility * np.sqrt(years)
    up = (np.log(price / STRIKE) + rate * years) / spread + 0.5 * spread
    return STRIKE * np.exp(-rate * years) * ndtr(spread - up) - price * ndtr(-up)


def put(market, steps, early):
    """The price of a put by a binomial tree; the market: price, volatility, interest rate."""
    price, volatility, rate = market
    dt = YEARS / steps
    up = np.exp(volatility * np.sqrt(dt))
    chance = (np.exp(rate * dt) - 1.0 / up) / (up - 1.0 / up)
    kept = np.exp(-rate * dt)
    value = np.zeros(steps)
    for t in range(steps - 1, -1, -1):
        if t == steps - 1:
            for i in range(steps):
                value[i] = european(price * up ** (2 * i - t), volatility, rate, dt)
        else:
            value[: t + 1] = kept * (chance * value[1 : t + 2] + (1.0 - chance) * value[: t + 1])
        if early:
            for i in range(t + 1):
                value[i] = max(value[i], STRIKE - price * up ** (2 * i - t))
    return value[0]


market = np.array([103.0, 0.25, 0.05])
greeks = calque.jit(calque.grad(put))
delta, vega, rho = greeks(market, 200, False)

known = calque.grad(lambda m: european(m[0], m[1], m[2], YEARS))(market)
print(
    "European delta, vega, rho", np.array([delta, vega, rho]).round(3), "expected", known.round(3)
)
assert np.allclose([delta, vega, rho], known, rtol=5e-3, atol=2e-2)

american = greeks(market, 200, True)
step = np.array([1e-6, 1e-6, 1e-6])
by_differences = [
    (put(market + h, 200, True) - put(market - h, 200, True)) / 2e-6 for h in np.diag(step)
]
print(
    "American delta, vega, rho",
    american.round(3),
    "expected by differences",
    np.round(by_differences, 3),
)
assert np.allclose(american, by_differences, rtol=1e-4)

prices = np.linspace(70.0, 130.0, 61)
figure, (left, right) = plt.subplots(1, 2, figsize=(7.2, 3.2))
for early, label in ((False, "European"), (True, "American")):
    markets = [np.array([p, 0.25, 0.05]) for p in prices]
    left.plot(prices, [put(m, 60, early) for m in markets], label=label)
    right.plot(prices, [greeks(m, 200, early)[0] for m in markets], label=label)
left.plot(prices, np.maximum(STRIKE - prices, 0.0), ":", color="0.3", label="pays now")
left.set_title("value")
right.set_title("delta")
left.legend()
plt.show()

print(calque.source(calque.grad(put), market, 200, True))
# Timed beside JAX and Autograd: put(market, 200, True)
