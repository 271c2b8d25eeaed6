"""Statements that read a value of two kinds: interpreted for either kind, on a branch over its tag.

See ``values/tagged`` for such values.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gast

from calque.transpiler.errors import TagNeeded
from calque.transpiler.frontend.control.branch import do_nothing
from calque.transpiler.frontend.control.continued_branches import continued
from calque.transpiler.frontend.control.hoisting import Hoisting
from calque.transpiler.frontend.control.python_errors import UNASSIGNED
from calque.transpiler.frontend.control.with_blocks import Contexts
from calque.transpiler.frontend.machine import Completion
from calque.transpiler.frontend.values.containers.container_kinds import MISSING
from calque.transpiler.frontend.values.heap import Snapshot
from calque.transpiler.frontend.values.tagged import TaggedValue, moment, tag_needed
from calque.transpiler.ir.core import Block, If

_MOST_SPLITS = 400  # statements, at most, that one program interprets for either kind


class TaggedReads(Contexts):
    """The execution of statements that may read tagged values."""

    def executed(self, node: Any, run: Callable[[Any], Completion | None]) -> Completion | None:
        """Run a statement; once for either kind of a tagged value on which it depends."""
        if not self.settings.tagging:
            return run(node)
        base, marks, before = Snapshot(self.roots(), self.owned), self._marks(), moment()
        call, pending = self.call, list(self.call.pending)
        flags, stack = call.flags, list(call.flag_stack)
        block = self.builder.blocks[-1]
        self.attempts.append((block, len(block.statements)))
        try:
            completion = run(node)
        except TagNeeded as needed:
            tag = needed.value.tag if needed.value.serial < before else None
            parts = self._around(needed.node, node) if tag is None else None
            if self.splits >= _MOST_SPLITS or (parts is None and tag is None):
                raise
            self.splits += 1
            base.restore()
            self._back_to(marks)
            call.pending[:] = pending
            call.flags, call.flag_stack[:] = flags, stack
        else:
            self._continue_branch(block, self.attempts[-1][1])
            return completion
        finally:
            self.attempts.pop()
        if tag is None:
            return self.exec_block(parts or [])
        again = partial(self._again, node)
        return self.branch_over(tag, (again, again), ([node], [node]), node)

    def _continue_branch(self, block: Block, start: int) -> None:
        """Let the branch before a statement do what the statement does, if that is the same branch.

        A statement around, which may be interpreted anew, must have begun before both.
        """
        first = max((n for b, n in self.attempts[:-1] if b is block), default=0)
        if start <= first or len(block.statements) != start + 1:
            return
        before, now = block.statements[start - 1 :]
        if isinstance(now, If) and self.links is None and continued(before, now):
            block.statements.pop()
            self.builder.definitions.update(dict.fromkeys(now.outs, before))

    def of_one_kind(self, value: TaggedValue, name: str, node: Any) -> Any:
        """The one value that a read of a tagged value gives here.

        Where only some paths give it a value, generated code raises on the others.
        """
        decided = self.decided(value)
        if not isinstance(decided, TaggedValue):
            return self.checked(decided, name, node)
        if decided.first is MISSING or decided.second is MISSING:
            there = decided.second is MISSING
            raises = partial(self.path_raises, self._lacking(name, node), node)
            arms = (do_nothing, raises) if there else (raises, do_nothing)
            self.fork(decided.tag, arms[0], arms[1], node)
            self.facts.append((decided.tag.atom, there))
            return self.of_one_kind(value, name, node)
        if id(node) in self.unread and not decided.may_be_missing():
            return decided
        needed = tag_needed(decided, name, self.origin(node))
        needed.node = node
        raise needed

    def _lacking(self, name: str, node: Any) -> Exception:
        """Python's error of a read of what has no value: a key, an attribute or a name."""
        if isinstance(node, gast.Subscript):
            return KeyError(node.slice.value if isinstance(node.slice, gast.Constant) else name)
        if isinstance(node, gast.Attribute):
            return AttributeError(f"the object has no attribute {node.attr!r}")
        return UnboundLocalError(f"cannot access local variable '{name}' {UNASSIGNED}")

    def _again(self, statement: Any) -> Completion | None:
        """Run a statement where names hold what the tests around say of tagged values."""
        names = self.call.frame.locals
        held = {name: value for name, value in names.items() if isinstance(value, TaggedValue)}
        names.update((name, self.decided(value)) for name, value in held.items())
        return self.execute(statement)

    def _around(self, made_by: Any, statement: Any) -> list[Any] | None:
        """A statement with the expression that made a tagged value as a statement before it."""
        if made_by is None:
            return None
        return Hoisting(lambda part: part is made_by, plainly=True).of(statement)
