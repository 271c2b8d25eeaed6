"""Write one nest of loops over scalars: allocations, loops, and the body of each loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from calque.transpiler.ir.builder import FUNCTIONS, Array, atom, loop_index, wrap
from calque.transpiler.ir.core import Apply, Atom, Block, If, Var
from calque.transpiler.ir.rewrite import emit_fold, emit_loop
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.loops.fusion_groups import (
    NAMES,
    Loop,
    Root,
    in_order_of_memory,
    value_of,
    write_place,
)
from calque.transpiler.loops.fusion_legality import writes_same_element
from calque.transpiler.loops.virtual_arrays import Reader, SizesAtHand, Virtual, load, stored
from calque.transpiler.primitives import shapes
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.creation import empty, full
from calque.transpiler.primitives.elementwise import add
from calque.transpiler.primitives.indexing import update
from calque.transpiler.primitives.reductions import prod, sum_
from calque.transpiler.primitives.shapes import reshape

NOTHING = "raise ValueError('zero-size array to reduction operation {} which has no identity')"


class NestBuilder:
    """Write one nest of loops; ``renamed`` maps the program's variables to the new ones.

    ``in_parts``: a sum over all elements first sums each row, in a loop for threads.
    """

    in_parts = True

    def __init__(
        self,
        virtual: Virtual,
        at_hand: SizesAtHand,
        roots: Sequence[Root],
        renamed: dict[Var, Any],
        results: Sequence[Atom],
    ):
        self.builder, self.virtual, self.roots = at_hand.builder, virtual, roots
        self.at_hand, self.renamed, self.results = at_hand, renamed, results
        self.reader = Reader(at_hand.builder, virtual, at_hand)
        self.state: dict[Any, Any] = {}  # the current version of each array and sum
        self.holder: dict[Root, Root] = {}  # consecutive stores share their array
        makers = {r.out: r for r in roots}
        # stores not yet written: earlier reads are of elements that they do not change
        self.to_store = {r for r in roots if r.kind == "store" and not r.scattered}
        self.to_store -= {r for r in roots if r.statement.args[0] in makers}
        for r in roots:
            first = makers.get(r.statement.args[0]) if r.kind == "store" else None
            self.holder[r] = r if first is None else self.holder[first]

    def write(self, unit: Loop) -> None:
        """Write the allocations, the loops and the results of a nest."""
        if in_order_of_memory(self.roots, self.virtual, self.builder, not self.in_parts):
            self._write_flat(unit)
            return
        for root in self.roots:
            array = self._allocated(root) if self.holder[root] is root else None
            if array is not None:
                self.state[root] = array
        for dim in {d: None for r in self.roots if r.kind == "store" for d in r.space}:
            self.at_hand(dim)  # inside the loops, the size would be asked of an old version
        self._follow()
        self._guard()
        self._loop(unit, [], True)
        last = {self.holder[root]: root for root in self.roots}
        for holder, root in last.items():
            self._name(root.statement.outs[0], self.state[holder])

    def _guard(self) -> None:
        """Raise NumPy's error for the maximum or minimum of an empty array."""
        for root in self.roots:
            for dim in root.guarded:
                size = self.at_hand(dim)
                with self.builder.block() as block:
                    kind = root.statement.primitive.name.removeprefix("np.")
                    self.builder.effect(NOTHING.format(f"{kind}imum"), ())
                self.builder.emit(If((), atom(size == 0), block, Block(), self.builder.origin))

    def _name(self, out: Var, value: Any) -> None:
        """Let ``value``, a result of the nest, stand for the program's variable ``out``."""
        if isinstance(value, Array):
            value.atom.name = out.name or value.atom.name
            value.atom.word = out.word or value.atom.word
        self.renamed[out] = atom(value)

    def _allocated(self, root: Root) -> Any:
        """The array that a root writes, allocated before the loops; None for a scalar."""
        s = root.statement
        if root.kind == "store":
            return wrap(s.args[0])
        t = s.outs[0].type
        if not t.ndim:
            return None
        if root.kind == "reduce" and root.suffix > min(root.reduced):
            value = s.primitive.reduction.neutral(t.dtype)
            array = apply(full, value, *self._sizes(t), dtype=t.dtype)
        else:
            array = apply(empty, *self._sizes(t), dtype=t.dtype)
        array.atom.name = self._array_name(s)
        return array

    def _array_name(self, s: Apply) -> str:
        """The user's name, else a name from the expression; ``out`` for a result of the block."""
        inside = s.out not in self.results and (s.out.word or self.builder.described(s.out))
        return s.out.name or inside or "out"

    def _sizes(self, t: ArrayType) -> tuple[Any, ...]:
        return tuple(self.at_hand(d) for d in t.dims)

    def _follow(self) -> None:
        """Direct reads of arrays that the nest writes to their current versions."""
        for root in self.roots:
            if self.holder[root] in self.state:
                self.reader.versions[root.out] = self.state[self.holder[root]]
                if root in self.to_store:
                    self.reader.versions[root.statement.args[0]] = self.state[self.holder[root]]

    # loops

    def _loop(self, node: Loop, index: list[Any], outermost: bool = False) -> None:
        """Write one loop; sums that begin here are initialized before it and stored after it."""
        depth = len(index)
        inside = node.roots()
        beginning = [r for r in inside if r.reduced and r.suffix == depth]
        rows = not any(isinstance(c, Root) for c in node.children)
        if self.in_parts and outermost and beginning and rows and node.dim != 1:
            self._in_parts(node, beginning)
            return
        for root in beginning:
            self.state[root, "sum"] = self._neutral(root)
        if node.dim == 1:
            self._children(node, [*index, 0])
        else:
            size = self.at_hand(node.dim)
            self._for(node, index, (0, size), node.dim, self._touched(node, depth))
        for root in beginning:
            with self.builder.at(root.statement.origin), self._phase_of(root):
                self._finish(root, index)

    def _sum_type(self, root: Root) -> ArrayType:
        """The type of an accumulator: float32 numbers are summed in float64."""
        dtype = root.out.type.dtype
        wide = dtype == np.float32 and root.statement.primitive in (sum_, prod)
        return ArrayType(np.dtype("f8") if wide else dtype)

    def _rounded(self, root: Root, total: Any) -> Any:
        """The sum in the dtype of the result."""
        if isinstance(total, Array) and total.dtype != root.out.type.dtype:
            return FUNCTIONS["cast"](total, root.out.type.dtype)
        return total

    def _neutral(self, root: Root) -> Any:
        t = self._sum_type(root)
        value = root.statement.primitive.reduction.neutral(t.dtype)
        return value if t.dtype.kind != "b" else bool(value)

    def _touched(self, node: Loop, depth: int) -> list[Any]:
        """The loop-carried state: arrays that a loop writes, and sums that began outside of it."""
        found: list[Any] = []
        for root in node.roots():
            if root.reduced and root.suffix <= depth and (root, "sum") in self.state:
                found.append((root, "sum"))
            elif self.holder[root] in self.state and self.holder[root] not in found:
                found.append(self.holder[root])
        return found

    def _for(
        self, node: Loop, index: list[Any], bounds: tuple[Any, Any], dim: Any, touched: list[Any]
    ) -> None:
        builder = self.builder
        inits = [self.state[key] for key in touched]
        phis = [Var(self._type_of(key, i), self._name_of(key, i), builder.origin)
                for key, i in zip(touched, inits, strict=True)]
        counter = loop_index(0, dim - 1, NAMES[min(len(index), 5)])
        with builder.block() as body, self.reader.loop(counter.atom):
            for key, phi in zip(touched, phis, strict=True):
                self.state[key] = Array(phi)
                self.reader.levels[phi] = len(self.reader.frames) - 1
            self._follow()
            self._children(node, [*index, counter])
            body.results = [atom(self.state[key]) for key in touched]
        made = emit_loop(
            *(builder, counter.atom, (*bounds, 1), phis, inits, body),
            scheduled=True,
            parallel=not index and all(self._apart(r) for r in node.roots()),
        )
        for key, out in zip(touched, made.outs, strict=True):
            self.state[key] = Array(out)
        self._follow()

    def _apart(self, root: Root) -> bool:
        """True if the iterations of the outermost loop write different elements."""
        if root.kind == "reduce":
            return 0 not in root.reduced
        return not root.scattered

    def _type_of(self, key: Any, value: Any) -> ArrayType:
        if isinstance(value, Array):
            return value.type
        return self._sum_type(key[0])

    def _name_of(self, key: Any, value: Any) -> str | None:
        if isinstance(key, tuple):
            return key[0].out.name or key[0].statement.primitive.reduction.called
        return value.atom.name

    def _children(self, node: Loop, index: list[Any]) -> None:
        waiting: list[Root] = []
        for child in node.children:
            if isinstance(child, Root):
                waiting.append(child)
                continue
            self._leaf(waiting, index)
            waiting = []
            self._loop(child, index)
        self._leaf(waiting, index)

    def _leaf(self, roots: Sequence[Root], index: list[Any]) -> None:
        """Write one iteration: all reads, then all writes, except stores that may come early."""
        before = dict(self.reader.versions)
        self._follow_stores(roots)
        written: list[tuple[Root, list[Any], Any, bool]] = []
        for k, root in enumerate(roots):
            with self.builder.at(root.statement.origin), self._phase_of(root):
                self.reader.unsafe = False
                place = write_place(root, index, self.reader)
                safe, self.reader.unsafe = not self.reader.unsafe, False
                value = value_of(root, index, self.reader)
                if root.kind == "store" and not root.scattered:
                    self.reader.unsafe = not safe
                    value = self._stored_value(root, place, value)
                    self.reader.unsafe = False
                    self.reader.keep(root.out, place, value)
                into = (root.statement.args[0], tuple(map(self.builder.dim_of, place)))
                self.reader.unwritten[root.out] = into if root.kind == "store" else None
                if self._is_stored_again(root, roots[k + 1 :]):
                    continue
                if self._is_free(root, [r for r, *_ in written], roots[k + 1 :]):
                    self._write(root, place, value, safe)
                    self._follow_stores(roots)
                    continue
            written.append((root, place, value, safe))
        self.reader.unwritten.clear()
        for root, place, value, safe in written:
            with self.builder.at(root.statement.origin), self._phase_of(root):
                self._write(root, place, value, safe)
        self.reader.versions = before
        for root in self.to_store.intersection(roots):
            self.to_store.remove(root)
            self.reader.versions.pop(root.statement.args[0], None)
        self._follow()

    def _follow_stores(self, roots: Sequence[Root]) -> None:
        """Let the stores of an iteration update the current versions of their arrays."""
        for root in roots:
            if root.kind == "store":
                self.reader.versions[root.statement.args[0]] = self.state[self.holder[root]]

    def _is_stored_again(self, store: Root, after: Sequence[Root]) -> bool:
        """True if a later store of the same iteration overwrites the element."""
        if store.kind != "store" or store.scattered:
            return False
        later = (r for r in after if self.holder[r] is self.holder[store])
        return any(writes_same_element(store, r) for r in later)

    def _is_free(self, store: Root, waiting: Sequence[Root], after: Sequence[Root]) -> bool:
        """True if one of several stores into an array can be written at once, before later reads.

        No earlier store into the array may be waiting, and only later stores may read the array,
        each at the element that it writes.
        """
        if store.kind != "store" or store.scattered:
            return False
        stores = [r for r in self.roots if self.holder[r] is self.holder[store]]
        if len(stores) == 1 or any(r in waiting for r in stores):
            return False
        versions = {v for r in stores for v in (r.out, r.statement.args[0])}
        return all(
            r in stores and tuple(read) == r.written
            for r in after
            for v, read in r.loads
            if v in versions
        )

    @contextmanager
    def _phase_of(self, root: Root) -> Iterator[None]:
        """Label the statements built inside with a root's phase, since phases may share a loop."""
        before = len(self.builder.blocks[-1].statements)
        yield
        for s in self.builder.blocks[-1].statements[before:]:
            s.phase = s.phase or root.statement.phase

    def _stored_value(self, root: Root, place: list[Any], value: Any) -> Any:
        """The value of the element after a store."""
        if root.statement.primitive is update:
            dtype = root.out.type.dtype
            same = isinstance(value, Array) and value.dtype == dtype
            return value if same else FUNCTIONS["cast"](value, dtype)
        before = self.reader(wrap(root.statement.args[0]), place)
        return apply(add, before, value)

    def _write(self, root: Root, place: list[Any], value: Any, safe: bool) -> None:
        s = root.statement
        t = s.outs[0].type
        key = self.holder[root]
        if root.kind == "reduce":
            dtype = self._sum_type(root).dtype if (root, "sum") in self.state else t.dtype
            value = FUNCTIONS["cast"](value, dtype) if isinstance(value, Array) else value
            combine_ = s.primitive.reduction.combine
            if (root, "sum") in self.state:
                self.state[root, "sum"] = combine_(self.state[root, "sum"], value)
            else:
                so_far = load(self.state[key], place)
                self.state[key] = stored(self.state[key], combine_(so_far, value), place)
        elif root.kind == "map" or s.primitive is update or not root.scattered:
            self.state[key] = stored(self.state[key], value, place, safe)
        else:
            total = apply(add, load(self.state[key], place, safe), value)
            self.state[key] = stored(self.state[key], total, place, safe)

    def _finish(self, root: Root, index: list[Any]) -> None:
        """Store the finished sum of ``root`` at ``index``, in its array or as a scalar."""
        total = self._rounded(root, self.state.pop((root, "sum")))
        kept = [i for k, i in enumerate(index) if k not in root.reduced]
        if root.statement.params["keepdims"]:
            rest = iter(kept)
            kept = [0 if k in root.reduced else next(rest) for k in range(len(root.space))]
        if not root.out.type.ndim:
            self.state[root] = total
            return
        if root.suffix > min(root.reduced):
            so_far = load(self.state[root], kept)
            total = root.statement.primitive.reduction.combine(so_far, total)
        else:
            self.reader.keep(root.out, kept, total)
        self.state[root] = stored(self.state[root], total, kept)

    # sums over everything

    def _in_parts(self, node: Loop, beginning: Sequence[Root]) -> None:
        """Write a sum over all elements: first the sum of each row, then their sum."""
        count, dim = self.at_hand(node.dim), node.dim
        parts = {}
        for root in beginning:
            array = apply(empty, count, dtype=self._sum_type(root).dtype)
            array.atom.name = f"{root.out.name or 'total'}_parts"
            parts[root] = array
        self._parts_loop(node, beginning, parts, (count, dim))
        for root in beginning:
            total = self._total(root, parts[root], count, dim)
            rank = root.out.type.ndim  # with keepdims: an array of one element
            self.state[root] = stored(self.state[root], total, [0] * rank) if rank else total

    def _parts_loop(
        self, node: Loop, beginning: Sequence[Root], parts: dict[Root, Any], span: tuple[Any, Any]
    ) -> None:
        count, dim = span
        builder = self.builder
        touched = [r for r in self._touched(node, 0) if isinstance(r, Root)]
        arrays = [r for r in touched if r not in beginning]
        inits = [*(self.state[r] for r in arrays), *(parts[r] for r in beginning)]
        phis = [Var(i.type, i.atom.name, builder.origin) for i in inits]
        counter = loop_index(0, dim - 1, "i")
        with builder.block() as body, self.reader.loop(counter.atom):
            for r, phi in zip(arrays, phis):
                self.state[r] = Array(phi)
            self._follow()
            for root in beginning:
                self.state[root, "sum"] = self._neutral(root)
            self._children(node, [counter])
            body.results = [atom(self.state[r]) for r in arrays]
            for root, phi in zip(beginning, phis[len(arrays) :]):
                total = self.state.pop((root, "sum"))
                body.results.append(atom(stored(Array(phi), total, [counter])))
        made = emit_loop(
            *(builder, counter.atom, (0, count, 1), phis, inits, body),
            scheduled=True,
            parallel=all(self._apart(r) or r in beginning for r in node.roots()),
        )
        for r, out in zip([*arrays, *beginning], made.outs, strict=True):
            if r in arrays:
                self.state[r] = Array(out)
            else:
                parts[r] = Array(out)
        self._follow()

    def _total(self, root: Root, parts: Any, count: Any, dim: Any) -> Any:
        builder = self.builder
        reduction = root.statement.primitive.reduction
        phi = Var(self._sum_type(root), root.out.name or "total", builder.origin)
        counter = loop_index(0, dim - 1, "i")
        made = emit_fold(
            *(builder, counter.atom, (0, count, 1), [self._neutral(root)]),
            lambda total: [reduction.combine(Array(total), load(parts, [counter]))],
            phis=[phi],
            scheduled=True,
        )
        return self._rounded(root, Array(made.outs[0]))

    # all elements in one loop

    def _write_flat(self, unit: Loop) -> None:
        builder, reader = self.builder, self.reader
        self._guard()
        own = {r.out for r in self.roots}
        flat: dict[Var, Array] = {}
        for var in dict.fromkeys(v for r in self.roots for v, _ in r.loads):
            if var not in own:
                flat[var] = apply(shapes.flat, Array(var))
                flat[var].atom.name = f"{var.name}_flat" if var.name else None
        sizes = [self.at_hand(d) for d in self.roots[0].space]
        total: Any = 1
        for size in sizes:
            total = size if isinstance(total, int) and total == 1 else total * size
        for array in list(flat.values())[:1]:
            total = FUNCTIONS["size"](array)
        for array in flat.values():
            builder.dims.unify(array.dims[0], builder.dim_of(total))
        sums = [r for r in self.roots if r.reduced]
        for root in sums:
            self.state[root, "sum"] = self._neutral(root)
        for root in self.roots:
            if root.reduced:
                continue
            array = apply(empty, total, dtype=root.out.type.dtype)
            array.atom.name = self._array_name(root.statement)
            self.state[root] = flat[root.out] = array
        reader.flat = flat
        leaf = Loop(builder.dim_of(total), list(self.roots))
        touched = [(r, "sum") if r.reduced else r for r in self.roots]
        self._for(leaf, [], (0, total), leaf.dim, touched)
        for root in sums:
            if root.out.type.ndim:  # keepdims
                self.state[root] = self._allocated(root)
            self._finish(root, [0] * len(root.space))
            self._name(root.statement.outs[0], self.state[root])
        for root in self.roots:
            if root.reduced:
                continue
            made = apply(reshape, self.state[root], *sizes)
            builder.blocks[-1].statements[-1].proven = True  # type: ignore[union-attr]
            self._name(root.statement.outs[0], made)

