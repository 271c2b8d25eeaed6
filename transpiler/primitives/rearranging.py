"""Elements in another order or more than once: tile, repeat, roll, pad, flip, rot90."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.transpiler.errors import ShapeError, UnsupportedFunction
from calque.transpiler.ir.builder import FUNCTIONS, METHODS, Array, current, known_int, type_of
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.primitives.base import (
    Primitive,
    apply,
    implements,
    linear,
    operand,
    register,
)
from calque.transpiler.primitives.creation import shape_text
from calque.transpiler.primitives.joining import along
from calque.transpiler.primitives.sampling import case, cases, single
from calque.transpiler.primitives.shapes import (
    flattened,
    normalize_axis,
    normalize_tuple,
    product_dim,
)

# tile


def _infer_tile(x: Any, *repeats: Any) -> ArrayType:
    rank = max(x.ndim, len(repeats))
    dims = (1,) * (rank - x.ndim) + x.dims
    counts = (1,) * (rank - len(repeats)) + tuple(map(current().dim_of, repeats))
    return ArrayType(x.dtype, tuple(product_dim(pair) for pair in zip(dims, counts)))


@linear(
    "np.tile",
    lambda x, *repeats: np.tile(x, repeats),
    _infer_tile,
    lambda args, p: f"np.tile({{0}}, {shape_text(1, len(args) - 1)})",
    fresh=True,
    samples=cases(
        case((3,), 2),
        case((3, 4), 2),
        case((2, 3), 2, 1, 3),
        case((), 2, 2),
        case(single(0, 2), 1, 2),
        case((2, 3, 2), 2, 2),
    ),
)
def tile(y_bar: Any, x: Array, *repeats: Any) -> Any:
    """The copies side by side on axes of their own, summed."""
    rank = max(x.ndim, len(repeats))
    sizes = (1,) * (rank - x.ndim) + x.shape
    counts = (1,) * (rank - len(repeats)) + repeats
    interleaved = tuple(s for pair in zip(counts, sizes) for s in pair)
    copies = tuple(2 * a for a in range(rank)) + tuple(2 * a + 1 for a in range(rank - x.ndim))
    return np.sum(np.reshape(y_bar, interleaved), axis=copies)


@implements(np.tile)
def np_tile(x: Any, reps: Any) -> Array:
    """``np.tile``."""
    repeats = tuple(reps) if isinstance(reps, (tuple, list, np.ndarray)) else (reps,)
    return apply(tile, FUNCTIONS[np.asarray](x), *repeats)


# repeat


def _infer_repeat(x: Any, repeats: Any, axis: int) -> ArrayType:
    dims = list(x.dims)
    if type_of(repeats).ndim == 0:
        dims[axis] = product_dim([dims[axis], current().dim_of(repeats)])
    else:
        current().unify(dims[axis], type_of(repeats).dims[0])
        dims[axis] = current().dims.fresh()
    return ArrayType(x.dtype, tuple(dims))


@linear(
    "np.repeat",
    np.repeat,
    _infer_repeat,
    lambda args, p: f"np.repeat({{0}}, {{1}}, axis={p['axis']})",
    fresh=True,
    samples=cases(
        case((3,), 2, axis=0),
        case((2, 3), 3, axis=1),
        case((2, 0), 2, axis=0),
        case((3,), 0, axis=0),
        case((3, 2), np.array([1, 0, 2]), axis=0),
        case(single(2, 3), np.array([1, 2, 1]), axis=1),
    ),
)
def repeat(y_bar: Any, x: Array, repeats: Any, axis: int) -> Any:
    """The copies of an element summed: adjacent ones, or by the position each came from."""
    shape = x.shape
    if not type_of(repeats).ndim:
        return np.sum(
            np.reshape(y_bar, (*shape[: axis + 1], repeats, *shape[axis + 1 :])), axis + 1
        )
    source = FUNCTIONS[np.repeat](FUNCTIONS[np.arange](shape[axis]), repeats)
    x_bar = np.zeros_like(x)
    FUNCTIONS[np.add.at](x_bar, along(axis, source), y_bar)
    return x_bar


@implements(np.repeat, method="repeat")
def np_repeat(x: Any, repeats: Any, axis: Any = None) -> Array:
    """``np.repeat``."""
    x, repeats = FUNCTIONS[np.asarray](x), operand(repeats)
    if axis is None:
        x, axis = flattened(x), 0
    return apply(repeat, x, repeats, axis=normalize_axis(axis, x.ndim))


# roll


@linear(
    "np.roll",
    lambda x, *shifts, axis: np.roll(x, shifts if len(shifts) > 1 else shifts[0], axis),
    lambda x, *shifts, axis: x.type,
    lambda args, p: f"np.roll({{0}}, {shape_text(1, len(args) - 1)}{_roll_axis(p['axis'])})",
    fresh=True,
    samples=cases(
        case((5,), 2, axis=(0,)),
        case((3, 4), -1, axis=None),
        case((3, 4), 1, 2, axis=(0, 1)),
        case((2, 0), 1, axis=(1,)),
        case(single(4, 1), 5, axis=(0,)),
        case((3, 4), 1, axis=(0, 1)),
    ),
    moves=True,
)
def roll(y_bar: Any, x: Any, *shifts: Any, axis: tuple[int, ...] | None) -> Any:
    """Rolled back."""
    return apply(roll, y_bar, *[-s for s in shifts], axis=axis)


def _roll_axis(axis: tuple[int, ...] | None) -> str:
    return "" if axis is None else f", axis={axis[0] if len(axis) == 1 else axis}"


@implements(np.roll)
def np_roll(x: Any, shift: Any, axis: Any = None) -> Array:
    """``np.roll``."""
    x = FUNCTIONS[np.asarray](x)
    if not x.ndim:
        return FUNCTIONS[np.copy](x)
    shifts = tuple(shift) if isinstance(shift, (tuple, list)) else (shift,)
    if axis is None:
        axes = None
    else:
        axes = tuple(
            normalize_axis(a, x.ndim) for a in (axis if isinstance(axis, (tuple, list)) else [axis])
        )
        if len(axes) == 1:
            axes = axes * len(shifts)
    if axes is not None and len(shifts) not in (1, len(axes)):
        raise ShapeError("'shift' and 'axis' do not broadcast", current().origin)
    return apply(roll, x, *shifts, axis=axes)


# pad

_INDEXED_MODES = ("edge", "reflect", "symmetric", "wrap")


def _infer_pad(x: Any, value: Any, widths: Any, mode: str) -> ArrayType:
    return ArrayType(
        x.dtype, tuple(d + before + after for d, (before, after) in zip(x.dims, widths))
    )


def _concrete_pad(x: Any, value: Any, widths: Any, mode: Any) -> Any:
    if mode != "constant":
        return np.pad(x, widths, mode)
    return np.pad(x, widths, constant_values=np.asarray(value)[()])


def _pad_text(args: Any, params: dict[str, Any]) -> str:
    widths: Any = params["widths"]
    if all(w == widths[0] for w in widths):
        widths = widths[0][0] if widths[0][0] == widths[0][1] else widths[0]
    text = f"np.pad({{0}}, {widths}"
    if params["mode"] != "constant":
        return text + f", mode={params['mode']!r})"
    plain = not isinstance(args[1], Array) and type_of(args[1]).weak and args[1] == 0
    return text + (")" if plain else ", constant_values={1})")


def _interior(widths: Any) -> tuple[slice, ...]:
    return tuple(slice(before or None, -after if after else None) for before, after in widths)


def _pad_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    x_dot, value_dot = tangents
    x_dot = np.zeros_like(args[0]) if x_dot is None else x_dot
    return (apply(pad, x_dot, 0.0 if value_dot is None else value_dot, **params),)


def _pad_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (y_bar,), (x, value), widths = cotangents, args, params["widths"]
    if params["mode"] == "constant":
        x_bar = y_bar[_interior(widths)]
        spread = isinstance(value, Array) and value.dtype.kind in "fc"
        return x_bar, np.sum(y_bar) - np.sum(x_bar) if spread else None
    for axis, width in enumerate(widths):
        if width != (0, 0):
            y_bar = _gathered_back(y_bar, x, axis, width, params["mode"])
    return y_bar, None


def _gathered_back(y_bar: Array, x: Array, axis: int, width: tuple[int, int], mode: str) -> Array:
    """The adjoint of padding one axis: every padded element adds to the one it repeats."""
    size = x.shape[axis]
    source = apply(pad, FUNCTIONS[np.arange](size), 0, widths=(width,), mode=mode)
    shape = (*y_bar.shape[:axis], size, *y_bar.shape[axis + 1 :])
    total = FUNCTIONS[np.zeros](shape, y_bar.dtype)
    FUNCTIONS[np.add.at](total, along(axis, source), y_bar)
    return total


pad = register(
    Primitive(
        "np.pad",
        _concrete_pad,
        _infer_pad,
        _pad_text,
        kind="linear",
        jvp=_pad_jvp,
        vjp=_pad_vjp,
        fresh=True,
        samples=cases(
            case((3,), 0, widths=((1, 2),), mode="constant"),
            case((2, 3), 0.0, widths=((0, 1), (2, 0)), mode="constant"),
            case((2, 0), 0.0, widths=((1, 1), (1, 1)), mode="constant"),
            case((3, 4), 0, widths=((1, 1), (2, 1)), mode="edge"),
            case((3, 4), 0, widths=((2, 1), (0, 3)), mode="reflect"),
            case((3, 4), 0, widths=((1, 1), (2, 1)), mode="symmetric"),
            case(single(3, 4), 0, widths=((1, 1), (2, 5)), mode="wrap"),
        ),
    )
)


def _widths(pad_width: Any, ndim: int) -> tuple[tuple[int, int], ...]:
    if isinstance(pad_width, dict):
        pairs = [pad_width.get(a, pad_width.get(a - ndim, 0)) for a in range(ndim)]
        return tuple(_widths(p, 1)[0] for p in pairs)
    if not isinstance(pad_width, (tuple, list, np.ndarray)):
        width = known_int(pad_width, "A padding width")
        return ((width, width),) * ndim
    rows = [
        [known_int(w, "A padding width") for w in row]
        if isinstance(row, (tuple, list, np.ndarray))
        else known_int(row, "A padding width")
        for row in pad_width
    ]
    return tuple((int(a), int(b)) for a, b in np.broadcast_to(np.array(rows), (ndim, 2)))


@implements(np.pad)
def np_pad(x: Any, pad_width: Any, mode: Any = "constant", **options: Any) -> Array:
    """``np.pad``: a constant, or modes that repeat elements."""
    x = FUNCTIONS[np.asarray](x)
    value = operand(options.pop("constant_values", 0))
    supported = mode == "constant" or mode in _INDEXED_MODES
    if not supported or options or type_of(value).ndim:
        raise UnsupportedFunction(
            f"np.pad with mode={mode!r} and {sorted(options)}.", current().origin
        )
    if not x.ndim:
        return FUNCTIONS[np.copy](x)
    if mode != "constant" and 0 in x.dims:
        raise ShapeError("can't extend an empty axis", current().origin)
    return apply(pad, x, value, widths=_widths(pad_width, x.ndim), mode=mode)


# flips: views


@implements(np.flip)
def np_flip(x: Any, axis: Any = None) -> Array:
    """``np.flip``: a view."""
    x = FUNCTIONS[np.asarray](x)
    axes = range(x.ndim) if axis is None else normalize_tuple(axis, x.ndim)
    last = max(axes, default=-1)
    index = tuple(slice(None, None, -1 if a in axes else None) for a in range(last + 1))
    return x[index] if index else x


@implements(np.flipud)
def np_flipud(x: Any) -> Array:
    """``np.flipud``."""
    return np_flip(x, 0)


@implements(np.fliplr)
def np_fliplr(x: Any) -> Array:
    """``np.fliplr``."""
    return np_flip(x, 1)


@implements(np.rot90)
def np_rot90(x: Any, k: Any = 1, axes: Sequence[Any] = (0, 1)) -> Array:
    """``np.rot90``: a view."""
    x = FUNCTIONS[np.asarray](x)
    first, second = normalize_tuple(tuple(axes), x.ndim)
    match known_int(k, "The number of turns") % 4:
        case 0:
            return x[...]
        case 1:
            return FUNCTIONS[np.swapaxes](np_flip(x, second), first, second)
        case 2:
            return np_flip(x, (first, second))
    return np_flip(FUNCTIONS[np.swapaxes](x, first, second), second)


# functions of functions


@implements(np.apply_along_axis)
def np_apply_along_axis(function: Any, axis: Any, x: Any, *args: Any, **kwargs: Any) -> Array:
    """``np.apply_along_axis`` over known sizes: the function is called once a line."""
    x = FUNCTIONS[np.asarray](x)
    axis = normalize_axis(axis, x.ndim)
    lines = FUNCTIONS[np.moveaxis](x, axis, -1)
    outer = tuple(known_int(s, "The number of lines") for s in lines.shape[:-1])
    results = [operand(function(lines[i], *args, **kwargs)) for i in np.ndindex(*outer)]
    rank = type_of(results[0]).ndim
    table = FUNCTIONS[np.stack](results)
    table = FUNCTIONS[np.reshape](table, outer + table.shape[1:])
    where = tuple(range(len(outer), len(outer) + rank))
    return FUNCTIONS[np.moveaxis](table, where, tuple(range(axis, axis + rank)))


def _refuse(message: str, hint: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise UnsupportedFunction(message, current().origin, hint)

    return refuse


FUNCTIONS[np.frompyfunc] = _refuse(
    "np.frompyfunc calls Python for every element.", "write it with np.where, or use calque.vmap"
)
METHODS["resize"] = _refuse(
    "ndarray.resize gives an array other memory.", "use np.reshape or np.tile"
)


def _view(x: Array, dtype: Any = None, type: Any = None) -> Any:
    if isinstance(dtype, builtins.type) and issubclass(dtype, np.ndarray):
        dtype, type = None, dtype
    if type not in (None, np.ndarray):
        raise UnsupportedFunction(
            f"ndarray.view as the class {type.__name__}.", current().origin, "use a plain array"
        )
    if dtype is not None and np.dtype(dtype) != x.dtype:
        raise UnsupportedFunction(
            "ndarray.view as another dtype.", current().origin, "use .astype(dtype)"
        )
    return x[...]


METHODS["view"] = _view
