"""Stores, slices that grow and lists under nested tests in loops: against plain Python."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from programs_as_files import imported
from random_tests_in_loops import Program
from sampling import sampled

import calque

X = np.array([0.3, -1.2, 0.7, 2.0, -0.4])
Y = np.array([-0.3, 1.2, 0.7, -0.5, 0.4])
SEEDS = 180


@pytest.fixture(autouse=True)
def stepped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels run as plain Python."""
    monkeypatch.setenv("CALQUE_JIT", "0")


def slope(fn: Callable[..., Any], x: np.ndarray) -> np.ndarray:
    """By differences; NaN where a test comes out otherwise within the step."""
    found = []
    for e in 1e-6 * np.eye(x.size):
        fine = (fn(x + e) - fn(x - e)) / 2e-6
        coarse = (fn(x + 50 * e) - fn(x - 50 * e)) / 1e-4
        found.append(fine if abs(fine - coarse) <= 1e-3 * max(1.0, abs(fine)) else np.nan)
    return np.array(found)


def compare(fn: Callable[..., Any], *xs: np.ndarray) -> None:
    for x in xs:
        want, slopes = fn(x.copy()), slope(fn, x)
        smooth = ~np.isnan(slopes)
        for form in (calque.value_and_grad(fn), calque.jit(calque.value_and_grad(fn))):
            value, gradient = form(x)
            np.testing.assert_allclose(value, want, rtol=1e-10, atol=1e-12)
            np.testing.assert_allclose(gradient[smooth], slopes[smooth], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(calque.jit(fn)(x.copy()), want, rtol=1e-10, atol=1e-12)
    batch = calque.vmap(fn)(np.stack(xs))
    np.testing.assert_allclose(batch, [fn(x.copy()) for x in xs], rtol=1e-10, atol=1e-12)


def slice_that_grows(x):
    y = x.copy()
    a = 1.0
    for i in range(3):
        if x[1] > 0:
            if x[0] > -1.0:
                y[:i] *= a
        a += np.sum(y[:i] * y[:i])
    return a


def slice_with_a_number(x):
    y = x.copy()
    for i in range(len(x)):
        y[1:i] += y[i]
        y[1:i] *= y[i]
    return np.sum(y * y)


def slice_to_the_smaller(x):
    y = x.copy()
    for i in range(len(x)):
        y[: min(i, 3)] += y[i]
        y[: (i + 1) // 2] *= y[i]
        y[max(i, 2) :] *= 0.5 + y[i]
    return np.sum(y * y)


def list_under_two_tests(x):
    l, s = [], 0.0
    for i in range(len(x)):
        if x[i] > -1.0:
            if s < 3.0:
                l.append(x[i] * (s + 1.0))
            else:
                break
        s += sum(l) * 0.5
    return s + sum(l)


@pytest.mark.parametrize(
    "fn", [slice_that_grows, slice_with_a_number, slice_to_the_smaller, list_under_two_tests]
)
def test_as_plain_python(fn: Callable[..., Any]) -> None:
    compare(fn, X, Y)


def of_a_copy(x):
    l = []
    for i in range(len(x)):
        if x[i] > 5.0:
            l.append(x[i])
    k = list(l)
    for i in range(len(x)):
        k.append(x[i] * 2.0)
    return sum(k) * sum(k) + sum(l)


def of_a_sum_of_lists(x):
    l, s = [], 0.0
    for i in range(len(x)):
        s += 0.1 * max(l + [0.0]) * x[i]
        if x[i] > 0.0:
            l.append(x[i] * x[i])
    return s


def of_a_comprehension(x):
    l = []
    for i in range(len(x)):
        if x[i] > 5.0:
            l.append(x[i])
    k = [v * v for v in l]
    k.append(x[0])
    k.extend(l)
    k.append(x[1])
    return sum(v * v for v in sorted(k))


def of_no_iterations(x):
    l = []
    for i in range(int(abs(x[0]))):
        l.append(x[i])
    l.append(x[1])
    l.append(x[2])
    return l[0] * l[1]


@pytest.mark.parametrize(
    "fn", [of_a_copy, of_a_sum_of_lists, of_a_comprehension, of_no_iterations], ids=lambda f: f.__name__
)
def test_a_list_grows_that_had_no_place(fn: Callable[..., Any]) -> None:
    """Twice as many places as none are none."""
    compare(fn, X, Y)


MENDED = [34, 51, 91, 275, 299]  # once wrong, or refused


@pytest.mark.parametrize("seed", [*sampled(range(SEEDS), 3), *MENDED])
def test_random_programs(seed: int, tmp_path: Path) -> None:
    compare(imported(Program(seed).text(), tmp_path / f"random_tests_{seed}.py", "program"), X, Y)
