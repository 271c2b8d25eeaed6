"""Copies of a program under construction, with all that its builder knows of it.

Kernel passes rewrite a program in place. Each variant of it (without comparisons of sizes, say, or
with small sizes of the call written into it) is made of a copy: the user's function is read once.
"""

from __future__ import annotations

import copy
import operator
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder
from calque.transpiler.ir.core import (
    Apply,
    Atom,
    Block,
    EqualDims,
    Function,
    Statement,
    Var,
    map_tree,
)
from calque.transpiler.ir.dims import Dims
from calque.transpiler.ir.pytrees import map_leaves
from calque.transpiler.ir.types import Dim, DimLike, substitute_dim, symbol
from calque.transpiler.ir.value_ranges import Magnitudes

_ARITHMETIC = {"add": operator.add, "subtract": operator.sub, "multiply": operator.mul}


class ProgramCopy:
    """A copy of a function and its builder with new Vars; ``sizes`` of arguments are substituted.

    ``mapping`` gives for each Var of the old program the new one, or the number that replaces it.
    """

    def __init__(self, function: Function, builder: Builder, sizes: dict[str, int]):
        self.old = builder
        self.sizes = sizes
        self.mapping: dict[Var, Atom] = {p: self._parameter(p) for p in function.params}
        self.statements: dict[int, Statement] = {}  # by the ids of the old ones
        self.dims = self._dims(builder.dims)
        body = self._copied(function.body)
        for owner in builder.magnitudes.owners.values():
            self._copy_made(owner)  # what a size is computed of may be no part of the program
        if sizes:
            self._write_sizes(body)
        self.builder = self._builder()
        self.function = self._function(function, body)

    def _parameter(self, old: Var) -> Var:
        dims = [self._written(d) for d in old.type.dims]
        return old.again(old.type.with_dims(dims))

    # statements

    def _copied(self, block: Block) -> Block:
        """A copy of a block; Vars and statements that have a copy already keep it.

        A loop that a pass has replaced may share its body with the loop that replaced it.
        """
        mapping: dict[Var, Atom] = {}
        made = core.clone(block, ChainMap(mapping, self.mapping))
        for var, copied in mapping.items():
            self.mapping.setdefault(var, copied)
        for old, new in zip(core.walk(block), core.walk(made), strict=True):
            self.statements.setdefault(id(old), new)
        return made

    def _copy_made(self, value: Atom) -> None:
        """Copy the statements that compute a value, except those that have been copied."""
        pending, visited = [value], set()
        while pending:
            made = self._missing(pending[-1])
            if made is None:
                pending.pop()
            elif id(made) in visited:  # what it reads has been copied
                self._copied(Block([made]))
            else:
                visited.add(id(made))
                pending += [a for a in _read(made) if self._missing(a)]

    def _missing(self, value: Atom) -> Statement | None:
        """The statement that defines a value, if it has not been copied yet."""
        if not isinstance(value, Var) or value in self.mapping:
            return None
        made = self.old.definitions.get(value)
        return made if made is not None and value in made.outs else None  # a pass may have cut it

    # sizes

    def _write_sizes(self, body: Block) -> None:
        """Put known sizes into types, and replace values that they determine by numbers."""
        for var in core.defined_vars(body):
            if var.type.ndim:
                var.type = var.type.with_dims([*map(self._known, var.type.dims)])
        olds = {new: old for old, new in self.mapping.items()}
        numbers: dict[Var, Atom] = {}
        for s in core.walk(body):
            if isinstance(s, Apply):
                s.params = map_tree(self._known, s.params)
                size = self._known(self.old.dim_values.get(olds[s.outs[0]]))
                found = size if isinstance(size, int) else _computed(s, numbers)
                if found is not None and s.out.type.weak:
                    numbers[s.out] = found
        self.mapping |= {olds[new]: number for new, number in numbers.items()}
        core.substitute(body, numbers)
        _remove(body, numbers)

    def _known(self, found: Any) -> Any:
        """A dimension with the known sizes substituted; any other object unchanged."""
        if not self.sizes or not isinstance(found, Dim):
            return found
        whole = self.dims.resolve(found)
        return whole if isinstance(whole, int) else self._written(found)

    def _written(self, dim: DimLike) -> DimLike:
        """A dimension, or a condition on dimensions, with ``sizes`` substituted."""
        return substitute_dim(dim, dict(self.sizes))

    # what is known

    def _dims(self, old: Dims) -> Dims:
        made = replace(old, **{f.name: copy.copy(getattr(old, f.name)) for f in fields(old)})
        for name, size in self.sizes.items():
            made.unify(symbol(name), size)  # others may be known to be the same
        made.arguments -= self.sizes.keys()
        return made

    def _builder(self) -> Builder:
        old, new = self.old, copy.copy(self.old)
        new.pinned = {**old.pinned, **self.sizes}
        new.blocks, new._sizes = [], []
        new.dims = self.dims
        new.dims.assumptions = dict.fromkeys(map(self._written, old.dims.assumptions))
        new.definitions = self._by_var(old.definitions, self._statement)
        new.dim_values = self._by_var(old.dim_values, self._known)
        new.contiguous = set(self._vars(old.contiguous))
        new.leaf_of_param = self._by_var(old.leaf_of_param)
        new.numbers, new.words = self._by_var(old.numbers), self._by_var(old.words)
        new.kinds, new.celled = self._by_var(old.kinds), self._by_var(old.celled)
        new.symmetries = self._by_var(old.symmetries)
        new.magnitudes = self._magnitudes(new)
        new.equal_dims = [
            EqualDims(self._written(e.left), self._written(e.right), self._now(e.where), e.origin)
            for e in old.equal_dims
        ]
        new.doubted, new.spread = list(old.doubted), set(old.spread)
        new.compared, new.stored = set(old.compared), dict(old.stored)
        new.linked, new.unmasked = list(old.linked), set(self._vars(old.unmasked))
        new._reads = {self._renamed(key): dim for key, dim in old._reads.items()}
        slices = old.dims._slices.items()  # a mask's number of elements is known by the mask
        new.dims._slices = {self._renamed(key): dim for key, dim in slices}
        new.imports, new.axes = dict(old.imports), dict(old.axes)
        new.machine, new.read_only = None, {}  # the old ones hold the arrays that were captured
        return new

    def _magnitudes(self, new: Builder) -> Magnitudes:
        old = self.old.magnitudes
        made = Magnitudes(new.dims, new.definitions, new.dim_values, new.leaf_of_param)
        made.loops = self._by_var(old.loops, self._statement)
        made.owners = {name: self._now(var) for name, var in old.owners.items()}
        made._found = self._by_var(old._found)
        made._unknown = set(self._vars(old._unknown))
        return made

    def _function(self, old: Function, body: Block) -> Function:
        signature = [replace(p, tree=map_leaves(self._now, p.tree)) for p in old.signature]
        made = replace(old, **{f.name: copy.copy(getattr(old, f.name)) for f in fields(old)})
        return replace(
            made,
            params=[self.mapping[p] for p in old.params],
            body=body,
            signature=signature,
            dim_values=self.builder.dim_values,
            equal_dims=self.builder.equal_dims,
            imports=self.builder.imports,
            decisions=[replace(d, value=self._now(d.value)) for d in old.decisions],
        )

    # by Vars

    def _statement(self, old: Statement) -> Statement | None:
        """A statement's copy; None if the program no longer contains the statement."""
        return self.statements.get(id(old))

    def _now(self, atom: Any) -> Any:
        return self.mapping.get(atom, atom) if isinstance(atom, Var) else atom

    def _renamed(self, key: Any) -> Any:
        """A key, with the Vars in it and in its nested tuples replaced by the new ones."""
        return tuple(map(self._renamed, key)) if isinstance(key, tuple) else self._now(key)

    def _vars(self, old: Mapping[Var, Any] | set[Var]) -> Iterator[Var]:
        """The new Vars for those old ones that the program still contains."""
        return (v for v in map(self.mapping.get, old) if isinstance(v, Var))

    def _by_var(self, old: Mapping[Var, Any], value: Callable[[Any], Any] | None = None) -> Any:
        """A table with new Vars as keys; entries whose Var or ``value`` is gone are dropped."""
        found = ((self.mapping.get(v), entry) for v, entry in old.items())
        rows = [(v, entry) for v, entry in found if isinstance(v, Var)]
        if value is None:
            return dict(rows)
        return {v: made for v, entry in rows if (made := value(entry)) is not None}


def _read(s: Statement) -> list[Atom]:
    """The atoms that a statement reads, including those read in its blocks."""
    return [*core.operands(s), *(v for b in core.blocks_of(s) for v in core.free_vars(b))]


def _computed(s: Apply, numbers: Mapping[Var, Atom]) -> float | None:
    """The result of a sum, difference or product of known numbers; else None."""
    compute = _ARITHMETIC.get(s.primitive.arithmetic)
    known = [numbers.get(a, a) if isinstance(a, Var) else a for a in s.args]
    if compute is None or not all(type(a) in (int, float) for a in known):
        return None
    return compute(*known)


def _remove(block: Block, numbers: Mapping[Var, Atom]) -> None:
    """Remove the statements whose results have become numbers."""
    block.statements = [s for s in block.statements if not numbers.keys() & {*s.outs}]
    for s in block.statements:
        for inner in core.blocks_of(s):
            _remove(inner, numbers)
