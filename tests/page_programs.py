"""Functions whose derivatives are shown on pages: one for each way in which lines answer lines."""

import numpy as np

import calque


def flux(u, k):
    return k * np.diff(u)


def settle(u: "f8[n]", k: float, steps: int):
    for t in range(steps):
        q = flux(u, k)
        if q[0] > 1.0:
            u[1:-1] += np.sin(q[1:]) - q[:-1]
        else:
            u[1:-1] *= 0.5
    return np.sum(u * u)


def newton(a: float):
    x = a
    while np.abs(x * x - a) > 1e-10:
        x = 0.5 * (x + a / x)
    return x


def layer(x, w):
    h = np.tanh(x @ w)
    return h / np.sqrt(1.0 + np.sum(h * h))


def net(x, ws):
    for w in ws:
        x = layer(x, w)
    return np.sum(x)


def weighted(x: "f8[n]", w: "f8[n]"):
    scaled = (
        x * w
        + np.exp(-x)
    )
    return np.sum(scaled)


class Spring:
    def __init__(self, k: float):
        self.k = k

    def energy(self, x: "f8[n]"):
        stretched = x - 1.0
        return self.k * np.sum(stretched**2)


spring = Spring(2.0)
squared = lambda x: x * np.sin(x)


def printing(x: "f8[n]"):
    total = 0.0
    for i in range(x.size):
        print(i)
        total += x[i]
    return total


def marked_up(x: "f8[n]"):
    assert x.size > 0, "</script><b>bold</b>"
    return np.sum(x * x)


def drawing(x: float):
    return x * np.random.normal()


@calque.custom_vjp
def wrong_cube(x):
    return x**3


wrong_cube.defvjp(lambda x: (x**3, x), lambda x, y_bar: (2.0 * y_bar * x,))


def wrong_by_rule(x: "f8[n]"):
    y = wrong_cube(x)
    return np.sum(y)


def attribute_like(u: "f8[n]"):
    shape = np.sin(u)
    for i in range(u.shape[0]):
        shape[i] = shape[i] * u[i]
    return np.sum(shape * shape)


def sized(x: "f8[n]"):
    y = np.concatenate((x, np.sin(x)))
    total = np.sum(x) / y.size
    if total > 1.0:
        return total * np.sum(y)
    return total * total


def damped(x):
    low = np.exp(-x)
    return x * low * low


def twice(x):
    return damped(damped(x))


def composed(x: "f8[n]"):
    y = damped(x)
    y = twice(y)
    return np.sum(y)


def stored_twice(u: "f8[n,m]", steps: int):
    for t in range(steps):
        v = u[1:] * u[:-1]
        u[0, :] = np.sum(v, axis=0)
        u *= 1.0 - 0.1 * u
    return np.sum(u * u)


def shifted(x, k=2.0):
    """Nothing here counts: k = 3 :(."""
    β = α = k * x
    for i in range(1, α.shape[0]):
        for j in range(1, α.shape[1]):
            α[i, j - 1] += scaled(α[i - 1, j], k=k)
    if k > 0: α = α * k  # k = 1
    α = np.sum(
        α * [k for k in (3.0,)][0],
        axis=0,
    )
    if (w := np.sum(α)) > 3.0 and k == 2.0:
        α = α + w
    return np.sum(α) + np.sum(β)


class Scale:
    def __init__(self, k: float):
        self.k = k

    def loss(
        self,
        x: "f8[n]",
        y: float = 3.0,
    ):
        k = self.of(x)
        return y * np.sum(k)

    def of(self, x):
        k = x * self.k
        k **= 2
        return k


def scaled(x, k):
    return x * k
