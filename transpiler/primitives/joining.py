"""Arrays put together and taken apart: concatenate, stack, split, append, insert, delete."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.transpiler.errors import ShapeError
from calque.transpiler.ir.builder import FUNCTIONS, Array, current, known_int, type_of
from calque.transpiler.ir.types import ArrayType, DimLike, divide_dim, promote
from calque.transpiler.primitives.base import Primitive, apply, finish, implements, register
from calque.transpiler.primitives.sampling import Sampler, case, cases, single
from calque.transpiler.primitives.shapes import (
    add_sizes,
    flattened,
    multiply_sizes,
    normalize_axis,
)

# For an operand's rank, which axes of the result are its own (True) and which are added, of size 1.
Pattern = Callable[[int, dict[str, Any]], tuple[bool, ...]]


def _own(rank: int, params: dict[str, Any]) -> tuple[bool, ...]:
    return (True,) * rank


def _stack_pattern(rank: int, params: dict[str, Any]) -> tuple[bool, ...]:
    return tuple(a != params["axis"] for a in range(rank + 1))


def _vstack_pattern(rank: int, params: dict[str, Any]) -> tuple[bool, ...]:
    return {0: (False, False), 1: (False, True)}.get(rank, (True,) * rank)


def _hstack_pattern(rank: int, params: dict[str, Any]) -> tuple[bool, ...]:
    return (False,) if rank == 0 else (True,) * rank


def _column_pattern(rank: int, params: dict[str, Any]) -> tuple[bool, ...]:
    return {0: (False, False), 1: (True, False)}.get(rank, (True,) * rank)


def _dstack_pattern(rank: int, params: dict[str, Any]) -> tuple[bool, ...]:
    known = {0: (False, False, False), 1: (False, True, False), 2: (True, True, False)}
    return known.get(rank, (True,) * rank)


def _lifted(dims: Sequence[DimLike], pattern: tuple[bool, ...]) -> list[DimLike]:
    own = iter(dims)
    return [next(own) if mine else 1 for mine in pattern]


Axis = Callable[[Sequence[Any], dict[str, Any]], int]


def _given(arrays: Sequence[Any], params: dict[str, Any]) -> int:
    return params["axis"]


def _second(arrays: Sequence[Any], params: dict[str, Any]) -> int:
    return 0 if all(type_of(a).ndim <= 1 for a in arrays) else 1


def _infer_joining(pattern: Pattern, axis: Axis) -> Callable[..., ArrayType]:
    def infer(*arrays: Any, **params: Any) -> ArrayType:
        types = [type_of(a) for a in arrays]
        shapes = [_lifted(t.dims, pattern(t.ndim, params)) for t in types]
        where = axis(arrays, params)
        result = list(shapes[0])
        for dims in shapes[1:]:
            if len(dims) != len(result):
                raise ShapeError("all the input array dimensions must match in number")
            for a, dim in enumerate(dims):
                if a == where:
                    result[a] = result[a] + dim
                else:
                    current().unify(result[a], dim)
        return ArrayType(promote(types)[0], tuple(map(current().dims.resolve, result)))

    return infer


def _list_text(name: str) -> Callable[..., str]:
    def spell(args: Sequence[Any], params: dict[str, Any]) -> str:
        inner = ", ".join(f"{{{i}}}" for i in range(len(args)))
        axis = f", axis={params['axis']}" if params.get("axis") else ""
        return f"{name}([{inner}]{axis})"

    return spell


def _joining(
    function: Any, pattern: Pattern, axis: Axis, samples: Sampler, cupy: Any = None
) -> Primitive:
    """A function that joins arrays along an axis, their shapes filled up by ``pattern``."""
    name = f"np.{function.__name__}"

    def jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
        parts = [_zero(a) if t is None else t for t, a in zip(tangents, args, strict=True)]
        return (apply(primitive, *parts, **params),)

    def vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
        patterns = [pattern(type_of(a).ndim, params) for a in args]
        return _pieces(cotangents[0], args, patterns, axis(args, params))

    primitive = register(
        Primitive(
            name,
            lambda *arrays, **params: function(arrays, **params),
            _infer_joining(pattern, axis),
            _list_text(name),
            cupy=cupy,
            kind="linear",
            jvp=jvp,
            vjp=vjp,
            fresh=True,
            samples=samples,
        )
    )
    return primitive


def _columns_in_cupy(args: Any, params: dict[str, Any]) -> str:
    """CuPy's columns are arrays: a number is one of one row."""
    rows = enumerate(args)
    columns = (f"{{{k}}}" if type_of(a).ndim else f"np.full(1, {{{k}}})" for k, a in rows)
    return f"np.column_stack([{', '.join(columns)}])"


def _zero(value: Any) -> Any:
    return np.zeros_like(value) if isinstance(value, Array) else np.zeros(np.shape(value))


def _pieces(
    y_bar: Array, args: Sequence[Any], patterns: Sequence[tuple[bool, ...]], axis: int
) -> tuple[Any, ...]:
    """The part of a joined array that came from each operand."""
    found = []
    offset: Any = 0
    for position, (x, pattern) in enumerate(zip(args, patterns, strict=True)):
        own = sum(pattern[:axis])
        extent = current().size_of(x.dims[own], x, own) if pattern[axis] else 1
        stop = add_sizes(offset, extent)
        start = None if position == 0 else offset
        index: list[Any] = [slice(None) if mine else 0 for mine in pattern]
        index[axis] = slice(start, None if position == len(args) - 1 else stop)
        if not pattern[axis]:
            index[axis] = offset
        found.append(y_bar[tuple(index)] if isinstance(x, Array) else None)
        offset = stop
    return tuple(found)


_MIXED = (
    case((2, 3), (4, 3), axis=0),
    case((2, 3), single(2, 1), axis=1),
    case((0,), (2,), (1,), axis=0),
)
concatenate = _joining(
    np.concatenate, _own, _given, cases(*_MIXED, case(single(2), single(3), axis=0))
)
stack = _joining(
    np.stack,
    _stack_pattern,
    _given,
    cases(
        case((3,), (3,), axis=0),
        case((2, 3), (2, 3), axis=2),
        case((), (), axis=0),
        case((0,), axis=1),
    ),
)
vstack = _joining(
    np.vstack,
    _vstack_pattern,
    lambda arrays, params: 0,
    cases(case((3,), (2, 3), (3,)), case((), ()), case(single(2), single(2))),
)
hstack = _joining(
    np.hstack,
    _hstack_pattern,
    _second,
    cases(case((3,), (2,)), case((2, 1), (2, 3)), case((), (2,)), case((2, 1, 3), (2, 2, 3))),
)
column_stack = _joining(
    np.column_stack,
    _column_pattern,
    lambda arrays, params: 1,
    cases(case((3,), (3, 2), (3,)), case((2,), (2,)), case((), ())),
    _columns_in_cupy,
)
dstack = _joining(
    np.dstack,
    _dstack_pattern,
    lambda arrays, params: 2,
    cases(case((3,), (3,)), case((2, 3), (2, 3)), case((2, 3, 2), (2, 3))),
)


def _sequence(arrays: Any) -> list[Array]:
    if isinstance(arrays, Array):
        arrays = list(arrays)
    values = [FUNCTIONS[np.asarray](a) for a in arrays]
    if not values:
        raise ShapeError("need at least one array to join", current().origin)
    return values


def _as(values: list[Array], dtype: Any) -> list[Array]:
    return values if dtype is None else [FUNCTIONS["cast"](v, dtype) for v in values]


@implements(np.concatenate)
def np_concatenate(
    arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind"
) -> Any:
    """``np.concatenate``."""
    if _has_unknown_length(arrays):
        return finish(_as([_merged(arrays, axis)], dtype)[0], out)
    values = _as(_sequence(arrays), dtype)
    if axis is None:
        values, axis = [flattened(v) for v in values], 0
    if not values[0].ndim:
        raise ShapeError("zero-dimensional arrays cannot be concatenated", current().origin)
    return finish(apply(concatenate, *values, axis=normalize_axis(axis, values[0].ndim)), out)


@implements(np.stack)
def np_stack(
    arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind"
) -> Any:
    """``np.stack``."""
    if _has_unknown_length(arrays):
        turned = FUNCTIONS[np.moveaxis](arrays, 0, normalize_axis(axis, arrays.ndim))
        return finish(_as([FUNCTIONS[np.copy](turned)], dtype)[0], out)
    values = _as(_sequence(arrays), dtype)
    return finish(apply(stack, *values, axis=normalize_axis(axis, values[0].ndim + 1)), out)


def _has_unknown_length(arrays: Any) -> bool:
    """Rows of which there are as many as run time tells: a list that grew in a loop."""
    return isinstance(arrays, Array) and arrays.ndim > 0 and not isinstance(arrays.dims[0], int)


def _merged(rows: Array, axis: Any) -> Array:
    """The rows of an array one after the other along an axis of theirs."""
    if axis is None:
        return FUNCTIONS[np.copy](flattened(rows))
    if rows.ndim == 1:
        raise ShapeError("zero-dimensional arrays cannot be concatenated", current().origin)
    axis = normalize_axis(axis, rows.ndim - 1)
    turned = FUNCTIONS[np.moveaxis](rows, 0, axis)
    sizes = list(turned.shape)
    sizes[axis : axis + 2] = [sizes[axis] * sizes[axis + 1]]
    return FUNCTIONS[np.copy](FUNCTIONS[np.reshape](turned, tuple(sizes)))


def _vertical(rows: Array) -> Array:
    if rows.ndim > 2:
        return _merged(rows, 0)
    return FUNCTIONS[np.copy](rows if rows.ndim == 2 else rows[:, None])


def _horizontal(rows: Array) -> Array:
    return FUNCTIONS[np.copy](rows) if rows.ndim == 1 else _merged(rows, int(rows.ndim > 2))


def _columns(rows: Array) -> Array:
    if rows.ndim > 2:
        return _merged(rows, 1)
    return FUNCTIONS[np.copy](rows.T if rows.ndim == 2 else rows[None])


_OF_ROWS = {"np.vstack": _vertical, "np.hstack": _horizontal, "np.column_stack": _columns}


def _stacker(primitive: Primitive) -> Any:
    def call(arrays: Any, *, dtype: Any = None, casting: str = "same_kind") -> Array:
        if _has_unknown_length(arrays) and primitive.name in _OF_ROWS:
            return _as([_OF_ROWS[primitive.name](arrays)], dtype)[0]
        return apply(primitive, *_as(_sequence(arrays), dtype))

    return call


FUNCTIONS[np.vstack] = _stacker(vstack)
if hasattr(np, "row_stack"):
    FUNCTIONS[np.row_stack] = FUNCTIONS[np.vstack]
FUNCTIONS[np.hstack] = _stacker(hstack)
FUNCTIONS[np.column_stack] = _stacker(column_stack)
FUNCTIONS[np.dstack] = _stacker(dstack)


@implements(np.append)
def np_append(x: Any, values: Any, axis: Any = None) -> Array:
    """``np.append``."""
    return np_concatenate((x, values), axis)


def along(axis: int, item: Any) -> tuple[Any, ...]:
    """The index that is ``item`` along ``axis`` and everything elsewhere."""
    return (slice(None),) * axis + (item,)


def _flat_or_axis(x: Any, axis: Any) -> tuple[Array, int]:
    x = FUNCTIONS[np.asarray](x)
    return (flattened(x), 0) if axis is None else (x, normalize_axis(axis, x.ndim))


def _known_positions(where: Any, x: Array, axis: int) -> list[int]:
    """Positions along an axis, in increasing order and not negative."""
    if (
        isinstance(where, slice)
        and isinstance(where.stop, int)
        and min(where.start or 0, where.stop) >= 0
    ):
        step = where.step or 1
        if step > 0:
            return list(range(where.start or 0, where.stop, step))
    if isinstance(where, slice):
        return sorted(range(*where.indices(known_int(x.shape[axis], "The size of an axis"))))
    items = [where] if np.ndim(where) == 0 or isinstance(where, Array) else list(where)
    numbers = [known_int(i, "A position to insert or delete at") for i in items]
    if any(i < 0 for i in numbers):
        size = known_int(x.shape[axis], "The size of an axis")
        numbers = [i + size if i < 0 else i for i in numbers]
    return sorted(numbers)


@implements(np.delete)
def np_delete(x: Any, where: Any, axis: Any = None) -> Array:
    """``np.delete`` at known positions: what lies between them, joined."""
    x, axis = _flat_or_axis(x, axis)
    kept, start = [], 0
    for position in sorted(set(_known_positions(where, x, axis))):
        if position > start:
            kept.append(x[along(axis, slice(start, position))])
        start = position + 1
    kept.append(x[along(axis, slice(start, None))])
    return np_concatenate(kept, axis)


@implements(np.insert)
def np_insert(x: Any, where: Any, values: Any, axis: Any = None) -> Array:
    """``np.insert`` before known positions."""
    x, axis = _flat_or_axis(x, axis)
    scalar = not isinstance(where, (list, tuple, np.ndarray, slice))
    positions = _known_positions(where, x, axis)
    if not scalar and list(np.ravel(where)) != positions:
        raise ShapeError("np.insert wants its positions in increasing order", current().origin)
    values = FUNCTIONS["cast"](FUNCTIONS[np.asarray](values), x.dtype)
    whole = len(positions) == 1  # all values go to one place
    if whole:
        values = values[(None,) * max(0, x.ndim - values.ndim)] if values.ndim < x.ndim else values
        values = np.moveaxis(values, 0, axis) if scalar else values
    shape = list(x.shape)
    shape[axis] = values.shape[axis] if whole else len(positions)
    new = FUNCTIONS[np.broadcast_to](values, tuple(shape))
    parts, start = [], 0
    for k, position in enumerate(positions):
        if position > start:
            parts.append(x[along(axis, slice(start, position))])
        parts.append(new if whole else new[along(axis, slice(k, k + 1))])
        start = position
    parts.append(x[along(axis, slice(start, None))])
    return np_concatenate(parts, axis)


# split


def _equal_bounds(x: Array, sections: int, axis: int, exact: bool) -> list[Any]:
    size, dim = x.shape[axis], x.dims[axis]
    quotient = divide_dim(dim, sections)
    if quotient is not None and isinstance(size, Array):
        width = size if sections == 1 else current().know_dim(size // sections, quotient)
        return [multiply_sizes(k, width) for k in range(1, sections)]
    size = known_int(size, "The size of an axis that is split")
    if exact and size % sections:
        raise ShapeError("array split does not result in an equal division", current().origin)
    longer = size % sections
    return [k * (size // sections) + min(k, longer) for k in range(1, sections)]


def _split(x: Any, where: Any, axis: Any, exact: bool) -> list[Array]:
    x = FUNCTIONS[np.asarray](x)
    axis = normalize_axis(axis, x.ndim)
    if isinstance(where, (list, tuple, np.ndarray)) or (isinstance(where, Array) and where.ndim):
        bounds = [int(b) if isinstance(b, np.integer) else b for b in where]
    else:
        sections = known_int(where, "The number of sections")
        if sections <= 0:
            raise ShapeError("number sections must be larger than 0.", current().origin)
        bounds = _equal_bounds(x, sections, axis, exact)
    starts, stops = [None, *bounds], [*bounds, None]
    return [x[along(axis, slice(a, b))] for a, b in zip(starts, stops, strict=True)]


@implements(np.split)
def np_split(x: Any, indices_or_sections: Any, axis: Any = 0) -> list[Array]:
    """``np.split``: views."""
    return _split(x, indices_or_sections, axis, True)


@implements(np.array_split)
def np_array_split(x: Any, indices_or_sections: Any, axis: Any = 0) -> list[Array]:
    """``np.array_split``: views."""
    return _split(x, indices_or_sections, axis, False)


@implements(np.vsplit)
def np_vsplit(x: Any, indices_or_sections: Any) -> list[Array]:
    """``np.vsplit``."""
    return _split(x, indices_or_sections, 0, True)


@implements(np.hsplit)
def np_hsplit(x: Any, indices_or_sections: Any) -> list[Array]:
    """``np.hsplit``."""
    return _split(x, indices_or_sections, 0 if type_of(x).ndim == 1 else 1, True)


@implements(np.dsplit)
def np_dsplit(x: Any, indices_or_sections: Any) -> list[Array]:
    """``np.dsplit``."""
    return _split(x, indices_or_sections, 2, True)


@implements(np.unstack)
def np_unstack(x: Any, /, *, axis: Any = 0) -> tuple[Array, ...]:
    """``np.unstack`` along an axis of known size."""
    axis = normalize_axis(axis, x.ndim)
    size = known_int(x.shape[axis], "The number of arrays")
    return tuple(x[along(axis, k)] for k in range(size))
