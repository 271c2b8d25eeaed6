"""Running sums on a GPU: the threads of a row, or of a block, go over tiles and share them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuda_emulator import building, standin
from cuda_emulator.running import ON_CARD, cuda_text, on_cuda

import calque

pytestmark = pytest.mark.skipif(building.MISSING is not None, reason=str(building.MISSING))
RNG = np.random.default_rng(23)
VECTOR = RNG.standard_normal(700)
OTHER = RNG.standard_normal(700)
MANY = RNG.standard_normal(9001)
MATRIX = RNG.standard_normal((9, 70))
LONG = RNG.standard_normal((2, 2500))
SINGLE = MATRIX.astype(np.float32)
CUBE = RNG.standard_normal((3, 40, 5))
COUNTS = RNG.integers(-9, 9, (5, 70))


def sums(x):
    return np.cumsum(np.sin(x), axis=1)


def sums_in_memory(x):
    return np.cumsum(x, axis=1), np.cumsum(x, axis=0)


def products(x):
    return np.cumprod(1.0 + 0.1 * x, axis=-1)


def extrema(x):
    return np.maximum.accumulate(x, axis=1), np.minimum.accumulate(np.abs(x), axis=1)


def middle(x):
    return np.cumsum(x * x, axis=1)


def of_a_vector(x):
    return np.cumsum(x * x)


def shares(x):
    total = np.cumsum(np.exp(x), axis=1)
    return total / total[:, -1:]


def written_out(x):
    out = np.zeros(x.size)
    total = 0.0
    for i in range(x.size):
        total += x[i] * x[i]
        out[i] = np.sin(total)
    return out, total


def downward(x):
    out = np.zeros(x.size)
    total = 2.0
    for i in range(x.size - 1, -1, -1):
        total = total - x[i]
        out[i] = total * x[i]
    return out


def two_of_them(x, y):
    out = np.zeros(x.size)
    inner, outer, most = 0.0, 1.0, -10.0
    for i in range(x.size):
        inner += x[i]
        outer += np.sin(inner) * y[i]
        most = np.maximum(most, outer)
        out[i] = inner * outer + most
    return out, inner, outer, most


def beside_a_sum(x):
    out = np.zeros(x.shape)
    sizes = np.zeros(x.shape[0])
    for i in range(x.shape[0]):
        total, squares = 0.0, 0.0
        for j in range(x.shape[1]):
            total += x[i, j]
            squares += x[i, j] ** 2
            out[i, j] = total
        sizes[i] = squares + total
    return out, sizes


def path(x):
    out = np.zeros(x.size)
    place = 3.0
    for i in range(x.size):
        place -= np.sin(x[i])
        out[i] = abs(place)
    return out


def record(x):
    out = np.zeros(x.size)
    most = -1e9
    for i in range(x.size):
        most = np.maximum(most, x[i])
        out[i] = most - x[i]
    return out


def of_a_plain_vector(x):
    return np.cumsum(x), np.cumprod(1.0 + 0.01 * x), np.minimum.accumulate(x)


def with_a_branch(x):
    out = np.zeros(x.size)
    total = 0.0
    for i in range(x.size):
        if x[i] > 0.0:
            step = x[i]
        else:
            step = 0.5
        total += step
        if total > 30.0:
            out[i] = total
    return out


PROGRAMS: list[tuple[Any, tuple[Any, ...]]] = [
    (sums, (MATRIX,)),
    (sums, (SINGLE,)),
    (sums, (LONG,)),
    (sums_in_memory, (MATRIX,)),
    (sums_in_memory, (COUNTS,)),
    (products, (MATRIX,)),
    (extrema, (MATRIX,)),
    (extrema, (LONG,)),
    (middle, (CUBE,)),
    (of_a_vector, (VECTOR,)),
    (of_a_vector, (VECTOR[:1],)),
    (of_a_vector, (VECTOR[:0],)),
    (of_a_vector, (MANY,)),
    (of_a_plain_vector, (VECTOR,)),
    (of_a_plain_vector, (COUNTS[0],)),
    (path, (VECTOR,)),
    (path, (MANY,)),
    (record, (MANY,)),
    (shares, (MATRIX,)),
    (written_out, (VECTOR,)),
    (downward, (VECTOR,)),
    (two_of_them, (VECTOR, OTHER)),
    (beside_a_sum, (MATRIX,)),
    (beside_a_sum, (LONG,)),
    (with_a_branch, (VECTOR,)),
]
SHARED = [sums, products, extrema, shares, of_a_vector, path, record, written_out, downward, two_of_them, beside_a_sum, with_a_branch]


def assert_same(got: Any, want: Any, tolerance: float) -> None:
    if isinstance(want, tuple):
        for one, other in zip(got, want, strict=True):
            assert_same(one, other, tolerance)
        return
    one, other = np.asarray(got), np.asarray(want)
    assert (one.dtype, one.shape) == (other.dtype, other.shape)
    np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("case", range(len(PROGRAMS)))
def test_scans_are_numpys_and_the_same_bits_in_any_order_of_threads(case):
    function, args = PROGRAMS[case]
    tolerance = 2e-5 if args[0].dtype == np.float32 else 1e-11
    results = [on_cuda(function, *args, order=order) for order in (0, 1, 7)]
    assert_same(results[0], function(*args), tolerance)
    for other in results[1:]:
        assert_same(results[0], other, 0.0)


@pytest.mark.parametrize("function", SHARED, ids=lambda f: f.__name__)
def test_the_threads_of_a_row_share_it(function):
    args = next(args for own, args in PROGRAMS if own is function)
    text = cuda_text(function, *args)
    assert "row_running_" in text and " tile = " in text
    assert "__launch_bounds__(256)" in text.partition(" tile = ")[0].rpartition("extern")[2]


def test_a_long_one_is_cut_into_parts():
    for function in (of_a_vector, path, record):
        text = cuda_text(function, VECTOR)
        assert "// 2048, 8192), 1)\n" in text
        assert text.count("for (Index part = ") == 2
    assert "part" not in cuda_text(written_out, VECTOR)  # its last sum is read


def test_what_is_no_sum_stays_in_order():
    def smoothed(x):
        out = np.zeros(x.size)
        level = 0.0
        for i in range(x.size):
            level = 0.9 * level + x[i]
            out[i] = level
        return out

    def before(x):
        out = np.zeros(x.size)
        total = 0.0
        for i in range(x.size):
            out[i] = total
            total += x[i] + 0.1 * total
        return out

    for function in (smoothed, before):
        assert "row_running" not in cuda_text(function, VECTOR)
        assert_same(on_cuda(function, VECTOR[:90]), function(VECTOR[:90]), 1e-10)


@pytest.mark.parametrize(
    "function, x",
    [
        (lambda x: np.sum(np.cumsum(x * x, axis=1) ** 2), MATRIX),
        (lambda x: np.sum(shares(x) ** 2), MATRIX),
        (lambda x: np.sum(np.cumprod(1.0 + 0.1 * x, axis=1)), MATRIX),
        (lambda x: np.sum(written_out(x)[0] * OTHER), VECTOR),
        (lambda x: np.sum(downward(x) * OTHER), VECTOR),
    ],
)
def test_slopes(function, x):
    got = on_cuda(calque.grad(function), x)
    for direction in RNG.standard_normal((3, *x.shape)):
        step = 1e-6
        slope = (function(x + step * direction) - function(x - step * direction)) / (2.0 * step)
        np.testing.assert_allclose(np.sum(got * direction), slope, rtol=1e-6)


# terms are computed where they are summed


def of_terms(x):
    return np.cumsum(np.exp(x) * 2.0)


def of_terms_in_rows(x):
    return np.cumsum(np.exp(x) * 2.0, axis=1)


def of_weighted_terms(x, weights):
    return np.cumsum(x * weights, axis=1)


def terms_read_again(x):
    terms = np.exp(x)
    return np.cumsum(terms), terms


def of_single_terms(x):
    return np.cumprod(np.float32(1.0) + x * np.float32(0.01))


LARGE = RNG.standard_normal(5000)
TERMS = [
    (of_terms, (LARGE,), 3),
    (of_terms_in_rows, (RNG.standard_normal((7, 90)),), 2),
    (of_weighted_terms, (RNG.standard_normal((6, 80)), RNG.standard_normal((6, 80))), 3),
    (of_weighted_terms, (RNG.standard_normal((6, 80)), RNG.standard_normal(80)), None),
    (terms_read_again, (LARGE,), None),
    (of_single_terms, (LARGE[:300].astype(np.float32),), 3),
]


@pytest.mark.parametrize(("function", "args", "arrays"), TERMS)
def test_terms_take_no_memory(function, args, arrays):
    standin.traffic.clear()
    result = on_cuda(calque.jit(function), *args)
    moved = sum(map(sum, standin.traffic))
    want = function(*args)
    tolerance = 1e-4 if args[0].dtype == np.float32 else 1e-11
    pairs = zip(result, want, strict=True) if isinstance(want, tuple) else [(result, want)]
    for mine, theirs in pairs:
        np.testing.assert_allclose(mine, theirs, rtol=tolerance)
    if arrays is not None and not ON_CARD:
        assert moved <= 1.1 * arrays * args[0].nbytes


@pytest.mark.parametrize("shape", [(0,), (1,), (2,), (31,), (2049,)])
def test_terms_of_few_and_of_odd_sizes(shape):
    x = RNG.standard_normal(shape)
    np.testing.assert_allclose(on_cuda(calque.jit(of_terms), x), of_terms(x), rtol=1e-11)


def halved(x):
    return np.cumsum(x) * 0.5


def of_two_arrays(x):
    running = np.cumsum(x)
    return np.exp(-running) + x, running


def along_rows(a):
    return np.cumsum(a, axis=1) * a - np.cumprod(a, axis=1)


def down_columns(a):
    return np.sqrt(np.abs(np.cumsum(a, axis=0)))


def in_place(x):
    x[:] = np.cumsum(x) * 2.0
    return x


def shifted(x):
    running = np.cumsum(x)
    return running[1:] - 0.3 * running[:-1], running * running[-1]


def mirrored(x):
    running = np.cumsum(x)
    return running - 0.5 * running[::-1]


def scaled_then_stored(x):
    out = np.zeros(x.size)
    total = 0.0
    for i in range(x.size):
        total += x[i]
        out[i] = total
    for i in range(x.size):
        x[i] = out[i] * 0.5
    return x, out


AFTER = [
    (halved, LARGE, 3), (of_two_arrays, LARGE, 4), (along_rows, RNG.standard_normal((7, 90)), None),
    (down_columns, RNG.standard_normal((90, 7)), None), (in_place, LARGE, None),
    (shifted, LARGE, None), (mirrored, LARGE, None), (scaled_then_stored, LARGE, None), (halved, LARGE[:0], None),
    (halved, LARGE[:1], None), (shifted, LARGE[:2], None),
]  # fmt: skip


@pytest.mark.parametrize(("function", "x", "arrays"), AFTER)
def test_what_follows_a_scan_joins_it(function, x, arrays):
    """``arrays``: as many as large as x are read and stored, the sums not among them."""
    want = function(x.copy())
    standin.traffic.clear()
    got = on_cuda(calque.jit(function), x.copy())
    moved = sum(map(sum, standin.traffic))
    pairs = zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]
    for mine, theirs in pairs:
        np.testing.assert_allclose(mine, theirs, rtol=1e-11, atol=1e-12)
    assert arrays is None or ON_CARD or moved <= 1.1 * arrays * x.nbytes


def test_gradients_of_what_follows_a_scan():
    def loss(x):
        return np.sum(np.tanh(np.cumsum(x) * 0.5) * x)

    x = RNG.standard_normal(300)
    got, want = on_cuda(calque.grad(loss), x), calque.grad(loss)(x)
    np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-13)


def downward(x):
    out, total = np.zeros(x.size), 0.0
    for i in range(x.size - 1, -1, -1):
        total += x[i]
        out[i] = total
    return out


def used_on_both_sides(x):
    """The sine is computed before the sum, and read after it: a thread has one element at a time."""
    out, total = np.zeros(x.size), 0.0
    for i in range(x.size):
        y = np.sin(x[i])
        total += y
        out[i] = total * y
    return out


def read_on_both_sides(x):
    return np.cumsum(x) - 0.5 * x


@pytest.mark.parametrize("size", [0, 1, 31, 33, 511, 512, 513, 4095, 4097, 9000])
@pytest.mark.parametrize("function", [
    np.cumsum, downward, used_on_both_sides, read_on_both_sides, lambda x: np.cumprod(1.0 + 1e-3 * x),
    lambda x: np.cumsum(np.exp(x.reshape(1, -1)), axis=1), lambda x: np.cumsum((9.0 * x).astype(np.int64)),
])  # fmt: skip
def test_sixteen_elements_of_a_thread(function: Any, size: int) -> None:
    def call(x):
        return function(x)

    x = RNG.standard_normal(size)
    np.testing.assert_allclose(on_cuda(call, x, order=size % 3), function(x), rtol=1e-10, atol=1e-10)
