"""One name for each assignment, for all names of a function in two walks over it.

Numba's pass goes through the whole function twice for each name that has several assignments.
The method is the same: the assignment that reaches a use is looked for when the use is met, up
the tree of blocks that must have run before, and a phi stands where several can reach a block that
asks (J.-D. Choi, V. Sarkar, E. Schonberg, "Incremental computation of static single assignment
form", 1996).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from copy import copy
from typing import Any

from numba.core import ir
from numba.core.analysis import compute_cfg_from_blocks
from numba.core.compiler_machinery import register_pass
from numba.core.ir_utils import build_definitions, replace_vars_inner, replace_vars_stmt
from numba.core.postproc import PostProcessor
from numba.core.untyped_passes import ReconstructSSA


@register_pass(mutates_CFG=False, analysis_only=False)
class Single(ReconstructSSA):
    """Gives each assignment a name of its own; Numba's pass of that purpose in less time."""

    _name = "calque_single"

    def run_pass(self, state: Any) -> bool:
        """Rename."""
        single_names(state.func_ir)
        self._patch_locals(state)
        if state.flags.auto_parallel.enabled:
            PostProcessor(state.func_ir).run(emit_dels=False)  # which variables live where
        return True


def single_names(function: Any) -> None:
    """Rename in Numba's form of a function, in place."""
    _Assignments(function.blocks).rename()
    function._definitions = build_definitions(function.blocks)


class _Assignments:
    """The assignments of the names that need more than one, by block, and which reaches where."""

    def __init__(self, blocks: dict[int, Any]):
        self.blocks = blocks
        self.graph = compute_cfg_from_blocks(blocks)
        self.above = self.graph.immediate_dominators()
        self.scope = next(iter(blocks.values())).scope
        self.wanted = self._with_several()
        self.last: dict[str, dict[int, Any]] = defaultdict(dict)  # at the end of a block
        self.first: dict[str, dict[int, Any]] = defaultdict(dict)  # at its start
        self.meets: dict[str, set[int]] = {}
        self.phis: dict[int, list[Any]] = defaultdict(list)

    def rename(self) -> None:
        """New names for the assignments, then for what is read."""
        if not self.wanted:
            return
        self._rename_assigned()
        fronts = self.graph.dominance_frontier()
        self.meets = {name: _iterated(self.last[name], fronts) for name in self.wanted}
        for label, block in self.blocks.items():
            self._rename_read(label, block)
        for label, phis in self.phis.items():
            self.blocks[label].body = phis + self.blocks[label].body

    def _with_several(self) -> set[str]:
        """The names that have several assignments, or are read where none need have run."""
        assigned: dict[str, list[int]] = defaultdict(list)
        read: dict[str, set[int]] = defaultdict(set)
        for label, block in self.blocks.items():
            for s in block.body:
                for v in s.list_vars():
                    if not isinstance(s, ir.Assign) or v.name != s.target.name:
                        read[v.name].add(label)
                if isinstance(s, ir.Assign):
                    assigned[s.target.name].append(label)
        found = {name for name, labels in assigned.items() if len(labels) > 1}
        before = self.graph.dominators()
        for name, labels in read.items():
            if not all(before[label].intersection(assigned[name]) for label in labels):
                found.add(name)
        return found

    def _rename_assigned(self) -> None:
        seen: set[str] = set()
        for label, block in self.blocks.items():
            block.body = list(block.body)
            for k, s in enumerate(block.body):
                if not isinstance(s, ir.Assign) or s.target.name not in self.wanted:
                    continue
                name, target = s.target.name, s.target
                if name in seen:  # the first one keeps its name
                    target = self.scope.redefine(name, loc=s.loc)
                seen.add(name)
                self.last[name][label] = target
                block.body[k] = _NamedAssignment(target, s.value, s.loc, name)

    def _rename_read(self, label: int, block: Any) -> None:
        now: dict[str, Any] = {}  # what the block has assigned so far
        for k, s in enumerate(block.body):
            new = {}
            for v in _read(s):
                if v.name in self.wanted:
                    found = now.get(v.name) or self._at_start(v.name, label)
                    if found is not ir.UNDEFINED and found.name != v.name:
                        new[v.name] = found
            if isinstance(s, ir.Assign) and (new or isinstance(s, _NamedAssignment)):
                value = replace_vars_inner(copy(s.value), new) if new else s.value
                block.body[k] = ir.Assign(value, s.target, s.loc)
                if isinstance(s, _NamedAssignment):
                    now[s.name] = s.target
            elif new:
                block.body[k] = copy(s)
                replace_vars_stmt(block.body[k], new)

    def _at_start(self, name: str, label: int) -> Any:
        """The variable that holds a name's value where a block starts."""
        waiting: list[tuple[Any, int]] = []
        found = self._above(name, label, waiting)
        while waiting:
            phi, at = waiting.pop()
            for before, _ in self.graph.predecessors(at):
                value = self.last[name].get(before) or self._above(name, before, waiting)
                phi.incoming_values.append(value)
                phi.incoming_blocks.append(before)
        return found

    def _above(self, name: str, label: int, waiting: list[tuple[Any, int]]) -> Any:
        """The assignment that reaches a block's start, with phis that are yet to be filled in."""
        first, last = self.first[name], self.last[name]
        passed = []
        while True:
            found = first.get(label)
            if found is None and label in self.meets[name]:
                found = self._phi(name, label, waiting)
            if found is not None:
                break
            passed.append(label)
            if self.above[label] == label:
                found = ir.UNDEFINED
                break
            label = self.above[label]
            if label in last:
                found = last[label]
                break
        first.update((k, found) for k in passed)
        return found

    def _phi(self, name: str, label: int, waiting: list[tuple[Any, int]]) -> Any:
        where = self.blocks[label].loc
        phi, target = ir.Expr.phi(loc=where), self.scope.redefine(name, loc=where)
        self.phis[label].append(ir.Assign(phi, target, where))
        self.first[name][label] = target
        self.last[name].setdefault(label, target)
        waiting.append((phi, label))
        return target


class _NamedAssignment(ir.Assign):
    """An assignment with the name that it had."""

    def __init__(self, target: Any, value: Any, where: Any, name: str):
        super().__init__(value, target, where)
        self.name = name


def _iterated(assigned: Iterable[int], fronts: dict[int, set[int]]) -> set[int]:
    """The blocks where values of several assignments may meet."""
    found: set[int] = set()
    waiting = list(assigned)
    while waiting:
        for label in fronts[waiting.pop()]:
            if label not in found:
                found.add(label)
                waiting.append(label)
    return found


def _read(s: Any) -> list[Any]:
    """The variables that a statement reads."""
    if not isinstance(s, ir.Assign):
        return s.list_vars()
    if isinstance(s.value, ir.Var):
        return [s.value]
    return s.value.list_vars() if isinstance(s.value, ir.Inst) else []

