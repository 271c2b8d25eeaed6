"""Loop distribution: write a loop with dependent iterations as several with independent ones.

The reverse pass of a stencil adds the adjoint of each iteration to its neighbours, which
neighbouring iterations add to as well::

    for i in range(n - 2, 0, -1):
        s = 0.5 * x_bar[i]
        x_bar[i] = 0.0
        y_bar[i + 1] += s
        y_bar[i - 1] += s

Additions commute, so each offset may have a loop of its own, with iterations in any order (Kennedy
and McKinley, Loop distribution with arbitrary control flow, 1990)::

    for i in range(1, n - 1):
        y_bar[i + 1] += 0.5 * x_bar[i]
    for i in range(1, n - 1):
        s = 0.5 * x_bar[i]
        x_bar[i] = 0.0
        y_bar[i - 1] += s

An innermost loop whose iterations are independent already stays one loop, which counts up.
"""

from __future__ import annotations

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder
from calque.transpiler.ir.core import Apply, Block, For, Function, Statement
from calque.transpiler.ir.effects import is_size
from calque.transpiler.ir.phases import label_rest
from calque.transpiler.ir.remarks import Refused, applied, missed
from calque.transpiler.loops.nest import build
from calque.transpiler.loops.parallelize import upward
from calque.transpiler.loops.scatters import CHEAP
from calque.transpiler.loops.schedule.tasks import TaskLoop

MOST_LOOPS = 4  # each goes through memory again
MOST_REPEATED = 12  # operations that more than one loop computes


def distribute(function: Function, builder: Builder, whole: frozenset[int] = frozenset()) -> None:
    """Split the innermost loops of a function where that makes all parts independent, in place.

    Loops with independent iterations are marked as vector loops. Loops with ids in ``whole`` stay.
    """
    with builder.active():
        _within(function.body, builder, whole)


def _within(block: Block, builder: Builder, whole: frozenset[int]) -> None:
    made: list[Statement] = []
    for s in block.statements:
        for inner in core.blocks_of(s):
            _within(inner, builder, whole)
        parts = _parts(s, builder) if isinstance(s, For) and id(s) not in whole else [s]
        label_rest(parts, s.phase)
        made += parts
    block.statements[:] = made


def _parts(s: For, builder: Builder) -> list[Statement]:
    """The statements that replace a loop: the loop itself if it stays."""
    nest = build(s, builder)
    found = nest if isinstance(nest, Refused) else _distributed(TaskLoop(nest))
    if isinstance(found, Refused):
        missed(builder, "distribute", s, found)
        return [s]
    if found[-1] is s:
        missed(builder, "distribute", s, Refused("its iterations are independent already"))
    else:
        applied(builder, "distribute", s)
    return found


def _distributed(tasks: TaskLoop) -> list[Statement] | Refused:
    """The loops of the tasks, or the loop itself as a vector loop; the reason if it stays."""
    refused = tasks.unfit()
    if refused is not None:
        return refused
    tasks.find_tasks()
    if tasks.independent:
        tasks.loop.vector = True
        return [*upward(tasks.loop, tasks.builder), tasks.loop]
    groups = tasks.groups()
    if isinstance(groups, Refused):
        return groups
    if not 1 < len(groups) <= MOST_LOOPS:
        return Refused(f"it would become {len(groups)} loops, and at most {MOST_LOOPS} pay")
    repeated = tasks.repeated(groups)
    cheap = all(isinstance(s, Apply) and (s.primitive in CHEAP or is_size(s)) for s in repeated)
    if len(repeated) > MOST_REPEATED or not cheap:
        return Refused("several of its loops would repeat an expensive operation")
    return tasks.written(groups)
