"""Programs that the CUDA path once got wrong, as small as they go."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuda_emulator import building
from cuda_emulator.running import on_cuda

import calque

pytestmark = pytest.mark.skipif(building.MISSING is not None, reason=str(building.MISSING))
FACTORS = np.array([0, 1, 0, -1, 0, 1, -1, -1, 1])
RNG = np.random.default_rng(0)


def planes_scaled_one_by_one(field):
    """The loop over planes is each thread's own, within the examples that threads share."""
    out = np.zeros_like(field)
    for i in range(9):
        out[i] = field[i] * FACTORS[i]
    return np.sum(out**2)


def pooled_counts(y):
    """The counter of the loop has another name by the time that its bounds are asked for."""
    sums, counts = [], []
    for v in y:
        sums.append(v)
        counts.append(1)
        while len(sums) > 1 and sums[-2] / counts[-2] > sums[-1] / counts[-1]:
            s, c = sums.pop(), counts.pop()
            sums[-1] += s
            counts[-1] += c
    total = 0.0
    for s, c in zip(sums, counts):
        total += c * (s / c) ** 2
    return total


def linked_lists(pos, head, nxt):
    """What is saved of the inner lists grows in rounds of the outer ones, in some examples' rows."""
    total = 0.0
    for i in range(3):
        p = head[i]
        while p >= 0:
            for k in range(3):
                q = head[k]
                while q >= 0:
                    total += (p + 1) * (pos[p] - pos[q]) ** 3
                    q = nxt[q]
            p = nxt[p]
    return total


def squares_from_behind(x, k):
    """A thread's number has no sign, and the first round's number is negative."""
    total = 0.0
    for j in range(-4, k):
        total += x[j] ** 2
    return total


def links(pos):
    """For each third of the line, its first point, and after each point the next one."""
    head, nxt = np.full(3, -1), np.full(len(pos), -1)
    for p, third in enumerate((pos * 3).astype(int)):
        nxt[p], head[third] = head[third], p
    return head, nxt


def counted_by_columns(columns, x, k, m):
    """A kernel that asks a number for an array's size has other arrays of that size alone."""
    a, b = np.zeros((len(x), k)), np.zeros((len(x), m))
    for _ in range(3):
        for i in range(len(x)):
            a[i, columns[i]] += x[i] * k
        for i in range(len(x)):
            b[i, columns[i]] += x[i] * k
        x = np.cumsum(x)
    return a, b


CASES = [
    (planes_scaled_one_by_one, RNG.normal(size=(3, 9, 4, 5))),
    (pooled_counts, RNG.normal(size=(4, 7))),
]


@pytest.mark.parametrize(("fn", "batch"), CASES, ids=[fn.__name__ for fn, _ in CASES])
def test_gradients_of_a_batch(fn: Any, batch: np.ndarray) -> None:
    gradients = calque.vmap(calque.grad(fn))
    np.testing.assert_allclose(on_cuda(gradients, batch), gradients(batch), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("points", [2, 9, 17, 40])
def test_arrays_that_grow_by_rows_are_as_long_as_they_are_by_then(points: int) -> None:
    batch = np.random.default_rng(points).uniform(0, 1, (4, points))
    heads, nexts = map(np.stack, zip(*map(links, batch)))
    gradient = calque.grad(linked_lists)
    expected = [gradient(*example) for example in zip(batch, heads, nexts)]
    np.testing.assert_allclose(
        on_cuda(calque.vmap(gradient), batch, heads, nexts), expected, rtol=1e-12, atol=1e-13
    )
    slopes = 3 * (batch[0][:, None] - batch[0]) ** 2 * np.arange(1, points + 1)[:, None]
    np.testing.assert_allclose(expected[0], slopes.sum(1) - slopes.sum(0), atol=1e-10)


def test_threads_share_rounds_that_begin_below_zero() -> None:
    x = np.arange(1.0, 10.0)
    for k in (-4, 0, 5):
        assert on_cuda(squares_from_behind, x, k) == squares_from_behind(x, k)


def test_kernels_are_shared_where_numbers_are_the_sizes_of_the_same_arrays() -> None:
    args = np.array([0, 2, 1, 3]), np.arange(1.0, 5.0), 5, 7
    found = on_cuda(calque.jit(counted_by_columns), *args)
    for got, want in zip(found, counted_by_columns(*args), strict=True):
        np.testing.assert_array_equal(got, want)


def pushed_along(x):
    v, w = x * 0.5, np.zeros(x.size)
    for t in range(x.size):
        w[1:] = v[:-1]
        w[0] = 0.3 * v[0]
        v, w = w, v
    return np.sum(v * x)


def around_three_places(x):
    """A wave: the newest, the last and the one before it."""
    u, v, w = x.copy(), 0.5 * x, np.zeros_like(x)
    for t in range(5):
        w[1:-1] = 2.0 * v[1:-1] - u[1:-1] + 0.1 * (v[:-2] - 2.0 * v[1:-1] + v[2:])
        w[0] = v[-1] * u[0]
        u, v, w = v, w, u
    return np.sum(v * v) + u[0]


def two_of_three(x):
    """Which of them trade places is for a number to say."""
    u, v, w = x.copy(), np.zeros_like(x), np.sin(x)
    for t in range(4):
        v[1:] += 0.5 * u[:-1] * w[1:]
        if x[0] > t - 2:
            u, v = v, u
        w[:-1] = 0.3 * v[1:]
    return np.sum(u) + np.sum(v * w)


def at_last_as_they_began(x):
    u, v = x.copy(), np.zeros_like(x)
    for t in range(6):
        v[1:-1] = 0.4 * (u[:-2] + u[2:])
        u, v = v, u
        v[0] = u[1]
        v, u = u, v
    return np.sum(u * u) + np.sum(v)


TRADED = [pushed_along, around_three_places, two_of_three, at_last_as_they_began]


@pytest.mark.parametrize("fn", TRADED, ids=[fn.__name__ for fn in TRADED])
def test_buffers_that_trade_places(fn: Any) -> None:
    x = np.random.default_rng(2).normal(size=7)
    steps = 1e-6 * np.eye(x.size)
    slopes = [(fn(x + step) - fn(x - step)) / 2e-6 for step in steps]
    for order in (0, 1, 5):
        np.testing.assert_allclose(on_cuda(calque.jit(fn), x, order=order), fn(x), rtol=1e-13)
        value, gradient = on_cuda(calque.value_and_grad(fn), x, order=order)
        np.testing.assert_allclose(value, fn(x), rtol=1e-13)
        np.testing.assert_allclose(gradient, slopes, rtol=1e-6, atol=1e-8)
        batch = on_cuda(calque.vmap(calque.grad(fn)), np.stack([x, x]), order=order)
        np.testing.assert_allclose(batch, [gradient, gradient], rtol=1e-12)
