"""vmap of operations that have no stacked form, which run in a loop over the examples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque
from calque.transpiler.errors import CalqueError

RNG = np.random.default_rng(12)


def masked_sum(x, y):
    return np.sum(x[x > 0.0]) * x[0]


def two_masks(x, y):
    m = y > 0.0
    logs = np.log(np.abs(x[m]))
    weights = logs * y[m]
    return np.sum(weights) + np.max(x) * np.sum(y[x < 0.0])


def masked_store(x, y):
    m = y > 0.0
    x[m] = x[m] * y[m]
    x[x > 1.0] = 1.0
    x[~m] += y[~m]
    return np.sum(np.sin(x))


def masked_mean(x, y):
    chosen = x[x > 0.0]
    if chosen.size > 1:
        return np.mean(chosen) * y[0]
    return x[0]


def masks_in_a_loop(x, y):
    s = 0.0
    for i in range(3):
        s = s + np.sum(x[x > s * 0.1]) * 0.3 + y[i]
    return s


def masks_in_a_while(x, y):
    s = 0.0
    while s < 2.0:
        s = s + np.sum(np.abs(x[x > 0.0])) + 0.3
    return s * y[1]


def masks_in_an_arm(x, y):
    if x[0] > 0.0:
        return np.sum(x[x > 0.0]) * y[0]
    return np.mean(x)


def loop_over_chosen(x, y):
    z = x[x > 0.0]
    s = 0.0
    for k in range(z.shape[0]):
        s = s * np.cos(z[k]) + z[k] ** 2
    return s


def window(x, y):
    i = np.minimum(np.argmax(x), 2)
    return np.sum(x[i : i + 3] * y[:3])


def windows_of_a_matrix(x, y):
    table = x[:, None] * y[None, :]
    i, j = np.argmin(x), np.argmin(y)
    return np.sum(table[i : i + 2, j : j + 2]) + np.sum(table[:, i:])


def tail(x, y):
    k = np.argmax(x)
    return np.sum(x[k:] ** 2) * np.mean(y[: k + 1])


def stored_tail(x, y):
    k = np.argmax(x)
    x[k:] = y[k:] * 2.0
    return np.sum(x * x)


def own_number_of_iterations(x, y):
    s = x[1]
    for i in range(int(abs(4.0 * x[0]))):
        s = s * np.cos(x[1] + i) + y[0]
    return s


def own_sizes(x, y):
    n = int(np.abs(x[0]) * 3.0) + 1
    return np.sum(np.arange(n) * x[1]) + np.sum(np.zeros(n) + y[2])


def indices(x, y):
    (where,) = np.nonzero(x > 0.0)
    return np.sum(x[where] * y[where])


def least_squares(x, y):
    table = np.stack([x, y, np.ones(5)], 1)
    return np.sum(np.linalg.lstsq(table, np.sin(x), rcond=None)[0] * y[:3])


def interpolated(x, y):
    grid = np.cumsum(np.abs(x) + 0.1)
    return np.sum(np.interp(np.abs(y), grid, np.sin(x)))


DIFFERENTIABLE = [
    masked_sum, two_masks, masked_store, masked_mean, masks_in_a_loop, masks_in_a_while, masks_in_an_arm,
    loop_over_chosen, window, windows_of_a_matrix, tail, stored_tail, own_number_of_iterations, own_sizes,
    indices, least_squares, interpolated,
]  # fmt: skip


def histogram(x, y):
    counts, edges = np.histogram(x, bins=3)
    return counts * edges[:3]


def different(x, y):
    return np.unique(np.round(x)).size * y


def counted(x, y):
    return np.sum(np.bincount((np.abs(x) * 3.0).astype(int), minlength=12) ** 2)


def padded(x, y):
    z = x[x > 0.0]
    out = np.zeros(5)
    out[: z.size] = z
    return out


PLAIN = [histogram, different, counted, padded]


def rows(f: Any, x: np.ndarray, y: np.ndarray) -> Any:
    """One call after the other."""
    each = [f(a.copy(), b.copy()) for a, b in zip(x, y)]
    if isinstance(each[0], tuple):
        return tuple(np.array([e[k] for e in each]) for k in range(len(each[0])))
    return np.array(each)


def close(found: Any, expected: Any) -> None:
    np.testing.assert_equal(np.shape(found), np.shape(expected))
    np.testing.assert_allclose(found, expected, 1e-9, 1e-11)


@pytest.mark.parametrize("f", DIFFERENTIABLE + PLAIN, ids=lambda f: f.__name__)
def test_value(f: Any) -> None:
    x, y = RNG.normal(size=(2, 6, 5))
    many = calque.vmap(f)
    for size in (1, 3, 6):
        close(many(x[:size], y[:size]), rows(f, x[:size], y[:size]))
    assert np.shape(many(x[:0], y[:0]))[0] == 0
    shared = calque.vmap(f, in_axes=(0, None))
    close(shared(x, y[0]), rows(f, x, np.broadcast_to(y[0], x.shape)))
    twice = calque.vmap(calque.vmap(f))
    expected = rows(f, x, y)
    close(twice(x.reshape(2, 3, 5), y.reshape(2, 3, 5)), expected.reshape(2, 3, *expected.shape[1:]))


@pytest.mark.parametrize("f", DIFFERENTIABLE, ids=lambda f: f.__name__)
def test_gradient(f: Any) -> None:
    x, y = np.random.default_rng(3).normal(size=(2, 4, 5))
    gradient = calque.grad(f, argnums=(0, 1))
    expected = rows(gradient, x, y)
    for a, b in zip(calque.vmap(gradient)(x, y), expected):
        close(a, b)
    many = calque.vmap(f)
    around = calque.grad(lambda x, y: np.sum(many(x, y)), argnums=(0, 1))(x, y)
    for a, b in zip(around, expected):
        close(a, b)
    dots = np.random.default_rng(4).normal(size=(2, 4, 5))
    slope = np.sum(dots[0] * expected[0] + dots[1] * expected[1], axis=1)
    close(calque.jvp(many, (x, y), tuple(dots))[1], slope)


def test_what_leaves_with_its_own_length_is_refused() -> None:
    x = RNG.normal(size=(3, 4))

    def positive(x):
        return x[x > 0.0]

    with pytest.raises(CalqueError) as caught:
        calque.vmap(positive)(x)
    assert "return x[x > 0.0]" in str(caught.value)
    assert "the size of the result would differ from one example to the next" in str(caught.value)
    with pytest.raises(CalqueError, match="np.unique: the size of the result would differ"):
        calque.vmap(np.unique)(x)


def test_the_rest_stays_stacked() -> None:
    text = calque.vmap(masked_sum).source(np.ones((2, 3)), np.ones((2, 3)))
    body = text.split('"""')[-1].split("import numpy as np")[-1].strip().splitlines()
    assert body[1:] == [
        "    x_above_0 = x > 0.0",
        "    zeros_x_rows = np.zeros(x.shape[0])",
        "    for lane in range(x.shape[0]):",
        "        x_lane = x[lane]",
        "        zeros_x_rows[lane] = np.sum(x_lane[x_above_0[lane]])",
        "    return zeros_x_rows * x[:, 0]",
    ]


def test_interp_on_a_grid_of_each_example() -> None:
    grid, values = np.sort(RNG.normal(size=(3, 5)), 1), RNG.normal(size=(3, 5))
    x = 2.0 * RNG.normal(size=(3, 4))
    for moving in [(1, 1, 1), (0, 1, 0), (1, 1, 0), (0, 1, 1), (0, 0, 1), (1, 0, 1)]:
        axes = tuple(0 if m else None for m in moving)
        args = [v if m else v[0] for v, m in zip((x, grid, values), moving)]
        each = [np.interp(*[v[i] if m else v for v, m in zip(args, moving)]) for i in range(3)]
        close(calque.vmap(np.interp, in_axes=axes)(*args), np.stack(each))
