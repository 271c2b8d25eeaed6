"""Patterns of batches whose examples take branches of their own: a block for each example."""

from __future__ import annotations

import linecache
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from random_exits import Exits
from sampling import sampled

import calque
from calque import sparse


def either(a):
    return a**2 if a > 0.5 else np.sin(a)


def nested(a):
    if a > 0.5:
        if a > 0.7:
            return np.sqrt(a - 0.6)
        for _ in range(3):
            a = a * np.cos(a)
        return a
    elif a > 0.2:
        return np.log(a)
    return 3.0


def repeated(a):
    total = 0.0
    while a < 1.0:
        if total > 0.3:
            a = a * 1.5
        else:
            a = np.log(a + 1.0) * 2.0
        total += a * a
    return total


def left(a):
    total = a
    for k in range(6):
        if total > 2.0:
            break
        if k % 2 and a < 0.5:
            continue
        total += np.exp(a) * k
    return total


def stored(a):
    values = np.zeros(3)
    if a > 0.5:
        values[0] = a
        values[1:] = np.log(a)
    else:
        for k in range(2):
            values[k + 1] = a * k
    return values


def with_others(a, b, w):
    if a > b:
        return a * w[0]
    return np.where(b > 0.5, b * w[1], a)


BLOCKS: tuple[Callable[..., Any], ...] = (either, nested, repeated, left, stored)


def batches(f: Callable[..., Any], width: int) -> Callable[..., Any]:
    """The function over rows of so many numbers each; of numbers alone, if it is 0."""
    return lambda x: calque.vmap(f)(x.reshape(-1, width) if width else x)


def check_blocks(f: Any, points: Any, rows: int, columns: int, examples: int) -> None:
    """Detected patterns are blocks for each example, and hold all slopes at many points."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", sparse.DenseBlockWarning)
        pattern = sparse.jacobian_sparsity(f, points[0]).to_scipy().toarray()
    found = np.zeros(pattern.shape, bool)
    with np.errstate(all="ignore"):
        for x in points:
            found |= np.nan_to_num(calque.jacfwd(f)(x).reshape(pattern.shape)) != 0.0
    assert not (found & ~pattern).any()
    blocks = np.kron(np.eye(examples, dtype=bool), np.ones((rows, columns), bool))
    assert not (pattern & ~blocks).any()


@pytest.mark.parametrize("f", BLOCKS, ids=lambda f: f.__name__)
def test_each_result_depends_on_its_example(f: Any) -> None:
    rng = np.random.default_rng(3)
    points = rng.uniform(0.05, 1.0, (20, 5))
    rows = 3 if f is stored else 1
    check_blocks(batches(f, 0), points, rows, 1, 5)


@pytest.mark.parametrize("f", BLOCKS, ids=lambda f: f.__name__)
def test_matrices_of_batches(f: Any) -> None:
    every = batches(f, 0)

    def loss(x):
        return np.sum(np.cos(every(x)) ** 2)

    first, *points = np.random.default_rng(4).uniform(0.05, 1.0, (4, 5))
    jac, found = sparse.jacobian(every, first), sparse.hessian(loss, first)
    assert jac.coloring.num_colors == 1 and found.coloring.num_colors == 1
    for x in points:
        wanted = calque.jacfwd(every)(x)
        np.testing.assert_allclose(jac(x).toarray(), wanted.reshape(-1, 5), rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(
            found(x).toarray(), calque.hessian(loss)(x), rtol=1e-9, atol=1e-11
        )


def test_several_arguments_and_nested_batches() -> None:
    x = np.random.default_rng(5).uniform(0.0, 1.0, (2, 3))
    w = np.array([2.0, 3.0])

    def f(x, w):
        over_rows = calque.vmap(with_others, in_axes=(0, 0, None))
        return calque.vmap(lambda a: over_rows(a, a[::-1], w))(x)

    pattern = sparse.jacobian_sparsity(f, x, w).to_scipy().toarray()
    row = np.eye(3) + np.eye(3)[::-1] > 0
    np.testing.assert_array_equal(pattern, np.kron(np.eye(2), row) > 0)
    both = sparse.jacobian(f, x, w, argnums=(0, 1))
    wanted = calque.jacfwd(f, argnums=(0, 1))(x, w)
    wanted = np.column_stack([wanted[0].reshape(6, 6), wanted[1].reshape(6, 2)])
    np.testing.assert_allclose(both(x, w).toarray(), wanted, rtol=1e-12, atol=1e-14)


def test_a_known_test_takes_examples_apart() -> None:
    table = np.array([1.0, 2.0, 3.0])

    def f(x):
        def one(k, a):
            return a * table[k - 1] if k < 4 else table[k - 4] * x[0]

        return calque.vmap(one)(np.arange(1, 7), x)

    x = np.arange(1.0, 7.0)
    wanted = np.diag([1.0, 2.0, 3.0, 0.0, 0.0, 0.0])
    wanted[3:, 0] = table
    jac = sparse.jacobian(f, x)
    assert jac.sparsity.nnz == 6
    np.testing.assert_array_equal(jac(x).toarray(), wanted)


def loaded(text: str, name: str) -> Callable[..., Any]:
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope: dict[str, Any] = {}
    exec(compile(text, name, "exec"), scope)
    program: Callable[..., Any] = scope["program"]
    return program


@pytest.mark.parametrize("seed", sampled(range(60), 8))
def test_random_functions_of_branches_and_exits(seed: int) -> None:
    f = loaded(Exits(seed).text(), f"<branches of batches {seed}>")
    points = np.random.default_rng(seed).normal(size=(4, 12)) * 2.0
    check_blocks(batches(lambda row: f(row), 4), points, 1, 4, 3)
