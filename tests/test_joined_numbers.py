"""Numbers joined with vectors within loops of kernels."""

from __future__ import annotations

import numpy as np

import calque


def beside_numbers(x, v):
    total = 0.0
    for i in range(x.shape[0]):
        row = np.hstack([v[0], x[i] * 2.0, np.append(x[i], 3), np.r_[v[1], x[i]]])
        total += np.sum(np.sin(row) * np.arange(row.size))
    return total


def test_numbers_beside_vectors_within_loops_are_stored_in_their_places():
    rng = np.random.default_rng(8)
    for dtype in (np.float64, np.float32):
        x, v = rng.normal(size=(4, 3)).astype(dtype), rng.normal(size=2).astype(dtype)
        slopes = calque.jit(calque.grad(beside_numbers, argnums=(0, 1)))
        launcher = calque.source(slopes, x, v, stage="kernels").partition("_jit(")[2]
        assert "for " not in launcher
        np.testing.assert_allclose(
            calque.jit(beside_numbers)(x, v), beside_numbers(x, v), rtol=1e-5
        )
        expected = calque.grad(beside_numbers, argnums=(0, 1))(x, v)
        for found, other in zip(slopes(x, v), expected, strict=True):
            assert found.dtype == dtype
            np.testing.assert_allclose(found, other, rtol=1e-4, atol=1e-4)


def test_a_number_beside_a_vector_has_numpys_dtype():
    def stacked(x, n):
        total = np.zeros(x.size + 1, dtype=x.dtype)
        for _ in range(n):
            total = total + np.hstack([2, x])
        return total

    for dtype in (np.float32, np.float64, np.int64):
        x = np.arange(3).astype(dtype)
        found = calque.jit(stacked)(x, 3)
        np.testing.assert_array_equal(found, stacked(x, 3))
        assert found.dtype == stacked(x, 3).dtype
