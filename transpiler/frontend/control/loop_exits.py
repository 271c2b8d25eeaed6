"""The hidden names of the loop that is being interpreted: flags for how it was left."""

from __future__ import annotations

from typing import Any

from calque.transpiler.frontend.control.branch import LoopFlags
from calque.transpiler.frontend.machine import Machine


def leave_flags(call: Any, flags: LoopFlags) -> None:
    """Remove the hidden names of a loop at its end."""
    for name in (flags.broken, flags.returned, flags.value):
        call.frame.locals.pop(name, None)
    call.flags = call.flag_stack.pop()


class LoopScope:
    """Makes a loop's hidden flags the current ones; restores the outer loop's on every way out."""

    def __init__(self, machine: Machine, node: Any):
        self.machine, self.node = machine, node

    def __enter__(self) -> LoopFlags:
        call = self.machine.call
        broken, returned, value = map(self.machine.fresh_name, ("broken", "returned", "value"))
        self.flags = LoopFlags(broken, returned, value)
        call.frame.locals[self.flags.broken] = False
        call.frame.locals[self.flags.returned] = False
        if call.consume is not None:  # a generator: it has nothing to return
            call.frame.locals[self.flags.value] = None
        self.outer, self.depth = call.flags, len(call.flag_stack)
        call.flag_stack.append(call.flags)
        call.flags = self.flags
        return self.flags

    def __exit__(self, *_: Any) -> None:
        call = self.machine.call
        for name in (self.flags.broken, self.flags.returned, self.flags.value):
            call.frame.locals.pop(name, None)
        call.flags = self.outer
        del call.flag_stack[self.depth :]
