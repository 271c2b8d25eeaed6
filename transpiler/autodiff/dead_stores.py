"""Dead store elimination for the reverse sweep, by comparing indices.

The reverse sweep restores the old value of every element that a loop overwrote. Often no later
read is of that element: in ``x[i] = (b[i] - s) / L[i, i]`` the sweep reads ``x[j]`` for j < i only.
A store is also dead if a loop before the read stores into every element of the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from calque.transpiler.autodiff.tape.access_order import (
    ProgramPoint,
    Reads,
    bounds_of,
    elements_of,
    expression_of,
    may_reach,
)
from calque.transpiler.ir import core
from calque.transpiler.ir.core import Apply, Atom, For, Function, Var
from calque.transpiler.ir.effects import is_plain_store
from calque.transpiler.ir.inequalities import CONSTANT, combined, solvable
from calque.transpiler.ir.versions import Versions, of_plain_stores
from calque.transpiler.primitives.indexing import update


def remove_dead_stores(
    function: Function, stores: Mapping[Var, Var], kept: Iterable[Atom]
) -> set[Var]:
    """Remove those of ``stores``, keyed by results of ``update``, whose elements nothing reads.

    ``kept`` are values that are read when the program has ended, besides its results. Returns the
    results of the stores that were removed.
    """
    if not stores:
        return set()
    reads = Reads()
    reads.note_sizes(function)
    reads.add(function.body)
    end = ProgramPoint(None, len(reads.places), ())
    for atom in (*function.body.results, *kept):
        if isinstance(atom, Var):
            reads.readers.setdefault(atom, []).append(end)
    where = {id(p.statement): p for p in reads.places}
    versions = Versions.within(function.body, taken=of_plain_stores)
    over = _overwriting(reads, versions)
    dropped: dict[Var, Atom] = {}
    for out in stores:
        made = reads.definitions.get(out)
        if not isinstance(made, Apply) or made.primitive is not update:
            continue
        own = where[id(made)]
        gone = {v for v, (loop, link) in over.items() if _overwritten(reads, own, loop, link)}
        after = versions.later(out, without=gone)  # in which its elements may still stand
        later = [place for v in after for place in reads.readers.get(v, ())]
        if not any(may_reach(reads, own, place) for place in later):
            reads.home[id(made)].statements.remove(made)
            dropped[out] = made.args[0]
    while any(isinstance(a, Var) and a in dropped for a in dropped.values()):
        dropped = {v: dropped.get(a, a) if isinstance(a, Var) else a for v, a in dropped.items()}
    core.substitute(function.body, dropped)
    return set(dropped)


def _overwriting(reads: Reads, versions: Versions) -> dict[Var, tuple[For, Apply]]:
    """Results of loops that store at their counter in each iteration, with the loop and the store.

    Only loops whose bounds are the same wherever they stand.
    """
    found: dict[Var, tuple[For, Apply]] = {}
    for place in reads.places:
        loop = place.statement
        if not isinstance(loop, For) or loop.step not in (1, -1):
            continue
        ends = (expression_of(reads, a, {}) for a in (loop.start, loop.stop))
        if any(name in reads.inside for end in ends for name in end):
            continue
        for out, phi, after in zip(loop.outs, loop.phis, loop.body.results, strict=True):
            stores = versions.stores(after)
            if not stores or stores[-1].args[0] is not phi or not all(map(is_plain_store, stores)):
                continue
            for link in stores:
                if link.primitive is update and elements_of(link) == [loop.index]:
                    found[out] = loop, link
    return found


def _overwritten(reads: Reads, store: ProgramPoint, loop: For, link: Apply) -> bool:
    """True if ``loop`` stores, by ``link``, into every element that ``store`` may write."""
    elements = elements_of(store.statement)
    if elements is None or len(elements) != 1 or elements[0] is None or loop in store.loops:
        return False
    if link not in loop.body.statements:
        return False  # that store was removed itself
    element = expression_of(reads, elements[0], {})
    start, stop = (expression_of(reads, a, {}) for a in (loop.start, loop.stop))
    up = 1 if loop.step == 1 else -1
    before = combined(combined({CONSTANT: -1}, start, up), element, -up)
    behind = combined(combined({}, element, up), stop, -up)
    system = bounds_of(reads, store, {})
    return not solvable([*system, before]) and not solvable([*system, behind])
