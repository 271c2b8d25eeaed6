"""Loops check all indices before the first iteration; if one is outside, each iteration checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque

pytest.importorskip("numba")

RNG = np.random.default_rng(27)


def triangle(packed, x):
    """A triangle in rows, one behind the other."""
    n, total, place = x.shape[0], 0.0, 0
    for i in range(n):
        for j in range(i, n):
            total += packed[place] * x[i] * x[j]
            place += 1
    return total


def backward(packed, x, place):
    """The indices decrease, as the counter does."""
    n, total = x.shape[0], 0.0
    for i in range(n):
        for j in range(n - 1, i, -1):
            total += packed[place] * x[i] * np.sin(x[j])
            place -= 1
    return total


def rows_flat(table, x, start):
    """Each row is in one vector, behind a header."""
    n, total = x.shape[0], 0.0
    for i in range(n):
        for j in range(n):
            total += table[start + i * n + j] * x[j]
    return total


def stored(y, x, start):
    """Stores of the iterations before an error are seen."""
    for i in range(x.shape[0]):
        for j in range(4):
            y[start + i + j] += x[i] * (j + 1.0)
    return np.sum(y)


def guarded(y, x, start):
    """Only some iterations access the element."""
    n, total = x.shape[0], 0.0
    for i in range(n):
        for j in range(n):
            if j < 3:
                total += y[start + j] * x[i]
    return total


def one_place(y, x, start):
    """The same index in all iterations of the inner loop."""
    n = x.shape[0]
    for i in range(n):
        for j in range(n):
            y[start + i] += x[j] * 0.5
    return np.sum(y * y)


def by_table(y, x, columns):
    total = 0.0
    for i in range(3):
        for j in range(x.shape[0]):
            total += y[columns[j]] * x[j]
    return total


def growing(packed, x, place):
    """Places move by more and more."""
    total = 0.0
    for i in range(2):
        for j in range(x.shape[0]):
            total += packed[place] * x[j]
            place += j
    return total


def squared(packed, x, start):
    total = 0.0
    for i in range(2):
        for j in range(x.shape[0]):
            total += packed[(start + j) * (start + j)] * x[j]
    return total


def by_twos(packed, x, start):
    total = 0.0
    for i in range(2):
        for j in range(0, x.shape[0], 2):
            total += packed[start + j] * x[j]
    return total


def beside_a_table(y, x, start, columns):
    """Another index of the same loop is checked in every iteration anyway."""
    total = 0.0
    for i in range(2):
        for j in range(x.shape[0]):
            total += y[start + j] * x[columns[j]]
    return total


PACKED, X = RNG.normal(size=40), RNG.normal(size=6)
COLUMNS = np.array([5, 0, -1, 3, 2, 1])
ASKED = [
    (triangle, (PACKED, X)),
    (backward, (PACKED, X, 30)),
    (rows_flat, (PACKED, X, 2)),
    (stored, (PACKED, X, 3)),
    (guarded, (PACKED, X, 4)),
    (one_place, (PACKED, X, 5)),
]
KEPT = [
    (by_table, (PACKED, X, COLUMNS)),
    (growing, (PACKED, X, 1)),
    (squared, (PACKED, X, 1)),
    (by_twos, (PACKED, X, 4)),
    (beside_a_table, (PACKED, X, 4, COLUMNS)),
]


def outcome(f: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the result of a call, or its IndexError, and its arguments as they are afterwards."""
    given = tuple(a.copy() if isinstance(a, np.ndarray) else a for a in args)
    try:
        found = f(*given)
    except IndexError:
        found = "IndexError"
    return found, *(a for a in given if isinstance(a, np.ndarray))


def assert_as_python(f: Callable[..., Any], *args: Any) -> Any:
    expected, found = outcome(f, args), outcome(calque.jit(f), args)
    assert isinstance(expected[0], str) == isinstance(found[0], str), (expected, found)
    for a, b in zip(expected, found, strict=True):
        if not isinstance(a, str):
            np.testing.assert_allclose(b, a, rtol=1e-12, atol=1e-12)
    return expected[0]


@pytest.mark.parametrize(("f", "args"), ASKED, ids=lambda v: getattr(v, "__name__", ""))
def test_one_question_before_the_loop(f: Callable[..., Any], args: tuple[Any, ...]) -> None:
    text = str(calque.source(calque.jit(f), *args))
    assert "else:" in text
    unchecked = [block for block in text.split("if ") if "for " in block and "else:" in block]
    assert any("checked_index" not in block.split("else:")[0] for block in unchecked), text
    assert_as_python(f, *args)


@pytest.mark.parametrize(("f", "args"), KEPT, ids=lambda v: getattr(v, "__name__", ""))
def test_where_each_iteration_must_ask(f: Callable[..., Any], args: tuple[Any, ...]) -> None:
    text = str(calque.source(calque.jit(f), *args))
    assert "checked_index" in text
    assert "else:" not in text
    assert_as_python(f, *args)


@pytest.mark.parametrize(("f", "args"), ASKED + KEPT, ids=lambda v: getattr(v, "__name__", ""))
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_derivatives(f: Callable[..., Any], args: tuple[Any, ...], kind: Any) -> None:
    args = tuple(a.astype(kind) if getattr(a, "dtype", None) == np.float64 else a for a in args)
    wide = tuple(a.astype(np.float64) if getattr(a, "dtype", None) == kind else a for a in args)
    found = calque.jit(calque.grad(f, argnums=(0, 1)))(*args)
    for k, gradient in enumerate(found):
        direction = RNG.normal(size=gradient.shape)
        ends = []
        for step in (1e-6, -1e-6):
            moved = [np.array(a) if isinstance(a, np.ndarray) else a for a in wide]
            moved[k] = moved[k] + step * direction
            ends.append(f(*moved))
        slope = (ends[0] - ends[1]) / 2e-6
        tolerance = 1e-7 if kind == np.float64 else 1e-4
        assert np.sum(gradient * direction) == pytest.approx(slope, rel=tolerance, abs=tolerance)


STARTS = [-41, -40, -39, -3, -1, 0, 1, 20, 31, 32, 33, 34, 35, 36, 39, 40, 2**62, -(2**62)]
STARTS += [2**63 - 1, 2**63 - 3, 2**63 - 8, -(2**63), 3 - 2**63]  # where sums overflow


@pytest.mark.filterwarnings("ignore:A part of:calque.JitFallback")  # -2**63 is in no kernel
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("f", [stored, rows_flat, guarded, one_place, backward])
def test_negative_places_and_places_outside(f: Callable[..., Any], start: int) -> None:
    assert_as_python(f, PACKED, X, start)


@pytest.mark.parametrize("size", range(9))
@pytest.mark.parametrize("packed", [0, 1, 2, 27, 28, 29, 40])
def test_a_triangle_of_any_size(size: int, packed: int) -> None:
    assert_as_python(triangle, PACKED[:packed], RNG.normal(size=size))


def test_memory_of_other_orders() -> None:
    wide = RNG.normal(size=(3, 80))
    for packed in (wide[1, ::2], wide[1, ::-2], wide.T[::2, 0]):
        assert_as_python(triangle, packed, X)
        assert_as_python(stored, packed, X, 2)


def counted_on(y, start, stop):
    """The counter is read after the loop, also after a zero-trip loop."""
    total, place = 0.0, start
    for i in range(2):
        for j in range(i, stop):
            total += y[place]
            place += 1
    return total + place


@pytest.mark.parametrize("stop", [-3, -1, 0, 1, 2, 6])
@pytest.mark.parametrize("start", [-2, 0, 5, 35])
def test_a_counter_that_is_read_later(start: int, stop: int) -> None:
    assert_as_python(counted_on, PACKED, start, stop)


def test_the_error_comes_after_the_stores_of_the_iterations_before() -> None:
    """Python stores into y[39] before it finds no y[40]."""
    assert assert_as_python(stored, PACKED, X, 36) == "IndexError"


def test_the_sweep_back_of_places_counted_from_the_end() -> None:
    """The saved places are negative: the loop that asks runs, and finds them."""
    found = calque.jit(calque.grad(rows_flat, argnums=1))(PACKED, X, -38)
    expected = np.zeros(6)
    for i in range(6):
        expected += [PACKED[-38 + i * 6 + j] for j in range(6)]
    np.testing.assert_allclose(found, expected)


def strided(y, x, start):
    total = 0.0
    for i in range(2):
        for j in range(x.shape[0]):
            total += y[start + 2**16 * j] * x[j]
    return total


def many_iterations(y, x, start, iterations):
    """More iterations than elements: Python stops at the first index out of range."""
    for i in range(2):
        for j in range(iterations):
            y[start + j] += x[i]
    return np.sum(y)


def far(y, x, start):
    total = 0.0
    for i in range(2):
        for j in range(5, 9):
            total += y[start + (j + (2**63 - 6))] * x[i]
    return total


def test_numbers_beyond_64_bits() -> None:
    assert_error(far, PACKED, X, 0)
    assert_error(far, PACKED, X, -3)


def test_ends_that_are_inside_by_overflow_alone() -> None:
    """With so many iterations the last index, modulo 2**64, is the first one, or negative."""
    long = np.broadcast_to(np.ones(1), 2**48 + 1)
    assert assert_error(strided, PACKED, long, 0)
    for iterations in (2**63 - 1, 2**63 - 2, 2**62):
        assert assert_as_python(many_iterations, PACKED, X, 5, iterations) == "IndexError"
        assert assert_as_python(many_iterations, PACKED, X, -5, iterations) == "IndexError"


def assert_error(f: Callable[..., Any], *args: Any) -> bool:
    with pytest.raises(IndexError):
        calque.jit(f)(*args)
    return True
