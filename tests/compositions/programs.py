"""Programs of one argument, small enough for their sixth derivatives to be looked at.

The text of this file is executed three times: with NumPy, for calque; with a NumPy over Taylor
series, for the oracle; and, for the programs of ``JAX``, with ``jax.numpy``.
"""

from __future__ import annotations

import numpy as np

V = [1.2, 0.7, 0.4]
PROGRAMS = {}
JAX = set()
MATRIX = np.array([[1.0, 0.3, -0.5], [0.2, 1.5, 0.4], [-0.7, 0.1, 2.0]])
WEIGHTS = np.array([0.9, -0.4, 1.1])


def program(argument=V, jax=False):
    def register(function):
        PROGRAMS[function.__name__] = (function, argument)
        if jax:
            JAX.add(function.__name__)
        return function

    return register


# straight lines


@program(jax=True)
def polynomial(x):
    return np.sum(x**4) * x[0]


@program(jax=True)
def elementwise(x):
    return np.tanh(x) * np.exp(-x * x)


@program(jax=True)
def reversed_product(x):
    return np.sin(x) * x[::-1]


@program(jax=True)
def softmax(x):
    e = np.exp(x - np.max(x))
    return e / np.sum(e)


@program(jax=True)
def log_sum_exp(x):
    top = np.max(x)
    return top + np.log(np.sum(np.exp(x - top)))


@program(jax=True)
def layer(x):
    return np.tanh(MATRIX @ x + WEIGHTS)


@program(jax=True)
def quadratic_form(x):
    return x @ MATRIX @ x * np.sin(x[0])


@program([1.2, 0.7], jax=True)
def outer_product(x):
    return np.outer(x, x * x[0])


@program(0.8, jax=True)
def of_a_number(x):
    return np.sin(x) * np.exp(-x) + x**3 / (1.0 + x)


@program(0.8, jax=True)
def vector_of_a_number(x):
    return np.array([x, x**2, np.sin(x)])


@program({"b": 0.3, "w": [1.2, 0.7]}, jax=True)
def of_a_dict(p):
    return np.tanh(p["w"] @ np.array([0.5, -1.0]) + p["b"]) * p["w"][0]


@program(([0.9, 0.4], 1.3), jax=True)
def tuple_to_dict(pair):
    x, y = pair
    return {"product": x * y, "sum": np.sum(x) ** 2 + y}


@program(jax=True)
def products_so_far(x):
    return np.cumprod(x) + np.cumsum(x * x)


@program(jax=True)
def pieces(x):
    return np.concatenate([x[1:] * x[:-1], x[:1] ** 3])


@program([1.2, 0.7], jax=True)
def pairwise(x):
    return np.sum(x[:, None] * x[None, :] / (1.0 + x[:, None] ** 2), axis=1)


@program(jax=True)
def piecewise(x):
    return np.sum(np.where(x > 0.8, x**3, np.sin(x)) * x[0])


@program(jax=True)
def ordered(x):
    return np.sort(x) * np.array([1.0, 2.0, 3.0]) * np.min(x)


@program([1.2, 0.7], jax=True)
def linear_system(x):
    a = MATRIX[:2, :2] + np.diag(x)
    return np.linalg.solve(a, np.array([1.0, 2.0]) * x)


@program([1.2, 0.7, 0.4, 0.9], jax=True)
def trace_of_square(x):
    a = np.reshape(x, (2, 2))
    return np.einsum("ij,ji->", a, a) * a[0, 1]


@program(jax=True)
def roots_and_logs(x):
    return np.mean(np.sqrt(x) * np.log(1.0 + x)) / np.sqrt(np.sum(x**2))


@program(jax=True)
def powers(x):
    return x ** x[::-1] + np.arctan(x) * 2.0**x


@program(jax=True)
def does_not_depend(x):
    return np.ones(2) * 3.0


@program(jax=True)
def linear(x):
    return 2.0 * x - np.sum(x)


# control flow, stores, containers, closures


@program()
def early_return(x):
    if x[0] > 1.25:
        return np.sum(x) ** 3
    y = np.sin(x)
    return y @ x


@program()
def recurrence(x):
    s = 0.5
    for i in range(3):
        s = np.sin(s) * x[i] + s**2
    return s


@program()
def filled(x):
    y = np.zeros(4)
    for i in range(3):
        y[i] = x[i] ** 2 * x[0]
    y[3] = y[0] * y[1]
    return y


@program()
def in_place(x):
    for i in range(1, x.size):
        x[i] = x[i] + 0.5 * x[i - 1] ** 2
    return np.sum(x * x)


@program(1.7)
def newton_root(a):
    x = 1.0 + 0.5 * a
    while abs(x * x - a) > 0.01:
        x = 0.5 * (x + a / x)
    return x


@program()
def growing_list(x):
    out = []
    for i in range(len(x) - 1):
        out.append(x[i] * np.exp(x[i + 1]))
    return np.array(out)


@program([1.2, 0.7])
def nested_loops(x):
    u = np.ones((3, 3)) * x[0]
    for i in range(1, 3):
        for j in range(1, 3):
            u[i, j] = 0.25 * u[i - 1, j] * u[i, j - 1] + x[1]
    return np.sum(u * u)


@program()
def left_by_break(x):
    s = x[0]
    for i in range(10):
        s = s + x[1] * x[2] * s
        if s > 3.0:
            break
    return s * x[0]


@program()
def branch_in_a_loop(x):
    y = np.zeros(4)
    s = 0.1
    for i in range(3):
        if x[i] > 0.9:
            y[i] = x[i] ** 3
        else:
            y[i + 1] += np.sin(x[i]) * s
        s = s + y[i] * x[0]
    return np.sum(y * s)


@program()
def swapped(x):
    y = x * x
    y[0], y[2] = y[2] * x[1], y[0]
    np.add.at(y, np.array([1, 1, 0]), x)
    return y


@program()
def shifted_slices(x):
    y = x.copy()
    y[1:] += x[:-1] * y[:-1]
    y[:-1] *= y[1:]
    return y


@program([1.2, 0.7])
def closures(x):
    scale = x[0] * x[1]

    def twice(g):
        return lambda v: g(g(v))

    return sum(twice(h)(x[0]) * k for k, h in enumerate([np.sin, lambda v: v * scale, np.tanh]))


@program([1.2, 0.7])
def carried_dict(x):
    state = {"position": x, "speed": np.array([0.1, -0.2])}
    for _ in range(3):
        force = -np.sin(state["position"])
        state["speed"] = state["speed"] + 0.3 * force
        state["position"] = state["position"] + 0.3 * state["speed"]
    return state


@program({"a": [1.1, 0.6], "b": (0.4, {"c": 0.9})})
def recursion_over_a_tree(tree):
    def total(node):
        if isinstance(node, dict):
            return sum(total(node[k]) for k in sorted(node))
        if isinstance(node, tuple):
            return np.sin(total(node[0])) * total(node[1])
        return np.sum(node * node * node)

    return total(tree) ** 2


@program()
def leaves_a_loop_early(x):
    s = 0.0
    for v in x:
        s = s + v * v
        if s > 1.6:
            return s * np.exp(-v)
    return np.sin(s) * x[0]


@program()
def conditions(x):
    big = x[0] if x[0] > x[1] else x[1] ** 2
    if 0.5 < x[1] < 0.9 and not x[2] > 0.5:
        big = big * x[2] ** 3
    return big * np.sum(x)


@program([1.2, 0.7])
def while_with_stores(x):
    y = np.zeros(6)
    n = 0
    level = x[0]
    while level > 0.5 and n < 6:
        y[n] = level * x[1]
        level = level * 0.6
        n += 1
    return y * y[0]


@program()
def skips_rounds(x):
    total = 1.0
    for i in range(3):
        if x[i] < 0.6:
            continue
        total *= x[i] ** 2 + total
    return total


@program([1.2, 0.7])
def two_ways_out(x):
    y = np.empty((2, 2))
    for i in range(2):
        y[i] = x * x[i]
        y[i, 1 - i] += y[i, i] ** 2
    return y.T, np.sum(y)


@program([1.2, 0.7])
def runge_kutta(x):
    def slope(y):
        return np.array([y[1], -np.sin(y[0]) * y[1]])

    for _ in range(2):
        k = slope(x)
        x = x + 0.2 * slope(x + 0.1 * k)
    return x
