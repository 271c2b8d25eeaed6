"""Complex numbers in kernels of CUDA C: NumPy's values, infinities and branch cuts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cuda_emulator import building
from cuda_emulator.running import cuda_text, installed, on_cuda

import calque
from calque.runtime.cuda import raise_if_outside
from calque.transpiler.codegen.cuda.device_functions import definitions

pytestmark = pytest.mark.skipif(building.MISSING is not None, reason=str(building.MISSING))
RNG = np.random.default_rng(8)
INF, NAN = np.inf, np.nan
BOTH = pytest.mark.parametrize("dtype", ["c8", "c16"])
FUNCTIONS = (
    "exp exp2 expm1 log log2 log10 sqrt sin cos tan sinh cosh tanh conj abs angle isnan"
    "  isinf isfinite reciprocal square negative"
).split()


def numbers(*shape: int, dtype: str = "c16") -> np.ndarray:
    return (RNG.normal(size=shape) + 1j * RNG.normal(size=shape)).astype(dtype)


def ends(dtype: str) -> np.ndarray:
    """Every pair of zeros, ones, large and small numbers, infinities and NaN."""
    parts = np.array([0.0, -0.0, 1.0, -1.0, 0.6, 0.8, -20.0, 88.5, -710.0, 900.0, INF, -INF, NAN])
    made = np.empty((parts.size, parts.size), dtype)
    made.real, made.imag = parts[:, None], parts
    return made.reshape(-1)


def assert_same(got: Any, want: Any, ulps: float = 8.0) -> None:
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype and got.shape == want.shape
    tolerance = ulps * np.finfo(want.dtype).eps if want.dtype.kind in "fc" else 0.0
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=0.0)


def assert_same_parts(got: np.ndarray, want: np.ndarray) -> None:
    """Each part to its last digits, infinities, NaN and the signs of zeros among them."""
    for part in (np.real, np.imag):
        a, b = part(got), part(want)
        assert_same(a, b, 64.0)
        np.testing.assert_array_equal(np.signbit(a)[b == 0], np.signbit(b)[b == 0])


@BOTH
@pytest.mark.parametrize("name", FUNCTIONS)
@np.errstate(all="ignore")
def test_a_function(name: str, dtype: str) -> None:
    function = getattr(np, name)
    assert "_kernel(" in cuda_text(lambda z: function(z), numbers(3, dtype=dtype))
    for z in (3.0 * numbers(40, 7, dtype=dtype), numbers(1, dtype=dtype), numbers(0, dtype=dtype)):
        assert_same(on_cuda(lambda z: function(z), z), function(z))
    if name == "square":
        return  # NumPy's own has the fused products of some processors
    z = ends(dtype)
    assert_same_parts(on_cuda(lambda z: function(z), z), function(z))


@BOTH
def test_logarithms_of_numbers_on_the_unit_circle(dtype: str) -> None:
    turned = np.exp(1j * RNG.uniform(-3.0, 3.0, 500)) * (1.0 + 1e-9 * RNG.normal(size=500))
    z = turned.astype(dtype)
    got = on_cuda(lambda z: np.log(z), z)
    want = np.log(z.astype("c16")).real  # a square in twice the digits of float32 has 48 bits
    np.testing.assert_allclose(got.real, want, rtol=1e-6, atol=1e-14 if dtype == "c8" else 1e-24)


@BOTH
@pytest.mark.parametrize("exponent", [-7, -2, -1, 0.5, 1.5, 2, 3, 7, 0.3 + 1j])
def test_a_power(exponent: Any, dtype: str) -> None:
    z = numbers(50, dtype=dtype)
    assert_same(on_cuda(lambda z: z**exponent, z), z**exponent, 64.0)


@BOTH
@np.errstate(all="ignore")
def test_quotients(dtype: str) -> None:
    z = ends(dtype)

    def f(z: Any, w: Any) -> Any:
        return z / w, (1.0 + 2.0j) / z, z / 3.0

    for got, want in zip(on_cuda(f, z, z[::-1].copy()), f(z, z[::-1]), strict=True):
        assert_same_parts(got, want)


def mixed(z, x, n, flag):
    """Operands of several dtypes, and constants."""
    chosen = np.where(flag, z, x)
    triangle = np.tril(z) - np.where(flag, 0, z)
    return chosen * n + 2.0 * z - x / z, (z == x) | (z != n), -z * 1j + (0.5 - 2j), z + flag, triangle


@BOTH
def test_operands_of_several_dtypes(dtype: str) -> None:
    z, x = numbers(3, 70, dtype=dtype), RNG.normal(size=(3, 1))
    n, flag = RNG.integers(-3, 3, 70), RNG.random(70) < 0.5
    single = x.astype("f4")
    for args in ((z, x, n, flag), (z, single, n.astype("i1"), flag)):
        for got, want in zip(on_cuda(mixed, *args), mixed(*args), strict=True):
            assert_same(got, want)


@BOTH
def test_conversions(dtype: str) -> None:
    z = numbers(9, dtype=dtype)

    def f(z: Any, x: Any) -> Any:
        double = z.astype("c16")
        single = z.astype("c8")
        return single, double * 2, x.astype("c8"), z.astype(bool), single * x, single * 2j - double

    for got, want in zip(on_cuda(f, z, z.real.copy()), f(z, z.real.copy()), strict=True):
        assert_same(got, want)


@BOTH
@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (7, 13), (300, 5), (3, 5000), (3000, 40)])
def test_sums(shape: tuple[int, ...], dtype: str) -> None:
    z = numbers(*shape, dtype=dtype)

    def f(z: Any) -> Any:
        return np.sum(z * 2), np.sum(z * z, axis=0), np.sum(z + 1j, axis=1), np.sum(abs(z), axis=0)

    for got, want in zip(on_cuda(f, z), f(z), strict=True):
        tolerance = 2e-4 if dtype == "c8" else 1e-11
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("order", [0, 1, 9])
def test_running_sums_and_products(order: int) -> None:
    z = numbers(5, 100)

    def f(z: Any) -> Any:
        turned = z / np.abs(z)
        return np.cumsum(turned, axis=1), np.cumprod(turned, axis=1), np.cumsum(turned, axis=0)

    for got, want in zip(on_cuda(f, z, order=order), f(z), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


def carried(z, n):
    total = 0.0
    for i in range(z.size):
        w = z[i]
        for _ in range(n):
            w = w * w + 0.1j
        total = total + w
        z[i] = total
    return z, total


def test_loops_with_stores_and_carried_numbers() -> None:
    z = 0.5 * numbers(60)
    got, want = on_cuda(carried, z.copy(), 3), carried(z.copy(), 3)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def escape(c, most):
    z, iterations = 0j, 0
    while iterations < most and abs(z) < 2.0:
        z = z * z + c
        iterations += 1
    return iterations, z


def test_lanes() -> None:
    c = numbers(300)
    text = cuda_text(calque.vmap(escape, in_axes=(0, None)), c, 30)
    assert "while (iterations_lane < most && abs(z_lane) < 2.0) {" in text
    assert "z_lane = z_lane * z_lane + c_lane;" in text
    iterations, z = on_cuda(calque.vmap(escape, in_axes=(0, None)), c, 30)
    want = [escape(one, 30) for one in c]
    np.testing.assert_array_equal(iterations, [r for r, _ in want])
    np.testing.assert_allclose(z, [z for _, z in want], rtol=1e-10)


def newton(z, n):
    """Roots of unity, of a start."""
    for _ in range(n):
        z = z - (z**3 - 1.0) / (3.0 * z**2)
    return np.real(z) + np.abs(z - 1.0) ** 2


def energy(z, k):
    wave = np.exp(1j * k * np.abs(z)) * z[::-1]
    return np.sum(np.abs(wave + np.conj(z)) ** 2) + np.real(np.sum(np.sin(z) / (z + 2.0)))


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (calque.value_and_grad(energy, argnums=(0, 1)), (numbers(40), 0.7)),
        (calque.vmap(calque.grad(newton), in_axes=(0, None)), (numbers(30), 4)),
        (calque.grad(lambda z: np.sum(np.abs(z[1:] - z[:-1]) ** 2)), (numbers(65),)),
        (lambda z, v: calque.jvp(energy, (z, 0.7), (v, 0.0)), (numbers(9), numbers(9))),
    ],
)
def test_derivatives(function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    got, want = on_cuda(function, *args), function(*args)
    for a, b in zip(flat(got), flat(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def flat(value: Any) -> list[Any]:
    return [v for part in value for v in flat(part)] if isinstance(value, tuple) else [value]


def gathered(z, k):
    return z[k] * 2j, np.sum(z[k].real)


def test_an_index_out_of_range_is_told_without_a_wait() -> None:
    z, k = numbers(10), np.array([0, 3, -1, 9])
    for got, want in zip(on_cuda(gathered, z, k), gathered(z, k), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-14)
    assert "volatile long long* outside" in cuda_text(gathered, z, k)
    with pytest.raises(IndexError, match="index 12 is out of bounds"):
        on_cuda(gathered, z, np.array([0, 12]))
    with installed():
        raise_if_outside()  # it was said once


@BOTH
@pytest.mark.parametrize("sorted_cells", [False, True])
def test_sums_into_chosen_cells(dtype: str, sorted_cells: bool) -> None:
    k, v = RNG.integers(0, 7, 200), numbers(200, dtype=dtype)

    def f(v: Any, k: Any) -> Any:
        out = np.zeros(7, v.dtype)
        np.add.at(out, k, v * 2)
        for i in range(v.size):
            out[k[i]] -= v[i]
        return out

    got = on_cuda(calque.jit(f, deterministic=sorted_cells), v, k)
    np.testing.assert_allclose(got, f(v, k), rtol=1e-4 if dtype == "c8" else 1e-12)
    gradient = calque.grad(lambda v, k: np.sum(np.abs(f(v, k)) ** 2))
    np.testing.assert_allclose(
        on_cuda(gradient, v, k), gradient(v, k), rtol=1e-3 if dtype == "c8" else 1e-11
    )


@BOTH
def test_numbers_are_passed_by_value(dtype: str) -> None:
    z, factor = numbers(20, dtype=dtype), np.dtype(dtype).type(2 - 1j)
    assert_same(on_cuda(lambda z, c: z * c, z, factor), z * factor)
    assert_same(on_cuda(lambda z, c: z * c, z, 0.5 + 3j), z * (0.5 + 3j))
    assert_same(on_cuda(lambda x, c: x * c, z.real.copy(), 0.5 + 3j), z.real * (0.5 + 3j))


def test_views_and_strides() -> None:
    z = numbers(12, 14)
    for view in (z.T, z[::-1], z[1:, ::3], z[:, -1]):
        assert_same(on_cuda(lambda z: z * 2 - z.imag, view), view * 2 - view.imag)


def test_a_text_has_what_it_uses() -> None:
    """No operator more, and nothing of complex numbers where there are none."""
    text = cuda_text(lambda z: np.conj(z) * 2.0, numbers(3))
    assert "operator*" in text and "conj(complex128 z)" in text
    assert not any(f"operator{op}" in text for op in "+-/=!") and "complex64" not in text
    assert "exp(complex128" not in text and "template <class Other>" not in text
    assert "Complex" not in cuda_text(lambda x: np.exp(x) * 2.0, np.ones(3))
    assert definitions({"exp"}) == ""
