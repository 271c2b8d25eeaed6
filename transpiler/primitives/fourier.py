"""Discrete Fourier transforms: ``np.fft``.

Four records, along one axis: fft, ifft, rfft, irfft. A transform of another length is one of the
padded or truncated array; transforms along several axes are one after the other, as in NumPy.
Cotangents pair with tangents without conjugation, so the transpose of fft is fft itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calque.transpiler.errors import ShapeError, UnsupportedFunction
from calque.transpiler.ir.builder import FUNCTIONS, current, type_of
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.primitives.base import Primitive, apply, finish, implements, linear, operand
from calque.transpiler.primitives.sampling import Drawn, case, cases, single
from calque.transpiler.primitives.scans import along
from calque.transpiler.primitives.shapes import normalize_axis

_OTHER = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


def _complex(x: Any) -> np.dtype:
    return np.fft.fft(np.ones(1, x.dtype)).dtype


def _real(x: Any) -> np.dtype:
    return np.fft.irfft(np.ones(2, x.dtype)).dtype


def _text(name: str) -> Callable[..., str]:
    def spell(args: Any, params: dict[str, Any]) -> str:
        parts = [f"{{{k}}}" for k in range(len(args))]
        if params["axis"] != type_of(args[0]).ndim - 1:
            parts.append(f"axis={params['axis']}")
        if params["norm"] != "backward":
            parts.append(f"norm={params['norm']!r}")
        return f"{name}({', '.join(parts)})"

    return spell


def _samples(*dtypes: str) -> Any:
    shapes = [((5,), 0), ((3, 4), 0), ((3, 4), 1), ((2, 3, 2), 1), ((1,), 0)]
    calls = [
        case(Drawn(shape, dtypes[0]), axis=axis, norm=norm)
        for shape, axis in shapes
        for norm in ("backward", "ortho")
    ]
    calls += [case(Drawn((4,), dtype), axis=0, norm="forward") for dtype in dtypes]
    return cases(*calls)


def _declare(name: str) -> Primitive:
    function = getattr(np.fft, name)

    @linear(
        f"np.fft.{name}",
        lambda x, axis, norm: function(x, axis=axis, norm=norm),
        lambda x, axis, norm: ArrayType(_complex(x), x.dims),
        _text(f"np.fft.{name}"),
        fresh=True,
        samples=_samples("f8", "f4", "c16", "c8"),
    )
    def transform(y_bar: Any, x: Any, axis: int, norm: str) -> Any:
        return apply(transform, y_bar, axis=axis, norm=norm)

    return transform


fft, ifft = _declare("fft"), _declare("ifft")


@linear(
    "np.fft.rfft",
    lambda x, axis, norm: np.fft.rfft(x, axis=axis, norm=norm),
    lambda x, axis, norm: ArrayType(_complex(x), _half(x.dims, x, axis)),
    _text("np.fft.rfft"),
    fresh=True,
    samples=_samples("f8", "f4"),
)
def rfft(y_bar: Any, x: Any, axis: int, norm: str) -> Any:
    """The frequencies that rfft leaves out have no cotangent."""
    whole = _padded(y_bar, x.shape[axis], axis)  # n // 2 + 1 are never more than n
    return np.real(apply(fft, whole, axis=axis, norm=norm))


def _half(dims: Any, x: Any, axis: int) -> tuple[Any, ...]:
    """The dimensions with ``n // 2 + 1`` in place of ``n``."""
    half = x.shape[axis] // 2 + 1
    return (*dims[:axis], current().dim_of(half), *dims[axis + 1 :])


@linear(
    "np.fft.irfft",
    lambda y, n, axis, norm: np.fft.irfft(y, n, axis=axis, norm=norm),
    lambda y, n, axis, norm: ArrayType(
        _real(y), (*y.dims[:axis], current().dim_of(n), *y.dims[axis + 1 :])
    ),
    _text("np.fft.irfft"),
    fresh=True,
    samples=cases(
        case(Drawn((3,), "c16"), 4, axis=0, norm="backward"),
        case(Drawn((3,), "c16"), 5, axis=0, norm="ortho"),
        case(Drawn((3, 4), "c16"), 6, axis=1, norm="forward"),
        case(Drawn((3, 4), "c16"), 4, axis=0, norm="backward"),
        case(Drawn((3,), "c8"), 4, axis=0, norm="backward"),
        case(single(3), 4, axis=0, norm="backward"),
    ),
)
def irfft(x_bar: Any, y: Any, n: Any, axis: int, norm: str) -> Any:
    """Every frequency but the first, and the last of an even number, stands for two."""
    found = np.conj(apply(rfft, x_bar, axis=axis, norm=_OTHER[norm]))
    k = FUNCTIONS[np.arange](y.shape[axis])
    once = (k == 0) | (2 * k == n)
    shape = [1] * y.ndim
    shape[axis] = -1
    return found * np.reshape(FUNCTIONS[np.where](once, 1.0, 2.0), shape)


def _of_length(x: Any, n: Any, axis: int) -> Any:
    """The array with zeros added at the end, or its end cut off."""
    have, want = x.dims[axis], current().dim_of(n)
    dims = current().dims
    if dims.same(have, want):
        return x
    if dims.nonnegative(have - want):
        return x[along(axis, slice(None, n))]
    if not dims.nonnegative(want - have):
        raise current().needs_dims([have, want], "Whether a Fourier transform pads or cuts")
    return _padded(x, n, axis)


def _padded(x: Any, n: Any, axis: int) -> Any:
    """The array with zeros added at the end of an axis, so that it has n elements."""
    if current().dims.same(x.dims[axis], current().dim_of(n)):
        return x
    shape = list(x.shape)
    shape[axis] = n - x.shape[axis]
    return np.concatenate([x, FUNCTIONS[np.zeros](tuple(shape), x.dtype)], axis=axis)


def _norm(norm: Any) -> str:
    if norm not in (None, *_OTHER):
        raise UnsupportedFunction(f"norm={norm!r} of a Fourier transform.", current().origin)
    return norm or "backward"


def _prepared(a: Any, axis: Any) -> tuple[Any, int]:
    x = FUNCTIONS[np.asarray](operand(a))
    return x, normalize_axis(axis, x.ndim)


def _one_axis(primitive: Primitive) -> Callable[..., Any]:
    def call(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
        x, axis = _prepared(a, axis)
        x = x if n is None else _of_length(x, n, axis)
        return finish(apply(primitive, x, axis=axis, norm=_norm(norm)), out)

    return call


np_fft, np_ifft, np_rfft = _one_axis(fft), _one_axis(ifft), _one_axis(rfft)
FUNCTIONS.update({np.fft.fft: np_fft, np.fft.ifft: np_ifft, np.fft.rfft: np_rfft})


@implements(np.fft.irfft)
def np_irfft(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
    """``np.fft.irfft``."""
    y, axis = _prepared(a, axis)
    n = 2 * (y.shape[axis] - 1) if n is None else n
    y = _of_length(y, n // 2 + 1, axis)
    return finish(apply(irfft, y, n, axis=axis, norm=_norm(norm)), out)


@implements(np.fft.hfft)
def np_hfft(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
    """``np.fft.hfft``."""
    return np_irfft(np.conj(operand(a)), n, axis, _OTHER[_norm(norm)], out)


@implements(np.fft.ihfft)
def np_ihfft(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
    """``np.fft.ihfft``."""
    return finish(np.conj(np_rfft(a, n, axis, _OTHER[_norm(norm)])), out)


# several axes


def _axes(x: Any, s: Any, axes: Any) -> list[tuple[int, Any]]:
    """Each axis with the length that is asked for, as NumPy pairs them."""
    if axes is None:
        axes = range(x.ndim) if s is None else range(x.ndim - len(s), x.ndim)
    chosen = [normalize_axis(a, x.ndim) for a in axes]
    lengths = [None] * len(chosen) if s is None else list(s)
    if len(lengths) != len(chosen):
        raise ShapeError("Shape and axes have different lengths.", current().origin)
    return list(zip(chosen, [None if n == -1 else n for n in lengths], strict=True))


def _several(one: Callable[..., Any], default: Any) -> Callable[..., Any]:
    def call(a: Any, s: Any = None, axes: Any = default, norm: Any = None, out: Any = None) -> Any:
        x = FUNCTIONS[np.asarray](operand(a))
        for axis, n in reversed(_axes(x, s, axes)):
            x = one(x, n, axis, norm)
        return finish(x, out)

    return call


def _real_several(default: Any) -> Callable[..., Any]:
    def call(a: Any, s: Any = None, axes: Any = default, norm: Any = None, out: Any = None) -> Any:
        x = FUNCTIONS[np.asarray](operand(a))
        *others, (last, n) = _axes(x, s, axes)
        x = np_rfft(x, n, last, norm)
        for axis, size in reversed(others):
            x = np_fft(x, size, axis, norm)
        return finish(x, out)

    return call


def _inverse_real_several(default: Any) -> Callable[..., Any]:
    def call(a: Any, s: Any = None, axes: Any = default, norm: Any = None, out: Any = None) -> Any:
        x = FUNCTIONS[np.asarray](operand(a))
        *others, (last, n) = _axes(x, s, axes)
        for axis, size in others:
            x = np_ifft(x, size, axis, norm)
        return finish(np_irfft(x, n, last, norm), out)

    return call


FUNCTIONS[np.fft.fftn], FUNCTIONS[np.fft.fft2] = _several(np_fft, None), _several(np_fft, (-2, -1))
FUNCTIONS[np.fft.ifftn] = _several(np_ifft, None)
FUNCTIONS[np.fft.ifft2] = _several(np_ifft, (-2, -1))
FUNCTIONS[np.fft.rfftn], FUNCTIONS[np.fft.rfft2] = _real_several(None), _real_several((-2, -1))
FUNCTIONS[np.fft.irfftn] = _inverse_real_several(None)
FUNCTIONS[np.fft.irfft2] = _inverse_real_several((-2, -1))


# frequencies


def _shift(sign: int) -> Callable[..., Any]:
    def call(x: Any, axes: Any = None) -> Any:
        x = FUNCTIONS[np.asarray](operand(x))
        chosen = range(x.ndim) if axes is None else axes
        for axis in [chosen] if isinstance(chosen, int) else chosen:
            half = x.shape[axis] // 2
            x = np.roll(x, half if sign > 0 else -half, axis=axis)
        return x

    return call


FUNCTIONS[np.fft.fftshift], FUNCTIONS[np.fft.ifftshift] = _shift(1), _shift(-1)


@implements(np.fft.fftfreq)
def np_fftfreq(n: Any, d: Any = 1.0, device: Any = None) -> Any:
    """``np.fft.fftfreq``."""
    arange = FUNCTIONS[np.arange]
    positive, negative = arange(0, (n - 1) // 2 + 1), arange(-(n // 2), 0)
    return np.concatenate([positive, negative]) * (1.0 / (n * d))


@implements(np.fft.rfftfreq)
def np_rfftfreq(n: Any, d: Any = 1.0, device: Any = None) -> Any:
    """``np.fft.rfftfreq``."""
    return FUNCTIONS[np.arange](0, n // 2 + 1) * (1.0 / (n * d))
