"""Compiled code makes no needless copies, results or calls."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque

pytest.importorskip("numba")

RNG = np.random.default_rng(11)


def kernels(fn: Callable[..., Any], args: tuple[Any, ...]) -> str:
    """The compiled form's source, after its values were compared with plain Python's."""
    compiled = calque.jit(fn)
    found = compiled(*(np.copy(a) for a in args))
    np.testing.assert_allclose(found, fn(*(np.copy(a) for a in args)), rtol=1e-12, atol=1e-12)
    return str(compiled.source(*args, stage="kernels"))


def in_loops(source: str, pattern: str) -> list[str]:
    """The lines within loops in which a pattern is found."""
    looped = [line for line in source.splitlines() if line.startswith(" " * 8)]
    return [line for line in looped if re.search(pattern, line)]


def test_the_counter_of_a_loop_is_not_given_back(monkeypatch: Any) -> None:
    """The launcher's loop sets its counter, which has the name of an earlier kernel's."""
    monkeypatch.setenv("CALQUE_JIT", "0")

    def fn(x, a):
        y = np.zeros(x.size)
        for i in range(x.size):
            y[i] = x[i] * 2.0
        for i in range(3):
            a = np.linalg.pinv(a * i + np.eye(3))
            for j in range(x.size):
                y[j] = y[j] + a[0, 0] * i
        return y

    source = kernels(fn, (RNG.normal(size=4), np.eye(3) + 0.1))
    launcher = source.split("def fn_jit")[1]
    assert "for i in range(3)" in launcher, source
    assert "i = " not in launcher.replace("for i in", ""), source


def test_a_size_is_read_before_its_array_is_stored_into(monkeypatch: Any) -> None:
    """Read after, it would hold on to the array as it was."""
    monkeypatch.setenv("CALQUE_JIT", "0")

    def fn(x):
        x[0] = 2.0
        n = x.shape[0]
        return n * np.sum(x)

    assert "copy" not in kernels(fn, (RNG.normal(size=4),))


def test_an_array_that_is_read_later_is_not_taken_for_a_result(monkeypatch: Any) -> None:
    """If an iteration still reads an array, its result goes into other memory, without a copy."""
    monkeypatch.setenv("CALQUE_JIT", "0")

    def spread(v):
        v = v * 1.0
        for _ in range(4):
            bend = v[2:] - 2.0 * v[1:-1] + v[:-2]
            w = v * 0.9
            w[1:-1] += bend
            v = w
        return v

    def crossed(x, v):
        for _ in range(5):
            faster = v - 0.1 * np.sin(x)
            x = x + 0.1 * v[::-1]
            v = faster
        return np.sum(x * v)

    assert not in_loops(kernels(spread, (RNG.normal(size=6),)), r"copy")
    source = kernels(crossed, (RNG.normal(size=5), RNG.normal(size=5)))
    assert not in_loops(source, r"copy"), source


def test_an_arm_adds_to_what_was_set_to_zero_before(monkeypatch: Any) -> None:
    """In the sweep back the arm comes after the store: what was there before is not kept for it."""
    monkeypatch.setenv("CALQUE_JIT", "0")

    def fn(x, w):
        total = 0.0
        for i in range(x.size):
            if w[i] > 0.0:
                total += x[i] ** 2
            x[i] = total * w[i]
        return np.sum(x * w)

    x, w, away = (RNG.normal(size=6) for _ in range(3))
    gradient = calque.jit(calque.grad(fn))
    found = np.vdot(gradient(x, w), away)
    up, down = (fn(x + s * away, w) for s in (1e-6, -1e-6))
    assert np.isclose(found, (up - down) / 2e-6, rtol=1e-7)
    source = str(gradient.source(x, w, stage="kernels"))
    assert not in_loops(source, r"copy"), source


def test_a_size_within_a_loop_does_not_keep_the_array_before_the_loop(monkeypatch: Any) -> None:
    """The reverse sweep asks the array of saved rows for its columns: of x there is one more."""
    monkeypatch.setenv("CALQUE_JIT", "0")

    def last(x, steps):
        y = np.zeros_like(x)
        for _ in range(steps):
            dy = np.empty_like(y)
            dy[0] = x[0]
            dy[1:] = x[1:] * y[:-1]
            y += dy
        return y[-1]

    args = (RNG.random(6), 4)
    compiled = calque.jit(calque.grad(last))
    np.testing.assert_allclose(compiled(*args), calque.grad(last)(*args), rtol=1e-12)
    source = str(compiled.source(*args, stage="kernels"))
    assert "y_saved.shape[1]" in source and "copy(y_saved" not in source, source
