"""Loops whose accesses cross in one iteration are split there; all others run in parallel."""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
from calque.runtime.kernels import kernel, maximum, vrange
from calque.transpiler.loops.schedule import parts as loop_parts

pytest.importorskip("numba")

RNG = np.random.default_rng(15)


def shortest_paths(path):
    n = path.shape[0]
    for k in range(n):
        for i in range(n):
            for j in range(n):
                path[i, j] = min(path[i, j], path[i, k] + path[k, j])
    return np.sum(path * path)


def downward(path):
    n = path.shape[0]
    for k in range(n - 1, -1, -1):
        for i in range(n):
            for j in range(n - 1, -1, -1):
                path[i, j] = 0.5 * path[i, j] + 0.1 * path[i, k] * path[k, j]
    return np.sum(path * path)


def gauss_jordan(A):
    n = A.shape[0]
    for k in range(n):
        for i in range(n):
            if i != k:
                factor = A[i, k] / A[k, k]
                for j in range(n):
                    A[i, j] -= factor * A[k, j]
    return np.sum(A**2)


def mirrored(A):
    n = A.shape[0]
    for i in range(n):
        for j in range(n):
            A[i, j] += 0.5 * A[j, i]
    return np.sum(A**2)


def diagonal_twice(A):
    """At the crossing, one iteration stores twice into the same element."""
    n = A.shape[0]
    for i in range(n):
        for j in range(n):
            A[i, j] = 2.0 * A[i, j] + A[i, i]
            A[i, i] = A[i, i] * 0.5
    return np.sum(A * A)


def summed_behind(A):
    """The sum reads what an earlier iteration has stored: the order of iterations matters."""
    n, s = A.shape[0], 0.0
    for k in range(n):
        for i in range(n - 2, 0, -1):
            s += A[k, i + 1]
            A[k, i - 1] *= 0.5
    return s


def beyond(A):
    """The other counter is not always in the range of the inner loop."""
    n = A.shape[0]
    for k in range(n):
        for j in range(n // 2):
            A[0, j] = A[0, j] + 0.5 * A[0, k]
    return np.sum(A * A)


PROGRAMS = [shortest_paths, downward, gauss_jordan, mirrored]
PROGRAMS += [diagonal_twice, summed_behind, beyond]


def matrix(n: int) -> np.ndarray:
    return RNG.random((n, n)) + 0.1 + n * np.eye(n)


@pytest.mark.parametrize("fn", PROGRAMS)
@pytest.mark.parametrize("n", [0, 1, 2, 5, 21])
def test_value(fn: Callable[..., Any], n: int) -> None:
    A = matrix(n)
    ours, theirs = A.copy(), A.copy()
    np.testing.assert_allclose(calque.jit(fn)(ours), fn(theirs), rtol=1e-12)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14 * n)  # what cancels


@pytest.mark.parametrize("fn", PROGRAMS)
def test_gradient(fn: Callable[..., Any]) -> None:
    A, h = matrix(5), 1e-6
    expected = np.empty_like(A)
    for at in np.ndindex(A.shape):
        step = np.zeros_like(A)
        step[at] = h
        expected[at] = (fn(A + step) - fn(A - step)) / (2 * h)
    np.testing.assert_allclose(calque.jit(calque.grad(fn))(A), expected, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("fn", [shortest_paths, downward, mirrored])
def test_iterations_run_side_by_side(fn: Callable[..., Any]) -> None:
    text = calque.source(calque.jit(fn), matrix(4), stage="kernels")
    assert text.count("for j in vrange(") >= 2


def test_sums_of_the_sweep_back_run_side_by_side() -> None:
    """The adjoint of the element that all iterations read is accumulated in a scalar."""
    text = calque.source(calque.jit(calque.grad(shortest_paths)), matrix(4), stage="kernels")
    back = text[text.index("for k in range(n - 1, -1, -1)") :]
    assert back.count("for j in vrange(") == 2
    assert "path_bar_ik += " in back


def counted(A):
    """The inner loop counts, and the count is an index after it."""
    n = A.shape[0]
    for k in range(n):
        for i in range(n):
            count = 0
            for j in range(n):
                A[i, j] = min(A[i, j], A[i, k] + A[k, j]) + 0.01 * count
                count = count + 1
            A[i, k] += 0.01 * A[i, count - 1]
    return np.sum(A)


def test_a_part_does_not_have_the_results_of_the_whole_loop(monkeypatch: Any) -> None:
    """The value that a count has after the loop is not its value after a part of the iterations."""
    parts, write = [], loop_parts._part

    def part(loop: Any, ends: Any, reach: Any, inits: Any, builder: Any) -> Any:
        made = write(loop, ends, reach, inits, builder)
        parts.append([(out, builder.dim_values.get(out)) for out in made.outs])
        return made

    monkeypatch.setattr(loop_parts, "_part", part)
    A = matrix(5)
    assert np.isclose(calque.jit(counted)(A.copy()), counted(A.copy()), rtol=1e-12)
    assert len(parts) == 2
    assert [dim for out, dim in parts[0] if not out.type.ndim] == [None]


def test_nan_is_handled_as_by_min() -> None:
    A = matrix(5)
    A[1, 2] = np.nan
    A[3, 0] = -np.inf
    ours, theirs = A.copy(), A.copy()
    calque.jit(shortest_paths)(ours)
    shortest_paths(theirs)
    np.testing.assert_array_equal(ours, theirs)


def clip(x, low):
    for i in range(x.size):
        x[i] = low[i] if x[i] < low[i] else x[i]


def clip_by_maximum(x, low):
    for i in vrange(x.size):
        x[i] = maximum(x[i], low[i])


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the name of an instruction of x86")
@pytest.mark.parametrize("fn", [clip, clip_by_maximum])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_all_elements_are_stored(fn: Callable[..., Any], dtype: type) -> None:
    """With a mask, which LLVM prefers, it takes several times as long on some processors."""
    low = RNG.normal(size=100).astype(dtype)
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-310, *RNG.normal(size=94)], dtype)
    compiled, got, want = kernel(fn), x.copy(), x.copy()
    compiled(got, low)
    fn(want, low)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
    assert "maskmov" not in "".join(compiled.inspect_asm().values())
