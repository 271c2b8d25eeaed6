"""The last step of a loop over time stores into the caller's array, which needs no copy then.

Before, where each step fills a new array, and the function stores into its argument ``u``::

    u_now = u
    for t in range(steps):
        u_then = cp.empty((n, m))
        heat_kernel(..., u_now, u_then, n, m)
        u_now = u_then
    u[...] = u_now

After::

    for t in range(steps):
        u_then = u if t == steps - 1 and u_now is not u else cp.empty((n, m))
        ...
    if u_now is not u:
        u[...] = u_now

The first step reads ``u`` itself: if it is the last one, too, the copy stays.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import gast

from calque.transpiler.codegen.launcher import Launcher
from calque.transpiler.codegen.text.spelling import constant, name
from calque.transpiler.ir import core
from calque.transpiler.ir.core import Apply, Block, For, Kernel, Statement, Var
from calque.transpiler.ir.effects import is_size
from calque.transpiler.memory.bufferize import Memory
from calque.transpiler.memory.printed_program import PrintedProgram
from calque.transpiler.primitives.creation import empty
from calque.transpiler.primitives.indexing import update


@dataclass(frozen=True)
class LastStep:
    """A loop, the array that each step fills, and the argument in which its values end."""

    loop: For
    new: Apply
    before: Var  # what a step reads
    argument: Var
    store: Apply

    def written(self, writer: Launcher, s: Apply, lines: list[Any]) -> list[Any]:
        """The lines that allocate the array of a step, or copy the values if they are elsewhere."""
        if s is self.store:
            return [gast.If(self._elsewhere(writer, s.args[1]), lines, [])]
        stop = gast.BinOp(writer.expressions.atom(self.loop.stop), gast.Sub(), constant(1))
        last = gast.Compare(name(writer.counter_of(self.loop)), [gast.Eq()], [stop])
        test = gast.BoolOp(gast.And(), [last, self._elsewhere(writer, self.before)])
        lines[0].value = gast.IfExp(test, self._argument(writer), lines[0].value)
        return lines

    def _argument(self, writer: Launcher) -> Any:
        return name(writer.expressions.names(self.argument), self.argument)

    def _elsewhere(self, writer: Launcher, var: Var) -> Any:
        here = name(writer.expressions.names(var), var)
        return gast.Compare(here, [gast.IsNot()], [self._argument(writer)])


def last_steps(program: PrintedProgram, memory: Memory, device: set[Var]) -> list[LastStep]:
    """The loops whose last step may fill the caller's array."""
    found = []
    top = program.body.statements
    for store in top:
        if not isinstance(store, Apply) or store.primitive is not update:
            continue
        if store.params["index"] != (Ellipsis,) or store.args[0] not in program.function.params:
            continue
        loop = next((s for s in top if isinstance(s, For) and store.args[1] in s.outs), None)
        if loop is not None and loop.step == 1 and loop.stop not in device:
            step = _last_step(loop, store, program, memory)
            found += [] if step is None else [step]
    return found


def _last_step(
    loop: For, store: Apply, program: PrintedProgram, memory: Memory
) -> LastStep | None:
    k = loop.outs.index(store.args[1])
    argument, phi, result = store.args[0], loop.phis[k], loop.body.results[k]
    filled = [s for s in loop.body.statements if isinstance(s, Kernel) and result in s.outs]
    if not filled or not isinstance(argument, Var) or loop.inits[k] is not argument:
        return None
    behind = _behind([result], memory)
    made = [s for s in loop.body.statements if isinstance(s, Apply) and s.outs[0] in behind]
    if len(made) != 1 or made[0].primitive is not empty or made[0].out.type != argument.type:
        return None
    if phi in behind or _needs(argument, phi, loop, store, program, memory):
        return None
    return LastStep(loop, made[0], phi, argument, store)


def _needs(
    argument: Var, phi: Var, loop: For, store: Apply, program: PrintedProgram, memory: Memory
) -> bool:
    """True if what the argument held before the loop may be read in it, or after it."""
    after = program.body.statements[program.body.statements.index(loop) + 1 :]
    read = {*_read_by(loop.body.statements), *_read_by(s for s in after if s is not store)}
    kept = {p for p in loop.phis if p is not phi}
    results = {r for r in program.body.results if isinstance(r, Var) and r is not store.out}
    return argument in _behind((read | kept | results) - {phi}, memory, phi)


def _read_by(statements: Iterable[Statement]) -> set[Var]:
    """The values that statements read, but for the sizes of arrays."""
    within = [s for s in core.walk(Block([*statements])) if not is_size(s)]
    read = {a for s in within if not isinstance(s, Kernel) for a in core.operands(s)}
    return {a for a in read if isinstance(a, Var)}


def _behind(vars: Iterable[Var], memory: Memory, without: Var | None = None) -> set[Var]:
    """The Vars in whose memory others may lie, and these; not those behind ``without``."""
    pending, found = [*vars], set[Var]()
    while pending:
        var = pending.pop()
        if var not in found and var is not without:
            found.add(var)
            pending += [a for a in memory.sources.get(var, ()) if isinstance(a, Var)]
    return found
