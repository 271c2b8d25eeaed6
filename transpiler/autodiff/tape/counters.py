"""Induction variables: the reverse loop computes them from its own counter, not from a tape.

Before, in the forward loop::

    for i in range(n):
        s = s * icf[place]
        place += 2

After, in the reverse loop, where ``place`` was saved for each iteration::

    for i in range(n - 1, -1, -1):
        place = 2 * i + first
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.transpiler.autodiff.tape.storage import Buffers
from calque.transpiler.autodiff.tape.trip_counts import wrap_atom
from calque.transpiler.ir import core
from calque.transpiler.ir.blocks import first_use
from calque.transpiler.ir.builder import Array, atom
from calque.transpiler.ir.core import Apply, Atom, Block, For, Statement, Var, While

_Counter = tuple[Atom, Atom, int]  # initial value, addend of each iteration, sign


def counters_of(s: For | While, definitions: dict[Var, Statement]) -> dict[Var, _Counter]:
    """The carried integers to which each iteration of a loop adds the same number."""
    found: dict[Var, _Counter] = {}
    if isinstance(s, For) and s.step not in (1, -1):
        return found
    index = s.index if isinstance(s, For) else None
    for phi, init, after in zip(s.phis, s.inits, s.body.results, strict=True):
        made = definitions.get(after) if isinstance(after, Var) else None
        if not isinstance(made, Apply) or phi.type.ndim or not _is_wide(phi) or not _is_wide(init):
            continue
        sign = {"add": 1, "subtract": -1}.get(made.primitive.arithmetic or "", 0)
        args = made.args[::-1] if sign > 0 and made.args[1] is phi else made.args
        if not sign or args[0] is not phi:
            continue
        added = args[1]
        if _is_wide(added) and added not in definitions and added not in (index, *s.phis):
            found[phi] = init, added, sign
    return found


def _is_wide(value: Atom) -> bool:
    """True if a number is a Python int or an int64: a narrower one may wrap around."""
    if isinstance(value, Var):
        return value.type.dtype == np.int64 and not value.type.ndim
    return type(value) is int


def count_again(
    counters: dict[Var, _Counter],
    s: For | While,
    block: Block,
    index: Array,
    recorder: Buffers,
    counted: dict[Var, Atom],
) -> None:
    """Let a reverse loop compute the counters that it reads, once; ``counted`` holds them."""
    builder = recorder.builder
    for phi in [v for v in core.free_vars(block) if v in counters and v not in counted]:
        start, added, sign = counters[phi]
        where = first_use(block, phi)
        with builder.at(recorder.origin_at(block, where)), builder.block() as places:
            if isinstance(s, While):
                ended = index  # the iteration, counted from 0
            else:
                first = wrap_atom(s.start)
                ended = index - first if s.step == 1 else first - index
            more: Any = ended if added == 1 else ended * wrap_atom(added)
            now = more + wrap_atom(start) if sign > 0 else wrap_atom(start) - more
        found = atom(now)
        if isinstance(found, Var) and found is not index.atom:
            found.name = found.name or phi.name
        block.statements[:0] = places.statements
        counted[phi] = found
    core.substitute(block, counted)
