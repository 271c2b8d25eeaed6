"""Recompute integers and sizes at an earlier point of the program than their definition."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from calque.transpiler.ir.builder import atom, current, wrap
from calque.transpiler.ir.core import Apply, Atom, For, Statement, Var, While
from calque.transpiler.ir.effects import is_indexed_store
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.elementwise import add, multiply, negative, subtract
from calque.transpiler.primitives.scalars import max_, min_

_NUMBERS = (add, subtract, multiply, negative, max_, min_)


def early(a: Atom, inside: Collection[Var], made: Mapping[Var, Statement]) -> Atom:
    """The integer ``a``, recomputed if need be from values not ``inside``; None if it cannot be."""
    if not isinstance(a, Var) or a not in inside:
        return a
    s = made.get(a)
    if not isinstance(s, Apply):
        return None
    if s.primitive.kind != "size" and s.primitive not in _NUMBERS:
        return None
    if any(v.type.dtype.kind not in "iu" for v in s.outs):
        return None
    if s.primitive.kind == "size":
        array = outside(s.args[0], inside, made)
        return None if array is None else atom(apply(s.primitive, wrap(array), **s.params))
    known = [early(b, inside, made) for b in s.args]
    return None if None in known else atom(apply(s.primitive, *map(wrap, known), **s.params))


def outside(array: Atom, inside: Collection[Var], made: Mapping[Var, Statement]) -> Var | None:
    """The version of an array from before ``inside``, if it has the same sizes; else None."""
    while isinstance(array, Var) and array in inside:
        s = made.get(array)
        if is_indexed_store(s):
            array = s.args[0]
        elif isinstance(s, (For, While)):
            before = s.inits[(s.outs if array in s.outs else s.phis).index(array)]
            if not _of_one_size(array, before):
                return None  # the size changes between iterations
            array = before
        else:
            return None
    return array if isinstance(array, Var) else None


def _of_one_size(array: Var, before: Atom) -> bool:
    resolve = current().dims.resolve
    return isinstance(before, Var) and [*map(resolve, array.type.dims)] == [
        *map(resolve, before.type.dims)
    ]
