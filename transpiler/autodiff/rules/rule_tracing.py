"""Trace the callee of a call and its custom rules, each into a block of its own."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Any

from calque.transpiler.errors import CustomRuleError, ImpureFunction
from calque.transpiler.frontend.captures import Captured
from calque.transpiler.frontend.machine import Machine
from calque.transpiler.frontend.trace import listed
from calque.transpiler.frontend.values.descriptions import is_number
from calque.transpiler.frontend.values.heap import Snapshot
from calque.transpiler.ir import pytrees
from calque.transpiler.ir.builder import Array, Builder, atom, link, type_of
from calque.transpiler.ir.core import Apply, Atom, Block, Var
from calque.transpiler.ir.rewrite import copy_facts
from calque.transpiler.primitives.called import Called


@dataclass(eq=False)
class Record:
    """The block and the results of a function that was traced."""

    block: Block
    trees: list[Any]  # its results; block.results holds their leaves, one tree after the other
    outside: Container[int]  # the ids of values that existed before

    def leaves(self, k: int) -> list[Any]:
        """The leaves of result k."""
        found: list[Any] = pytrees.flatten(self.trees[k])[0]
        return found


class Recording:
    """Interprets functions for one call, in blocks of their own."""

    def __init__(self, machine: Machine, name: str, args: Sequence[Any], node: Any):
        self.machine, self.name, self.node = machine, name, node
        self.args = list(args)

    def copies(self) -> list[Any]:
        """The arguments in cells of their own."""
        return [
            pytrees.tree_map(lambda x: Array(x.atom) if isinstance(x, Array) else x, a)
            for a in self.args
        ]

    def run(
        self,
        function: Any,
        args: Sequence[Any],
        level: int,
        parts: Callable[[Any], list[Any]],
        named: dict[str, Any] | None = None,
    ) -> Record:
        """Interpret a call before ``level`` derivative passes; ``parts`` splits its result."""
        machine = self.machine
        roots = [*machine.roots(), function, *args, *(named or {}).values()]
        before = Snapshot(roots, machine.owned)
        try:
            with machine.before_passes(level), machine.builder.block() as block:
                trees = parts(
                    listed(machine.call_value(function, list(args), dict(named or {}), self.node))
                )
                for found in trees:
                    block.results += [atom(x) for x in pytrees.flatten(found)[0]]
            changed = before.differs(Snapshot(roots, machine.owned))
        finally:
            before.restore()
        if changed:
            raise ImpureFunction(
                f"{self.name} changes an array, a name or a container that lives outside of it.",
                machine.builder.origin,
                "return the new value, or work on a copy made inside the function",
            )
        return Record(block, trees, before.contents.keys())

    def finish(self, record: Called, actual: Sequence[Atom], value: Record, inner: Any) -> Any:
        """Write the call; return its result, in the structure of the callee's result."""
        builder = self.machine.builder
        leaves, structure = pytrees.flatten(value.trees[0])
        outs = [Array(result_of(builder, x)) if isinstance(x, Array) else x for x in leaves]
        args = (*actual, *record.free)
        vars = tuple(o.atom for o in outs if isinstance(o, Array))
        record.parts["value"].block.results = [
            a for a, x in zip(value.block.results, leaves, strict=True) if isinstance(x, Array)
        ]
        builder.emit(Apply(vars, record, args, {}, builder.origin))
        self._link(leaves, outs, inner, value.outside)
        return pytrees.unflatten(structure, outs)

    def _link(
        self, leaves: Sequence[Any], outs: Sequence[Any], inner: Any, outside: Container[int]
    ) -> None:
        """Note results that share memory with an argument, a captured array or another result."""
        copies = [x for x in pytrees.flatten(inner)[0] if isinstance(x, Array)]
        givens = [x for x in pytrees.flatten(self.args)[0] if isinstance(x, Array)]
        given = {id(c): g for c, g in zip(copies, givens, strict=True)}
        first: dict[int, Array] = {}
        for leaf, out in zip(leaves, outs, strict=True):
            if not isinstance(leaf, Array) or not leaf.ndim:
                continue
            root = leaf.root()
            for cell in (root, *root.partners, *leaf.partners):
                if id(cell) in given:
                    link(out, given[id(cell)].root())
                elif id(cell) in outside or isinstance(cell, Captured):
                    link(out, cell)
            if id(root) in first:
                link(out, first[id(root)])
            first.setdefault(id(root), out)


def result_of(builder: Builder, leaf: Array) -> Var:
    """A Var for a result of a call, with the facts that are known of the callee's result."""
    out = Var(leaf.type, None, builder.origin)
    copy_facts(builder, leaf.atom, out)
    return out


def name_of(function: Any) -> str:
    return str(getattr(function, "__name__", None) or getattr(function, "name", "function"))


def fits(leaf: Array, found: Any, what: str, machine: Machine) -> None:
    """Raise unless an atom has the shape of the value it belongs to."""
    if not isinstance(found, Var) and not is_number(found):
        raise CustomRuleError(f"{what} that is a {type(found).__name__}.", machine.return_origin)
    t = type_of(found)
    if t.ndim != leaf.ndim:
        raise CustomRuleError(
            f"{what} of type {t} where one of type {leaf.type} is due.",
            machine.return_origin,
            "give it the shape of what it belongs to",
        )
    for mine, other in zip(leaf.type.dims, t.dims, strict=True):
        machine.builder.unify(mine, other, machine.return_origin)
