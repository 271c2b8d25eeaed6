"""``scipy.ndimage``: correlations with weights along an axis or of a window, and splines' filters.

Each is linear in the image. Its transpose is the correlation with the weights turned around, of
zeros beyond the image, and what then lies beyond is added to the elements that stood for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.transpiler.errors import UnsupportedFunction
from calque.transpiler.ir.builder import FUNCTIONS, Array, current, loop_index, type_of
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.primitives.base import (
    apply,
    finish,
    linear,
    opaque,
    operand,
    run_time_choice,
)
from calque.transpiler.primitives.sampling import case, cases, single
from calque.transpiler.primitives.scans import along, looped
from calque.transpiler.primitives.scipy_convolutions import (
    beyond,
    by_loop,
    reflected,
    turned,
    wrapped,
)
from calque.transpiler.primitives.scipy_modules import Lazy, means
from calque.transpiler.primitives.shapes import normalize_axis

Params = dict[str, Any]


def mirrored(i: Any, n: Any) -> Any:
    """Forth and back, the ends once."""
    period = np.maximum(2 * n - 2, 1)
    i = i % period
    return np.minimum(i, period - i)


def nearest(i: Any, n: Any) -> Any:
    """The ends again and again."""
    return np.clip(i, 0, n - 1)


PLACES: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("reflect", "grid-mirror"), reflected),
    **dict.fromkeys(("wrap", "grid-wrap"), wrapped),
    "mirror": mirrored,
    "nearest": nearest,
}
_CONSTANT = ("constant", "grid-constant")


def _spell(args: Any, params: Params) -> str:
    usual = {"axis": type_of(args[0]).ndim - 1, "mode": "reflect", "cval": 0.0, "origin": 0}
    changed = "".join(f", {k}={v!r}" for k, v in params.items() if v != usual[k])
    return f"ndimage.correlate1d({{0}}, {{1}}{changed})"


def _zeros(x: Any, axis: int, count: Any, value: Any = 0.0) -> Any:
    shape = list(x.shape)
    shape[axis] = count
    return FUNCTIONS["cast"](FUNCTIONS[np.full](tuple(shape), value), x.dtype)


def _sides(w: Any, origin: int) -> tuple[Any, Any]:
    """The number of elements that weights see before and after the one in the middle."""
    before = w.shape[0] // 2 + origin
    return before, w.shape[0] - 1 - before


def _continued(x: Any, w: Any, axis: int, mode: str, cval: float, origin: int) -> Any:
    before, after = _sides(w, origin)
    if mode in _CONSTANT:
        ends = (_zeros(x, axis, count, cval) for count in (before, after))
        return np.concatenate([next(ends), x, next(ends)], axis=axis)
    return beyond(x, axis, before, after, PLACES[mode])


def _folded(whole: Any, like: Any, w: Any, axis: int, mode: str, origin: int) -> Any:
    """The transpose of continuing: what lies beyond is added where it came from."""
    before, after = _sides(w, origin)
    n = like.shape[axis]
    if mode in _CONSTANT:
        return whole[along(axis, slice(before, before + n))]
    found = FUNCTIONS[np.zeros](like.shape, whole.dtype)
    place = PLACES[mode](FUNCTIONS[np.arange](-before, n + after), n)
    np.add.at(found, along(axis, place), whole)
    return found


def _moved_products(whole: Any, y_bar: Any, count: Any, axis: int) -> Any:
    """For each ``k`` below a count, the sum of ``whole[k:k + n] * y_bar``."""
    n = y_bar.shape[axis]
    if current().dims.nonnegative(current().dim_of(count)):
        padded = np.concatenate([y_bar, _zeros(y_bar, axis, count - 1)], axis=axis)
        flat = [np.reshape(np.moveaxis(v, axis, -1), -1) for v in (whole, padded)]
        after = FUNCTIONS[np.zeros](count, whole.dtype)
        return np.correlate(np.concatenate([flat[0], after]), flat[1], "valid")[:count]
    k = loop_index(0, current().dim_of(count) - 1, "k")

    def summed(sums: Array) -> Array:
        sums[k] = np.sum(whole[along(axis, slice(k, k + n))] * y_bar)
        return Array(sums.atom)

    return looped(FUNCTIONS[np.zeros](count, whole.dtype), k, 0, count, summed)


def _jvp(tangents: Any, outs: Any, args: Any, params: Params) -> tuple[Any, ...]:
    (x_dot, w_dot), (x, w) = tangents, args
    left = None
    if x_dot is not None:
        left = apply(correlate1d, x_dot, w, **{**params, "cval": 0.0})
    if w_dot is None:
        return (left,)
    right = apply(correlate1d, x, w_dot, **params)
    return (right if left is None else left + right,)


def _vjp(cotangents: Any, outs: Any, args: Any, params: Params) -> tuple[Any, ...]:
    (y_bar,), (x, w), axis = cotangents, args, params["axis"]
    count = w.shape[0]
    ends = _zeros(y_bar, axis, count - 1)
    # y[i] = sum of w[k] * whole[i + k], so whole[j] gets w[k] * y_bar[j - k]
    spread = np.concatenate([ends, y_bar, ends], axis=axis)
    how = {**params, "mode": "constant", "cval": 0.0, "origin": 0}
    seen = apply(correlate1d, spread, w[::-1], **how)
    half = count // 2
    whole = seen[along(axis, slice(half, half + x.shape[axis] + count - 1))]
    x_bar = _folded(whole, x, w, axis, params["mode"], params["origin"])
    continued = _continued(x, w, **params)
    return x_bar, _moved_products(continued, y_bar, count, axis)


correlate1d = opaque(
    "ndimage.correlate1d",
    Lazy("scipy.ndimage", "correlate1d"),
    lambda x, w, **params: ArrayType(x.dtype, x.dims),
    _spell,
    _jvp,
    _vjp,
    fresh=True,
    samples=cases(
        *(
            case((5, 4), (3 + k % 2,), axis=k % 2, mode=mode, cval=0.5 * (k == 1), origin=k % 2)
            for k, mode in enumerate(("reflect", "constant", "nearest", "mirror", "wrap"))
        ),
        case((6,), (3,), axis=0, mode="reflect", cval=0.0, origin=0),
        case(single(6), (2,), axis=0, mode="nearest", cval=0.0, origin=0),
    ),
)


def _batch(args: Sequence[Any], batched: Sequence[bool], params: Params) -> Any:
    if batched[1]:
        return by_loop(correlate1d)(args, batched, params)
    return apply(correlate1d, *args, **{**params, "axis": params["axis"] + 1})


correlate1d.batch = _batch


# splines


def _spline_text(args: Any, params: Params) -> str:
    usual = {"order": 3, "axis": type_of(args[0]).ndim - 1, "mode": "mirror"}
    changed = "".join(f", {k}={v!r}" for k, v in params.items() if v != usual[k])
    return f"ndimage.spline_filter1d({{0}}{changed})"


def _of_doubles(x: Any, **params: Any) -> ArrayType:
    return ArrayType(np.result_type(x.dtype, np.float64), x.dims)


@linear(
    "ndimage.spline_filter1d",
    Lazy("scipy.ndimage", "spline_filter1d"),
    _of_doubles,
    _spline_text,
    fresh=True,
    samples=cases(
        case((6,), order=3, axis=0, mode="mirror"),
        case((5, 4), order=2, axis=0, mode="reflect"),
        case((5, 4), order=4, axis=1, mode="grid-wrap"),
        case((4, 6), order=5, axis=1, mode="mirror"),
        case((2, 3), order=3, axis=0, mode="mirror"),
    ),
)
def spline_filter1d(c_bar: Any, x: Any, order: int, axis: int, mode: str) -> Any:
    """The system that it solves is symmetric, but for the ends that a mirror shows once.

    SciPy's continuation of what is reflected is exact in long arrays only: in short ones the
    transpose is that of its matrix.
    """
    how = {"order": order, "axis": axis, "mode": mode}
    if mode == "grid-wrap":
        return apply(spline_filter1d, c_bar, **how)
    if mode not in ("reflect", "grid-mirror", "nearest"):
        scaled = apply(spline_filter1d, _ends_scaled(c_bar, axis, 2.0), **how)
        return _ends_scaled(scaled, axis, 0.5)
    n = x.shape[axis]

    def short() -> Any:
        unit = FUNCTIONS[np.eye](n)
        rows = np.moveaxis(c_bar, axis, -1)
        return np.moveaxis(rows @ apply(spline_filter1d, unit, **{**how, "axis": 0}), -1, axis)

    return run_time_choice(
        n < 40, short, lambda: apply(spline_filter1d, c_bar, **how), type_of(c_bar)
    )


def _ends_scaled(x: Any, axis: int, factor: float) -> Any:
    x = np.copy(x)
    for end in (0, -1):
        x[along(axis, end)] *= factor
    return x


def _moved_axis(args: Sequence[Any], batched: Sequence[bool], params: Params) -> Any:
    return apply(spline_filter1d, *args, **{**params, "axis": params["axis"] + 1})


spline_filter1d.batch = _moved_axis


# calls


def image(value: Any, function: str) -> Array:
    """The image that a function is given; of complex numbers only in SciPy itself."""
    x = FUNCTIONS[np.asarray](operand(value))
    if x.dtype.kind == "c":
        message = f"scipy.ndimage.{function} of complex numbers has no rule."
        hint = "call it with the real and with the imaginary part"
        raise UnsupportedFunction(message, current().origin, hint)
    return x


def _dtype_of(output: Any, usual: np.dtype) -> np.dtype:
    """The dtype of a result: that of the array for it, or the one that is asked for."""
    if output is None:
        return usual
    dtype = output.dtype if isinstance(output, Array) else np.dtype(output)
    if dtype.kind == "c":
        message = "scipy.ndimage with a result of complex numbers has no rule."
        raise UnsupportedFunction(message, current().origin, "give a real output=")
    return dtype


def into(found: Array, output: Any) -> Any:
    """The result, in the array or of the dtype that is asked for."""
    found = FUNCTIONS["cast"](found, _dtype_of(output, found.dtype))
    if not isinstance(output, Array):
        return found
    if output.ndim != found.ndim:
        raise RuntimeError("output shape not correct")
    for one, other in zip(output.dims, found.dims, strict=True):
        current().unify(one, other)
    return finish(found, output)


@means("scipy.ndimage", "correlate1d")
def _correlate1d(
    input: Any,
    weights: Any,
    axis: Any = -1,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
) -> Any:
    x, w = image(input, "correlate1d"), image(weights, "correlate1d")
    if mode not in PLACES and mode not in _CONSTANT:
        raise RuntimeError("boundary mode not supported")
    if w.ndim != 1:
        raise RuntimeError("no filter weights given")
    if isinstance(cval, Array):
        raise current().needs_known(cval, "The option cval")
    dtype = _dtype_of(output, x.dtype)
    if dtype != x.dtype:  # SciPy sums in double precision, and casts the sums
        x = FUNCTIONS["cast"](x, np.dtype("f8"))
    axis = normalize_axis(axis, x.ndim)
    found = apply(correlate1d, x, w, axis=axis, mode=mode, cval=float(cval), origin=int(origin))
    return into(found, dtype if output is None else output)


@means("scipy.ndimage", "convolve1d")
def _convolve1d(
    input: Any,
    weights: Any,
    axis: Any = -1,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
) -> Any:
    w = turned(image(weights, "convolve1d"), (0,))
    origin = -origin
    size = type_of(w).dims[0]
    if not isinstance(size, int):
        raise current().needs_dims([size], "Whether the number of weights is even")
    return _correlate1d(input, w, axis, output, mode, cval, origin - (size % 2 == 0))


@means("scipy.ndimage", "spline_filter1d")
def _spline_filter1d(
    input: Any, order: Any = 3, axis: Any = -1, output: Any = np.float64, mode: Any = "mirror"
) -> Any:
    x = image(input, "spline_filter1d")
    if order < 0 or order > 5:
        raise RuntimeError("spline order not supported")
    if order < 2:
        return into(FUNCTIONS["cast"](x, np.dtype("f8")), output)
    axis = normalize_axis(axis, x.ndim)
    return into(apply(spline_filter1d, x, order=order, axis=axis, mode=mode), output)
