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
    """The saved values of inner lists grow in iterations over the outer ones, for some examples."""
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
    """The number of a thread is unsigned, and the counter of the first iteration is negative."""
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


def test_threads_share_iterations_that_begin_below_zero() -> None:
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
    """A number says which of the buffers trade places."""
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


# integers that the device computes, where the host must know them


def sums_of_rows(x, rows):
    total = 0.0
    for i in range(rows.size - 1):
        total += np.sum(x[rows[i] : rows[i + 1]] ** 2)
    return total


def sparse_product(data, columns, rows, v):
    out = np.zeros(rows.size - 1)
    for i in range(rows.size - 1):
        out[i] = data[rows[i] : rows[i + 1]] @ v[columns[rows[i] : rows[i + 1]]]
    return np.sum(out**2)


def up_to_the_largest(x, k):
    s = 0.0
    for i in range(np.max(k)):
        s += x[i] * np.sum(x)
    return s


def between_extrema(x, k):
    out = np.zeros(x.size)
    for i in range(np.min(k) + 1, np.max(k) + 1):
        out[:i] += np.cumsum(x)[:i]
    return np.sum(out * x)


def up_to_the_greatest(x, k):
    return np.sum(x[: np.argmax(x)] ** 2) + np.sum(x[np.argmin(x) : max(np.argmax(x), k[0])])


def as_many_as_pass(x, k):
    chosen = x[: x[x > 0.7].size] * k[0]
    return np.sum(chosen * x[: np.sum(np.nonzero(x > 0.7)[0].size)])


X, K = np.array([0.5, 2.0, -1.0, 3.0]), np.array([2, 0, 3, 1])
ROWS = np.array([0, 2, 2, 3, 4])
KNOWN = [
    (sums_of_rows, (X, ROWS), (0,)),
    (sparse_product, (X, K, ROWS, 1.0 + X), (0, 3)),
    (up_to_the_largest, (X, K), (0,)),
    (between_extrema, (X, K), (0,)),
]
OF_NUMBERS = [  # of which a batch has no one length
    (up_to_the_greatest, (X, K), (0,)),
    (as_many_as_pass, (X, K), (0,)),
]


CASES = [*KNOWN, *OF_NUMBERS]


@pytest.mark.parametrize(("fn", "args", "moving"), CASES, ids=[fn.__name__ for fn, *_ in CASES])
def test_integers_that_the_host_asks_for(fn: Any, args: Any, moving: Any) -> None:
    gradient = calque.value_and_grad(fn, argnums=moving)
    np.testing.assert_allclose(on_cuda(calque.jit(fn), *args), fn(*args), rtol=1e-13)
    value, slopes = on_cuda(gradient, *args)
    np.testing.assert_allclose(value, fn(*args), rtol=1e-13)
    for k, slope in zip(moving, slopes, strict=True):
        for i in range(args[k].size):
            ends = [[a + h * (np.arange(a.size) == i) if j == k else a for j, a in enumerate(args)] for h in (1e-6, -1e-6)]
            np.testing.assert_allclose(slope[i], (fn(*ends[0]) - fn(*ends[1])) / 2e-6, rtol=1e-5, atol=1e-7)
    if (fn, args, moving) in OF_NUMBERS:
        return
    axes = tuple(0 if k in moving else None for k in range(len(args)))
    batch = [np.stack([a, a]) if k in moving else a for k, a in enumerate(args)]
    _, both = on_cuda(calque.vmap(gradient, in_axes=axes), *batch)
    for one, slope in zip(both, slopes, strict=True):
        np.testing.assert_allclose(one, [slope, slope], rtol=1e-12)


def those_above(v):
    return sum([t for t in v if t > 0.01])


def squares_and_products(v):
    out = []
    for t in v:
        if t > 0.0:
            out.append(t * t)
        elif len(out) > 1:
            out.append(out[-1] * t)
    s = 0.0
    for o in out:
        if o > 0.3:
            s += o
        else:
            s += o * o
    return s


def a_loop_that_is_gone(v):
    """No one reads what the list of such a program would have had."""
    out, other, s = [], [], 0.0
    for t in v:
        if len(out) > 0:
            s += sum(out)
    for t in v:
        other.append(t)
    return s + sum([u * u for u in other if u > 0.1])


def until_there_is_enough(v):
    out, other, s, k = [], [], 0.0, 0
    while k < v.size and s < 3.0:
        if v[k] > 0.0:
            other.append(v[k])
            s += 0.1 * v[k]
            if len(out) > 0:
                s += out[-1]
        elif len(out) > 0:
            s += sum(out)
        k += 1
    if len(other) > 0:
        s += max(other)
    return s + sum(other)


LISTS = [those_above, squares_and_products, a_loop_that_is_gone, until_there_is_enough]
EXAMPLES = np.array([[1.0, 0.5, -1.0, 0.7], [0.5, 0.0, -3.0, -0.2], [-1.0, -0.1, 0.005, -2.0]])


@pytest.mark.filterwarnings("ignore:A part of.*CuPy:calque.JitFallback")  # it spreads sizes
@pytest.mark.parametrize("fn", LISTS, ids=[fn.__name__ for fn in LISTS])
def test_lists_of_a_batch(fn: Any) -> None:
    got = on_cuda(calque.vmap(fn), EXAMPLES)
    np.testing.assert_allclose(got, [fn(v) for v in EXAMPLES], rtol=1e-13)
    slopes = on_cuda(calque.vmap(calque.grad(fn)), EXAMPLES)
    np.testing.assert_allclose(slopes, [calque.grad(fn)(v) for v in EXAMPLES], rtol=1e-13)


def corner(m):
    m = m.copy()
    for t in range(2):
        m[1:, 1:] = 0.3 * m[:-1, :-1]
    return np.sum(m * m)


def of_the_first_column(m):
    """Each iteration of the outer loop looks at the array that the inner one stores into."""
    m = m.copy()
    for i in range(m.shape[0]):
        t = m[i, 0]
        for j in range(1, m.shape[1]):
            m[i, j] = 0.5 * t + 1.0
    return np.sum(m * m)


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (3, 1), (2, 2), (2, 1), (4, 5)])
@pytest.mark.parametrize("fn", [corner, of_the_first_column])
def test_stencils_of_one_cell(fn: Any, shape: tuple[int, int]) -> None:
    m = np.random.default_rng(1).normal(size=shape)
    value, slopes = on_cuda(calque.value_and_grad(fn), m)
    np.testing.assert_allclose(value, fn(m), rtol=1e-13)
    for i in np.ndindex(shape):
        e = np.zeros(shape)
        e[i] = 1e-6
        np.testing.assert_allclose(slopes[i], (fn(m + e) - fn(m - e)) / 2e-6, rtol=1e-5, atol=1e-8)


def column_means(data):
    mean = np.zeros(data.shape[1])
    for j in range(data.shape[1]):
        mean[j] = np.sum(data[:, j]) / data.shape[0]
    return mean


def test_sums_down_columns_of_a_batch_in_parts() -> None:
    data = np.random.default_rng(2).normal(size=(3, 200, 4))
    np.testing.assert_allclose(on_cuda(calque.vmap(column_means), data), data.mean(axis=1), rtol=1e-13)


def one_of_two(x):
    """Two arrays of an iteration, one of which a branch chooses, had their axis of iterations twice."""
    out = np.empty_like(x)
    for i in range(x.size):
        a, b = np.zeros(8), np.ones(8)
        for k in range(8):
            a[k] = x[i] * k
        c = a if x[i] > 0.0 else b
        out[i] = c[3] + c[5]
    return out


def test_an_array_of_an_iteration_that_a_branch_chooses() -> None:
    x = np.array([0.5, -2.0, 3.0])
    np.testing.assert_allclose(on_cuda(one_of_two, x), one_of_two(x))


def mirrored_before(x):
    """Every element is stored by some iteration, and read by another one, which may come before."""
    n = x.shape[0]
    out, seen = np.zeros((n, n)), np.empty((n, n))
    for i in range(n):
        for j in range(n):
            out[i, j] = x[i, j]
            seen[i, j] = out[j, i]
    return seen


def test_zeros_that_an_iteration_reads_before_another_stores() -> None:
    x = np.random.default_rng(3).normal(size=(5, 5))
    np.testing.assert_allclose(on_cuda(mirrored_before, x), np.tril(x.T))
