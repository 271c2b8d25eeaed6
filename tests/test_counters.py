"""Induction variables, which the reverse sweep recomputes; against complex-step derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque

X = np.array([0.6, -0.4, 0.9, 0.5, -0.7, 0.8, 0.3, 1.1, -0.2, 0.4, 0.7, -0.9])


def by_complex_step(fn: Callable[..., Any], x: Any) -> Any:
    """The gradient of an analytic function, without differences."""
    found = np.empty_like(x)
    for k in range(x.size):
        moved = x.astype(complex)
        moved[k] += 1e-30j
        found[k] = np.imag(fn(moved)) / 1e-30
    return found


def triangle(x: Any) -> Any:
    total, place = 0.0, 0
    for q in range(4):
        for r in range(q + 1, 4):
            total = total + np.sin(total) * x[place] * x[r]
            place += 1
    return total


def every_other_down(x: Any) -> Any:
    total, place = 1.0, 11
    for _ in range(5, 0, -1):
        total = total * (1.0 + x[place] ** 2)
        place -= 2
    return total


def by_a_variable(x: Any) -> Any:
    total, place, step = 1.0, 0, x.size // 4
    for _ in range(3):
        place = step + place
        total = total * np.cos(x[place])
    return total + x[place]


def read_after_it_counted(x: Any) -> Any:
    total, place = 1.0, 2
    for k in range(4):
        place = place + 2
        total = total * np.cos(x[place]) + x[k]
    return total


def by_another_number_each_iteration(x: Any) -> Any:
    total, place = 1.0, 0
    for k in range(4):
        total = total * np.cos(x[place])
        place += k
    return total


def in_a_branch(x: Any) -> Any:
    total, place = 1.0, 0
    for k in range(6):
        total = total * np.cos(x[place])
        if k % 2 == 1:
            place += 1
    return total


def of_a_while(x: Any) -> Any:
    total, place = 1.0, 0
    while place < 9:
        total = total * np.cos(x[place])
        place += 2
    return total


def of_a_loop_without_iterations(x: Any) -> Any:
    total, place = 1.0, 3
    for _ in range(x.size, 2):
        total = total * np.cos(x[place])
        place += 1
    return total * x[place]


def narrow(x: Any) -> Any:
    total, place = 1.0, np.int8(100)
    for _ in range(3):
        total = total * np.cos(x[place % 12])
        place = place + np.int8(9)
    return total


COUNTED = [triangle, every_other_down, by_a_variable, read_after_it_counted]
SAVED = [
    by_another_number_each_iteration,
    in_a_branch,
    of_a_while,
    of_a_loop_without_iterations,
    narrow,
]


@pytest.mark.parametrize("function", COUNTED + SAVED, ids=lambda f: f.__name__)
@pytest.mark.parametrize("compiled", [False, True])
def test_gradients(function: Callable[..., Any], compiled: bool) -> None:
    gradient = calque.grad(function)
    gradient = calque.jit(gradient) if compiled else gradient
    expected = by_complex_step(function, X)
    np.testing.assert_allclose(gradient(X), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("function", COUNTED[1:], ids=lambda f: f.__name__)
def test_a_counter_is_not_saved(function: Callable[..., Any]) -> None:
    assert "place_saved" not in calque.source(calque.grad(function), X)


def test_a_counter_of_nested_loops_is_saved_once_for_each_inner_loop() -> None:
    text = calque.source(calque.grad(triangle), X)
    assert "place_saved = np.empty(4, dtype=np.int64)" in text


@pytest.mark.parametrize("function", SAVED[:2], ids=lambda f: f.__name__)
def test_what_does_not_count_along_is_saved(function: Callable[..., Any]) -> None:
    assert "place_saved" in calque.source(calque.grad(function), X)
