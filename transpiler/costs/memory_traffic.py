"""The bytes that a statement reads and writes in memory, as NumPy runs it.

Each array operand is read once and each result is written once; numbers, views and memory that is
only allocated count nothing. A store moves the part that it writes. The growth of an array is left
out.
"""

from __future__ import annotations

from calque.transpiler.costs.formulas import Formula
from calque.transpiler.costs.integer_formulas import IntegerFormulas
from calque.transpiler.costs.user_lines import line_of
from calque.transpiler.errors import CalqueError
from calque.transpiler.ir.builder import type_of, wrap
from calque.transpiler.ir.core import Apply, Atom, Var
from calque.transpiler.ir.effects import is_indexed_store, is_store
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.memory.alias import viewed
from calque.transpiler.primitives import creation
from calque.transpiler.primitives.indexing import update
from calque.transpiler.primitives.templates import indexed_dims

_ALLOCATED = (creation.empty, creation.empty_like, creation.space)


def bytes_moved(s: Apply, sizes: IntegerFormulas) -> Formula:
    """The bytes that a statement reads and writes."""
    p = s.primitive
    if p.kind == "size" or p in _ALLOCATED or viewed(s):
        return Formula()
    if is_indexed_store(s):
        return _of_store(s, sizes)
    if is_store(s):
        return Formula()
    if p.kind == "indexing":  # the rest of the array is not read
        part = sizes.bytes(s.out.type)
        return _of_arrays(s.args[1:], sizes) + (2 * part if s.out.type.ndim else part)
    read = Formula() if p.kind == "creation" else _of_arrays(s.args, sizes)
    return read + _of_arrays(s.outs, sizes)


def _of_store(s: Apply, sizes: IntegerFormulas) -> Formula:
    """The value and the index are read, the part is written; an addition reads the part, too."""
    if _is_written_already(s, sizes):
        return Formula()
    part = sizes.bytes(stored_part(s, sizes))
    times = 1 if s.primitive is update else 2
    return _of_arrays(s.args[1:], sizes) + times * part


def _is_written_already(s: Apply, sizes: IntegerFormulas) -> bool:
    """True for ``x[...] = x + y``: that the text writes as ``x += y``, which counts as a sum."""
    made = sizes.program.definition.get(s.args[1])
    whole = s.primitive is update and s.params["index"] == (Ellipsis,)
    return whole and isinstance(made, Apply) and s.args[0] in made.args


def _of_arrays(atoms: tuple[Atom, ...], sizes: IntegerFormulas) -> Formula:
    arrays = dict.fromkeys(a for a in atoms if isinstance(a, Var) and a.type.ndim)
    return sum((sizes.bytes(a.type) for a in arrays), Formula())


def stored_part(s: Apply, sizes: IntegerFormulas) -> ArrayType:
    """The type of the part of an array that a store writes; all of it, if a mask chooses."""
    base, value, builder = s.args[0].type, type_of(s.args[1]), sizes.builder
    if any(t.ndim and t.dtype.kind == "b" for t in map(type_of, s.args[2:])):
        sizes.masks[line_of(s.origin, None)] = None
        return base
    try:
        with builder.active(), builder.block():
            dims = indexed_dims(base.dims, s.params["index"], [wrap(a) for a in s.args[2:]])
    except CalqueError:
        return base.with_dims(value.dims)
    alike = len(dims) == value.ndim and 1 not in value.dims
    return base.with_dims(value.dims if alike else dims)
