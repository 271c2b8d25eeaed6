"""Sums down columns, and along few long rows, on a GPU: in parts, whose sums a second launch adds."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from cuda_emulator import building, standin
from cuda_emulator.running import ON_CARD, cuda_text, few_blocks, on_cuda

import calque

pytestmark = pytest.mark.skipif(building.MISSING is not None, reason=str(building.MISSING))
RNG = np.random.default_rng(17)
TALL = RNG.standard_normal((700, 5))
SINGLE = TALL.astype(np.float32)
CUBE = RNG.standard_normal((3, 300, 7))
WIDE = RNG.standard_normal((3, 500))
EMPTY = np.zeros((0, 4))
COUNTS = RNG.integers(-9, 9, (300, 6))


def mean(x):
    return np.mean(x, axis=0)


def several(x):
    return np.sum(x, axis=0), np.max(x, axis=0), np.min(x, axis=0), np.sum(x * x, axis=0)


def product(x):
    return np.prod(1.0 + 0.01 * x, axis=0)


def spread(x):
    return np.sqrt(np.var(x, axis=0) + 1e-3)


def normalized(x):
    centered = x - np.mean(x, axis=0)
    return centered / np.std(x, axis=0)


def logsumexp_of_columns(x):
    top = np.max(x, axis=0)
    return top + np.log(np.sum(np.exp(x - top), axis=0))


def middle(x):
    return np.sum(np.sin(x), axis=1), np.max(x, axis=1)


def both_outer(x):
    return np.sum(x, axis=(0, 1))


def total(x):
    return np.sum(x, axis=0)


def any_of_columns(x):
    return np.any(x > 2.5, axis=0), np.all(x > -2.5, axis=0)


def least_squares(x, w):
    error = x @ w - 1.0
    return x.T @ error, np.sum(error * error, axis=0)


PROGRAMS: list[tuple[Any, tuple[Any, ...]]] = [
    (mean, (TALL,)),
    (mean, (SINGLE,)),
    (mean, (WIDE,)),
    (several, (TALL,)),
    (several, (WIDE,)),
    (product, (TALL,)),
    (spread, (TALL,)),
    (normalized, (TALL,)),
    (normalized, (SINGLE,)),
    (logsumexp_of_columns, (TALL,)),
    (middle, (CUBE,)),
    (both_outer, (CUBE,)),
    (total, (EMPTY,)),
    (total, (COUNTS,)),
    (any_of_columns, (TALL,)),
    (least_squares, (TALL, RNG.standard_normal((5, 4)))),
]


def assert_same(got: Any, want: Any, tolerance: float) -> None:
    if isinstance(want, tuple):
        for one, other in zip(got, want, strict=True):
            assert_same(one, other, tolerance)
        return
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("case", range(len(PROGRAMS)))
def test_sums_are_numpys_and_the_same_bits_in_any_order_of_threads(case):
    function, args = PROGRAMS[case]
    tolerance = 2e-5 if args[0].dtype == np.float32 else 1e-11
    results = [on_cuda(function, *args, order=order) for order in (0, 1, 7)]
    assert_same(results[0], function(*args), tolerance)
    for other in results[1:]:
        assert_same(results[0], other, 0.0)
    with few_blocks():  # which go around, as many do where there are more rows, or columns
        assert_same(on_cuda(function, *args, order=7), function(*args), tolerance)


@pytest.mark.parametrize("function", [mean, several, product, spread, normalized, middle])
def test_the_rows_are_cut_into_parts(function):
    x = CUBE if function is middle else TALL
    text = cuda_text(function, x)
    assert "parts = max(min(" in text
    assert "for (Index part = " in text and "+= parts)" in text


def test_few_rows_of_a_known_number_are_not():
    text = cuda_text(lambda x: np.sum(x.reshape(-1, 5, 3), axis=1), np.ones(300))
    assert "part" not in text


def test_slopes():
    def loss(x):
        return np.sum(normalized(x) ** 3 * WEIGHTS)

    x, WEIGHTS = TALL[:200], RNG.standard_normal((200, 5))
    got = on_cuda(calque.grad(loss), x)
    for direction in RNG.standard_normal((3, *x.shape)):
        step = 1e-5
        slope = (loss(x + step * direction) - loss(x - step * direction)) / (2.0 * step)
        np.testing.assert_allclose(np.sum(got * direction), slope, rtol=1e-6)


def test_how_many_parts_depends_on_sizes_only():
    text = cuda_text(mean, TALL)
    expression = text.partition("parts = ")[2].partition("\n")[0]
    for rows, columns, least, most in ((10**7, 8, 2**17, 2**17), (10**4, 10**4, 104, 104), (50, 9, 1, 1)):
        names = {"x": np.broadcast_to(0.0, (rows, columns))}
        found = eval(expression, {**names, "max": max, "min": min})
        assert least <= found <= most


def test_sizes_that_the_code_knows():
    """Nothing is left to ask of the sizes: no parts, and the numbers are right."""

    def columns(x):
        y = np.reshape(x, (256, 4))
        return np.sum(y * y, axis=0)

    def running(x):
        s = 0.0
        out = np.empty(8192)
        for i in range(8192):
            s += x[i % x.size]
            out[i] = s
        return out

    def no_rows(x):
        return np.sum(np.zeros((x.size, 0, 3)), axis=1) + np.zeros((0, 4)).sum(axis=0)[0]

    x = np.linspace(0.0, 1.0, 1024)
    for function in (columns, running, no_rows):
        np.testing.assert_allclose(on_cuda(calque.jit(function), x), function(x), rtol=1e-12)


def triangular(x):
    out = np.zeros(x.shape[1])
    for k in range(x.shape[1]):
        total = 0.0
        for i in range(k):
            total += x[i, k]
        out[k] = total
    return out


def columns_of_what_is_stored(x):
    """The iterations store into the array whose columns they sum."""
    x, out = x.copy(), np.zeros(x.shape[1])
    for k in range(x.shape[1]):
        total = 0.0
        for i in range(x.shape[0]):
            total += x[i, k]
        out[k] = total
        x[k, k] += 1.0
    return out, x


def columns_stored_before(x):
    """The sums read elements that the same iteration has stored."""
    x, out = x.copy(), np.zeros(x.shape[1])
    for k in range(x.shape[1]):
        x[k, k] += 1.0
        total = 0.0
        for i in range(x.shape[0]):
            total += x[i, k]
        out[k] = total
    return out, x


def rows_of_an_iteration(x):
    out = np.zeros(x.shape[1])
    for k in range(x.shape[1]):
        total = 0.0
        for i in range(x[: x.shape[0] - k].shape[0]):
            total += x[i, k]
        out[k] = total
    return out


TALLER = RNG.standard_normal((130, 9))


@pytest.mark.parametrize(
    ("function", "in_parts"),
    [
        (triangular, False),
        (columns_of_what_is_stored, True),
        (columns_stored_before, False),
        (rows_of_an_iteration, False),
    ],
)
def test_sums_in_loops_as_written(function, in_parts):
    """Parts are made where the rows do not hang on the column, nor the sums on its own stores."""
    assert_same(on_cuda(function, TALLER), function(TALLER), 1e-11)
    assert ("parts" in cuda_text(function, TALLER)) == in_parts


def of_rows(x):
    return np.sum(x * x, axis=1), np.max(x, axis=-1), np.mean(x, axis=1)


def spread_of_rows(x):
    """A sum that needs another one."""
    return np.var(x, axis=1), np.log(np.sum(np.exp(x - np.max(x, axis=1, keepdims=True)), axis=1))


def rows_as_loops(x, scale):
    """No sum reads an element that an iteration stores."""
    out = np.ones(x.shape[0])
    for i in range(x.shape[0]):
        out[i] = scale * np.sum(x[i]) - out[i]
        x[i, 0] = out[i]
    return out, x


LONG = [(2, 36_864), (3, 40_001), (8, 36_864), (5, 36_863), (0, 40_000), (257, 3), (3, 1)]


@pytest.mark.parametrize("shape", LONG)
def test_few_long_rows_are_cut(shape):
    x = RNG.standard_normal(shape)
    if shape[1] > 2:
        assert_same(on_cuda(of_rows, x), of_rows(x), 1e-11)
        assert_same(on_cuda(spread_of_rows, x), spread_of_rows(x), 1e-10)
    want = rows_as_loops(x.copy(), 0.5)
    standin.launches.clear()
    assert_same(on_cuda(rows_as_loops, x, 0.5), want, 1e-11)
    assert ON_CARD or len(standin.launches) == (2 if shape[0] <= 256 and shape[1] >= 36_864 else 1)


@pytest.mark.parametrize("order", [1, 5])
def test_few_long_rows_have_the_same_bits_whatever_the_order_of_threads(order):
    x = RNG.standard_normal((3, 40_001)).astype("f4")
    for a, b in zip(on_cuda(of_rows, x), on_cuda(of_rows, x, order=order), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", ["f4", "i4", "u1", "?", "c8", "c16"])
def test_few_long_rows_of_other_dtypes(dtype):
    x = (40 * RNG.random((3, 40_001))).astype(dtype)

    def f(x):
        return np.sum(x, axis=1), np.sum(x[:, ::-1] * 2, axis=1), np.sum(x[::2, 1:], axis=1)

    for got, want in zip(on_cuda(f, x), f(x), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-4 if dtype in ("f4", "c8") else 1e-11)


def test_few_lanes_over_long_vectors():
    """Of vmap, too; the gradient reads the rows again."""
    x = RNG.standard_normal((4, 37_000))

    def norm(x):
        return np.sqrt(np.sum(x * x))

    assert_same(on_cuda(calque.vmap(norm), x), np.sqrt(np.sum(x * x, axis=1)), 1e-12)
    slopes = calque.vmap(calque.value_and_grad(norm))
    assert_same(on_cuda(slopes, x), slopes(x), 1e-11)


def test_what_stores_along_rows_is_not_cut():
    def softmax(x):
        e = np.exp(x - np.max(x, axis=1, keepdims=True))
        return e / np.sum(e, axis=1, keepdims=True)

    assert "parts" not in cuda_text(softmax, np.ones((2, 3)))
    assert "parts" not in cuda_text(triangular_rows, TALLER)
    assert_same(on_cuda(triangular_rows, TALLER), triangular_rows(TALLER), 1e-12)


def triangular_rows(x):
    out = np.zeros(x.shape[0])
    for i in range(x.shape[0]):
        out[i] = np.sum(x[i, :i])
    return out


def rows_beside_elements(x):
    d = x[:, None] - x
    return np.sum(x**4) + np.sum(np.exp(-d * d))


def counted_beside_an_inner_loop(x):
    n, t = 0, 0.0
    for i in range(x.shape[0]):
        n += 1
        for j in range(x.shape[1]):
            t += x[i, j]
    return t / n


def continued_by_the_inner_loop(x):
    """Both loops add to one number, and the outer one stands first."""
    s = 0.25
    for i in range(x.shape[0]):
        s = s + x[i, 0] + 2.0
        for j in range(x.shape[1]):
            s -= x[i, j]
    return s


def beside_loops_of_both_depths(x):
    """Counts, products and extrema at each of three depths."""
    n, m, p, most = 0, 1, 1.0, -9.0
    for i in range(x.shape[0]):
        n += 1
        p *= 1.0 + 0.01 * x[i, 0]
        for j in range(x.shape[0]):
            m += 2
            most = max(most, x[j, 0] - x[i, 0])
            for h in range(x.shape[1]):
                n += 1
                p *= 1.0 + 0.001 * x[j, h]
    return n, m, p, most


def narrow_sums(x):
    """Of 32 bits, and complex ones."""
    k, c = np.float32(0.0), 0.5 + 0j
    for i in range(x.shape[0]):
        k += np.float32(0.5)
        c += x[i, 0] * 1j
        for j in range(x.shape[1]):
            c += x[i, j]
            k -= np.float32(0.25)
    return k, c


def gemver(x, w):
    return np.sum(x * x) + np.sum((1.5 * x @ np.ones(x.shape[1])) * w)


DEPTHS = [
    (rows_beside_elements, (TALL[:40, 0],)),
    (counted_beside_an_inner_loop, (TALL[:9],)),
    (counted_beside_an_inner_loop, (WIDE,)),
    (counted_beside_an_inner_loop, (RNG.standard_normal((3, 2100)),)),
    (continued_by_the_inner_loop, (WIDE,)),
    (beside_loops_of_both_depths, (RNG.standard_normal((7, 50)),)),
    (narrow_sums, (WIDE,)),
    (gemver, (WIDE, RNG.standard_normal(3))),
]


@pytest.mark.parametrize("case", range(len(DEPTHS)))
def test_what_an_outer_loop_adds_beside_its_inner_loop_is_added_once(case):
    function, args = DEPTHS[case]
    for order in (0, 1, 7):
        with few_blocks() if order == 7 else nullcontext():
            got, want = on_cuda(function, *args, order=order), function(*args)
        np.testing.assert_allclose(got, want, rtol=1e-12)


def test_a_total_is_cast_by_the_launch_that_adds_the_parts():
    def loss(x):
        return np.sum(x * x)

    def both(x):
        total = np.sum(np.sin(x))
        return total, total * 2.0

    def largest(x):
        return np.max(x)

    x = RNG.standard_normal((300, 41)).astype(np.float32)
    text = cuda_text(loss, x)
    assert "sum_of_parts_float64_to_float32(" in text and text.count("__global__") == 2
    assert "_to_float32" not in cuda_text(loss, x.astype(np.float64))
    for function in (loss, both, largest):
        got, want = on_cuda(function, x), function(x.astype(np.float64))
        for one, other in zip(np.atleast_1d(got), np.atleast_1d(want), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5)
    assert on_cuda(loss, x).dtype == np.float32
    wide = np.zeros((0, 3), np.float32)
    assert on_cuda(loss, wide) == 0.0
