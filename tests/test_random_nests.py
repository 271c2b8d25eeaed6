"""Random nests keep their meaning through all passes over loops, compiled and stepped through."""

from __future__ import annotations

import linecache
from typing import Any

import numpy as np
import pytest
from random_nests import Nests
from sampling import sampled

import calque

pytest.importorskip("numba")


def made(seed: int) -> tuple[Any, str]:
    """The program of a seed, and its text."""
    text, name = Nests(seed).text(), f"<random nests {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    namespace: dict[str, Any] = {}
    exec(compile(text, name, "exec"), namespace)
    return namespace["program"], text


def direction(args: tuple[Any, ...]) -> list[np.ndarray]:
    return [np.cos(np.arange(a.size) + k).reshape(a.shape) for k, a in enumerate(args)]


def differences(program: Any, args: tuple[Any, ...]) -> tuple[float, float]:
    """The slope along a direction, and how far two steps disagree about it: near a kink, a lot."""

    def slope(step: float) -> float:
        ends = ([a + sign * step * d for a, d in zip(args, direction(args))] for sign in (1, -1))
        return float(np.subtract(*[program(*end) for end in ends]) / (2 * step))

    wide, narrow = slope(2e-5), slope(1e-5)
    return narrow, abs(wide - narrow)


def check(seed: int, sizes: tuple[int, ...]) -> None:
    """Value against Python's; the gradient against differences, and what runs without kernels."""
    program, text = made(seed)
    plain = calque.grad(program, argnums=(0, 1, 2))
    value, gradient = calque.jit(program), calque.jit(plain)
    for n in sizes:
        rng = np.random.default_rng(seed + n)
        args = rng.normal(size=(n, n)), rng.normal(size=(n, n)), rng.normal(size=n)
        expected = program(*args)
        if not abs(expected) < 1e6:
            continue  # it has run away, and takes rounding with it
        assert np.isclose(value(*args), expected, rtol=1e-9, atol=1e-9), text
        slope, doubt = differences(program, args)
        along = sum(np.sum(g * d) for g, d in zip(gradient(*args), direction(args), strict=True))
        assert np.isclose(along, slope, rtol=1e-6, atol=100.0 * doubt + 1e-6), text
        for got, want in zip(gradient(*args), plain(*args), strict=True):
            scale = np.max(np.abs(want), initial=1.0)
            np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-8 * scale, err_msg=text)


@pytest.mark.parametrize("seed", sampled(range(200), 13))
def test_stepped(seed: int, monkeypatch: Any) -> None:
    monkeypatch.setenv("CALQUE_JIT", "0")
    check(seed, (2, 5, 11))


@pytest.mark.parametrize("seed", sampled(range(1000, 1040), 16))
def test_compiled(seed: int) -> None:
    check(seed, (5, 21))
