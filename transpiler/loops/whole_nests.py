"""Write several nests of stores into one array as a single nest over all of a new array.

Each nest is a layer, which stores into a box of the array. An element of the new array comes from
the last layer whose box contains it, or else from the old array. ``double_buffering`` chooses them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Array, Builder, atom, loop_index, wrap
from calque.transpiler.ir.core import Apply, Atom, Block, For, Function, If, Slot, Statement, Var
from calque.transpiler.ir.effects import is_access
from calque.transpiler.ir.phases import label_rest
from calque.transpiler.ir.rewrite import emit_fold
from calque.transpiler.ir.uses import element_readers, readers_of
from calque.transpiler.loops.accesses import moved, template_of
from calque.transpiler.loops.cell_nests import FILLED, Box, CellNest, margins
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.creation import empty, full
from calque.transpiler.primitives.element_forms import full_template
from calque.transpiler.primitives.elementwise import add
from calque.transpiler.primitives.indexing import copy, getitem, update, update_add
from calque.transpiler.primitives.logic import logical_and


@dataclass(eq=False)
class Layer:
    """A version of an array: a nest that stores into a box of the version before."""

    nest: CellNest
    array: int  # its position among the arrays that the nest carries
    store: Apply
    box: Box


@dataclass(eq=False)
class Chain:
    """The layers in order, and the nests that make arrays which they read, by array."""

    layers: list[Layer]
    sources: dict[Var, Layer] = field(default_factory=dict)

    @property
    def start(self) -> Var:
        """The array before the first layer."""
        first = self.layers[0]
        found: Var = first.nest.loop.inits[first.array]
        return found


def filler(array: Var, block: Block) -> Apply | None:
    """The fill or copy that makes ``array``, if the array has only one reader; else None."""
    made = next((s for s in block.statements if array in s.outs), None)
    if not isinstance(made, Apply) or made.primitive not in (*FILLED, copy):
        return None
    if made.primitive is copy and made.args[0].type != array.type:
        return None
    return made if len(element_readers(block, array)) == 1 else None


class WholeNest:
    """Write a chain, whose nests store into one array, as one nest over all of a new array."""

    def __init__(self, chain: Chain, block: Block, builder: Builder):
        self.chain, self.block, self.builder = chain, block, builder
        self.filled = filler(chain.start, block)
        self.others: list[tuple[CellNest, int]] = []  # other arrays that the nests store into
        self.now: dict[tuple[int, int], Atom] = {}
        self.done: dict[int, dict[Var, Atom]] = {}

    def write(self, function: Function) -> list[Statement]:
        """Replace the last nest by the new one and remove the others; return the new nest."""
        top = self.chain.layers[-1]
        for layer in (*self.chain.sources.values(), top):
            nest = layer.nest
            self.others += [(nest, k) for k in range(len(nest.loop.phis)) if k != layer.array]
        out = top.nest.loop.outs[top.array]
        with self.builder.block() as new, self.builder.at(top.store.origin):
            made = self._nest(out, function)
        label_rest(new.statements, top.nest.loop.phase)
        at = self.block.statements.index(top.nest.loop)
        self.block.statements[at : at + 1] = new.statements
        gone = [layer.nest.loop for layer in self.chain.sources.values()]
        gone += [layer.nest.loop for layer in self.chain.layers[:-1]]
        self.block.statements[:] = [s for s in self.block.statements if s not in gone]
        self._sizes_of_gone()
        return [made]

    def _sizes_of_gone(self) -> None:
        """Ask sizes of removed arrays of their initial versions instead."""
        for array, layer in self.chain.sources.items():
            for use in readers_of(self.block, array):
                assert isinstance(use, Apply)
                use.args = (layer.nest.loop.inits[layer.array], *use.args[1:])

    def _nest(self, out: Var, function: Function) -> For:
        sizes = [self._size(axis) for axis in range(out.type.ndim)]
        fresh = apply(empty, *sizes, dtype=out.type.dtype)
        fresh.atom.name = out.name
        arrays = [(out, fresh.atom)]
        arrays += [(n.loop.outs[k], n.loop.inits[k]) for n, k in self.others]
        names = [loop.index.name for loop in self._loops_by_axis()]
        function.dim_values.update(
            (s.atom, self.builder.dim_of(s)) for s in sizes if isinstance(s, Array)
        )
        return self._loop(arrays, sizes, names, [])

    def _size(self, axis: int) -> Any:
        """The size of an axis, without a read of an array that is otherwise unused."""
        start, filled = self.chain.start, self.filled
        if filled is not None and filled.primitive.sizes_from is not None:
            return wrap(filled.args[axis + (filled.primitive is full)])
        like = start if filled is None else filled.args[0]
        return wrap(self.builder.size_of(start.type.dims[axis], Array(like), axis))

    def _loops_by_axis(self) -> list[For]:
        top = self.chain.layers[-1]
        return [top.nest.loops[top.box.axes.index(axis)] for axis in range(len(top.box.axes))]

    def _loop(
        self, arrays: list[tuple[Var, Atom]], sizes: list[Any], names: Sequence[Any], at: list[Any]
    ) -> For:
        """A loop along an axis, with the loops along the later axes inside."""
        depth = len(at)
        index = loop_index(0, self.builder.dim_of(sizes[depth]) - 1, names[depth])
        outs, inits = zip(*arrays, strict=True)

        def step(*phis: Var) -> list[Atom]:
            self.builder.remember_size(index)
            if depth + 1 == len(sizes):
                return self._cell(list(phis), [*at, index])
            inner = [(v.again(), p) for v, p in zip(outs, phis, strict=True)]
            return list(self._loop(inner, sizes, names, [*at, index]).outs)

        return emit_fold(
            *(self.builder, index.atom, (0, sizes[depth], 1), inits, step),
            phis=[v.again() for v in outs],
            outs=outs,
            scheduled=True,
            parallel=True,
        )

    # one cell

    def _cell(self, phis: list[Var], at: list[Any]) -> list[Atom]:
        """Store one element of the new array, and elements of other arrays; return the versions."""
        for (nest, k), phi in zip(self.others, phis[1:], strict=True):
            self.now[id(nest), k] = phi
        value = self._value(len(self.chain.layers) - 1, at)
        template, dynamic = template_of(at)
        out = phis[0].again()
        params = {"index": template}
        args = (phis[0], value, *dynamic)
        self.builder.emit(Apply((out,), update, args, params, self.builder.origin, True))
        return [out, *(self.now[id(nest), k] for nest, k in self.others)]

    def _value(self, depth: int, at: list[Any]) -> Atom:
        """The value of an element after layer ``depth``."""
        if depth < 0:
            return self._begun(at)
        layer = self.chain.layers[depth]
        test = self._inside(layer, at)
        if test is None:
            return self._stored(depth, at)
        others = list(self.now)
        before = [self.now[key] for key in others]
        with self.builder.block() as then:
            then.results = [self._stored(depth, at)]
            then.results += [self.now[key] for key in others]
        for key, version in zip(others, before, strict=True):
            self.now[key] = version
        with self.builder.block() as orelse:
            orelse.results = [self._value(depth - 1, at), *before]
        kinds = [layer.store.out.type.dtype]
        changed = [
            k for k in range(1, len(others) + 1) if then.results[k] is not orelse.results[k]
        ]
        for arm in (then, orelse):
            arm.results = [arm.results[0], *(arm.results[k] for k in changed)]
        out = Var(type(layer.store.out.type)(kinds[0]), None, layer.store.origin)
        outs = [out, *(before[k - 1].again() for k in changed)]
        self.builder.emit(If(tuple(outs), atom(test), then, orelse, layer.store.origin))
        for k, version in zip(changed, outs[1:], strict=True):
            self.now[others[k - 1]] = version
        return out

    def _begun(self, at: list[Any]) -> Atom:
        """The value of an element before the first layer."""
        start = self.chain.start
        filled = self.filled
        if filled is None:
            return _element(start, at, self.builder)
        if filled.primitive is copy:
            return _element(filled.args[0], at, self.builder)
        plain = filled.primitive.like or filled.primitive
        value = filled.args[0] if plain is full else plain.filled_with
        return value if isinstance(value, Var) else start.type.dtype.type(value)

    def _inside(self, layer: Layer, at: list[Any]) -> Any:
        """The condition that an element is in a layer's box; None if all are."""
        tests = []
        dims = layer.store.out.type.dims
        found = margins(layer.box, dims, self.builder)
        assert found is not None
        for axis, ((low, above), place) in enumerate(zip(found, at, strict=True)):
            if low:
                tests.append(place >= low)
            if above:
                tests.append(place < self._size(axis) - above)
        test = tests.pop(0) if tests else None
        for more in tests:
            test = apply(logical_and, test, more)
        return test

    def _stored(self, depth: int, at: list[Any]) -> Atom:
        """The value that a layer stores into an element of its box."""
        layer = self.chain.layers[depth]
        adds = layer.store.primitive is update_add
        before = wrap(self._value(depth - 1, at)) if adds else None
        mapping = self._iteration(layer, at)
        value = mapping.get(layer.store.args[1], layer.store.args[1])
        return atom(apply(add, before, wrap(value))) if adds else _of_dtype(value, layer)

    def _iteration(self, layer: Layer, at: list[Any]) -> dict[Var, Atom]:
        """Copy an iteration of a layer's nest without the layer's store; map old to new values."""
        box, nest = layer.box, layer.nest
        mapping: dict[Var, Atom] = {}
        for loop, axis in zip(nest.loops, box.axes, strict=True):
            mapping[loop.index] = atom(moved(at[axis], -box.shifts[axis]))
        for inner, order in zip(nest.loops, nest.order, strict=True):  # whose sizes may be asked
            for phi, k in zip(inner.phis, order, strict=True):
                mapping[phi] = self.chain.start if k == layer.array else nest.loop.inits[k]
        mapping.update(
            (nest.phi(k), self.now[id(nest), k])
            for k in range(len(nest.loop.phis))
            if (id(nest), k) in self.now
        )
        for s in (*nest.ahead, *nest.body.statements):
            if s is not layer.store:
                self._again(s, mapping, at)
        for k in range(len(nest.loop.phis)):
            if (id(nest), k) in self.now:
                result = nest.result(k)
                self.now[id(nest), k] = mapping.get(result, result)
        return mapping

    def _again(self, s: Statement, mapping: dict[Var, Atom], at: list[Any]) -> None:
        """Copy a statement of an iteration with other operands; extends ``mapping``."""
        args = [mapping.get(a, a) if isinstance(a, Var) else a for a in core.operands(s)]
        if isinstance(s, If):
            mapping.update(zip(s.outs, self._branch(s, args[0], mapping, at), strict=True))
            return
        assert isinstance(s, Apply)
        if s.primitive is getitem and s.args[0] in self.chain.sources:
            layer = self.chain.sources[s.args[0]]
            found = self._iteration(layer, index_of(s, args))
            value = layer.store.args[1]
            mapping[s.out] = _of_dtype(found.get(value, value), layer)
        elif is_access(s):
            mapping[s.out] = _touched(s, args, self.builder)
        elif s.primitive.kind == "size":
            again = Apply((s.out.again(),), s.primitive, tuple(args), s.params, s.origin)
            self.builder.record(again)
            mapping[s.out] = again.out
        else:
            with self.builder.at(s.origin):
                made = atom(apply(s.primitive, *map(wrap, args), **s.params))
            if isinstance(made, Var) and made.name is None and s.out.name is not None:
                made.name, made.word = s.out.name, s.out.word
            whole = isinstance(made, np.integer) and s.out.type.weak
            mapping[s.out] = int(made) if whole else made

    def _branch(
        self, s: If, test: Atom, mapping: dict[Var, Atom], at: list[Any]
    ) -> tuple[Var, ...]:
        arms = []
        for block in core.blocks_of(s):
            own = dict(mapping)
            with self.builder.block() as arm:
                for t in block.statements:
                    self._again(t, own, at)
            arm.results = [own.get(r, r) if isinstance(r, Var) else r for r in block.results]
            arms.append(arm)
        outs = tuple(o.again() for o in s.outs)
        then, orelse = arms
        self.builder.emit(If(outs, test, then, orelse, s.origin))
        return outs


def _of_dtype(value: Atom, layer: Layer) -> Atom:
    """A constant in the array's dtype."""
    return value if isinstance(value, Var) else layer.store.out.type.dtype.type(value)


def index_of(s: Apply, args: Sequence[Atom]) -> list[Any]:
    """The index along each axis of an access of one element."""
    dynamic = args[s.primitive.first_index :]
    items = full_template(s.params["index"], dynamic, s.args[0].type.ndim)
    return [wrap(dynamic[i.position] if isinstance(i, Slot) else i) for i in items]


def touched_at(s: Apply, array: Atom, at: list[Any], builder: Builder) -> Var:
    """Emit a read of another element, of an array of the same dtype."""
    template, dynamic = template_of(at)
    out = s.out.again()
    params = {"index": template}
    builder.emit(Apply((out,), getitem, (array, *dynamic), params, s.origin, s.proven))
    return out


def _touched(s: Apply, args: list[Atom], builder: Builder) -> Var:
    """Emit a read or a store with other operands and indices."""
    first = s.primitive.first_index
    template, dynamic = template_of(index_of(s, args))
    params = {"index": template}
    out = s.out.again()
    given = (*args[:first], *dynamic)
    builder.emit(Apply((out,), s.primitive, given, params, s.origin, s.proven))
    return out


def _element(array: Var, at: list[Any], builder: Builder) -> Var:
    template, dynamic = template_of(at)
    out = Var(type(array.type)(array.type.dtype), None, builder.origin)
    params = {"index": template}
    builder.emit(Apply((out,), getitem, (array, *dynamic), params, builder.origin, True))
    return out


