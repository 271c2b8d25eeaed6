"""`np.roll`, padding and grids of coordinates in kernels: no array is made of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sampling import sampled

import calque

RNG = np.random.default_rng(8)


def one(x):
    return np.roll(x, 1, axis=0) - np.roll(x, -1, axis=-1)


def far(x):
    return np.roll(x, 5, axis=0) * np.roll(x, -7, axis=-1)


def no_shift(x):
    return np.roll(x, 0, axis=-1) + np.roll(x, (0, 0), axis=(0, -1))


def both_axes(x):
    return np.roll(x * x, (1, -2), axis=(0, -1)) + np.roll(x, 2, axis=(0, -1))


def one_axis_twice(x):
    return np.roll(np.sin(x), (1, 3), axis=(0, 0))


def whole(x):
    return np.roll(x, 3) + np.roll(np.sin(x), (1, 2))


ROLLS = [one, far, no_shift, both_axes, one_axis_twice, whole]
SHAPES = [(5, 4), (1, 3), (3, 1), (1, 1), (0, 3), (3, 0), (2, 2), (6,), (1,), (0,)]


@pytest.mark.parametrize("program", ROLLS, ids=lambda f: f.__name__)
def test_rolls(program: Callable[..., Any]) -> None:
    jitted = calque.jit(program)
    slopes = calque.jit(calque.grad(lambda x: np.sum(np.sin(program(x)))))
    plain = calque.grad(lambda x: np.sum(np.sin(program(x))))
    for shape in SHAPES:
        for dtype in (np.float64, np.float32):
            x = RNG.normal(size=shape).astype(dtype)
            found = jitted(x)
            np.testing.assert_allclose(found, program(x), rtol=1e-6)
            assert found.dtype == program(x).dtype and found.shape == shape
            np.testing.assert_allclose(slopes(x), plain(x), rtol=1e-5, atol=1e-7)


SHIFTS = [0, 1, -1, 3, -3, 4, 11, -11, True, np.int8(-2), np.int64(2), np.uint8(200)]


@pytest.mark.parametrize("shift", sampled(SHIFTS, 4), ids=repr)
def test_shifts_that_the_run_knows(shift: Any) -> None:
    def rolled(x: Any, k: Any) -> Any:
        return np.roll(np.exp(x), k, axis=0)

    jitted = calque.jit(rolled)
    for size in (0, 1, 3, 4):
        x = RNG.normal(size=(size, 2))
        np.testing.assert_allclose(jitted(x, shift), rolled(x, shift), rtol=1e-14)


def test_a_shift_that_is_no_integer_is_numpys_matter() -> None:
    rolled = calque.jit(lambda x, k: np.roll(x, k))
    for shift in (1.5, np.float64(2.0)):
        np.testing.assert_array_equal(rolled(np.arange(3.0), shift), np.roll(np.arange(3.0), shift))


def diffusion(u, rate, steps):
    for _ in range(steps):
        u = u + rate * (np.roll(u, 1) - 2.0 * u + np.roll(u, -1))
    return np.sum(u * u)


def stored(u, rate, steps):
    u = u.copy()
    for k in range(steps):
        u[:] = u + rate * (np.roll(u, k) - u)
        u[1:] += 0.5 * np.roll(u, 2)[:-1]
    return np.sum(u * u)


def reaction(u, rate, steps):
    v = 0.5 * u
    for _ in range(steps):
        around = np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1)
        u, v = u + rate * (around - 4.0 * u) - u * v * v, v + rate * np.roll(v, (1, 1), (0, 1))
    return np.sum(u * v)


@pytest.mark.parametrize(
    ("program", "shape"), [(diffusion, (9,)), (stored, (7,)), (reaction, (5, 6))]
)
def test_time_loops_are_kernels(program: Any, shape: tuple[int, ...]) -> None:
    u = RNG.normal(size=shape)
    slopes = calque.jit(calque.grad(program, argnums=(0, 1)))
    text = calque.source(slopes, u, 0.1, 4, stage="kernels")
    launcher = text.partition("_jit(")[2]
    assert "for " not in launcher and "np.roll" not in launcher
    expected = calque.grad(program, argnums=(0, 1))(u, 0.1, 4)
    for found, other in zip(slopes(u, 0.1, 4), expected, strict=True):
        np.testing.assert_allclose(found, other, rtol=1e-12)
    np.testing.assert_allclose(calque.jit(program)(u, 0.1, 4), program(u, 0.1, 4), rtol=1e-13)


# grids of coordinates


def meshed(x, y):
    a, b = np.meshgrid(x, y)
    return np.exp(-a * a) * b


def in_order(x, y):
    a, b = np.meshgrid(x, y, indexing="ij")
    return a, np.sum(a * b, axis=0)


def of_three(x, y):
    a, b, c = np.meshgrid(x, y, x + 1.0)
    return a * b + c


def stacked(x, y):
    return np.stack(np.meshgrid(x, y)) * 2.0


def boxed(x, y):
    i, j = np.mgrid[0 : x.size, : y.size]
    return np.sum((i - x[0]) * j), i, np.mgrid[0 : x.size, 0 : y.size]


def from_one(x, y):
    return np.mgrid[1 : x.size + 2, 2:5] * y[0], np.mgrid[0:1:3j, -1:1:0.5] + x[0]


def indexed(x, y):
    both = np.indices((x.size, y.size), dtype=float)
    return np.sum(both, axis=0), both * x[:, None], np.sum(both, axis=(1, 2))


GRIDS = [meshed, in_order, of_three, stacked, boxed, from_one, indexed]


@pytest.mark.parametrize("program", GRIDS, ids=lambda f: f.__name__)
def test_grids(program: Callable[..., Any]) -> None:
    jitted = calque.jit(program)
    for sizes in ((4, 3), (1, 3), (1, 1)):
        x, y = (RNG.normal(size=n) for n in sizes)
        expected = program(x, y)
        found = jitted(x, y)
        pairs = zip(found, expected, strict=True) if type(found) is tuple else [(found, expected)]
        for mine, other in pairs:
            np.testing.assert_allclose(mine, other, rtol=1e-14)
            assert mine.dtype == other.dtype and mine.shape == other.shape
            assert not mine.ndim or mine.flags.writeable


def test_coordinates_are_the_counters_of_loops() -> None:
    def moment(image: Any, x0: Any) -> Any:
        y, x = np.mgrid[0 : image.shape[0], 0 : image.shape[1]]
        a, b = np.meshgrid(np.arange(image.shape[1]), np.arange(image.shape[0]))
        return np.sum(image * ((x - x0) ** 2 + y) * (a + b))

    image = RNG.normal(size=(4, 5))
    slopes = calque.jit(calque.grad(moment, argnums=(0, 1)))
    text = calque.source(slopes, image, 1.5, stage="kernels")
    text = "".join(line for line in text.splitlines() if "#" not in line)
    assert not any(name in text for name in ("np.indices", "np.meshgrid", "np.stack"))
    for found, other in zip(
        slopes(image, 1.5), calque.grad(moment, argnums=(0, 1))(image, 1.5), strict=True
    ):
        np.testing.assert_allclose(found, other, rtol=1e-13)


def test_axes_of_a_grid_have_slopes() -> None:
    def spread(x: Any, y: Any) -> Any:
        a, b = np.meshgrid(x, y)
        return np.sum(np.sin(a * b + a))

    x, y = RNG.normal(size=4), RNG.normal(size=3)
    found = calque.jit(calque.grad(spread, argnums=(0, 1)))(x, y)
    inner = np.cos(x * y[:, None] + x)
    np.testing.assert_allclose(found[0], np.sum(inner * (y[:, None] + 1.0), axis=0))
    np.testing.assert_allclose(found[1], np.sum(inner * x, axis=1))


# padding


def padded(x, v):
    return np.pad(x * x, ((1, 2), (0, 3)), constant_values=v) ** 2, np.pad(x[0], 2)


def differences(x, v):
    return np.diff(np.exp(x), axis=0), v * np.trapezoid(np.sin(x), x, axis=1)


@pytest.mark.parametrize("program", [padded, differences], ids=lambda f: f.__name__)
def test_padding_is_a_store_into_a_filled_array(program: Any) -> None:
    def loss(x: Any, v: Any) -> Any:
        return sum(np.sum(np.cos(part)) for part in program(x, v))

    slopes, plain = (form(calque.grad(loss, argnums=(0, 1))) for form in (calque.jit, lambda f: f))
    for shape in ((3, 4), (1, 1), (2, 1), (1, 3)):
        x = RNG.normal(size=shape)
        for found, other in zip(calque.jit(program)(x, 0.5), program(x, 0.5), strict=True):
            np.testing.assert_allclose(found, other, rtol=1e-14)
        for found, other in zip(slopes(x, 0.5), plain(x, 0.5), strict=True):
            np.testing.assert_allclose(found, other, rtol=1e-12, atol=1e-14)
    text = calque.source(slopes, RNG.normal(size=(3, 4)), 0.5, stage="kernels")
    assert "np.pad" not in "".join(line for line in text.splitlines() if "#" not in line)
