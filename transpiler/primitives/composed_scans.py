"""Running sums, products, extrema as loops in which each element continues the one before.

Before::

    y = np.cumprod(x, axis=1)

After::

    y = np.empty(x.shape)
    for i in range(x.shape[0]):
        y[i, :1] = x[i, :1]
        for j in range(1, x.shape[1]):
            y[i, j] = y[i, j - 1] * x[i, j]

What is put before ``x``, as the one of products of elements before each, is where it begins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.transpiler.ir.builder import Array, current, loop_index, type_of, wrap
from calque.transpiler.ir.core import Apply, Var
from calque.transpiler.ir.rewrite import emit_fold
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.primitives import creation, indexing, joining, scans
from calque.transpiler.primitives.base import Primitive, apply, definition
from calque.transpiler.primitives.composed import Rule, composed, is_computed
from calque.transpiler.primitives.element_forms import highest, lowest
from calque.transpiler.primitives.scans import looped

_NAMES = "ijkl"
RUNNING: dict[Primitive, tuple[str, Callable[..., Any]]] = {
    scans.cumsum: ("sums", lambda before, x: before + x),
    scans.cumprod: ("products", lambda before, x: before * x),
    scans.cummax: ("largest", np.maximum),
    scans.cummin: ("smallest", np.minimum),
}
_SO_FAR = {"sums": "total", "products": "product", "largest": "most", "smallest": "least"}
_START: dict[str, Callable[[np.dtype], Any]] = {
    "sums": lambda dtype: dtype.type(0),
    "products": lambda dtype: dtype.type(1),
    "largest": lowest,
    "smallest": highest,
}


def _scan(name: str, following: Callable[..., Any]) -> Rule:
    def rule(args: Sequence[Any], params: dict[str, Any], looping: bool) -> Any:
        (x,), axis = args, params["axis"]
        plain = type_of(x).ndim == 1 and not looping and not _is_made_here(x)
        if plain or type_of(x).dtype.kind not in "fc" or type_of(x).ndim > len(_NAMES):
            return None
        start, rest, shift = _parts(x, axis)
        sizes = _sizes(x, rest, axis, shift)
        out = apply(creation.empty, *sizes, dtype=x.dtype)
        out.atom.name = name
        return _along(out, 0, [], (start, rest, shift, sizes[axis]), axis, following)

    return rule


def _is_made_here(x: Array) -> bool:
    """True if an operand is computed in loops, or is a concatenation, which need not be made."""
    made = definition(x)
    return is_computed(x) or (made is not None and made.primitive is joining.concatenate)


def _parts(x: Array, axis: int) -> tuple[Any, Any, int]:
    """The first element along an axis, the others, and how far these are moved."""
    made = definition(x)
    if made is not None and made.primitive is joining.concatenate and len(made.args) == 2:
        start, rest = map(wrap, made.args)
        if made.params["axis"] == axis and type_of(start).dims[axis] == 1:
            if type_of(start).dtype == type_of(rest).dtype == type_of(x).dtype:
                filled = definition(start)
                value = None if filled is None else filled.primitive.filled_with
                return start if value is None else float(value), rest, 1
    return x[(*(slice(None),) * axis, slice(None, 1))], x, 0


def _sizes(x: Array, rest: Array, axis: int, shift: int) -> list[Any]:
    """The sizes of ``x``, of an array in memory."""
    made = definition(rest)
    whole = wrap(made.args[0]) if made is not None and made.primitive is indexing.getitem else rest
    if type_of(whole).dims == type_of(x).dims:
        return list(whole.shape)
    sizes = list(rest.shape)
    sizes[axis] = sizes[axis] + shift
    return sizes


def _along(
    out: Array,
    depth: int,
    places: list[Any],
    parts: tuple[Any, Any, int, Any],
    axis: int,
    following: Callable[..., Any],
) -> Array:
    """``out`` with its scans: loops over the axes before, then the one over the axis itself."""
    start, rest, shift, count = parts
    if depth < axis:
        size = out.shape[depth]
        index = loop_index(0, current().dim_of(size) - 1, _NAMES[depth])
        inner = [*places, index]
        row = lambda y: _along(y, depth + 1, inner, parts, axis, following)
        return looped(out, index, 0, size, row)
    first = Array(out.atom)
    here = start[tuple(places)] if places and isinstance(start, Array) else start
    first[(*places, slice(None, 1))] = here
    index = loop_index(1, current().dim_of(count) - 1, _NAMES[depth])

    def follow(y: Array) -> Array:
        new = Array(y.atom)
        value = following(y[(*places, index - 1)], rest[(*places, index - shift)])
        new[(*places, index)] = value
        return Array(new.atom)

    return looped(Array(first.atom), index, 1, count, follow)


for _record, _following in RUNNING.items():
    composed(_record)(_scan(*_following))


# for a grid of threads, which share a row's sums


def scanned_by_numbers(s: Apply, args: Sequence[Any]) -> Any:
    """A scan whose loop along the axis carries a number; None for what has no such form.

    Threads of a grid share it (``loops/policies/thread_mapping.py``).
    """
    (x,), axis, out = args, s.params["axis"], s.out
    if out.type.dtype.kind not in "fi" or type_of(x).ndim > len(_NAMES):
        return None
    made = apply(creation.empty, *x.shape, dtype=out.type.dtype)
    made.atom.name, following = RUNNING[s.primitive]
    return _rows(made, x, [a for a in range(x.ndim) if a != axis], {}, axis, following)


def _rows(
    out: Array,
    x: Array,
    others: list[int],
    places: dict[int, Any],
    axis: int,
    following: Callable[..., Any],
) -> Array:
    """Loops over the other axes, then the one along the axis of the scan."""
    if not others:
        return _row(out, x, places, axis, following)
    first, *rest = others
    size = x.shape[first]
    index = loop_index(0, current().dim_of(size) - 1, _NAMES[len(places)])
    row = lambda y: _rows(y, x, rest, {**places, first: index}, axis, following)
    return looped(out, index, 0, size, row, independent=True)


def _row(
    out: Array, x: Array, places: dict[int, Any], axis: int, following: Callable[..., Any]
) -> Array:
    builder, size, dtype = current(), x.shape[axis], out.type.dtype
    index = loop_index(0, builder.dim_of(size) - 1, _NAMES[len(places)])
    place = tuple({**places, axis: index}[a] for a in range(x.ndim))
    called = str(out.atom.name)
    total = Var(ArrayType(dtype), _SO_FAR[called], builder.origin)
    phi = Var(out.type, out.atom.name, builder.origin)

    def step(phi: Var, total: Var) -> list[Array]:
        value = following(Array(total), x[place].astype(dtype))
        value.atom.name, new = total.name, Array(phi)
        new[place] = value
        return [new, value]

    inits = [out, _START[called](dtype)]
    span = (0, size, 1)
    made = emit_fold(builder, index.atom, span, inits, step, phis=[phi, total], scheduled=True)
    return Array(made.outs[0])
