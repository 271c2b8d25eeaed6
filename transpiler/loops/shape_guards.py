"""Insert guards in loops that compare sizes known only at run time, to avoid calls of NumPy.

Before::

    for i in range(n):
        cols, vals = columns[starts[i] : starts[i + 1]], values[starts[i] : starts[i + 1]]
        y[i] = vals @ x[cols]

After::

        if vals.shape[0] != cols.shape[0]:
            raise ValueError('spmv.py, line 5: sizes do not fit together, ...')
        y[i] = vals @ x[cols]

Operations on guarded sizes can be lowered to loops; otherwise NumPy compares and broadcasts. The
reverse pass tests which operand was broadcast, to sum its adjoint. In loops, a guard replaces this
test, too, and asserts that no operand was broadcast::

    if size == 1:
        x_bar = np.sum(y_bar, axis=0, keepdims=True)
    else:
        x_bar = y_bar
    x_bar = np.broadcast_to(x_bar, size)

A call for which a guard fails is run again, by code that leaves broadcasting to NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from calque.transpiler.errors import Origin, file_name_in_code
from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder, atom, wrap
from calque.transpiler.ir.core import (
    Apply,
    Atom,
    Block,
    For,
    Function,
    If,
    Statement,
    Var,
    While,
)
from calque.transpiler.ir.effects import is_indexed_store
from calque.transpiler.ir.phases import label
from calque.transpiler.ir.types import DimLike, dim_symbols
from calque.transpiler.loops.size_agreement import doubts
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.indexing import getitem
from calque.transpiler.primitives.logic import equal
from calque.transpiler.primitives.reductions import sum_
from calque.transpiler.primitives.shapes import broadcast_to

DIFFER = "sizes do not fit together, or one is 1 and is not spread here"
Pair = frozenset[DimLike]
Doubtful = list[tuple[Apply, int, Any]]  # operations, loop depths, pairs of sizes


def insert_shape_guards(function: Function, builder: Builder) -> bool:
    """Insert the guards, in place, before operations in loops; return True if there are any."""
    with builder.active():
        return _Comparer(builder, function).run()


class _Comparer:
    def __init__(self, builder: Builder, function: Function):
        self.builder, self.function = builder, function
        self.wanted: dict[int, list[tuple[DimLike, DimLike]]] = {}

    def run(self) -> bool:
        """Compare sizes of operands, then of their results; True if any were compared."""
        before = len(self.builder.compared)
        self._take_as_they_are(self.function.body, 0)
        while self._compare_some():
            pass
        return len(self.builder.compared) > before

    def _take_as_they_are(self, block: Block, depth: int) -> None:
        """Inside loops, replace the reverse pass's is-size-1 tests and broadcasts by guards."""
        asked: set[tuple[Var, int, Atom]] = set()
        for s in list(block.statements):
            for inner in core.blocks_of(s):
                self._take_as_they_are(inner, depth + isinstance(s, (For, While)))
            found = self._spread(s) or self._summed_if_one(s) if depth else None
            if found is None:
                continue
            adjoint, counts = found
            out = s.outs[0]
            with self.builder.block() as made, self.builder.at(s.origin):
                for axis, count in counts.items():
                    whole, own = adjoint.type.dims[axis], out.type.dims[axis]
                    if isinstance(count, Var):
                        self.builder.dim_values.setdefault(count, own)
                    if (adjoint, axis, count) not in asked:
                        size = self.builder.size_of(whole, wrap(adjoint), axis)
                        self._refuse(size, wrap(count), s.origin)
                    asked.add((adjoint, axis, count))
            label(made.statements, s.phase)
            at = block.statements.index(s)
            block.statements[at : at + 1] = made.statements
            core.substitute(self.function.body, {out: adjoint})

    def _spread(self, s: Statement) -> tuple[Var, dict[int, Atom]] | None:
        """The adjoint that the reverse pass broadcasts to its own rank, and the doubtful sizes."""
        if not isinstance(s, Apply) or s.primitive is not broadcast_to or s.phase != "reverse":
            return None
        adjoint, *sizes = s.args
        if not isinstance(adjoint, Var) or adjoint.type.ndim != len(sizes):
            return None
        dims, pairs = self.builder.dims, zip(adjoint.type.dims, s.out.type.dims, strict=True)
        differing = [axis for axis, pair in enumerate(pairs) if not dims.same(*pair)]
        if any(dims.resolve(adjoint.type.dims[axis]) == 1 for axis in differing):
            return None
        return adjoint, {axis: sizes[axis] for axis in differing}

    def _summed_if_one(self, s: Statement) -> tuple[Var, dict[int, Atom]] | None:
        """The adjoint that the reverse pass sums if a size is 1, with its axis and that size."""
        if not isinstance(s, If) or len(s.outs) != 1 or s.orelse.statements:
            return None
        if s.then.statements[-1:] and s.then.statements[-1].phase != "reverse":
            return None  # it is the user's branch
        test = self.builder.definitions.get(s.test) if isinstance(s.test, Var) else None
        match s.then.statements, test:
            case [Apply() as summed], Apply(primitive=p, args=(count, 1)) if p is equal:
                axes = summed.params.get("axis") if summed.primitive is sum_ else None
                if not isinstance(axes, tuple) or len(axes) != 1 or not summed.params["keepdims"]:
                    return None
                adjoint = summed.args[0]
                alike = s.then.results == [summed.out] and s.orelse.results == [adjoint]
                return (adjoint, {axes[0]: count}) if alike else None
        return None

    def _compare_some(self) -> bool:
        """Choose the pairs of sizes that can be compared now; return True if there are any."""
        found = list(self._doubtful(self.function.body, 0))
        made = {s for _, _, pairs in found for p in pairs for s in dim_symbols(self._result(p))}
        chosen = {
            frozenset(p)
            for _, depth, pairs in found
            for p in pairs
            if depth and made.isdisjoint(dim_symbols(p[0]) | dim_symbols(p[1]))
        }
        while chosen & (left_out := self._left_out(found, chosen)):
            chosen -= left_out
        for s, _, pairs in found:
            self.wanted[id(s)] = [p for p in pairs if frozenset(p) in chosen]
            for p in self.wanted[id(s)]:
                self.builder.compared.add(frozenset(p))
                for name in dim_symbols(self._result(p)):
                    self.builder.dims.values.setdefault(name, p[0])
        if chosen:
            self._visit(self.function.body, set())
        return bool(chosen)

    def _left_out(self, found: Doubtful, chosen: set[Pair]) -> set[Pair]:
        """The pairs of operations that have a pair which cannot be compared before them."""
        return {
            frozenset(p)
            for s, _, pairs in found
            for p in pairs
            if frozenset(p) not in chosen or not self._can_read(s, p)
        }

    def _result(self, pair: tuple[DimLike, DimLike]) -> DimLike:
        """The size of the result of broadcasting two sizes."""
        return self.builder.dims.unknown("broadcast", *pair)

    def _doubtful(self, block: Block, depth: int) -> Iterator[tuple[Apply, int, Any]]:
        for s in block.statements:
            if isinstance(s, Apply) and s.primitive.kind != "size":
                if pairs := doubts(s, self.builder):
                    yield s, depth, pairs
            for inner in core.blocks_of(s):
                yield from self._doubtful(inner, depth + isinstance(s, (For, While)))

    def _can_read(self, s: Apply, pair: tuple[DimLike, DimLike]) -> bool:
        with self.builder.block():
            return all(isinstance(d, int) or self._holder(s, d) is not None for d in pair)

    def _holder(self, s: Apply, dim: DimLike) -> tuple[Var, int] | None:
        """An operand with this size, or the section that a store overwrites, and the axis."""
        parts = [a for a in s.args if isinstance(a, Var)]
        if is_indexed_store(s) and isinstance(s.args[0], Var):
            index = map(wrap, s.args[2:])
            part = apply(getitem, wrap(s.args[0]), *index, index=s.params["index"])
            parts.append(part.atom)
        for a in parts:
            for axis, own in enumerate(a.type.dims):
                if self.builder.dims.same(own, dim):
                    return a, axis
        return None

    def _visit(self, block: Block, known: set[Pair]) -> None:
        known, made = set(known), list[Statement]()
        for s in block.statements:
            for inner in core.blocks_of(s):
                self._visit(inner, known)
            for pair in self.wanted.get(id(s), ()):
                if frozenset(pair) not in known:
                    known.add(frozenset(pair))
                    made += self._comparison(s, pair)
            made.append(s)
        block.statements[:] = made

    def _comparison(self, s: Any, pair: tuple[DimLike, DimLike]) -> list[Statement]:
        with self.builder.block() as made, self.builder.at(s.origin):
            left, right = (self._number(s, d) for d in pair)
            self._refuse(left, right, s.origin)
        label(made.statements, s.phase)
        return made.statements

    def _refuse(self, left: Any, right: Any, origin: Origin | None) -> None:
        """Emit the guard that two sizes are equal."""
        where = f"{file_name_in_code(origin.file)}, line {origin.line}: " if origin else ""
        with self.builder.block() as refused:
            self.builder.effect(f"raise ValueError({_plain(where + DIFFER)!r})", [])
        self.builder.emit(If((), atom(left != right), refused, Block(), origin))

    def _number(self, s: Apply, dim: DimLike) -> Any:
        if isinstance(dim, int):
            return dim
        held = self._holder(s, dim)
        assert held is not None
        return self.builder.size_of(dim, wrap(held[0]), held[1])


def _plain(text: str) -> str:
    return text.replace("{", "(").replace("}", ")")
