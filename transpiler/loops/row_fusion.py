"""Loops over the same rows become one, where a row needs of the others' results its own alone.

Before::

    for i in range(n):
        top[i] = max of x[i, :]
    for i in range(n):
        y[i, :] = exp(x[i, :] - top[i])

After, for a grid, on which each loop is a launch and the row is read again from memory::

    for i in range(n):
        largest = max of x[i, :]
        y[i, :] = exp(x[i, :] - largest)

What only its own row reads is kept in no array.
"""

from __future__ import annotations

from typing import Any

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder, wrap
from calque.transpiler.ir.core import Apply, Block, For, Function, Slot, Statement, Var
from calque.transpiler.ir.dead_code import has_effects, remove_dead_code
from calque.transpiler.ir.types import dim_symbols, substitute_dim
from calque.transpiler.loops.accesses import INDEXED
from calque.transpiler.loops.put_together import along_memory
from calque.transpiler.primitives.indexing import getitem, update


def fuse_rows(function: Function, builder: Builder) -> None:
    """Fuse such loops, in place."""
    _drop_stops(function)
    remove_dead_code(function)
    for block in _blocks(function.body):
        while _fuse_two(block, builder):
            pass
    remove_dead_code(function)


def _drop_stops(function: Function) -> None:
    """What ``stop_gradient`` gives is its argument, once all derivatives are taken."""
    replaced: dict[Var, Any] = {}
    for s in core.walk(function.body):
        if isinstance(s, Apply) and _is_identity(s):
            replaced[s.out] = replaced.get(s.args[0], s.args[0])
    if replaced:
        core.substitute(function.body, replaced)


def _is_identity(s: Apply) -> bool:
    """Whether a statement gives its argument, of which it only says that no slope goes there."""
    p = s.primitive
    plain = p.arithmetic == "same" and p.nondifferentiable and p.view_back is not None
    return plain and isinstance(s.args[0], Var) and s.args[0].type == s.out.type


def _blocks(block: Block) -> list[Block]:
    """A block, and those within that are none of loops which threads share."""
    found = [block]
    for s in block.statements:
        if not (isinstance(s, For) and s.parallel):
            for inner in core.blocks_of(s):
                found += _blocks(inner)
    return found


def _fuse_two(block: Block, builder: Builder) -> bool:
    """Fuse one pair of loops; False where there is none."""
    for k, first in enumerate(block.statements):
        if not isinstance(first, For) or not first.parallel:
            continue
        given = set(first.outs)
        for j in range(k + 1, len(block.statements)):
            second = block.statements[j]
            between = block.statements[k + 1 : j]
            if isinstance(second, For) and _can_join(first, second, between, builder):
                _join(first, second, builder)
                block.statements[k : j + 1] = [*between, first]
                return True
            if not isinstance(second, Apply) or has_effects(second):
                break
            if second.primitive.kind == "size" and second.args[0] in given:
                before = first.inits[first.outs.index(second.args[0])]
                second.args = (before, *second.args[1:])  # of the same shape
            if given.intersection(a for a in second.args if isinstance(a, Var)):
                break  # it stays behind the first loop, and so does what reads it
    return False


def _can_join(first: For, second: For, between: list[Statement], builder: Builder) -> bool:
    """Whether a round of the second loop needs no other round of the first."""
    ends = [(s.start, builder.dim_of(wrap(s.stop))) for s in (first, second)]
    if not second.parallel or ends[0] != ends[1]:
        return False
    sums = [_sums(first), _sums(second)]
    if first.step != 1 or second.step != 1 or not any(sums):
        return False
    if any(own and not along_memory(own, s) for own, s in zip(sums, (first, second), strict=True)):
        return False  # threads along the rows of memory share a column's sum (partial_sums)
    if any(s.primitive.kind == "store" for s in between if isinstance(s, Apply)):
        return False
    outs = {o for o in first.outs if o.type.ndim}
    numbers = set(first.outs) - outs
    read = set(core.free_vars(second.body))
    handed = {i for i in second.inits if isinstance(i, Var)}
    if numbers & (read | handed) or not outs & (read | handed):
        return False
    if (handed - set(first.outs)) & set(core.free_vars(first.body)):
        return False  # it reads what the second changes
    if handed & outs & read:
        return False  # an old version is read beside the new one
    shared = outs & (read | handed)
    phis = {p for p, o in zip(first.phis, first.outs, strict=True) if o in shared}
    carried = {p for p, i in zip(second.phis, second.inits, strict=True) if i in shared}
    return _stays_in_row(first, phis) and _stays_in_row(second, (shared & read) | carried)


def _sums(loop: For) -> list[For]:
    """The loops within that sum a row: then the threads of a row have it, all of it."""
    inner = [s for s in loop.body.statements if isinstance(s, For)]
    return [s for s in inner if any(not p.type.ndim for p in s.phis)]


def _stays_in_row(loop: For, arrays: set[Var]) -> bool:
    """Whether all that a round touches of some arrays is in the round's own row."""
    versions = set(arrays)
    before = 0
    while before != len(versions):
        before = len(versions)
        for s in core.walk(loop.body):
            if isinstance(s, Apply) and s.primitive in INDEXED and s.primitive is not getitem:
                if s.args[0] in versions:
                    versions.add(s.out)
            elif isinstance(s, core.For | core.While):
                for phi, init, out in zip(s.phis, s.inits, s.outs, strict=True):
                    versions |= {phi, out} if init in versions else set()
            elif isinstance(s, core.If):
                for out, *arms in zip(s.outs, s.then.results, s.orelse.results, strict=True):
                    versions |= {out} if versions.intersection(arms) else set()
    for s in core.walk(loop.body):
        if not isinstance(s, Apply) or s.primitive.kind == "size":
            continue
        if not versions.intersection(a for a in s.args if isinstance(a, Var)):
            continue
        if s.primitive not in INDEXED or s.args[0] not in versions:
            return False
        item = s.params["index"][0] if s.params["index"] else None
        if not isinstance(item, Slot):
            return False
        if s.args[s.primitive.first_index + item.position] is not loop.index:
            return False
    return True


def _join(first: For, second: For, builder: Builder) -> None:
    """Append the second loop's rounds to those of the first."""
    mapping: dict[Var, Any] = {second.index: first.index}
    last = dict(zip(first.outs, first.body.results, strict=True))
    mapping.update((o, r) for o, r in last.items() if o.type.ndim)
    phis, inits, outs, results = [], [], [], []
    place = {o: k for k, o in enumerate(first.outs)}
    handed: dict[int, tuple[Var, Any]] = {}
    for phi, init, out, result in zip(
        second.phis, second.inits, second.outs, second.body.results, strict=True
    ):
        if init in place:
            mapping[phi] = last[init]
            handed[place[init]] = out, result
        else:
            phis.append(phi)
            inits.append(init)
            outs.append(out)
            results.append(result)
    _rename_counter(first, second, builder)
    body = Block(second.body.statements, list(second.body.results))
    core.substitute(body, mapping)
    translate = dict(zip(second.body.results, body.results, strict=True))
    first.body.statements += body.statements
    old = list(first.body.results)
    first.phis, first.inits = (*first.phis, *phis), (*first.inits, *inits)
    for k, (out, result) in handed.items():
        first.outs = (*first.outs[:k], out, *first.outs[k + 1 :])
        old[k] = translate[result]
    first.outs = (*first.outs, *outs)
    first.body.results = [*old, *(translate[r] for r in results)]
    _forward(first)


def _rename_counter(first: For, second: For, builder: Builder) -> None:
    """Let affine numbers of the second loop be those of the first one's counter."""
    values = builder.dim_values
    if second.index not in values or first.index not in values:
        return
    symbols = dim_symbols(values[second.index])
    renamed = dict.fromkeys(symbols, values[first.index])
    for var in core.defined_vars(second.body):
        if var in values and dim_symbols(values[var]) & symbols:
            values[var] = substitute_dim(values[var], renamed)


def _forward(loop: For) -> None:
    """What a round has stored to one element of its row, and reads again, is the number itself."""
    kept: dict[tuple[Any, ...], Any] = {}
    replaced: dict[Var, Any] = {}
    for s in loop.body.statements:
        if not isinstance(s, Apply):
            continue
        if s.primitive is update and isinstance(s.args[1], Var):
            if s.args[1].type.dtype == s.out.type.dtype and not s.args[1].type.ndim:
                kept[s.out, s.params["index"], s.args[2:]] = s.args[1]
    for s in core.walk(loop.body):
        if isinstance(s, Apply) and s.primitive is getitem:
            key = s.args[0], s.params["index"], s.args[1:]
            if key in kept and not s.out.type.weak:
                replaced[s.out] = kept[key]
    if replaced:
        core.substitute(loop.body, replaced)
