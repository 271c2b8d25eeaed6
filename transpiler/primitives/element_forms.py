"""Element forms: one element of a result, computed from elements of the arguments.

A rule is ``element(read, args, params, index)``: ``read(arg, index)`` gives one element of an
argument, broadcast to the rank of ``index``. Operations that broadcast, rearrange or generate need
nothing more; elementwise functions need no rule at all. A reduction's form is a neutral value and a
function that combines two values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from calque.transpiler.ir.builder import FUNCTIONS, Array, current, type_of
from calque.transpiler.ir.core import Slot
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.primitives import (
    axes,
    complexes,
    creation,
    diagonals,
    elementwise,
    ranges,
    reductions,
    shapes,
)
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.elementwise import where
from calque.transpiler.primitives.indexing import copy, getitem
from calque.transpiler.primitives.products import outer
from calque.transpiler.primitives.rearranging import roll
from calque.transpiler.primitives.record import rule_of
from calque.transpiler.primitives.sorting import searchsorted


class Read(Protocol):
    """Gives one element of an argument, and sizes."""

    def __call__(self, x: Any, index: Sequence[Any]) -> Any: ...

    unsafe: bool  # an index comes from the user, and may be out of range
    proven: bool  # that of the statement at hand is known to be inside

    def size(self, dim: Any) -> Any:
        """A size, at hand."""

    def whole(self, x: Array) -> Array:
        """An array that is in memory as it is now."""


Rule = Callable[[Read, Sequence[Any], dict[str, Any], Sequence[Any]], Any]
element_of = rule_of("element")


# what computes nothing


@element_of(copy, shapes.broadcast_to)
def _same(read: Read, args: Sequence[Any], params: dict[str, Any], index: Sequence[Any]) -> Any:
    return read(args[0], index)


@element_of(creation.full)
def _full(read: Read, args: Sequence[Any], params: dict[str, Any], index: Sequence[Any]) -> Any:
    return FUNCTIONS["cast"](read(args[0], index), params["dtype"])


@element_of(elementwise.astype)
def _cast(read: Read, args: Sequence[Any], params: dict[str, Any], index: Sequence[Any]) -> Any:
    return FUNCTIONS["cast"](read(args[0], index), params["dtype"])


@element_of(creation.zeros, creation.zeros_like)
def _zero(read: Read, args: Sequence[Any], params: dict[str, Any], index: Sequence[Any]) -> Any:
    return params["dtype"].type(0)


@element_of(creation.ones, creation.ones_like)
def _one(read: Read, args: Sequence[Any], params: dict[str, Any], index: Sequence[Any]) -> Any:
    return params["dtype"].type(1)


@element_of(axes.transpose)
def _transpose(
    read: Read, args: Sequence[Any], params: dict[str, Any], index: Sequence[Any]
) -> Any:
    place = [params["axes"].index(a) for a in range(len(index))]
    return read(args[0], [index[p] for p in place])


@element_of(shapes.reshape_in_loops)
def _reshape(read: Read, args: Sequence[Any], params: dict[str, Any], index: Sequence[Any]) -> Any:
    x, before = args[0], type_of(args[0]).dims
    place: Any = 0
    for i, dim in zip(index, shapes.reshape.infer(*args).dims, strict=True):
        place = i if is_number(place, 0) else place * read.size(dim) + i
    found = []
    for dim in reversed(before[1:]):
        size = read.size(dim)
        found.append(place % size)
        place = place // size
    return read(x, [place, *reversed(found)])


@element_of(axes.expand_dims)
def _expand(read: Read, args: Sequence[Any], params: dict[str, Any], index: Sequence[Any]) -> Any:
    return read(args[0], [i for a, i in enumerate(index) if a not in params["axis"]])


@element_of(axes.squeeze)
def _squeeze(read: Read, args: Sequence[Any], params: dict[str, Any], index: Sequence[Any]) -> Any:
    rest = iter(index)
    rank = type_of(args[0]).ndim
    return read(args[0], [0 if a in params["axis"] else next(rest) for a in range(rank)])


@element_of(complexes.real)
def _real(read: Read, args: Sequence[Any], params: dict[str, Any], index: Sequence[Any]) -> Any:
    return apply(complexes.real, read(args[0], index))


@element_of(complexes.imag)
def _imag(read: Read, args: Sequence[Any], params: dict[str, Any], index: Sequence[Any]) -> Any:
    return apply(complexes.imag, read(args[0], index))


@element_of(complexes.conj)
def _conj(read: Read, args: Sequence[Any], params: dict[str, Any], index: Sequence[Any]) -> Any:
    return apply(complexes.conj, read(args[0], index))


@element_of(outer)
def _outer(read: Read, args: Sequence[Any], params: dict[str, Any], index: Sequence[Any]) -> Any:
    a, b = args
    if type_of(a).ndim != 1 or type_of(b).ndim != 1:
        raise NotImplementedError("np.outer flattens")
    return read(a, index[:1]) * read(b, index[1:])


@element_of(where)
def _where(read: Read, args: Sequence[Any], params: dict[str, Any], index: Sequence[Any]) -> Any:
    test, a, b = (read(x, index) for x in args)
    return FUNCTIONS[np.where](test, a, b)


@element_of(creation.arange)
def _arange(read: Read, args: Sequence[Any], params: dict[str, Any], index: Sequence[Any]) -> Any:
    start, _, step = args
    found = index[0] if is_number(step, 1) else index[0] * step
    return FUNCTIONS["cast"](found if is_number(start, 0) else start + found, params["dtype"])


@element_of(ranges.indices)
def _indices(read: Read, args: Sequence[Any], params: dict[str, Any], index: Sequence[Any]) -> Any:
    first, *place = index
    found = place[-1]
    if isinstance(first, int):
        found = place[first]
    else:
        for k, i in reversed(list(enumerate(place[:-1]))):
            found = apply(where, first == k, i, found, of_number=True)
    return FUNCTIONS["cast"](found, params["dtype"])


def is_number(value: Any, number: int) -> bool:
    return not isinstance(value, Array) and value == number


@element_of(diagonals.eye)
def _eye(read: Read, args: Sequence[Any], params: dict[str, Any], index: Sequence[Any]) -> Any:
    i, j = index
    kind = params["dtype"].type
    return FUNCTIONS[np.where](_plus(i, params["k"]) == j, kind(1), kind(0))


def _plus(i: Any, k: int) -> Any:
    return i + k if k > 0 else i - -k if k < 0 else i


def _triangle(keep: Callable[[Any, Any], Any]) -> Rule:
    def rule(
        read: Read, args: Sequence[Any], params: dict[str, Any], index: Sequence[Any]
    ) -> Any:
        *_, i, j = index
        zero = type_of(args[0]).dtype.type(0)
        return FUNCTIONS[np.where](keep(_plus(i, params["k"]), j), read(args[0], index), zero)

    return rule


element_of(diagonals.tril)(_triangle(lambda i, j: j <= i))
element_of(diagonals.triu)(_triangle(lambda i, j: j >= i))


@element_of(diagonals.diagonal)
def _diagonal(
    read: Read, args: Sequence[Any], params: dict[str, Any], index: Sequence[Any]
) -> Any:
    *rest, i = index
    others = iter(rest)
    k = params["offset"]
    row, column = params["axes"]
    at = {row: _plus(i, -k) if k < 0 else i, column: _plus(i, k) if k > 0 else i}
    rank = type_of(args[0]).ndim
    return read(args[0], [at[a] if a in at else next(others) for a in range(rank)])


@element_of(diagonals.diag)
def _diag(read: Read, args: Sequence[Any], params: dict[str, Any], index: Sequence[Any]) -> Any:
    x, k = args[0], params["k"]
    if type_of(x).ndim == 2:
        return _diagonal(read, args, {"offset": k, "axes": (0, 1)}, index)
    if k:
        raise NotImplementedError("a read outside the vector")
    i, j = index
    return FUNCTIONS[np.where](i == j, read(x, [i]), type_of(x).dtype.type(0))


@element_of(roll)
def _roll(read: Read, args: Sequence[Any], params: dict[str, Any], index: Sequence[Any]) -> Any:
    """The element that a shift brings here; what it pushes over the end comes in at the start."""
    x, *shifts = args
    if any(type_of(k).ndim or type_of(k).dtype.kind not in "iu" for k in shifts):
        raise NotImplementedError("np.roll says what is no shift")
    dims, axes = type_of(x).dims, params["axis"]
    if axes is None:
        if len(dims) > 1 or len(shifts) > 1:
            raise NotImplementedError("np.roll flattens")
        axes = (0,)
    place = list(index)
    for axis, shift in zip(axes, shifts * len(axes), strict=False):
        place[axis] = _rolled(read, place[axis], shift, dims[axis])
    return read(x, place)


def _rolled(read: Read, i: Any, shift: Any, dim: Any) -> Any:
    """The place along an axis from which an element comes, in a loop over elements that exist."""
    if _is_one(dim):
        return i
    size = read.size(dim)
    if not isinstance(shift, int) or not (abs(shift) <= 1 or _holds(dim - abs(shift))):
        shift = np.remainder(FUNCTIONS["cast"](shift, np.dtype("i8")), size)  # raises nothing
    if isinstance(shift, int) and shift <= 0:
        ahead = _plus(i, -shift)
        return apply(where, ahead < size, ahead, 0 if shift == -1 else ahead - size, of_number=True)
    back = i - shift
    around = size - 1 if is_number(shift, 1) else back + size
    return apply(where, i >= shift, back, around, of_number=True)


@element_of(searchsorted)
def _searchsorted(
    read: Read, args: Sequence[Any], params: dict[str, Any], index: Sequence[Any]
) -> Any:
    places, value = args
    return apply(searchsorted, read.whole(places), read(value, index), **params)


@element_of(getitem)
def _getitem(read: Read, args: Sequence[Any], params: dict[str, Any], index: Sequence[Any]) -> Any:
    x, *dynamic = args
    return read(x, source_index(read, type_of(x), params["index"], dynamic, index))


def source_index(
    read: Read, t: ArrayType, template: Sequence[Any], dynamic: Sequence[Any], index: Sequence[Any]
) -> list[Any]:
    """The index into ``x`` of element ``index`` of ``x[template]``."""
    items = full_template(template, dynamic, t.ndim)
    if not read.proven and not all(i is None or isinstance(i, slice) for i in items):
        read.unsafe = True
    arrays = [
        dynamic[i.position]
        for i in items
        if isinstance(i, Slot) and type_of(dynamic[i.position]).ndim
    ]
    if any(a.dtype.kind == "b" for a in arrays):
        raise NotImplementedError("a mask has no fixed index")
    spread = max((type_of(a).ndim for a in arrays), default=0)
    places = [
        p
        for p, i in enumerate(items)
        if isinstance(i, int) or (isinstance(i, Slot))
    ] if arrays else []
    together = places == list(range(places[0], places[0] + len(places))) if places else True
    rest = list(index)
    gathered: list[Any] = []
    if arrays and not together:
        gathered, rest = rest[:spread], rest[spread:]
    found: list[Any] = []
    axis = 0
    for place, item in enumerate(items):
        if item is None:
            rest.pop(0)
            continue
        if arrays and together and place == places[0]:
            gathered, rest = rest[:spread], rest[spread:]
        if isinstance(item, slice):
            found.append(_sliced(read, item, rest.pop(0), t.dims[axis], dynamic))
        elif isinstance(item, Slot):
            value = dynamic[item.position]
            if _is_one(t.dims[axis]) and current().dim_of(value) != 0:
                raise NotImplementedError("an index into an axis of size 1, to be checked")
            found.append(read(value, gathered) if type_of(value).ndim else value)
        else:
            found.append(item)
        axis += 1
    return found


def _is_one(dim: Any) -> bool:
    return bool(current().dims.resolve(dim) == 1)


def full_template(template: Sequence[Any], dynamic: Sequence[Any], rank: int) -> list[Any]:
    """A template with its ellipsis written out as slices."""
    items = list(template)
    used = sum(i is not None and i is not Ellipsis for i in items)
    if not any(i is Ellipsis for i in items):
        items.append(Ellipsis)
    where = next(p for p, i in enumerate(items) if i is Ellipsis)
    items[where : where + 1] = [slice(None)] * (rank - used)
    return items


def _sliced(read: Read, item: slice, i: Any, dim: Any, dynamic: Sequence[Any]) -> Any:
    """The place of element i of a slice; its start must be known to count from the left."""
    step = item.step or 1
    start = item.start
    if isinstance(start, Slot):
        start = dynamic[start.position]
        if not _surely_inside(start, dim):
            raise NotImplementedError("a slice whose start may be negative")
    if step < 0:
        if start is not None or item.stop is not None:
            raise NotImplementedError("a backward slice with bounds")
        last = read.size(dim) - 1
        return last - i if step == -1 else last - i * -step
    if start is None:
        start = 0
    if not isinstance(start, Array) and start < 0:
        if not _holds(dim + start):
            raise NotImplementedError("a slice that may start before the array")
        start = read.size(dim) + start
    scaled = i if step == 1 else i * step
    return scaled if is_number(start, 0) else scaled + start


def _surely_inside(start: Array, dim: Any) -> bool:
    value = current().dim_of(start)
    return current().dims.is_exact(value) and _holds(value) and _holds(dim - value)


def _holds(dim: Any) -> bool:
    """True if ``dim >= 0`` is proven, or is a condition of the program already."""
    return current().dims.nonnegative(dim)


# reductions


@dataclass(frozen=True)
class Reduction:
    """``combine(so far, element)``, starting from ``neutral(dtype)``."""

    neutral: Callable[[np.dtype], Any]
    combine: Callable[[Any, Any], Any]
    needs_elements: bool = False  # of no elements there is none
    called: str = "found"  # what so far has no name


def lowest(dtype: np.dtype) -> Any:
    if dtype.kind == "b":
        return False
    return dtype.type(-np.inf if dtype.kind == "f" else np.iinfo(dtype).min)


def highest(dtype: np.dtype) -> Any:
    if dtype.kind == "b":
        return True
    return dtype.type(np.inf if dtype.kind == "f" else np.iinfo(dtype).max)


def _larger(a: Any, x: Any) -> Any:
    return a | x if type_of(x).dtype.kind == "b" else FUNCTIONS[np.maximum](a, x)


def _smaller(a: Any, x: Any) -> Any:
    return a & x if type_of(x).dtype.kind == "b" else FUNCTIONS[np.minimum](a, x)


def _add(total: Any, x: Any) -> Any:
    return apply(elementwise.add, total, x)


reductions.sum_.reduction = Reduction(lambda d: d.type(0), _add, called="total")
reductions.prod.reduction = Reduction(
    lambda d: d.type(1), lambda a, x: a * x, called="product"
)
reductions.max_.reduction = Reduction(lowest, _larger, True, "largest")
reductions.min_.reduction = Reduction(highest, _smaller, True, "smallest")
reductions.any_.reduction = Reduction(lambda d: False, lambda a, x: a | x)
reductions.all_.reduction = Reduction(lambda d: True, lambda a, x: a & x)
