"""The ``else`` of a loop: the names that have a value after a break, and those without one."""

from __future__ import annotations

from typing import Any

from calque.transpiler.frontend.control.branch import LoopFlags
from calque.transpiler.frontend.machine import Completion, Machine
from calque.transpiler.ir.builder import Array
from calque.transpiler.ir.core import Var


class ElseArms:
    """The two paths after a loop with an ``else``, and the names that have a value on each.

    A name that only the loop binds has no value on some path to the end of the loop; yet it may
    have one on all paths with a break, or on all without.
    """

    def __init__(self, machine: Machine, node: Any, flags: LoopFlags):
        self.machine, self.node = machine, node
        self.completion: Completion | None = None
        self.if_broken = self._unsure(flags.at_break)
        self.if_ended = self._unsure(flags.at_end)
        if self.if_ended and not machine.surely_runs(flags.certain):
            self.if_ended = {}
        for name in self.if_broken.keys() & self.if_ended.keys():
            self._settle(self.if_broken.pop(name)[0])
            del self.if_ended[name]

    def _unsure(self, names: set[str] | None) -> dict[str, tuple[Var, Any]]:
        values = self.machine.call.frame.locals
        found = [(n, values.get(n)) for n in sorted(names or ())]
        return {
            n: (v._value, self.machine.unsure[v._value])
            for n, v in found
            if isinstance(v, Array) and v._value in self.machine.unsure
        }

    def _settle(self, var: Var) -> None:
        self.machine.unsure.pop(var, None)

    def _unsettle(self, names: dict[str, tuple[Var, Any]]) -> None:
        self.machine.unsure.update(names.values())

    def only_ended(self) -> None:
        """Settle names after a loop without a break: every path has run it to its end."""
        for var, _ in self.if_ended.values():
            self._settle(var)

    def broken(self) -> None:
        """Settle the names that have a value wherever the loop is broken."""
        for var, _ in self.if_broken.values():
            self._settle(var)

    def ended(self) -> Completion | None:
        """Interpret the clause, without a break; it may bind names that a break binds, too."""
        self._unsettle(self.if_broken)
        self.only_ended()
        self.completion = self.machine.exec_block(self.node.orelse)
        self._unsettle(self.if_ended)
        values = self.machine.call.frame.locals
        for name, (var, _) in self.if_broken.items():
            now = values.get(name)
            if not (isinstance(now, Array) and now._value is var):
                self._settle(var)
        return self.completion

    def leave(self) -> None:
        """Set the names after both paths; paths through a clause that raises do not come here."""
        raised = self.completion is not None and self.completion.kind == "raise"
        if raised:
            self.broken()
        else:
            self._unsettle(self.if_broken)
