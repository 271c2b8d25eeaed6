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

from collections.abc import Sequence
from dataclasses import dataclass, field

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder
from calque.transpiler.ir.core import Apply, Atom, Block, For, Function, Statement, Var
from calque.transpiler.ir.effects import is_plain_store
from calque.transpiler.ir.phases import label_rest
from calque.transpiler.ir.remarks import Refused, applied, missed
from calque.transpiler.ir.rewrite import derived, renewed
from calque.transpiler.loops.dependence import ANYWHERE, Access, Distance, dependence_distance
from calque.transpiler.loops.nest import LoopNest, NestAccess, build
from calque.transpiler.loops.parallelize import upward
from calque.transpiler.loops.scatters import CHEAP
from calque.transpiler.primitives.elementwise import add, subtract

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
    found = nest if isinstance(nest, Refused) else TaskLoop(nest).parts()
    if isinstance(found, Refused):
        missed(builder, "distribute", s, found)
        return [s]
    if found[-1] is s:
        missed(builder, "distribute", s, Refused("its iterations are independent already"))
    else:
        applied(builder, "distribute", s)
    return found


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

    def parts(self) -> list[Statement] | Refused:
        """The statements that replace this loop, or the reason why it stays."""
        refused = self._refused()
        if refused is not None:
            return refused
        tasks = [self._task(s) for s in self.loop.body.statements if is_plain_store(s)]
        sums = [self._sum(k) for k, phi in enumerate(self.loop.phis) if not phi.type.ndim]
        if self._free(tasks, [*tasks, *sums]):
            self.loop.vector = True
            return [*upward(self.loop, self.builder), self.loop]
        tasks += sums
        self._order(tasks)
        groups = self._groups(tasks)
        if groups is None:
            return Refused("its stores and sums depend on each other across iterations")
        if not 1 < len(groups) <= MOST_LOOPS:
            return Refused(f"it would become {len(groups)} loops, and at most {MOST_LOOPS} pay")
        if not self._cheap(groups):
            return Refused("several of its loops would repeat an expensive operation")
        return self._write(groups)

    def _refused(self) -> Refused | None:
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

    def _task(self, store: Apply) -> Task:
        return self._needing(Task([store]), store.args[1:])

    def _sum(self, k: int) -> Task:
        """The task of the sum that is carried at position ``k``."""
        return self._needing(Task([], k), [self.loop.body.results[k]])

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

    def _groups(self, tasks: list[Task]) -> list[list[Task]] | None:
        """The tasks of each loop, in order; None if some loop would have dependent iterations."""
        done: dict[int, int] = {}  # task -> group
        groups: list[list[Task]] = []
        while len(done) < len(tasks):
            ready = [k for k, t in enumerate(tasks) if k not in done and t.before <= done.keys()]
            if not ready:
                return None  # a cycle
            k = ready[0]
            task = tasks[k]
            if not self._free([task], [task]):
                return None
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

    def _cheap(self, groups: list[list[Task]]) -> bool:
        """True if the operations that more than one loop needs are few and cheap."""
        needs = [set().union(*(t.needs for t in group)) for group in groups]
        repeated = [
            s
            for s in self.loop.body.statements
            if sum(id(s) in need for need in needs) > 1 and isinstance(s, Apply)
        ]
        return len(repeated) <= MOST_REPEATED and all(
            s.primitive in CHEAP or s.primitive.kind == "size" for s in repeated
        )

    # the new loops

    def _write(self, groups: list[list[Task]]) -> list[Statement]:
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
            outs = tuple(Var(o.type, o.name, o.origin) for o in s.outs)
            copy = Apply(outs, s.primitive, args, s.params, s.origin, s.proven)
            for out, new in zip(s.outs, outs, strict=True):
                mapping[out] = new
                builder.definitions[new] = copy
                if out in builder.dim_values:
                    builder.dim_values[new] = builder.dim_values[out]
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
