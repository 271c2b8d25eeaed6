"""``scipy.signal``: convolutions and correlations of arrays of any rank, by each of its functions.

A convolution is linear in each operand; its transposes are convolutions with the other operand
turned around. A correlation is the convolution with the second operand turned and conjugated.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.transpiler.errors import UnsupportedFunction
from calque.transpiler.ir.builder import FUNCTIONS, Array, current, loop_index, type_of
from calque.transpiler.ir.types import ArrayType, DimLike
from calque.transpiler.primitives.base import Primitive, apply, bilinear, operand
from calque.transpiler.primitives.batched import size_among, spread
from calque.transpiler.primitives.sampling import case, cases, single
from calque.transpiler.primitives.scans import along, looped
from calque.transpiler.primitives.scipy_modules import Lazy, means
from calque.transpiler.primitives.shapes import normalize_axis
from calque.transpiler.primitives.signals import _first_is_longer

Params = dict[str, Any]
MODES = ("full", "same", "valid")


# rules that linear functions of SciPy share


def by_loop(primitive: Primitive) -> Callable[..., Any]:
    """The batch rule of a function of one result that SciPy calls for one example at a time."""

    def rule(args: Sequence[Any], batched: Sequence[bool], params: Params) -> Any:
        size = size_among(args, batched)
        firsts = [a[0] if b else a for a, b in zip(args, batched, strict=True)]
        first = apply(primitive, *firsts, **params)
        start = FUNCTIONS[np.zeros]((size, *first.shape), first.dtype)
        k = loop_index(0, current().dim_of(size) - 1, "k")

        def stored(out: Array) -> Array:
            ones = [a[k] if b else a for a, b in zip(args, batched, strict=True)]
            out[k] = apply(primitive, *ones, **params)
            return Array(out.atom)

        return looped(start, k, 0, size, stored)

    return rule


def turned(x: Any, axes: Sequence[int]) -> Any:
    """The array with the order along some axes turned around."""
    return x[tuple(slice(None, None, -1 if a in axes else None) for a in range(x.ndim))]


@functools.cache
def _result_dtype(name: str, first: np.dtype, second: np.dtype, given: tuple[Any, ...]) -> Any:
    """The dtype of a result, asked of SciPy."""
    function = getattr(importlib.import_module("scipy.signal"), name)
    one, rank = (1, 1), dict(given)
    return function(np.ones(one, first), np.ones(one, second), **rank).dtype


# records


def _sizes(n: Sequence[DimLike], m: Sequence[DimLike], mode: str, axes: Any) -> list[DimLike]:
    """The sizes of a result: along other axes than those of the convolution, sizes broadcast."""
    other = current().broadcast(
        [[1 if k in axes else d for k, d in enumerate(dims)] for dims in (n, m)]
    )
    found = list(other)
    longer = mode != "valid" or _first_is_wider(n, m, axes)
    for k in axes:
        long, short = (n[k], m[k]) if longer else (m[k], n[k])
        by_mode = {"full": n[k] + m[k] - 1, "same": n[k], "valid": long - short + 1}
        found[k] = by_mode[mode]
    return found


def _first_is_wider(n: Sequence[DimLike], m: Sequence[DimLike], axes: Sequence[int]) -> bool:
    """True if the first operand is at least as large along every axis; else the second must be."""
    dims = current().dims
    open_ = [k for k in axes if not dims.same(n[k], m[k])]
    found = [_first_is_longer(n[k], m[k]) for k in open_]
    if any(found) and not all(found):
        raise ValueError(
            "For 'valid' mode, one must be at least as large as the other in every dimension"
        )
    return all(found)


def _widened(y_bar: Any, n: Any, m: Any, axes: Sequence[int]) -> Any:
    """The cotangent of the whole convolution, given that of its middle part."""
    for k in axes:
        before = list(y_bar.shape)
        before[k] = (m[k] - 1) // 2
        after = list(y_bar.shape)
        after[k] = m[k] - 1 - (m[k] - 1) // 2
        zeros = [FUNCTIONS[np.zeros](tuple(s), y_bar.dtype) for s in (before, after)]
        y_bar = np.concatenate([zeros[0], y_bar, zeros[1]], axis=k)
    return y_bar


def _spell(name: str, usual: Params) -> Callable[..., str]:
    def spell(args: Any, params: Params) -> str:
        changed = {k: v for k, v in params.items() if v != usual.get(k, v)}
        rank = type_of(args[0]).ndim
        if "axes" in params and params["axes"] != tuple(range(rank)):
            changed["axes"] = params["axes"]
        options = "".join(f", {k}={v!r}" for k, v in changed.items())
        return f"signal.{name}({{0}}, {{1}}{options})"

    return spell


def _axes_of(a: Any, params: Params) -> tuple[int, ...]:
    return params.get("axes", tuple(range(type_of(a).ndim)))


def _declare(name: str, usual: Params, samples: Any) -> Primitive:
    def infer(a: Any, v: Any, mode: str, **given: Any) -> ArrayType:
        first, second = type_of(a), type_of(v)
        sizes = _sizes(first.dims, second.dims, mode, _axes_of(a, given))
        options = tuple((k, x) for k, x in given.items() if k != "axes")
        return ArrayType(_result_dtype(name, first.dtype, second.dtype, options), tuple(sizes))

    @bilinear(
        f"signal.{name}",
        Lazy("scipy.signal", name),
        infer,
        _spell(name, usual),
        fresh=True,
        samples=samples,
    )
    def convolution(y_bar: Any, a: Any, v: Any, mode: str, **given: Any) -> tuple[Any, Any]:
        def over(x: Any, y: Any, mode: str) -> Any:
            return apply(convolution, x, y, mode=mode, **given)

        axes = _axes_of(a, given)
        if mode == "valid":
            if not _first_is_wider(a.dims, v.dims, axes):
                v_bar = over(y_bar, turned(a, axes), "full")
                return over(turned(v, axes), y_bar, "valid"), v_bar
            return over(y_bar, turned(v, axes), "full"), over(turned(a, axes), y_bar, "valid")
        if mode == "same":
            y_bar = _widened(y_bar, a.shape, v.shape, axes)
        return over(y_bar, turned(v, axes), "valid"), over(y_bar, turned(a, axes), "valid")

    return convolution


def _samples(**given: Any) -> Any:
    axes = given.pop("axes", None)
    calls = [case((4, 5), (2, 3), mode=mode, **given) for mode in MODES]
    calls += [case((2, 3), (4, 3), mode="valid", **given)]
    calls += [case(single(3, 3), single(2, 2), mode="same", **given)]
    if axes is not None:
        for _, params in calls:
            params["axes"] = (0, 1)
        calls += [case((4, 3), (2, 3), mode="full", axes=(0,), **given)]
    return cases(*calls)


convolve = _declare("convolve", {"mode": "full", "method": "auto"}, _samples(method="direct"))
fftconvolve = _declare("fftconvolve", {"mode": "full"}, _samples(axes=True))
oaconvolve = _declare("oaconvolve", {"mode": "full"}, _samples(axes=True))
convolve2d = _declare("convolve2d", {"mode": "full"}, _samples())


def _along_others(primitive: Primitive) -> Callable[..., Any]:
    """Along the batch axis there is no convolution."""

    def rule(args: Sequence[Any], batched: Sequence[bool], params: Params) -> Any:
        a, v = (x if b else x[None] for x, b in zip(args, batched, strict=True))
        if params["mode"] == "same" and not batched[0]:  # the result has the first one's sizes
            a = spread(args[0], v.shape[0])
        axes = tuple(k + 1 for k in params["axes"])
        return apply(primitive, a, v, **{**params, "axes": axes})

    return rule


def _of_rows(args: Sequence[Any], batched: Sequence[bool], params: Params) -> Any:
    """With one operand for all examples a batch is one convolution more; else a loop."""
    n, m = (type_of(x).dims[has:] for x, has in zip(args, batched, strict=True))
    narrow = params["mode"] == "valid" and not _first_is_wider(n, m, range(len(n)))
    if all(batched) or narrow or (batched[1] and params["mode"] != "full"):
        return by_loop(convolve)(args, batched, params)
    a, v = (x if b else x[None] for x, b in zip(args, batched, strict=True))
    return apply(convolve, a, v, **params)


fftconvolve.batch, oaconvolve.batch = _along_others(fftconvolve), _along_others(oaconvolve)
convolve.batch, convolve2d.batch = _of_rows, by_loop(convolve2d)


# calls


def _operands(name: str, a: Any, v: Any, mode: Any) -> tuple[Array, Array]:
    a, v = (FUNCTIONS[np.asarray](operand(x)) for x in (a, v))
    if a.ndim != v.ndim:
        raise ValueError(
            f"{'volume and kernel' if name == 'convolve' else 'in1 and in2'} should "
            "have the same dimensionality"
        )
    if mode not in MODES:
        raise ValueError("acceptable mode flags are 'valid', 'same', or 'full'")
    return a, v


@means("scipy.signal", "convolve")
def _convolve(in1: Any, in2: Any, mode: Any = "full", method: Any = "auto") -> Any:
    a, v = _operands("convolve", in1, in2, mode)
    if method not in ("auto", "direct", "fft"):
        raise ValueError("Acceptable method flags are 'auto', 'direct', or 'fft'.")
    if a.ndim == 0:
        return a * v
    return apply(convolve, a, v, mode=mode, method=method)


@means("scipy.signal", "correlate")
def _correlate(in1: Any, in2: Any, mode: Any = "full", method: Any = "auto") -> Any:
    in2 = FUNCTIONS[np.asarray](operand(in2))
    return _convolve(in1, turned(np.conj(in2), range(in2.ndim)), mode, method)


def _by_axes(primitive: Primitive) -> Callable[..., Any]:
    def call(in1: Any, in2: Any, mode: Any = "full", axes: Any = None) -> Any:
        a, v = _operands(primitive.name, in1, in2, mode)
        if a.ndim == 0:
            return a * v
        chosen = range(a.ndim) if axes is None else (axes,) if isinstance(axes, int) else axes
        found = tuple(sorted(normalize_axis(k, a.ndim) for k in chosen))
        others = [k for k in range(a.ndim) if k not in found]
        if mode == "same" and any(a.dims[k] == 1 != v.dims[k] for k in others):
            message = f"scipy.{primitive} of mode='same' cuts the sizes that broadcast."
            hint = "broadcast the first array with np.broadcast_to"
            raise UnsupportedFunction(message, current().origin, hint)
        return apply(primitive, a, v, mode=mode, axes=found)

    return call


means("scipy.signal", "fftconvolve")(_by_axes(fftconvolve))
means("scipy.signal", "oaconvolve")(_by_axes(oaconvolve))


def beyond(x: Any, axis: int, before: Any, after: Any, place: Callable[..., Any]) -> Any:
    """The array continued at both ends of an axis: ``place(i, n)`` is the element that serves."""
    n = x.shape[axis]
    return x[along(axis, place(FUNCTIONS[np.arange](-before, n + after), n))]


def wrapped(i: Any, n: Any) -> Any:
    """The array again and again."""
    return i % n


def reflected(i: Any, n: Any) -> Any:
    """Forth and back, the ends twice."""
    i = i % (2 * n)
    return np.minimum(i, 2 * n - 1 - i)


_BOUNDARIES = {"wrap": wrapped, "circular": wrapped, "symm": reflected, "symmetric": reflected}


def _filled(x: Any, axis: int, count: Any, value: Any) -> Any:
    shape = list(x.shape)
    shape[axis] = count
    ends = FUNCTIONS["cast"](FUNCTIONS[np.full](tuple(shape), value), x.dtype)
    return np.concatenate([ends, x, ends], axis=axis)


def _planes(in1: Any, in2: Any, mode: Any, boundary: Any, fillvalue: Any, shift: int) -> Any:
    """The convolution of two matrices, the first continued beyond its boundary."""
    a, v = _operands("convolve2d", in1, in2, mode)
    if a.ndim != 2:
        raise ValueError("convolve2d inputs must both be 2-D arrays")
    fill = boundary in ("fill", "pad", "zero")
    if not fill and boundary not in _BOUNDARIES:
        raise ValueError(
            "Acceptable boundary flags are 'fill', 'circular' (or 'wrap'), and "
            "'symmetric' (or 'symm')."
        )
    plain = fill and isinstance(fillvalue, (int, float, complex)) and fillvalue == 0
    if mode == "valid" or (plain and (mode == "full" or not shift)):
        return apply(convolve2d, a, v, mode=mode)
    n, m = a.shape, v.shape
    for k in (0, 1):
        if fill:
            a = _filled(a, k, m[k] - 1, fillvalue)
        else:
            a = beyond(a, k, m[k] - 1, m[k] - 1, _BOUNDARIES[boundary])
    found = apply(convolve2d, a, v, mode="valid")
    if mode == "full":
        return found
    starts = [(m[k] - 1 + shift) // 2 for k in (0, 1)]
    return found[tuple(slice(s, s + n[k]) for k, s in enumerate(starts))]


@means("scipy.signal", "convolve2d")
def _convolve2d(
    in1: Any, in2: Any, mode: Any = "full", boundary: Any = "fill", fillvalue: Any = 0
) -> Any:
    return _planes(in1, in2, mode, boundary, fillvalue, 0)


@means("scipy.signal", "correlate2d")
def _correlate2d(
    in1: Any, in2: Any, mode: Any = "full", boundary: Any = "fill", fillvalue: Any = 0
) -> Any:
    """Of an even number of places SciPy takes the other middle one than ``convolve2d``."""
    in2 = FUNCTIONS[np.asarray](operand(in2))
    return _planes(in1, turned(np.conj(in2), (0, 1)), mode, boundary, fillvalue, 1)
