"""Move loops over elements out of a sequential loop, if the elements do not depend on each other.

Before, each iteration of ``k`` goes through all memory, and reads columns across it::

    for k in range(levels):
        for i in range(n):
            for j in range(m):
                v[i, j, k] = v[i, j, k - 1] * a[i, j]
        for i in range(n):
            ...

After, a row stays in the cache through all iterations of ``k``, and threads start once::

    for i in range(n):
        for k in range(levels):
            for j in range(m):
                v[i, j, k] = v[i, j, k - 1] * a[i, j]
            ...

Loops over single elements are strip-mined instead, so that they still run in vectors::

    for part in range((n + 1023) // 1024):
        first = 1024 * part
        last = min(first + 1024, n)
        for _ in range(steps):
            for i in range(first, last):
                x[i] = x[i] + dt * v[i]

See Allen and Kennedy, Optimizing Compilers for Modern Architectures, 2001, sections 6.2.4 (shifting
parallel loops outward) and 5.8 (strips of vectors).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder
from calque.transpiler.ir.core import Block, For, Function, Statement, Var
from calque.transpiler.ir.effects import is_access
from calque.transpiler.ir.phases import label_rest
from calque.transpiler.ir.remarks import Refused, applied, missed
from calque.transpiler.ir.types import dim_symbols
from calque.transpiler.loops.accesses import element_index
from calque.transpiler.loops.code_motion import Done, done_before
from calque.transpiler.loops.schedule.element_loops import ElementLoops, Refuses

PART = 1024  # elements of a strip, which goes through all iterations


def interchange_outward(
    function: Function, builder: Builder, refuses: Refuses, divides: Refuses
) -> None:
    """Move the element loops of a function outward where that is legal and pays, in place.

    ``refuses``: whether a statement may raise. ``divides``: whether it may raise ZeroDivisionError,
    which iterations raise even if there are no elements.
    """
    with builder.active():
        _within(function.body, builder, (refuses, divides), [])


def _within(
    block: Block,
    builder: Builder,
    raising: tuple[Refuses, Refuses],
    known: list[Done],
) -> None:
    made: list[Statement] = []
    for place, s in enumerate(block.statements):
        interchanged = None
        if isinstance(s, For) and not s.scheduled:
            later = Block(block.statements[place + 1 :], block.results)
            nest = _Interchange(s, builder, *raising, later=core.free_vars(later), known=known)
            interchanged = nest.interchanged()
        if interchanged is None:
            for inner in core.blocks_of(s):
                _within(inner, builder, raising, list(known))
            interchanged = [s]
        else:
            label_rest(interchanged, s.phase)
        made += interchanged
    block.statements[:] = made


@dataclass(eq=False)
class _Interchange(ElementLoops):
    """A loop of the user's, and what is known around it."""

    later: dict[Var, None] = field(default_factory=dict)  # variables read after the loop
    known: list[Done] = field(default_factory=list)  # divisions that loops before this one did

    def interchanged(self) -> list[Statement] | None:
        """The statements that replace the loop; None if it stays."""
        loop, builder = self.loop, self.builder
        before: list[Statement] = []
        found: list[Statement] | Refused | None = self._unfit_results() or self.irregular()
        found = found or self.forces_copy()
        if found is None:
            before = done_before(loop, builder, self.divides, self.known)
            found = self.divides_between() or self._around_all()
        if isinstance(found, Refused):
            missed(builder, "interchange_outward", loop, found)
            return [*before, loop] if before else None
        applied(builder, "interchange_outward", loop)
        return [*before, *found]

    def _unfit_results(self) -> Refused | None:
        """The reason if the loop carries no array, or a number that is read after it."""
        outs, origin = self.loop.outs, self.loop.origin
        numbers = [out for out in outs if not out.type.ndim]
        if len(numbers) == len(outs):
            return Refused("it carries no array")
        read = next((out for out in numbers if out in self.later), None)
        if read is None:
            return None
        return Refused(f"{read.name or 'a number'} of {{0}} is read after it", (origin,))

    def _around_all(self) -> list[Statement] | Refused:
        """The loop over rows or strips with the user's loop inside, or the reason against it."""
        with self.builder.block() as made, self.builder.at(self.loop.origin):
            rows = self.rows()
            if isinstance(rows, For) and not self._across() and not self.nested():
                rows = self.strips(PART)
            if isinstance(rows, Refused):
                return rows
            rows.parallel = rows.scheduled = True
            self.builder.emit(rows)
        if self.nested():
            user_loop = next(s for s in rows.body.statements if isinstance(s, For))
            inner = _Interchange(user_loop, self.builder, self.refuses, self.divides)
            rows.body.statements[:] = inner.privatized()
        return made.statements

    def privatized(self) -> list[Statement]:
        """The statements that replace the loop within a row: itself, if it stays in vectors."""
        if self.irregular() or self.nested() or not self._across():
            return [self.loop]
        with self.builder.block() as made, self.builder.at(self.loop.origin):
            rows = self.rows()
            if isinstance(rows, Refused):
                return [self.loop]
            rows.scheduled = True
            self.builder.emit(rows)
        return made.statements

    def _across(self) -> bool:
        """True if the outer counter indexes last axes more often than the elements' counters."""
        values, resolve = self.builder.dim_values, self.builder.dims.resolve
        if self.loop.index not in values:
            return False
        along = 0
        moving_with_user = dim_symbols(resolve(values[self.loop.index]))
        for element_loop in self.element_loops:
            own = dim_symbols(resolve(values[element_loop.index]))
            for s in core.walk(element_loop.body):
                if is_access(s) and s.args[0].type.ndim > 1:
                    last = element_index(s, self.builder)[-1]
                    moving = frozenset() if last is None else dim_symbols(last)
                    along += bool(moving & moving_with_user) - bool(moving & own)
        return along > 0
