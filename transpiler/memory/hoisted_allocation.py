"""Hoist allocations between two loops to before both, so that a kernel contains only loops.

Before::

    for i in range(n):
        a[i] = ...
    b = np.empty(n)
    for i in range(n):
        b[i] = ...

After: ``b`` is allocated before the first loop, by the launcher. Otherwise the kernel would have to
be compiled with Numba's allocation of arrays, and to return ``b``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from calque.transpiler.ir import core
from calque.transpiler.ir.core import Apply, Block, For, Function, If, Statement, Var, While
from calque.transpiler.ir.effects import is_size, is_store
from calque.transpiler.ir.phases import label
from calque.transpiler.primitives.axes import transpose
from calque.transpiler.primitives.creation import constant, empty, full
from calque.transpiler.primitives.elementwise import add
from calque.transpiler.primitives.indexing import copy, getitem
from calque.transpiler.primitives.shapes import flat, reshape

_NEW = (empty, full)
_VIEWS = (flat, transpose, reshape, getitem)


def hoist_allocations(function: Function) -> None:
    """Move allocations, and the sizes and flat views that they read, up to the first loop."""
    definition = {o: s for s in function.body.statements for o in s.outs}
    changing = _changing(function)

    def is_constant(array: Any) -> bool:
        """True if an array is never stored into under any name: a copy of it may move up."""
        if array in changing:
            return False
        made = definition.get(array)
        if isinstance(made, Apply) and made.primitive in _VIEWS:
            return is_constant(made.args[0])
        return made is None or isinstance(made, Apply)

    def is_early(s: Statement) -> bool:
        if not isinstance(s, Apply):
            return False
        if s.primitive is flat:
            return is_constant(s.args[0])
        return s.primitive in _NEW or s.primitive.kind == "size"

    made: list[Statement] = []
    first: int | None = None  # position of the first of consecutive loops
    late: set[Var] = set()  # variables defined since
    for s in function.body.statements:
        if first is not None and is_early(s) and late.isdisjoint(_read(s)):
            made.insert(first, s)
            first += 1
            s.phase = made[first].phase
            continue
        if isinstance(s, (For, While, If)):
            first = len(made) if first is None else first
        elif not isinstance(s, Apply) or _ends(s):
            first = None
        late = late.union(s.outs) if first is not None else set()
        made.append(s)
    function.body.statements[:] = made


def hoist_constants(function: Function) -> None:
    """Move constant arrays out of all loops, which would make them again in every iteration."""
    made: list[Statement] = []

    def visit(block: Block) -> None:
        for s in block.statements:
            for inner in core.blocks_of(s):
                known = [t for t in inner.statements if _is_constant(t)]
                inner.statements[:] = [t for t in inner.statements if not _is_constant(t)]
                made.extend(known)
                visit(inner)

    visit(function.body)
    function.body.statements[:0] = made


def hoist_creations(function: Function, can_compile: Callable[[Statement], bool]) -> None:
    """Make arrays like ``np.eye(2)``, or ``np.eye(x.shape[0])``, once before the loops around them.

    They cannot raise. An array that is stored into is copied where it was made.
    """
    made: list[Statement] = []
    for outer in function.body.statements:
        if isinstance(outer, (For, While)):
            before = len(made)
            _creations_before(outer, made, can_compile)
            label(made[before:], outer.phase)
        made.append(outer)
    function.body.statements[:] = made


def _creations_before(
    outer: For | While, made: list[Statement], can_compile: Callable[[Statement], bool]
) -> None:
    """Move creations that one loop repeats, and no kernel can contain, to the end of ``made``.

    Creations that depend on array sizes only move from the body itself, not from branches.
    """
    changing, sizes = _not_only_read(outer), _sizes(made)
    for block in _blocks(outer):
        rest: list[Statement] = []
        if block is outer.body:
            sizes = _sizes_of_others(outer, sizes)
        for s in block.statements:
            known = isinstance(s, Apply) and _is_known(s, sizes if block is outer.body else set())
            if not isinstance(s, Apply) or not known or can_compile(s):
                rest.append(s)
                continue
            asked = _behind(s, rest)
            rest = [t for t in rest if t not in asked]
            made += asked
            if s.out in changing:
                first = Var(s.out.type, None, s.origin)
                made.append(Apply((first,), s.primitive, s.args, s.params, s.origin))
                rest.append(Apply(s.outs, copy, (first,), {}, s.origin))
            else:
                made.append(s)
        block.statements[:] = rest


def _is_known(s: Apply, sizes: set[Var]) -> bool:
    return s.primitive.kind == "creation" and bool(s.out.type.ndim) and _read(s) <= sizes


def _sizes(statements: Iterable[Statement]) -> set[Var]:
    """The variables that are sizes of arrays, or sums of sizes, which are nonnegative."""
    found: set[Var] = set()
    for s in statements:
        if is_size(s) or (isinstance(s, Apply) and _is_sum(s, found)):
            found.add(s.out)
    return found


def _is_sum(s: Apply, sizes: set[Var]) -> bool:
    """True if a statement adds sizes, and integers that are not negative."""
    terms = (a in sizes if isinstance(a, Var) else isinstance(a, int) and a >= 0 for a in s.args)
    return s.primitive is add and s.out.type.weak and all(terms)


def _sizes_of_others(loop: For | While, before: set[Var]) -> set[Var]:
    """Sizes of arrays from before a loop, which its body asks for or adds."""
    inside = core.defined_vars(loop.body) | {*loop.phis}
    found = set(before)
    for s in loop.body.statements:
        if is_size(s) and inside.isdisjoint(_read(s)):
            found.add(s.out)
        elif isinstance(s, Apply) and _is_sum(s, found):
            found.add(s.out)
    return found


def _behind(s: Statement, statements: Sequence[Statement]) -> list[Statement]:
    """The statements that compute what ``s`` reads, in order."""
    needed, found = _read(s), []
    for t in reversed(statements):
        if not needed.isdisjoint(t.outs):
            found.append(t)
            needed |= _read(t)
    return found[::-1]


def _not_only_read(loop: For | While) -> set[Any]:
    """Arrays that a loop may store into, directly or through an alias."""
    found = {result for block in _blocks(loop) for result in block.results}
    for s in (s for block in _blocks(loop) for s in block.statements):
        if isinstance(s, Apply) and s.primitive.kind != "store":
            if not s.out.type.ndim or s.primitive.kind == "elementwise":
                continue  # it only reads, and makes no alias
        found.update(core.operands(s))
    return found


def _blocks(s: Statement) -> list[Block]:
    """The blocks of a statement, at any depth."""
    own = core.blocks_of(s)
    return [*own, *(inner for b in own for t in core.walk(b) for inner in core.blocks_of(t))]


def _is_constant(s: Statement) -> bool:
    return isinstance(s, Apply) and s.primitive is constant


def _ends(s: Apply) -> bool:
    """True if a statement outside of kernels makes an array: later allocations stay after it."""
    return bool(s.out.type.ndim) and s.primitive not in (*_NEW, *_VIEWS)


def _read(s: Statement) -> set[Var]:
    return {a for a in core.operands(s) if isinstance(a, Var)}


def _changing(function: Function) -> set[Any]:
    """Arrays that are stored into, or carried by a loop."""
    found: set[Any] = set()
    for s in core.walk(function.body):
        if isinstance(s, (For, While)):
            found.update(s.inits)
            found.update(s.outs)
        elif is_store(s):
            found.add(s.args[0])
            found.add(s.out)
    return found
