"""Programs with sparse Jacobians, and their dense Jacobians by unit tangents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import calque


def brusselator(u):
    n = len(u) // 2
    side = int(n**0.5)
    a, b = u[:n].reshape(side, side), u[n:].reshape(side, side)

    def spread(z):
        return np.roll(z, 1, 0) + np.roll(z, -1, 0) + np.roll(z, 1, 1) + np.roll(z, -1, 1) - 4.0 * z

    grown = a * a * b
    return np.concatenate(
        [(1.0 + grown - 4.4 * a + spread(a)).ravel(), (3.4 * a - grown + spread(b)).ravel()]
    )


def stencil(x):
    y = np.zeros_like(x)
    y[1:-1] = x[2:] - 2.0 * x[1:-1] + x[:-2] ** 2
    return y * x


def branches(x):
    y = np.empty(len(x))
    for i in range(len(x)):
        if x[i] > 0.5:
            y[i] = x[i - 1] ** 2
        else:
            y[i] = np.sin(x[(i + 1) % len(x)])
    return y


def until(x):
    y = x.copy()
    while np.max(y) > 0.1:
        y[1:] = 0.5 * y[1:] + 0.1 * y[:-1]
        y[0] *= 0.5
    return y


def masked(x):
    keep = np.arange(len(x)) % 3 != 0
    return np.where(keep, x**2, 0.0) + np.where(x > 0.5, x[::-1], 1.0)


def gathered(x):
    ends = np.array([[0, 1], [1, 3], [2, 5], [5, 0]])
    lengths = (x[ends[:, 0]] - x[ends[:, 1]]) ** 2
    pulls = np.zeros_like(x)
    np.add.at(pulls, ends[:, 0], lengths)
    return pulls


def product(x):
    return (np.eye(6) + 2.0 * np.eye(6, k=2)) @ x**2


def joined(x):
    return np.stack([x[:3], x[3:] * x[0]]).T


def total(x):
    return np.array([np.sum(x[:2]), np.max(x[3:])])


def nested(x):
    return {"last": x[-1] * x[-2], "first": [x[:2] ** 3, x[3]]}


def batched(x):
    return calque.vmap(lambda a, b: a * np.array([b, b**2]))(x[1:], x[:-1])


def steps(x):
    u = x.copy()
    for _ in range(2):
        u[1:-1] += 0.1 * (u[2:] - 2.0 * u[1:-1] + u[:-2])
    return u


def solved(x):
    a = np.array([[2.0, 1.0], [0.0, 3.0]])
    return np.linalg.solve(a, x.reshape(2, 3))


PROGRAMS: dict[str, tuple[Callable[..., Any], int]] = {
    "brusselator": (brusselator, 50),
    **{f.__name__: (f, 6) for f in (stencil, branches, until, masked, gathered, product, joined)},
    **{f.__name__: (f, 6) for f in (total, nested, batched, steps, solved)},
}


def dense(f: Callable[..., Any], x: Any) -> Any:
    """The Jacobian of a function of one vector by unit tangents, a row for each number."""
    columns = []
    for unit in np.eye(len(x)):
        leaves = calque.tree_leaves(calque.jvp(f, (x,), (unit,))[1])
        columns.append(np.concatenate([np.ravel(leaf) for leaf in leaves]))
    return np.stack(columns, axis=1)


def points(size: int, count: int = 3) -> list[Any]:
    return [*np.random.default_rng(size).uniform(0.05, 1.0, (count, size))]
