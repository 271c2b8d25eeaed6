"""Numbers on a GPU: where a launcher has them, how kernels take them, and the ends of their loops."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_emulator import building
from cuda_emulator.running import cuda_text, installed, library, on_cuda

import calque
from calque.runtime.cuda.launching import kernel

pytestmark = pytest.mark.skipif(building.MISSING is not None, reason=str(building.MISSING))


def until_enough(x):
    total = 0.0
    for v in x:
        if v > 0.5:
            total += v**2
        if total > 3.0:
            break
    return total


def test_the_end_of_a_loop_is_looked_at_once():
    """The trip count of the reverse loop uses the name of the loop's counter."""
    x, along = np.array([1.2, 0.9, 0.1, 0.6, 2.0, 0.7]), np.cos(np.arange(6.0))

    def slope_along(*a):
        return np.sum(calque.grad(until_enough)(a[0]) * a[1])

    slope = calque.grad(slope_along)
    np.testing.assert_allclose(on_cuda(slope, x, along), 2.0 * along * [1, 1, 0, 1, 1, 0])
    assert "_end = " in cuda_text(slope, x, along)


def shortened(x):
    n = x.size
    for i in range(n):
        x[i] += n
        n -= 1
    return x


def test_the_iterations_of_a_loop_do_not_hang_on_its_body():
    np.testing.assert_array_equal(on_cuda(shortened, np.zeros(5)), [5.0, 4.0, 3.0, 2.0, 1.0])


def halved_and_halved(x, n):
    p, iterations = x[0], 0
    for _ in range(n):
        p = 0.5 * p + 0.1
    while iterations < 3 and p < 0.9:
        p, iterations = 0.5 * p + 0.6, iterations + 1
    for _ in range(iterations):
        p = 0.5 * p + 0.1
    return p


def test_equal_kernels_are_one_if_they_take_their_numbers_alike():
    """The host knows the trip count of the first loop, a kernel that of the last."""
    x = np.array([0.3])
    assert on_cuda(halved_and_halved, x, 4) == halved_and_halved(x, 4)


def both_tests_kept(x, k):
    """The first operand of an `and` is in the GPU's memory, the second in the host's."""
    seen, total = np.zeros(x.size, dtype=bool), 0.0
    for i in range(x.size):
        s = np.sum(x[: i + 1])
        both = s > 0.0 and np.sin(0.2 * i * k) < 0.5
        seen[i] = both
        if both:
            total += np.sum(np.linalg.eigvalsh(np.outer(x, x))) * s
    return total, seen


def test_what_and_gives_is_stored():
    x = np.array([0.5, -1.0, 2.0, 1.0])
    for got, want in zip(on_cuda(both_tests_kept, x, 5), both_tests_kept(x, 5), strict=True):
        np.testing.assert_allclose(got, want)


FILL = """
extern "C" __global__ void fill_kernel(double* __restrict__ out, Index n, long long k, double by)
{
    for (Index i = threadIdx.x; i < n; i += blockDim.x)
        out[i] = k + by;
}
"""


@pytest.mark.parametrize("kind", [int, np.int64, np.int8, np.array, lambda n: np.array(n, np.int32)])
def test_kinds_of_whole_numbers(kind):
    """Among them arrays without axes, which a program has of a list's length."""
    with installed():
        out = library.asarray(np.zeros(4))
        kernel(FILL, "fill_kernel")(1, 32, out, kind(3), kind(-5), np.array(0.5))
        np.testing.assert_array_equal(out.get(), [-4.5, -4.5, -4.5, 0.0])


def test_a_constant_beyond_float32_is_infinite():
    def chosen(v):
        return np.where(v > 0, v, 1e300), np.where(v > 0, v, -1e300), v * 1e40, v + 1e-60

    v = np.array([1.0, -1.0, 0.0], np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = chosen(v)
    for got, want in zip(on_cuda(chosen, v), wanted, strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


SIGNED = {
    "sign": lambda a, b: np.sign(a),
    "extrema": lambda a, b: (np.maximum(a, b), np.minimum(a, b), np.fmax(a, b), np.fmin(a, b)),
    "clip": lambda a, b: (np.clip(a, 0.0, 1.0), np.clip(a, -0.0, 1.0), np.clip(a, -1.0, 0.0)),
    "clip by arrays": lambda a, b: (np.clip(a, b, 1.0), np.clip(a, b, b + 1.0)),
    "clip by NaN": lambda a, b: (np.clip(a, np.nan, 1.0), np.clip(a, 0.5, -0.5)),
    "rounding": lambda a, b: (np.rint(0.3 * a), np.floor(0.3 * a), np.ceil(0.3 * a), np.trunc(0.3 * a)),
    "decimals": lambda a, b: np.round(0.3 * a, 1),
    "quotients": lambda a, b: (a / b, a // b, a % b, np.fmod(a, b), np.divmod(a, b)[1], a % 3.0),
    "powers": lambda a, b: (a**3, a**2, a**-1, np.sqrt(a), np.cbrt(a), np.square(a)),
    "literals": lambda a, b: (np.where(a > 0, a, -0.0), a * -0.0, a + 0.0, a - 0.0, 0.0 - a, -0.0 - a),
    "parts": lambda a, b: (np.abs(a), -a, np.copysign(a, b), np.heaviside(a, b), np.arctan2(a, b)),
    "sums": lambda a, b: (np.sum(a[:1] * -0.0), np.cumsum(a[:3]), np.prod(a[:1]), np.max(a[:2])),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_zeros_have_the_signs_of_numpys(kind):
    values = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -0.5, np.inf, -np.inf, np.nan, 1.7, -1.7], kind)
    a, b = (v.ravel().copy() for v in np.meshgrid(values, values))

    def all_of(a, b):
        return [function(a, b) for function in SIGNED.values()]

    with np.errstate(all="ignore"):
        for name, got, want in zip(SIGNED, on_cuda(all_of, a, b), all_of(a, b), strict=True):
            for one, other in zip(*(v if isinstance(v, tuple) else (v,) for v in (got, want)), strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-6, err_msg=name)
                known = ~np.isnan(other)
                np.testing.assert_array_equal(np.signbit(one)[known], np.signbit(other)[known], name)
