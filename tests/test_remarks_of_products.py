"""Remarks of passes that write products of matrices, and of the one that hoists index checks."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque

TEXT = """\
import numpy as np


def rows(A, C):
    A = A.copy()
    for r in range(A.shape[0]):
        A[r] = A[r] @ C
    return A


def rows_before(A, C):
    A = A.copy()
    for r in range(1, A.shape[0]):
        A[r] = A[r - 1] @ C
    return A


def row_before_at_all(A, C):
    A = A.copy()
    for r in range(A.shape[0]):
        A[r] = A[r - 1] @ C
    return A


def running(A, C):
    h = 0.0
    for r in range(A.shape[0]):
        h = np.sum(A[r] @ C) + h
    return h


def recurrent(W, U, x):
    h = np.zeros(U.shape[0])
    for t in range(x.shape[0]):
        h = np.tanh(x[t] @ W + h @ U)
    return np.sum(h**2)


def read_back(S, x):
    S, y = S.copy(), 0.0
    for t in range(x.shape[0]):
        S += np.outer(x[t], x[t])
        y += S[0, 0]
    return S, y


def without_products(x):
    y = np.zeros_like(x)
    for t in range(x.shape[0]):
        y[t] = np.cumsum(x[t])
    return y


def triangle(packed, x):
    n, total, place = x.shape[0], 0.0, 0
    for i in range(n):
        for j in range(i, n):
            total += packed[place] * x[i] * x[j]
            place += 1
    return total


def by_table(y, x, columns):
    total = 0.0
    for j in range(x.shape[0]):
        total += y[columns[j]] * x[j]
    return total


def covariance(x, m):
    cov = np.zeros((x.shape[1], x.shape[1]))
    for i in range(m):
        cov[i, i:] = x[:, i] @ x[:, i:]
    return np.sum(cov)
"""
SQUARES = (np.ones((64, 64)), np.ones((64, 64)))
FIRST = "<programs with products>"


@pytest.fixture
def program() -> Callable[[str], Callable[..., Any]]:
    """The function of a name, whose lines a remark can quote."""
    linecache.cache[FIRST] = (len(TEXT), None, TEXT.splitlines(True), FIRST)
    namespace: dict[str, Any] = {"__name__": "program"}
    exec(compile(TEXT, FIRST, "exec"), namespace)
    return namespace.__getitem__


def told(fn: Callable[..., Any], args: Any, policy: str) -> str:
    return calque.explain(fn, *args, why=policy)


def test_iterations_that_become_one_product(program: Callable[[str], Any]) -> None:
    text = told(program("rows"), SQUARES, "raise_products")
    assert text.startswith("raise_products (whole nest): line 6, for r is rewritten\n    6: for r in range(")


def test_iterations_that_do_not(program: Callable[[str], Any]) -> None:
    text = told(program("rows_before"), SQUARES, "raise_products")
    assert "line 13, for r stays: line 14 accesses elements that other iterations change" in text
    text = told(program("row_before_at_all"), SQUARES, "raise_products")
    assert "line 20, for r stays: line 21 reads or stores elements that are not known " in text
    assert "    21: A[r] = A[r - 1] @ C" in text
    text = told(program("running"), SQUARES, "raise_products")
    assert "line 27, for r stays: line 27 carries a scalar to its next iteration" in text


def test_products_that_are_too_small(program: Callable[[str], Any]) -> None:
    small = [a[:3, :3] for a in SQUARES]
    text = told(program("rows"), small, "raise_products")
    assert "for r stays: its products are not known to be large enough in this call" in text


def test_a_product_that_is_hoisted(program: Callable[[str], Any]) -> None:
    text = told(program("running"), SQUARES, "raise_products")
    assert "raise_products (before the loop): line 27, for r is rewritten" in text


def test_products_that_are_not_hoisted(program: Callable[[str], Any]) -> None:
    text = told(program("running"), [a[:3, :3] for a in SQUARES], "raise_products")
    assert "for r stays: line 28 is not known to be large enough in this call" in text
    text = told(program("row_before_at_all"), SQUARES, "raise_products")
    assert "line 21 multiplies no row that the counter selects of an unchanged array" in text


def test_products_that_are_sunk(program: Callable[[str], Any]) -> None:
    gradient = calque.grad(program("recurrent"), (0, 1, 2))
    text = told(gradient, (SQUARES[0],) * 3, "raise_products")
    assert "raise_products (after the loop): line 34, for t is rewritten" in text
    text = told(gradient, (SQUARES[0][:3, :3],) * 3, "raise_products")
    assert "is rewritten" not in text
    assert "line 35 adds or stores a product not known to be large in this call" in text


def test_products_that_are_not_sunk(program: Callable[[str], Any]) -> None:
    text = told(program("recurrent"), (SQUARES[0],) * 3, "raise_products")
    assert "line 34, for t stays: it carries no matrix of floats" in text
    text = told(program("read_back"), SQUARES, "raise_products")
    assert "line 41, for t stays: line 43 reads a matrix, or changes it in an inner loop" in text
    text = told(program("without_products"), SQUARES[:1], "raise_products")
    assert "line 49, for t stays: line 50 stores no product of a matrix and a vector" in text


def test_sums_with_a_slice_that_shrinks(program: Callable[[str], Any]) -> None:
    covariance, x = program("covariance"), SQUARES[0]

    def gradient(left: int) -> Any:
        return calque.grad(lambda x: covariance(x, x.shape[1] - left))

    text = told(gradient(0), (x,), "raise_products")
    assert "raise_products (after the loop): line 72, for i is rewritten" in text
    text = told(gradient(0), (x[:3, :3],), "raise_products")
    assert "line 73 adds or stores a product not known to be large in this call" in text
    text = told(gradient(8), (x,), "raise_products")
    assert "line 73 uses some rows of a matrix, not known to be nearly all of them" in text


def test_checks_that_are_hoisted(program: Callable[[str], Any]) -> None:
    text = told(program("triangle"), (np.ones(40), np.ones(4)), "hoist_checks")
    assert "hoist_checks: line 57, for j is rewritten" in text
    assert "hoist_checks: line 56, for i stays: line 57 is an inner loop" in text


def test_checks_that_are_not_hoisted(program: Callable[[str], Any]) -> None:
    text = told(program("by_table"), (np.ones(40), np.ones(4), np.arange(4)), "hoist_checks")
    assert "for j stays: line 66 has an index that does not change by a constant" in text
    text = told(program("rows"), [a[:3, :3] for a in SQUARES], "hoist_checks")
    assert "stays: it checks no index" in text
