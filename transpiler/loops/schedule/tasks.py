"""Distribute: write a loop as several, each with some of its tasks.

A task is a store, or a sum, with the statements that it needs. Legal where each access comes before
those that depend on it: earlier in one loop's iteration, or in a loop before; additions commute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from calque.transpiler.ir.core import Apply, Atom, Block, For, Statement, Var
from calque.transpiler.ir.effects import is_plain_store
from calque.transpiler.ir.remarks import Refused
from calque.transpiler.ir.rewrite import derived, renewed
from calque.transpiler.loops.dependence import ANYWHERE, Access, Distance, dependence_distance
from calque.transpiler.loops.nest import LoopNest, NestAccess
from calque.transpiler.loops.parallelize import upward
from calque.transpiler.primitives.elementwise import add, subtract


@dataclass(eq=False)
class Task:
    """A store, or a sum, and the statements that it needs."""

    stores: list[Apply]
    total: int | None = None  # for a sum, the position of the carried number
    needs: set[int] = field(default_factory=set)  # ids of statements, without stores
    accesses: list[NestAccess] = field(default_factory=list)
    before: set[int] = field(default_factory=set)  # numbers of the tasks that must come before


class TaskLoop:
    """An innermost loop, its tasks, and the order that dependences require of them."""

    def __init__(self, nest: LoopNest):
        self.nest, self.loop, self.builder = nest, nest.loop, nest.builder
        self.array_of, self.made_by = nest.array_of, nest.made_by
        self.tasks: list[Task] = []
        self.independent = False  # all dependences are within one iteration

    def unfit(self) -> Refused | None:
        """The reason if the loop does more than compute elements of the arrays it stores into."""
        nest, loop = self.nest, self.loop
        if loop.step not in (1, -1):
            return Refused("it does not count by one", (loop.origin,))
        if len(nest.loops) > 1:
            return Refused("it holds a loop", (nest.loops[1].origin,))
        if len(nest.numbers) == len(loop.phis):
            return Refused("it stores into no array")
        for k in nest.numbers:
            if not self._is_sum(k):
                made = nest.made_by.get(loop.body.results[k])
                said = "{0} is carried to the next iteration, and is no sum"
                return Refused(said, (made.origin if made else loop.origin,))
        if (outside := next(filter(is_plain_store, nest.others), None)) is not None:
            return Refused("{0} stores into an array of the iteration's own", (outside.origin,))
        if (access := nest.unsteady()) is not None:
            said = "{0} has an index that is computed in the loop"
            return Refused(said, (access.statement.origin,))
        arrays = set(range(len(loop.phis))) - {*nest.numbers}
        return None if arrays == nest.stored() else Refused("it carries an array without storing")

    def find_tasks(self) -> None:
        """Set the tasks, and whether iterations are independent as they are."""
        body = self.loop.body
        stores = [Task([s]) for s in body.statements if is_plain_store(s)]
        stores = [self._needing(t, t.stores[0].args[1:]) for t in stores]
        sums = [self._needing(Task([], k), [body.results[k]]) for k in self.nest.numbers]
        self.tasks = [*stores, *sums]
        self.independent = self._free(stores, self.tasks)

    def _is_sum(self, k: int) -> bool:
        """True if the k-th carried number is a sum over all iterations that nothing else reads."""
        phi, total = self.loop.phis[k], self.loop.body.results[k]
        made = self.made_by.get(total)
        if not isinstance(made, Apply) or made.primitive not in (add, subtract):
            return False
        if phi.type.dtype.kind != "f" or made.out.type.dtype != phi.type.dtype:
            return False
        uses, first = self.nest.uses, made.args[0] is phi or made.primitive is add
        return first and uses.count(phi) == 1 and phi in made.args and uses.count(total) == 1

    def _needing(self, task: Task, values: Sequence[Atom]) -> Task:
        """Add the statements that ``values`` need, and all accesses, to a task."""
        pending = list(values)
        while pending:
            made = self.made_by.get(pending.pop())
            if made is None or id(made) in task.needs:
                continue
            assert isinstance(made, Apply)
            task.needs.add(id(made))
            pending += [a for a in made.args if a not in self.array_of]
        touching = [s for s in self.loop.body.statements if id(s) in task.needs]
        own = {id(s) for s in (*touching, *task.stores)}
        task.accesses = [a for a in self.nest.accesses if id(a.statement) in own]
        return task

    def _distance(self, a: Access, b: Access) -> Distance:
        counter = self.builder.dim_values[self.loop.index]
        return dependence_distance(a, b, counter, self.builder)

    def _free(self, left: list[Task], right: list[Task]) -> bool:
        """True if dependences between ``left`` and ``right`` are all within one iteration."""
        return all(
            self._distance(a, b) in (None, 0)
            for s in left
            for t in right
            for a in s.accesses
            for b in t.accesses
        )

    def _order(self, tasks: list[Task]) -> None:
        for k, first in enumerate(tasks):
            for other, second in enumerate(tasks):
                if first is not second and any(
                    self._precedes(a, b) for a in first.accesses for b in second.accesses
                ):
                    tasks[other].before.add(k)

    def _precedes(self, a: Access, b: Access) -> bool:
        """True if some element requires access ``a`` to come before access ``b``."""
        if a.adds and b.adds:
            return False
        distance = self._distance(a, b)
        if distance is None:
            return False
        if distance == ANYWHERE:
            return True
        assert isinstance(distance, int)
        return a.position < b.position if distance == 0 else distance * self.loop.step > 0

    def groups(self) -> list[list[Task]] | Refused:
        """The tasks of each loop, in order, or the reason if iterations would be dependent."""
        tasks, cycle = self.tasks, "its stores and sums depend on each other across iterations"
        self._order(tasks)
        done: dict[int, int] = {}  # task -> group
        groups: list[list[Task]] = []
        while len(done) < len(tasks):
            ready = [k for k, t in enumerate(tasks) if k not in done and t.before <= done.keys()]
            if not ready:
                return Refused(cycle)
            k = ready[0]
            task = tasks[k]
            if not self._free([task], [task]):
                return Refused(cycle)
            first = max((done[b] for b in task.before), default=0)
            for at in range(first, len(groups)):
                if self._free(groups[at], [task]):
                    break
            else:
                at = len(groups)
                groups.append([])
            groups[at].append(task)
            done[k] = at
        return groups

    def repeated(self, groups: list[list[Task]]) -> list[Statement]:
        """The statements that more than one of the loops needs."""
        needs = [set().union(*(t.needs for t in group)) for group in groups]
        statements = self.loop.body.statements
        return [s for s in statements if sum(id(s) in need for need in needs) > 1]

    def written(self, groups: list[list[Task]]) -> list[Statement]:
        """The loops of groups of tasks."""
        now: list[Atom] = list(self.loop.inits)
        last: dict[int, int] = {}
        for at, group in enumerate(groups):
            for task in group:
                last.update((k, at) for k in self._written(task))
        made = upward(self.loop, self.builder)
        for at, group in enumerate(groups):
            loop, written = self._part(group, now)
            loop.outs = tuple(
                self.loop.outs[k]
                if last[k] == at
                else Var(phi.type, phi.name, self.loop.origin)
                for k, phi in zip(written, loop.phis, strict=True)
            )
            for k, out in zip(written, loop.outs, strict=True):
                now[k] = out
            made.append(loop)
        return made

    def _written(self, task: Task) -> set[int]:
        """The positions of the carried values that a task changes."""
        arrays = {self.array_of[s.args[0]] for s in task.stores}
        return arrays if task.total is None else {task.total}

    def _part(self, group: list[Task], now: list[Atom]) -> tuple[For, list[int]]:
        """The loop of some tasks, and the positions of the values that it carries."""
        old, builder = self.loop, self.builder
        chosen = {id(s) for t in group for s in t.stores} | set().union(*(t.needs for t in group))
        written = sorted(set().union(*map(self._written, group)))
        (index,) = renewed(builder, [old.index])
        phis = {k: Var(old.phis[k].type, old.phis[k].name, old.origin) for k in written}
        current: list[Atom] = [phis.get(k, a) for k, a in enumerate(now)]
        mapping: dict[Var, Atom] = {old.index: index}
        mapping |= {old.phis[k]: phis[k] for k in written}
        body = Block()
        for s in old.body.statements:
            if id(s) not in chosen:
                continue
            assert isinstance(s, Apply)
            k = self.array_of.get(s.args[0]) if s.args else None
            args = tuple(mapping.get(a, a) if isinstance(a, Var) else a for a in s.args)
            args = args if k is None else (current[k], *args[1:])
            outs = renewed(builder, s.outs, mapping)
            copy = Apply(outs, s.primitive, args, s.params, s.origin, s.proven)
            builder.note(copy)
            if k is not None and is_plain_store(s):
                current[k] = outs[0]
            body.statements.append(copy)
        for t in group:
            if t.total is not None:
                current[t.total] = mapping[old.body.results[t.total]]
        body.results = [current[k] for k in written]
        inits = tuple(now[k] for k in written)
        carried = tuple(phis[k] for k in written)
        parts = {"outs": (), "index": index, "phis": carried, "inits": inits, "body": body}
        return derived(old, **parts, vector=True), written
