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

from calque.transpiler.ir.builder import Array, atom, current, loop_index, type_of, wrap
from calque.transpiler.ir.core import For, Var
from calque.transpiler.primitives import creation, indexing, joining, scans
from calque.transpiler.primitives.base import Primitive, apply, definition
from calque.transpiler.primitives.composed import Rule, composed, is_computed

_NAMES = "ijkl"
RUNNING: dict[Primitive, tuple[str, Callable[..., Any]]] = {
    scans.cumsum: ("sums", lambda before, x: before + x),
    scans.cumprod: ("products", lambda before, x: before * x),
    scans.cummax: ("largest", np.maximum),
    scans.cummin: ("smallest", np.minimum),
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
    """Whether an operand is computed in loops, or need not be made at all."""
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
        return _looped(out, index, 0, size, row)
    first = Array(out.atom)
    here = start[tuple(places)] if places and isinstance(start, Array) else start
    first[(*places, slice(None, 1))] = here
    index = loop_index(1, current().dim_of(count) - 1, _NAMES[depth])

    def follow(y: Array) -> Array:
        new = Array(y.atom)
        value = following(y[(*places, index - 1)], rest[(*places, index - shift)])
        new[(*places, index)] = value
        return Array(new.atom)

    return _looped(Array(first.atom), index, 1, count, follow)


def _looped(
    out: Array, index: Array, start: int, stop: Any, round_of: Callable[[Array], Array]
) -> Array:
    """A loop that carries one array."""
    builder = current()
    phi, after = (Var(out.type, out.atom.name, builder.origin) for _ in range(2))
    with builder.block() as body:
        body.results = [atom(round_of(Array(phi)))]
    builder.emit(
        For((after,), index.atom, start, atom(stop), 1, (phi,), (out.atom,), body, builder.origin)
    )
    return Array(after)


for _record, _following in RUNNING.items():
    composed(_record)(_scan(*_following))
