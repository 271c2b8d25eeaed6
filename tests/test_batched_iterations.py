"""Loop nests of matrix-vector products, one an iteration, become products of whole arrays."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from random_row_nests import RowNests
from sampling import sampled

import calque
from calque.transpiler.ir import dims

pytest.importorskip("numba")

SHAPES = [(3, 4, 5), (4, 3, 2), (2, 2, 2), (1, 3, 4), (3, 1, 2), (2, 3, 1), (0, 2, 3), (2, 0, 3)]


def doitgen(A, C):
    A = A.copy()
    for r in range(A.shape[0]):
        for q in range(A.shape[1]):
            A[r, q, :] = A[r, q, :] @ C
    return np.sum(A**2)


def in_place(A, C):
    """Store into an array of the caller's."""
    for r in range(A.shape[0]):
        for q in range(A.shape[1]):
            A[r, q] = C @ A[r, q]
    return np.sum(A**2)


def into_another(A, C):
    B = np.empty(A.shape)
    for r in range(A.shape[0]):
        for q in range(A.shape[1] - 1, -1, -1):
            B[r, q] = np.tanh(A[r, q] @ C) + A[r, q]
    return np.sum(B**2)


def twice_in_an_iteration(A, C):
    A = 0.5 * A
    for r in range(A.shape[0]):
        for q in range(A.shape[1]):
            A[r, q] = A[r, q] @ C
            A[r, q] += C @ np.sin(A[r, q])
    return np.sum(A**2)


def of_the_iteration_before(A, C):
    A = A.copy()
    for r in range(A.shape[0]):
        for q in range(1, A.shape[1]):
            A[r, q] = A[r, q - 1] @ C
    return np.sum(A**2)


def of_one_row_for_all(A, C):
    A = A.copy()
    for r in range(A.shape[0]):
        for q in range(A.shape[1]):
            A[r, q] = A[0, 0] @ C
    return np.sum(A**2)


def triangle(A, C):
    A = A.copy()
    for r in range(A.shape[0]):
        for q in range(min(r, A.shape[1])):
            A[r, q] = A[r, q] @ C
    return np.sum(A**2)


def of_the_sum_so_far(A, C):
    S = 0.1 * C
    for r in range(A.shape[0]):
        for q in range(A.shape[1]):
            S += np.outer(A[r, q], A[r, q] @ S)
            S /= 2.0 + np.sum(S * S)
    return np.sum(S**2)


WHOLE = (doitgen, in_place, into_another, twice_in_an_iteration)
LEFT = (of_the_iteration_before, of_one_row_for_all, triangle, of_the_sum_so_far)


@pytest.fixture
def at_any_size(monkeypatch: Any) -> Iterator[None]:
    """Uncompiled, and no product is too small to be worth it."""
    monkeypatch.setenv("CALQUE_JIT", "0")
    monkeypatch.setattr(dims, "SMALL", 0)
    yield


def copies(arrays: Any) -> list[Any]:
    return [a.copy() for a in arrays]


def checked(function: Callable[..., Any], arrays: list[Any]) -> None:
    """Value, what is stored into the caller's arrays, and gradient are those of NumPy."""
    ours, theirs = copies(arrays), copies(arrays)
    found, expected = calque.jit(function)(*ours), function(*theirs)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-9)
    slopes = calque.jit(calque.grad(function, tuple(range(len(arrays)))))(*arrays)
    ways = [np.cos(np.arange(a.size) + j).reshape(a.shape) for j, a in enumerate(arrays)]

    def at(step: float) -> float:
        return function(*(a + step * way for a, way in zip(arrays, ways, strict=True)))

    near, far = ((at(h) - at(-h)) / (2.0 * h) for h in (1e-5, 2e-5))
    slope = sum(np.sum(a * b) for a, b in zip(slopes, ways, strict=True))
    np.testing.assert_allclose(slope, near, rtol=1e-6, atol=100.0 * abs(near - far) + 1e-6)


@pytest.mark.parametrize("function", WHOLE + LEFT, ids=lambda f: f.__name__)
def test_numbers(function: Any, at_any_size: None) -> None:
    for shape in SHAPES:
        if function is of_one_row_for_all and not all(shape):
            continue
        rng = np.random.default_rng(3)
        A, C = rng.normal(size=shape) / 2.0, rng.normal(size=(shape[2], shape[2])) / 2.0
        checked(function, [A, C])
        turned = A[::-1, :, ::-1].copy()[::-1, :, ::-1], np.asfortranarray(C)
        checked(function, list(turned))


def test_what_is_not_finite_stays_in_its_row(at_any_size: None) -> None:
    A, C = np.random.default_rng(3).normal(size=(3, 4, 5)), np.ones((5, 5))
    A[1, 2, 3] = np.nan
    (found,) = calque.jit(calque.grad(doitgen, (0,)))(A, C)
    np.testing.assert_array_equal(np.isnan(found).any(axis=2), np.isnan(A).any(axis=2))


@pytest.mark.parametrize("function", WHOLE + LEFT, ids=lambda f: f.__name__)
def test_which_of_them_have_no_loops(function: Any) -> None:
    A, C = np.ones((40, 40, 40)), np.ones((40, 40))
    for way in (calque.jit(function), calque.jit(calque.grad(function, (0, 1)))):
        text = calque.source(way, A, C, stage="kernels")
        assert ("C" in text and " @ C" in text.partition("_jit(")[2]) == (function in WHOLE)


def test_it_reads_as_written_by_hand() -> None:
    A, C = np.ones((40, 40, 40)), np.ones((40, 40))
    text = calque.source(calque.jit(calque.grad(doitgen, (0, 1))), A, C, stage="kernels")
    assert "A_after = A @ C\n" in text and "A_bar @ C.T\n" in text
    assert "C_bar = np.tensordot(A, A_bar, ([0, 1], [0, 1]))\n" in text


def made(seed: int) -> Callable[..., Any]:
    text, name = RowNests(seed).text(), f"<row nests {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    namespace: dict[str, Any] = {}
    exec(compile(text, name, "exec"), namespace)
    return namespace["program"]


@pytest.mark.parametrize("seed", sampled(range(60), 4))
def test_random_programs(seed: int, at_any_size: None) -> None:
    program = made(seed)
    for shape in SHAPES:
        n, rng = shape[2], np.random.default_rng(seed)
        A, B = rng.normal(size=(2, *shape)) / 2.0
        C, D = rng.normal(size=(2, n, n)) / n
        arrays = [A, B, C, D, rng.normal(size=n)]
        try:
            program(*copies(arrays))
        except (IndexError, ValueError) as error:
            with pytest.raises(type(error)):
                calque.jit(program)(*copies(arrays))
            continue
        checked(program, arrays)
