"""Results of one call that only other calls read stand in one list in a text.

Before::

    x, mean, h, p = layer(x, w_0)
    ...
    x_bar, w_0_bar = layer_reverse(x_bar, mean, h, p, w_0)

After::

    x, *layer_0_saved = layer(x, w_0)
    ...
    x_bar, w_0_bar = layer_reverse(x_bar, *layer_0_saved, w_0)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import gast
import numpy as np

from calque.transpiler.ir import core
from calque.transpiler.ir.core import Apply, Atom, Block, Var
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.memory.printed_program import PrintedProgram
from calque.transpiler.primitives.function_calls import is_call

_LEAST = 2  # values in a list


def bundle_results(program: PrintedProgram) -> None:
    """Put the last results of a call into a list where other calls read them as they stand."""
    found = False
    for block in core.every_block(program.body):
        calls = [s for s in block.statements if is_call(s)]
        count = Counter(s.primitive.callee.name for s in calls)
        number: Counter[str] = Counter()
        for s in calls:
            callee = s.primitive.callee.name
            place = f"_{number[callee]}" if count[callee] > 1 else ""
            number[callee] += 1
            found |= _bundle(program, block, s, f"{callee}{place}_saved")
    if found:
        program.renumber()


def in_tuples(
    args: Sequence[Atom], trees: Sequence[Any], tuples: Sequence[tuple[tuple[Var, ...], Any]]
) -> list[Any]:
    """The arguments of a call, with ``*pair`` in the place of ``pair[0], pair[1]``."""
    made: list[Any] = []
    k = 0
    while k < len(args):
        whole = ((v, path) for v, path in tuples if tuple(args[k : k + len(v)]) == v)
        leaves, path = next(whole, ((), None))
        made.append(trees[k] if path is None else gast.Starred(path, gast.Load()))
        k += max(1, len(leaves))
    return made


def _bundle(program: PrintedProgram, block: Block, call: Apply, name: str) -> bool:
    """Bundle as many of the last results of a call as may be; False if these are too few."""
    readers = _readers(program, call)
    for first in range(1, len(call.outs) - _LEAST + 1):
        run = call.outs[first:]
        used = {id(s): s for v in run for s in readers[v]}
        if used and all(_reads_in_order(s, run) for s in used.values()):
            bundle = Var(ArrayType(np.dtype(object), (len(run),), weak=True), name)
            call.outs = (*call.outs[:first], bundle)
            call.primitive = call.primitive.with_list()
            for s in filter(is_call, used.values()):
                at = s.args.index(run[0])
                s.args = (*s.args[:at], bundle, *s.args[at + len(run) :])
                s.primitive = s.primitive.given_in_list(at, len(run))
            return True
    return False


def _readers(program: PrintedProgram, call: Apply) -> dict[Var, list[core.Statement | None]]:
    """The statements that read each result of a call; None stands for results of blocks."""
    found: dict[Var, list[core.Statement | None]] = {v: [] for v in call.outs}
    for s in core.walk(program.body):
        for atom in core.operands(s):
            if isinstance(atom, Var) and atom in found:
                found[atom].append(s)
    for block in core.every_block(program.body):
        for atom in block.results:
            if isinstance(atom, Var) and atom in found:
                found[atom].append(None)
    return found


def _reads_in_order(s: core.Statement | None, run: tuple[Var, ...]) -> bool:
    """True for a call of a function that takes the values of a run, once and in their order."""
    if s is None or not is_call(s):
        return False
    places = [k for k, a in enumerate(s.args) if isinstance(a, Var) and a in run]
    together = all(b == a + 1 for a, b in pairwise(places))
    return together and s.args[places[0] : places[-1] + 1] == run
