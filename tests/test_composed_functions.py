"""NumPy functions said in other NumPy functions: value, dtype, derivatives, and batching of each call."""

from __future__ import annotations

import linecache
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
from calque.runtime.transformed import Transformed
from calque.transpiler.errors import CalqueError

X = np.random.default_rng(0).normal(size=(3, 4))
HOLES = np.where(np.isin(np.arange(12).reshape(3, 4), [1, 10, 11]), np.nan, X)


def signed(t):
    return t * t if t[0] > 0.0 else -t


CALLS = """
np.nanmedian(x)
np.nanmedian(x, axis=0)
np.nanmedian(x, axis=1, keepdims=True)
np.nanquantile(x, 0.3)
np.nanquantile(x, [0.1, 0.9], axis=1)
np.nanquantile(x, 0.6, axis=(0, 1), keepdims=True)
np.nanquantile(x, 0.35, axis=1, method='nearest')
np.nanquantile(x, 0.35, axis=1, method='midpoint')
np.nanpercentile(x, 35, axis=0, method='higher')
np.mgrid[0:3, 1:x.shape[0]] * x[0, 0]
np.mgrid[0:1:5j, -1:1:3j] + x[0, 0]
np.mgrid[0:1:0.3, 0:2] * x[0, 1]
np.mgrid[0:1:0.3] * x[0, 1]
np.mgrid[:4] * x
np.ogrid[:3, 2:10:2][0] * x - np.ogrid[:3, 2:10:2][1]
np.ogrid[0:1:4j] * x
np.ndarray((2, 3), dtype=np.float32).shape[1] * x
np.polyval(x[0], x)
np.polyval([1.0, 2.0, 3.0], x)
np.polyval(x[0], 2.0)
np.polyadd(x[0], x[1, :2])
np.polyadd(x[0], x[1])
np.polysub(x[0, :2], x[1])
np.polyder(x[0])
np.polyder(x[0], 2)
np.polyint(x[0])
np.polyint(x[0], 2, [1.0, x[0, 0]])
np.polyint(x[0], k=2.0)
np.polyfit(np.arange(4.0), x[0], 2)
np.polyfit(x[0], x[1:].T, 1)
np.polyfit(x[0], x[1], 1, w=np.arange(1.0, 5.0))
np.poly(x[0])
np.resize(x, (5, 5))
np.resize(x, 3)
np.resize(x, (2, 3, 4))
np.block([[x, x], [x[:1], x[1:2]]])
np.block([x[0], 1.0])
np.block([[np.eye(3), x], [x, np.zeros((3, 3))]])
np.block([[x[0, 0], x[0, 1]], [2.0, 3.0]])
np.lib.stride_tricks.sliding_window_view(x, 2, axis=1)
np.lib.stride_tricks.sliding_window_view(x, (2, 3))
np.lib.stride_tricks.sliding_window_view(x[0], 3)
np.apply_over_axes(np.sum, x, [0, 1])
np.r_[x[0], x[1], 3.0]
np.r_[x, x]
np.c_[x[0], x[1]]
np.c_[x, x]
np.r_[0:3, x[0], -1.0:1.0:5j, 2:8:2]
np.c_[0:4, x[0]]
x[np.s_[::2, 1:]]
x[np.index_exp[1]] + x[np.index_exp[0, ..., :1]]
np.isin(x > 0, [True])
np.isin(np.array([1, 2, 3]), [2, 5], invert=True) * x[:, :1].T
np.astype(x, np.float32)
np.result_type(x, np.float32).type(1) * x
np.common_type(x)(1.0) * x
np.iterable(x) * x
np.linalg.tensorsolve(x[:2, :2], x[:2, 2])
np.linalg.tensorsolve(np.eye(4).reshape(2, 2, 4) * x[0, 0], x[:2, :2])
np.linalg.tensorinv(np.eye(4).reshape(2, 2, 4) * x[0, 0])
np.interp(x, np.array([0.1, 0.7, 0.4]), x[:, 0], period=0.9)
np.piecewise(x, [x < 0, x >= 0], [lambda t: -t, lambda t: t * t])
np.piecewise(x, [x < 0], [lambda t: -t, 2.0])
np.apply_along_axis(lambda r: r * r[0], 1, x)
np.apply_along_axis(lambda r, s: np.sum(r) * s, 0, x, 2.0)
np.apply_along_axis(np.sum, 0, x)
np.apply_along_axis(signed, 1, x)
np.fromfunction(lambda a, b: a + b, (3, 4)) * x
np.std(x, mean=0.0) + np.var(x, axis=0, mean=1.0)
np.compress([True, False, True], x, axis=0)
np.argpartition(x, 1)
x.item(5) + x.item(1, 2)
np.unravel_index(np.array([1, 2]), (5,))[0] * x[:, :2]
x[0][np.nonzero(np.array([1, 0, 1]))[0] + 1]
np.logaddexp.outer(x[0], x[1])
np.fft.fft(x)
np.fft.fft(x, axis=0, norm='ortho')
np.fft.fft(x, 6)
np.fft.fft(x, n=2, axis=0)
np.fft.ifft(x + 1j * x[::-1], norm='forward')
np.fft.rfft(x)
np.fft.rfft(x, 3, axis=0)
np.fft.rfft(x, 7)
np.fft.irfft(x)
np.fft.irfft(np.fft.rfft(x[:, :3]), 3)
np.fft.irfft(x * (1.0 + 2.0j), 5)
np.fft.irfft(x * (1.0 + 2.0j), 5, axis=0, norm='ortho')
np.fft.hfft(x * (1.0 + 2.0j))
np.fft.ihfft(x)
np.fft.fft2(x)
np.fft.ifft2(x)
np.fft.fftn(x, s=(4, 2), axes=(0, 1))
np.fft.ifftn(x, axes=(0,))
np.fft.rfft2(x)
np.fft.irfft2(x)
np.fft.rfftn(x, s=(2, 6), axes=(0, 1))
np.fft.irfftn(np.fft.rfftn(x), s=(3, 4), axes=(0, 1))
np.fft.fftshift(x)
np.fft.ifftshift(x, axes=1)
np.fft.fftfreq(x.shape[0], 0.5) * x.T
np.fft.rfftfreq(2 * x.shape[0] - 2, 0.5)[:2] * x[:, :2]
np.real(np.fft.ifft(1j * np.fft.fftfreq(x.shape[1]) * np.fft.fft(x)))
np.abs(np.fft.fft(x)) ** 2
""".strip().splitlines()


def function_of(call: str) -> Callable[..., Any]:
    text, file = f"def f(x):\n    return {call}\n", f"<{call}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    namespace: dict[str, Any] = {"np": np, "signed": signed}
    exec(compile(text, file, "exec"), namespace)
    return namespace["f"]


def same(found: Any, want: Any) -> None:
    np.testing.assert_allclose(found, want, rtol=1e-10, atol=1e-12)
    assert np.shape(found) == np.shape(want)
    assert np.asarray(found).dtype == np.asarray(want).dtype


@pytest.mark.parametrize("call", CALLS)
def test_value(call: str) -> None:
    f = function_of(call)
    for x in (X, HOLES) if ".nan" in call else (X,):
        same(Transformed("identity", f)(x.copy()), f(x.copy()))


@pytest.mark.parametrize("call", CALLS)
def test_derivatives(call: str) -> None:
    calque.check(function_of(call), X.copy())


@pytest.mark.parametrize("call", [c for c in CALLS if "np.fft" in c and "j" not in c])
def test_transforms_against_jax(call: str) -> None:
    """JAX's gradients of real weighted sums; its FFT knows the same options."""
    jax = pytest.importorskip("jax")
    jnp = jax.numpy

    def loss(numpy: Any, x: Any) -> Any:
        text = call.replace("np.", "numpy.").replace("numpy.fft.fftfreq", "np.fft.fftfreq")
        y = eval(text.replace("numpy.fft.rfftfreq", "np.fft.rfftfreq"), {"np": np, "numpy": numpy, "x": x})
        return numpy.sum(numpy.real(y) ** 2 + numpy.cos(numpy.imag(y)))

    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        want = np.asarray(jax.jit(jax.grad(lambda x: loss(jnp, x)))(jnp.asarray(X)))
    f = function_of(call)
    found = calque.grad(lambda x: np.sum(np.real(f(x)) ** 2 + np.cos(np.imag(f(x)))))(X)
    np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("call", [call for call in CALLS if ".nan" in call])
def test_derivatives_beside_nan(call: str) -> None:
    f = function_of(call)
    weights, step = np.cos(np.arange(f(HOLES).size)).reshape(np.shape(f(HOLES))), 1e-6
    way = np.where(np.isnan(HOLES), 0.0, X[::-1])
    want = np.sum(weights * (f(HOLES + step * way) - f(HOLES - step * way))) / (2 * step)
    (bar,) = calque.vjp(f, HOLES)[1](weights[()])
    np.testing.assert_allclose(np.sum(bar * way), want, rtol=1e-6, atol=1e-9)
    tangent = calque.jvp(f, (HOLES,), (way,))[1]
    np.testing.assert_allclose(np.sum(weights * tangent), want, rtol=1e-6, atol=1e-9)
    assert not np.any(bar[np.isnan(HOLES)])


@pytest.mark.parametrize("call", CALLS)
def test_batched(call: str) -> None:
    f = function_of(call)
    xs = np.stack([X, X[::-1], 2.0 * X])
    same(calque.vmap(f)(xs), np.stack([f(x.copy()) for x in xs]))


def test_empty_slices_are_nan() -> None:
    empty = np.full((2, 3), np.nan)
    empty[0] = [1.0, np.nan, 3.0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = np.nanmedian(empty, axis=1)
    np.testing.assert_array_equal(Transformed("identity", lambda x: np.nanmedian(x, axis=1))(empty), want)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("np.r_['0,2', x[0]]", "np.r_ with texts."),
        ("np.polymul(x[0], x[1])", "np.polymul has no rule, and the code of NumPy is not entered."),
        ("np.polyfit(x[0], x[1], 1, cov=True)", "np.polyfit with full=, cov= or several degrees."),
        ("np.nanquantile(x, 0.5, method='hazen')", "np.nanquantile with weights= or method='hazen'."),
    ],
)
def test_refusals(call: str, message: str) -> None:
    with pytest.raises(CalqueError) as caught:
        Transformed("identity", function_of(call))(X)
    assert caught.value.message == message
    assert caught.value.origin is not None and caught.value.origin.line == 2
