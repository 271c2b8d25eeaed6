"""Fuse two adjacent loops, iteration by iteration: the legality test and the rewriting.

``row_fusion`` and ``scan_fusion`` decide which loops are worth fusing.
"""

from __future__ import annotations

from typing import Any

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder
from calque.transpiler.ir.core import Apply, Block, For, Slot, Statement, Var
from calque.transpiler.ir.effects import is_access, is_size, is_store
from calque.transpiler.ir.remarks import Refused
from calque.transpiler.ir.types import dim_symbols, substitute_dim
from calque.transpiler.loops.schedule.private_arrays import ArrayFamilies
from calque.transpiler.primitives.indexing import getitem, update


def crossing_iterations(first: For, second: For, between: list[Statement]) -> Refused | None:
    """The reason if iteration i of the second loop needs more of the first than its iteration i.

    ``between`` are the statements between the loops. The first may not read what the second writes.
    """
    there = (second.origin,)
    store = next((s for s in between if is_store(s)), None)
    if store is not None:
        return Refused("{0} stores into an array between the loops", (store.origin,))
    outs = {o for o in first.outs if o.type.ndim}
    read = set(core.free_vars(second.body))
    handed = {i for i in second.inits if isinstance(i, Var)}
    if (set(first.outs) - outs) & (read | handed) or not outs & (read | handed):
        return Refused("{0} reads a sum of it, or none of its arrays", there)
    if (handed - set(first.outs)) & set(core.free_vars(first.body)):
        return Refused("it reads an array that {0} changes", there)
    if handed & outs & read:
        return Refused("{0} reads old elements of an array beside the new ones", there)
    shared = outs & (read | handed)
    phis = {p for p, o in zip(first.phis, first.outs, strict=True) if o in shared}
    carried = {p for p, i in zip(second.phis, second.inits, strict=True) if i in shared}
    if _stays_in_row(first, phis) and _stays_in_row(second, (shared & read) | carried):
        return None
    return Refused("{0} needs more than its own row of it", there)


def _stays_in_row(loop: For, arrays: set[Var]) -> bool:
    """True if each iteration accesses ``arrays`` only at its own counter along the first axis."""
    families = ArrayFamilies(loop.body)
    own = {families.family(a) for a in arrays}
    for s in core.walk(loop.body):
        if not isinstance(s, Apply) or is_size(s):
            continue
        used = [a for a in s.args if isinstance(a, Var) and families.family(a) in own]
        if not used:
            continue
        if not is_access(s) or used != [s.args[0]]:
            return False
        item = s.params["index"][0] if s.params["index"] else None
        if not isinstance(item, Slot):
            return False
        if s.args[s.primitive.first_index + item.position] is not loop.index:
            return False
    return True


def join(first: For, second: For, builder: Builder) -> None:
    """Append the second loop's body to that of the first, in place."""
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
    """Express affine values of the second loop by the first loop's counter."""
    values = builder.dim_values
    if second.index not in values or first.index not in values:
        return
    symbols = dim_symbols(values[second.index])
    renamed = dict.fromkeys(symbols, values[first.index])
    for var in core.defined_vars(second.body):
        if var in values and dim_symbols(values[var]) & symbols:
            values[var] = substitute_dim(values[var], renamed)


def _forward(loop: For) -> None:
    """Replace reads of elements that the same iteration has stored by the stored scalars."""
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
