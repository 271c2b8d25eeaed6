"""Choosing elements, and stores said by functions: nonzero, select, put, copyto, fill."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calque.transpiler.errors import ShapeError, UnsupportedFunction
from calque.transpiler.ir.builder import (
    FUNCTIONS,
    METHODS,
    OPERATORS,
    Array,
    current,
    known_int,
    type_of,
)
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.primitives.base import Primitive, apply, implements, operand, register
from calque.transpiler.primitives.creation import shape_text, shape_tuple
from calque.transpiler.primitives.joining import along
from calque.transpiler.primitives.sampling import case, cases
from calque.transpiler.primitives.shapes import flattened, normalize_axis
from calque.transpiler.primitives.templates import count_dim

_INDEX = np.dtype(np.intp)
_HOLES = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 3.0]])


def _positions(
    name: str,
    function: Callable[..., Any],
    infer: Callable[..., Any],
    *samples: Any,
    spelling: Any = None,
) -> Primitive:
    """A function from an array to positions in it."""
    return register(
        Primitive(
            name,
            function,
            infer,
            spelling or f"{name}({{0}})",
            nondifferentiable=True,
            fresh=True,
            chooses=True,
            samples=cases(*samples),
        )
    )


def _only(count: int) -> str:
    """The index ``[0]`` to append to the text of a tuple of results, where there is only one."""
    return "[0]" if count == 1 else ""


def _infer_nonzero(x: Any) -> tuple[ArrayType, ...]:
    return (ArrayType(_INDEX, (count_dim(x),)),) * x.ndim


nonzero = _positions(
    "np.nonzero",
    np.nonzero,
    _infer_nonzero,
    case(_HOLES),
    case(_HOLES[0]),
    spelling=lambda args, p: "np.nonzero({0})" + _only(type_of(args[0]).ndim),
)
argwhere = _positions(
    "np.argwhere",
    np.argwhere,
    lambda x: ArrayType(_INDEX, (count_dim(x), x.ndim)),
    case(_HOLES),
    case(_HOLES[0]),
)
flatnonzero = _positions(
    "np.flatnonzero",
    np.flatnonzero,
    lambda x: ArrayType(_INDEX, (count_dim(x),)),
    case(_HOLES),
    case(np.array(1.0)),
)
flatnonzero.distinct = True


@implements(np.nonzero, method="nonzero")
def np_nonzero(x: Any) -> tuple[Array, ...]:
    """``np.nonzero``: one array of positions for each axis."""
    x = FUNCTIONS[np.asarray](x)
    if not x.ndim:
        raise ShapeError("Calling nonzero on 0d arrays is not allowed.", current().origin)
    return apply(nonzero, x)


FUNCTIONS[np.argwhere] = lambda x: apply(argwhere, FUNCTIONS[np.asarray](x))
FUNCTIONS[np.flatnonzero] = lambda x: apply(flatnonzero, FUNCTIONS[np.asarray](x))


# flat and multiple indices


def _infer_unravel(flat: Any, *sizes: Any) -> tuple[ArrayType, ...]:
    return (ArrayType(_INDEX, type_of(flat).dims),) * len(sizes)


unravel_index = register(
    Primitive(
        "np.unravel_index",
        lambda flat, *sizes: np.unravel_index(flat, sizes),
        _infer_unravel,
        lambda args, p: (
            f"np.unravel_index({{0}}, {_tuple_text(1, len(args) - 1)})" + _only(len(args) - 1)
        ),
        nondifferentiable=True,
        samples=cases(case(np.array([1, 5, 0]), 2, 3), case(np.array(4), 5)),
    )
)
ravel_multi_index = register(
    Primitive(
        "np.ravel_multi_index",
        lambda *args, rank, mode: np.ravel_multi_index(args[:rank], args[rank:], mode),
        lambda *args, rank, mode: ArrayType(
            _INDEX, current().broadcast([type_of(a).dims for a in args[:rank]])
        ),
        lambda args, p: (
            f"np.ravel_multi_index({_tuple_text(0, p['rank'])}, {_tuple_text(p['rank'], p['rank'])}"
            + (")" if p["mode"] == "raise" else f', mode="{p["mode"]}")')
        ),
        nondifferentiable=True,
        samples=cases(case(np.array([1, 0]), np.array([2, 1]), 2, 3, rank=2, mode="raise")),
    )
)


def _tuple_text(first: int, count: int) -> str:
    text = shape_text(first, count)
    return text if count > 1 else f"({text},)"


@implements(np.unravel_index)
def np_unravel_index(indices: Any, shape: Any, order: str = "C") -> tuple[Array, ...]:
    """``np.unravel_index``."""
    _only_c_order(order)
    return apply(unravel_index, FUNCTIONS[np.asarray](indices), *shape_tuple(shape))


@implements(np.ravel_multi_index)
def np_ravel_multi_index(multi_index: Any, dims: Any, mode: str = "raise", order: str = "C") -> Any:
    """``np.ravel_multi_index``."""
    _only_c_order(order)
    values = [FUNCTIONS[np.asarray](i) for i in multi_index]
    return apply(ravel_multi_index, *values, *shape_tuple(dims), rank=len(values), mode=mode)


def _only_c_order(order: str) -> None:
    if order != "C":
        raise UnsupportedFunction(f"order={order!r} has no rule here.", current().origin)


# selections


@implements(np.select)
def np_select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """``np.select``: the first choice whose condition holds."""
    if len(condlist) != len(choicelist):
        raise ShapeError(
            "list of cases must be same length as list of conditions", current().origin
        )
    dtype = np.result_type(*[_sampled(v) for v in (*choicelist, default)])
    result = FUNCTIONS["cast"](operand(default), dtype)
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        result = FUNCTIONS[np.where](condition, choice, result)
    return FUNCTIONS["cast"](result, dtype)


def _sampled(value: Any) -> Any:
    t = type_of(operand(value))
    return t.dtype.type(1) if not t.weak else np.array(1, t.dtype).item()


@implements(np.choose, method="choose")
def np_choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Any:
    """``np.choose``: for every element, which of several arrays it is taken from."""
    if mode != "raise" or out is not None:
        raise UnsupportedFunction("np.choose with mode= or out= has no rule.", current().origin)
    options = list(choices)
    dtype = np.result_type(*[type_of(operand(c)).dtype for c in options])
    result = FUNCTIONS["cast"](operand(options[-1]), dtype)
    for k in range(len(options) - 2, -1, -1):
        result = FUNCTIONS[np.where](np.equal(a, k), options[k], result)
    return result


@implements(np.compress)
def np_compress(condition: Any, a: Any, axis: Any = None, out: Any = None) -> Any:
    """``np.compress``: the places along an axis where a condition holds."""
    a = FUNCTIONS[np.asarray](a)
    if axis is None:
        a, axis = flattened(a), 0
    (kept,) = np_nonzero(condition)
    return a[along(normalize_axis(axis, a.ndim), kept)]


METHODS["compress"] = lambda a, condition, axis=None, out=None: np_compress(condition, a, axis, out)


@implements(np.extract)
def np_extract(condition: Any, arr: Any) -> Array:
    """``np.extract``."""
    return flattened(arr)[np_nonzero(flattened(condition))[0]]


@implements(np.piecewise)
def np_piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kwargs: Any) -> Array:
    """``np.piecewise``: each function sees the elements where its condition holds."""
    x = FUNCTIONS[np.asarray](x)
    if not x.ndim:
        raise UnsupportedFunction(
            "np.piecewise of a number.", current().origin, "write if and else"
        )
    conditions = list(condlist) if isinstance(condlist, (list, tuple)) else [condlist]
    conditions = [FUNCTIONS[np.asarray](c) for c in conditions]
    if len(funclist) == len(conditions) + 1:
        some = conditions[0]
        for condition in conditions[1:]:
            some = np.logical_or(some, condition)
        conditions.append(np.logical_not(some))
    y = np.zeros_like(x)
    for condition, function in zip(conditions, funclist, strict=True):
        y[condition] = function(x[condition], *args, **kwargs) if callable(function) else function
    return y


# stores


@implements(np.copyto)
def np_copyto(dst: Array, src: Any, casting: Any = "same_kind", where: Any = True) -> None:
    """``np.copyto``: a store, where a mask allows it."""
    source, whole = operand(src), type_of(operand(src)).dtype
    if not np.can_cast(whole, dst.dtype, casting) and not type_of(source).weak:
        raise TypeError(f"Cannot cast array data from {whole!r} to {dst.dtype!r}")
    if where is not True:
        source = FUNCTIONS[np.where](where, FUNCTIONS["cast"](source, dst.dtype), dst)
    OPERATORS["setitem"](dst, Ellipsis, source)


METHODS["fill"] = lambda x, value: OPERATORS["setitem"](x, Ellipsis, value)


@implements(np.put)
def np_put(a: Array, ind: Any, v: Any, mode: str = "raise") -> None:
    """``np.put``: a store by flat positions; the values may be fewer by repetition of one."""
    if mode != "raise":
        raise UnsupportedFunction(f"np.put with mode={mode!r} has no rule.", current().origin)
    values = operand(v)
    index = flattened(ind)
    if type_of(values).ndim:
        values = flattened(values)
        _same_count(values, index)
    a.flat[index] = values


def _same_count(values: Array, index: Array) -> None:
    if values.dims[0] != 1:
        current().unify(values.dims[0], index.dims[0])


METHODS["put"] = np_put


@implements(np.putmask)
def np_putmask(a: Array, mask: Any, values: Any) -> None:
    """``np.putmask``: values of the array's shape, or one for all."""
    values = FUNCTIONS["cast"](operand(values), a.dtype)
    if type_of(values).ndim and type_of(values).dims != (1,):
        if type_of(values).ndim != a.ndim:
            raise UnsupportedFunction("np.putmask that repeats its values.", current().origin)
        for have, want in zip(values.dims, a.dims, strict=True):
            current().unify(have, want)
    a[...] = FUNCTIONS[np.where](mask, values, a)


@implements(np.place)
def np_place(arr: Array, mask: Any, vals: Any) -> None:
    """``np.place``: the values in turn, again from the first where they are fewer than places."""
    values = FUNCTIONS["cast"](flattened(vals), arr.dtype)
    mask = np.reshape(FUNCTIONS["cast"](FUNCTIONS[np.asarray](mask), bool), arr.shape)
    if values.dims == (1,):
        arr[mask] = values[0]
        return
    turns = np.reshape(np.cumsum(mask) - 1, mask.shape)
    arr[...] = FUNCTIONS[np.where](mask, values[turns % values.shape[0]], arr)


def _to_list(x: Array) -> Any:
    """``x.tolist()``: nested lists of run-time numbers, over known sizes."""
    if not x.ndim:
        return METHODS["item"](x)
    size = known_int(x.shape[0], "The length of a list")
    return [_to_list(x[i]) for i in range(size)]


METHODS["tolist"] = _to_list
