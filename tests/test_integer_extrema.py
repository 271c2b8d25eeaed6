"""Python's ``max`` and ``min`` of integers: indices kept inside, as the user writes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque


def clipped(x):
    """Neighbours, at the borders the element itself."""
    n = x.shape[0]
    total = 0.0
    for i in range(n):
        a = max(i - 1, 0)
        b = min(i + 1, n - 1)
        total += x[a] * x[b] ** 2
    return total


def windowed(x):
    n = x.shape[0]
    total = 0.0
    for i in range(n):
        for j in range(max(0, i - 2), min(n, i + 3)):
            total += x[i] * x[j]
    return total


def too_far(x):
    n = x.shape[0]
    total = 0.0
    for i in range(n):
        total += x[min(i + 1, n)]
    return total


def from_the_end(x):
    """The smaller of two may be negative where one of them may."""
    n = x.shape[0]
    y = np.zeros(n + 1)
    y[:n] = x
    total = 0.0
    for i in range(n + 3):
        total += y[min(i - 2, n)] * (i + 1)
    return total


@pytest.mark.parametrize("fn", [clipped, windowed])
@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_values_and_slopes(fn: Any, n: int, monkeypatch: Any) -> None:
    monkeypatch.setenv("CALQUE_JIT", "0")
    x = np.linspace(0.5, 2.0, n) if n else np.zeros(0)
    want = [(fn(x + 1e-20j * e)).imag / 1e-20 for e in np.eye(n)]
    for form in (calque.grad(fn), calque.jit(calque.grad(fn))):
        np.testing.assert_allclose(form(x), want, rtol=1e-13)
    assert np.isclose(calque.jit(fn)(x), fn(x), rtol=1e-14)


def test_indices_are_proven_and_read_as_written() -> None:
    source = calque.jit(calque.grad(clipped)).source(np.ones(4), stage="kernels")
    assert "checked_index" not in source and "a_saved" not in source, source
    assert "min(n - 1, i + 1)" in source, source
    assert "checked_index(" in calque.jit(too_far).source(np.ones(4), stage="kernels")
    with pytest.raises(IndexError):
        calque.jit(too_far)(np.ones(4))


def test_what_may_be_negative_is_not_proven() -> None:
    source = calque.jit(from_the_end).source(np.ones(4), stage="kernels")
    assert "checked_index(" in source, source
    x = np.arange(1.0, 5.0)
    assert calque.jit(from_the_end)(x) == from_the_end(x)


def test_types_are_pythons() -> None:
    def largest(k, m):
        return max(k, m, 3)

    assert type(calque.jit(largest)(5, 4)) is int and calque.jit(largest)(5, 4) == 5
    np.testing.assert_array_equal(
        calque.vmap(largest, in_axes=(0, None))(np.array([1, 5, 4]), 4), [4, 5, 4]
    )
    assert calque.jit(lambda x, k: max(x, k))(2.5, 2) == 2.5


def ring(x, steps):
    """Places in a buffer that is used again and again."""
    last = np.zeros(3)
    total = 0.0
    for k in range(steps):
        last[k % 3] = x[k % x.size] * (k + 1)
        total += last[(k - 1) % 3] * last[-k % 3]
    return total


def test_remainders_are_in_range() -> None:
    x = np.linspace(0.5, 2.0, 4)
    source = calque.jit(ring).source(x, 9, stage="kernels")
    assert "checked_index" not in source, source
    for steps in (0, 1, 9):
        assert np.isclose(calque.jit(ring)(x, steps), ring(x, steps), rtol=1e-14)
        found = calque.jit(calque.grad(ring))(x, steps)
        want = [(ring(x + s, steps) - ring(x - s, steps)) / 2e-6 for s in 1e-6 * np.eye(4)]
        np.testing.assert_allclose(found, want, rtol=1e-6, atol=1e-9)
    with pytest.raises(ZeroDivisionError):
        calque.jit(ring)(np.zeros(0), 2)


def mirrored(x):
    corr = np.zeros((20, 20))
    for i in range(19):
        corr[i, i + 1 :] = x[i + 1 :] * 2.0
        corr[i + 1 :, i] = corr[i, i + 1 :]
    return np.sum(corr * corr)


def test_inner_counters_are_bounded_first() -> None:
    for form in (mirrored, calque.grad(mirrored)):
        source = calque.jit(form).source(np.ones(20), stage="kernels")
        assert "checked_index" not in source, source
    x = np.linspace(1.0, 2.0, 20)
    np.testing.assert_allclose(calque.jit(calque.grad(mirrored))(x), 16.0 * x * np.arange(20))
