"""Slices that slide with loops: their lengths are known, so that loops over them are kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque
from calque.transpiler.errors import CalqueError

RNG = np.random.default_rng(12)


def by_channel(x, w):
    count, channels, rows, columns = w.shape
    high, wide = x.shape[1] - rows + 1, x.shape[2] - columns + 1
    out = np.zeros((count, high, wide))
    for o in range(count):
        for c in range(channels):
            for i in range(rows):
                for j in range(columns):
                    out[o] += w[o, c, i, j] * x[c, i : i + high, j : j + wide]
    return np.sum(np.sin(out))


def by_twos(x, w):
    count, channels, rows, columns = w.shape
    high, wide = (x.shape[1] - rows) // 2 + 1, (x.shape[2] - columns) // 2 + 1
    out = np.zeros((count, high, wide))
    for o in range(count):
        for c in range(channels):
            for i in range(rows):
                for j in range(columns):
                    out[o] += w[o, c, i, j] * x[c, i : i + 2 * high : 2, j : j + 2 * wide : 2]
    return np.sum(np.sin(out))


def by_threes(x, w):
    high = (x.shape[1] - w.shape[2]) // 3 + 1
    total = 0.0
    for i in range(w.shape[2]):
        part = x[:, i : i + 3 * high : 3]
        total += np.sum(part * part) * w[0, 0, i, 0]
    return total


def summed(x, w):
    out = 0.0
    size = x.shape[2] - w.shape[3] + 1
    for j in range(w.shape[3]):
        out = out + w[0, 0, 0, j] * x[:, :, j : size + j]
    return np.sum(np.sin(out))


def counted_down(x, w):
    size = x.shape[2] - w.shape[3] + 1
    out = np.zeros((x.shape[1], size))
    for j in range(w.shape[3] - 1, -1, -1):
        out += w[0, 0, 0, j] * x[0, :, j : j + size]
    return np.sum(np.sin(out))


WINDOWS = [by_channel, by_twos, by_threes, summed, counted_down]


def sizes() -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Shapes of images and of filters: even and odd rests, and filters as large as the image."""
    images = [(2, 7, 8), (2, 8, 7), (2, 3, 3)]
    filters = [(3, 2, 3, 2), (2, 2, 2, 3), (1, 2, 3, 3), (2, 2, 1, 1)]
    return [(image, kernel) for image in images for kernel in filters]


@pytest.mark.parametrize("program", WINDOWS, ids=lambda f: f.__name__)
def test_windows_of_all_sizes(program: Any) -> None:
    value, slopes = calque.jit(program), calque.jit(calque.grad(program, argnums=(0, 1)))
    plain = calque.grad(program, argnums=(0, 1))
    for image, kernel in sizes():
        x, w = RNG.normal(size=image), RNG.normal(size=kernel)
        np.testing.assert_allclose(value(x, w), program(x, w), rtol=1e-12)
        for found, other in zip(slopes(x, w), plain(x, w), strict=True):
            np.testing.assert_allclose(found, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("program", [by_channel, by_twos, summed, counted_down])
def test_loops_over_windows_are_kernels(program: Any) -> None:
    x, w = RNG.normal(size=(2, 7, 8)), RNG.normal(size=(3, 2, 3, 2))
    text = calque.source(calque.jit(calque.grad(program, argnums=(0, 1))), x, w, stage="kernels")
    assert "for " not in text.partition("_jit(")[2]
    assert "sizes do not fit" not in text and "size_saved" not in text


@pytest.mark.parametrize("program", WINDOWS, ids=lambda f: f.__name__)
def test_windows_that_are_larger_than_the_image(program: Any) -> None:
    """A program for windows that fit is no program for those that do not."""
    value = calque.jit(program)
    w = RNG.normal(size=(2, 2, 3, 4))
    for image in ((2, 6, 6), (2, 2, 3), (2, 1, 2), (2, 0, 0), (2, 2, 8), (2, 6, 6)):
        x = RNG.normal(size=image)
        try:
            expected = program(x, w)
        except ValueError:
            with pytest.raises((ValueError, CalqueError)):
                value(x, w)
        else:
            np.testing.assert_allclose(value(x, w), expected, rtol=1e-12)
