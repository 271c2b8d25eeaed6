"""Lists that grow in run-time loops, used in every way that lists are: plain Python is the oracle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
from battery.oracle import leaves
from calque.transpiler import errors

Y = np.array([1.0, 2.0])


@pytest.fixture
def stepped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels run as plain Python."""
    monkeypatch.setenv("CALQUE_JIT", "0")


def rows_of_tuples(y, n):
    out = []
    for i in range(n):
        y = 2.0 * y
        out.append((0.5 * i, *y))
    return np.array(out), np.max(out, axis=0), np.sum(out), np.asarray(out)[:, 0]


def rows_of_pairs_of_arrays(y, n):
    out = [[y, 3.0 * y]]
    for i in range(n):
        out.append([y * i, out[-1][0] + y])
    return np.array(out), out[-1][1], np.mean(out, axis=1)


def a_walk_over_tuples(y, n):
    out = []
    for i in range(n):
        out.append((y[0] * i, y))
    total = 0.0
    for a, b in out:
        total = total + a * b[1]
    return total, np.array([a for a, _ in out]), [a for a, _ in out][2]


def a_walk_over_dicts(y, n):
    out = []
    for i in range(n):
        out.append({"a": y[0] * i, "b": y[1]})
    return sum(o["a"] * o["b"] for o in out)


def lists_of_tuples_in_lists(y, n):
    out = []
    for i in range(n):
        row = []
        for j in range(n):
            row.append((y[0] * i, y[1] * j))
        out.append(row)
    return out[1][2][1], np.array(out)


def slices(y, n):
    out = []
    for i in range(n):
        if y[0] > i - 50:
            out.append(y[0] * i)
    return np.array(out[-2:]), np.array(out[1:]), np.array(out[::-1]), sum(out[:-1]), len(out[1:])


def counted_from_the_end(y, n):
    out = []
    for i in range(n):
        if y[0] > i - 50:
            out.append(y[0] * i)
    total = 0.0
    for i in range(n):
        total += out[i - 1] * (i + 1)
    return total, out[-1], out[-2]


def two_loops(y, n):
    out = []
    for i in range(n):
        out.append(y[0] * i)
    for i in range(n):
        if y[1] > 0.0:
            out.append(y[1] * i)
    out.append(7.0)
    return np.array(out), len(out)


def while_it_is_walked(y, n):
    out = []
    for i in range(n):
        out.append(y[0] * i)
    i = 0
    while i < len(out):
        if out[i] < 2.0 and len(out) < n + 9:
            out.append(out[i] + 0.5)
        i += 1
    return np.array(out)


def a_part_grows_on(y, n):
    out = []
    for i in range(n):
        out.append(y[0] * i)
    part = out[:2]
    for i in range(n):
        part.append(y[1] * i)
    return np.array(out), np.array(part)


def history_of_a_while(y, n):
    history = []
    i = 0
    while i < n and y[0] < 1e9:
        y = y * 1.5
        history.append(y.copy())
        i += 1
    return history[-1] + history[0], history[len(history) // 2], np.array(history)[:, 0]


def history_of_what_is_carried(y, n):
    history = []
    i = 0
    while i < n:
        y = y + y[::-1]
        history.append(y)
        i += 1
    return history[-1], np.array(history)


def extended(y, n):
    out = []
    for i in range(n):
        out.extend([y[0] * i, y[1]])
    return np.array(out), len(out), (2.0 in out), (2.5 in out)


def joined_rows(y, n):
    rows, numbers, tables = [], [], []
    for i in range(n):
        rows.append(y * i)
        numbers.append(y[1] * i)
        tables.append(np.outer(y, y) + i)
    of_rows = np.stack(rows), np.stack(rows, axis=1), np.vstack(rows), np.hstack(rows)
    more = np.concatenate(rows), np.column_stack(rows), np.concatenate(rows, axis=None)
    of_numbers = np.stack(numbers), np.vstack(numbers), np.hstack(numbers), np.column_stack(numbers)
    of_tables = np.vstack(tables), np.hstack(tables), np.concatenate(tables, -1), np.stack(tables, 2)
    return of_rows, more, of_numbers, of_tables


PROGRAMS = [
    *(rows_of_tuples, rows_of_pairs_of_arrays, a_walk_over_tuples, a_walk_over_dicts),
    *(lists_of_tuples_in_lists, slices, counted_from_the_end, two_loops, while_it_is_walked),
    *(a_part_grows_on, history_of_a_while, history_of_what_is_carried, extended),
    joined_rows,
]


def agrees(fn: Callable[..., Any], iterations: int) -> None:
    wanted, found = leaves(fn(Y.copy(), iterations)), leaves(calque.jit(fn)(Y.copy(), iterations))
    for one, other in zip(wanted, found, strict=True):
        np.testing.assert_allclose(np.asarray(other), np.asarray(one), rtol=1e-12, strict=True)


@pytest.mark.usefixtures("stepped")
@pytest.mark.parametrize("fn", PROGRAMS)
@pytest.mark.parametrize("iterations", [3, 40])  # more than the arrays hold at first
def test_as_plain_python(fn: Callable[..., Any], iterations: int) -> None:
    agrees(fn, iterations)


@pytest.mark.parametrize("fn", [slices, counted_from_the_end, two_loops, while_it_is_walked])
def test_compiled(fn: Callable[..., Any]) -> None:
    """A kernel in which the array grew gives it back."""
    agrees(fn, 40)


def in_a_tuple_that_each_iteration_makes(v):
    pair = (v, [])
    for _ in range(40):
        pair = (pair[0] + 0.1, pair[1])
        if pair[0] > 0.5:
            pair[1].append(pair[0])
    return sum(pair[1])


def test_lists_keep_their_places_in_what_is_made_anew() -> None:
    fn, v = in_a_tuple_that_each_iteration_makes, np.array([0.3, 0.47, 0.7])
    np.testing.assert_allclose(calque.vmap(fn)(v), [fn(x) for x in v], rtol=1e-13)
    np.testing.assert_allclose(calque.vmap(calque.grad(fn))(v), [38.0, 40.0, 40.0])
    assert "np.empty(1)" not in calque.source(calque.grad(fn), 0.7)


def beyond_the_end(y, n):
    out = []
    for i in range(n):
        if y[0] > i - 50:
            out.append(y[0] * i)
    return out[n + 2]


def before_the_first(y, n):
    out = []
    total = 0.0
    for i in range(n):
        if y[0] > 100.0:
            out.append(y[0])
        total += out[-1]
    return total


@pytest.mark.parametrize("fn", [beyond_the_end, before_the_first])
def test_no_element_is_read_that_was_not_appended(fn: Callable[..., Any]) -> None:
    with pytest.raises(IndexError):
        fn(Y.copy(), 3)
    with pytest.raises(IndexError):
        calque.jit(fn)(Y.copy(), 3)


def joined_lists(y, n):
    out = []
    for i in range(n):
        out.append(y[0] * i)
    return out[1:] + out[:1]


def tuple_in_list(y, n):
    out = []
    for i in range(n):
        out.append((y[0], y[1]))
    return (1.0, 2.0) in out


def greatest_by_key(y, n):
    out = []
    for i in range(n):
        out.append(y[0] * i)
    return max(out, key=lambda v: -v)


@pytest.mark.parametrize("fn", [joined_lists, tuple_in_list])
def test_what_only_lists_can_do_is_refused(fn: Callable[..., Any]) -> None:
    with pytest.raises(errors.NeedsKnownValue):
        calque.jit(fn)(Y.copy(), 3)


@pytest.mark.usefixtures("stepped")
def test_a_key_is_asked() -> None:
    agrees(greatest_by_key, 4)


def joined(x, y):
    """Lists of run-time length as one: what is stored into it is in neither of them."""
    low, high = [v * v for v in x if v <= 1.0], [2.0 * v for v in x if v > 1.0]
    both = high + low + [v for v in y]
    both[0] = 3.0
    return np.sum(np.sin(np.array(both)) * np.arange(len(both))) + np.sum(np.array(high + [1.0]))


def windowed(x):
    """A window of NumPy's own Python, as long as an argument."""
    return np.sum(x * np.hanning(len(x)) + np.kaiser(x.shape[0], 3.0) * x * x)


def test_sums_of_lists_and_functions_of_sizes() -> None:
    x, y = np.linspace(-2.0, 4.0, 40), np.linspace(0.0, 1.0, 3)
    for fn, given in ((joined, (x, y)), (windowed, (x,)), (windowed, (x[:7],))):
        assert np.isclose(calque.jit(fn)(*given), fn(*given), rtol=1e-12)
        value, gradient = calque.value_and_grad(fn)(*given)
        ends = [[given[0] + s * e for s in (1e-6, -1e-6)] for e in np.eye(len(given[0]))]
        slope = [(fn(a, *given[1:]) - fn(b, *given[1:])) / 2e-6 for a, b in ends]
        assert np.isclose(value, fn(*given), rtol=1e-12)
        np.testing.assert_allclose(gradient, slope, rtol=1e-6, atol=1e-7)


def greatest_places(x, lo):
    """Extrema over ranges of run-time length: of indices, numbers and pairs."""
    total = 0.0
    for c in range(len(x)):
        p = max(range(c, len(x)), key=lambda i: abs(x[i]))
        q = min(range(c + 1), key=lambda i: x[i] ** 2)
        total += x[p] * (c + 1) + x[q] * p
    k = int(abs(x[0]) * 3)
    total += max((i * x[1] for i in range(k)), default=2.0) * x[2]
    total += max(range(k), key=lambda i: -x[i], default=4)
    m, n = max(((x[j], j) for j in range(k)), key=lambda t: t[0])
    v, w = max(zip(x[:k], x[::-1]), key=lambda t: t[0] * t[1])
    i, e = min(enumerate(x[:k]), key=lambda t: t[1])
    return total + m * n + v - 2 * w + i * e + max(range(k)) + min(range(lo, lo - k, -1))


@pytest.mark.usefixtures("stepped")
def test_the_greatest_of_as_many_as_the_data_say() -> None:
    x = np.array([0.7, -0.3, 1.4, -2.0, 0.9])
    expected = greatest_places(x, 1)
    fast = calque.jit(greatest_places)
    with pytest.warns(calque.JitFallback, match="names that are not set on all paths"):
        np.testing.assert_allclose(fast(x, 1), expected, rtol=1e-14)
    ends = [greatest_places(x + e, 1) - greatest_places(x - e, 1) for e in np.eye(5) * 1e-6]
    np.testing.assert_allclose(calque.grad(greatest_places)(x, 1), np.array(ends) / 2e-6, rtol=1e-8)


@pytest.mark.usefixtures("stepped")
def test_the_greatest_of_none() -> None:
    def of_none(x):
        return x[max(range(int(x[0])), key=lambda i: x[i])]

    assert calque.jit(of_none)(np.array([2.0, 3.0])) == 3.0
    with pytest.raises(ValueError, match="empty"):
        calque.jit(of_none)(np.array([0.5, 3.0]))
