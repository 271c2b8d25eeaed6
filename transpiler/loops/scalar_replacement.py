"""Scalar replacement: fewer element accesses in loops, by merging stores and keeping scalars.

Before::

    r = x_bar[i]; x_bar[i] = 0.0; x_bar[i] += 2.0 * r
    for k in range(j): a[i, j] -= a[i, k] * a[k, j]

    y_bar[i] = y_bar[i] + v

After::

    r = x_bar[i]; x_bar[i] = 2.0 * r
    a_ij = a[i, j]
    for k in range(j): a_ij -= a[i, k] * a[k, j]
    a[i, j] = a_ij

LLVM does neither if it cannot tell whether two indices, or two arrays, alias.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeGuard

import numpy as np

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder, atom, current, wrap
from calque.transpiler.ir.core import Apply, Atom, Block, For, Function, Statement, Var
from calque.transpiler.ir.dead_code import remove_dead_code
from calque.transpiler.ir.effects import is_plain_store, is_size
from calque.transpiler.ir.phases import label, label_rest
from calque.transpiler.ir.remarks import Refused, applied, missed
from calque.transpiler.ir.types import dim_symbols
from calque.transpiler.ir.uses import Uses, is_read
from calque.transpiler.loops.accesses import (
    ElementIndex,
    apart,
    element_index,
    is_element,
    reads_stored,
    same_index,
)
from calque.transpiler.loops.bounds import is_inside_without_iterations
from calque.transpiler.loops.scatters import without
from calque.transpiler.loops.schedule.private_arrays import ArrayFamilies
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.elementwise import add, divide, multiply, negative, subtract
from calque.transpiler.primitives.indexing import getitem, update, update_add


def scalar_replacement(function: Function, builder: Builder) -> None:
    """Apply scalar replacement to all loops of a function, in place."""
    with builder.active():
        loops = [s for s in core.walk(function.body) if isinstance(s, For)]
        alone = [_additions(s.body, builder) for s in loops]
        for s in loops if any(alone) else ():
            core.substitute(function.body, without(s, set()))
        for s in loops:
            _Stores(s.body, builder).merge()
        _numbers_in(function.body, builder)
    remove_dead_code(function)


def _additions(block: Block, builder: Builder) -> bool:
    """Rewrite ``x[i] = x[i] + v`` of the reverse pass as ``x[i] += v``; drop ``x[i] = x[i]``.

    Return True if a store was dropped: the block may then no longer change an array.
    """
    uses = Uses(block)
    made_by = {o: s for s in block.statements for o in s.outs}
    gone: set[int] = set()
    alone = False
    for s in list(block.statements):
        if not isinstance(s, Apply) or s.primitive is not update:
            continue
        if s.phase != "reverse" or not is_element(s, builder):
            continue
        if _reads(made_by, s.args[1], s, builder):
            core.substitute(block, {s.outs[0]: s.args[0]})
            gone.add(id(s))
            alone = True
            continue
        total = made_by.get(s.args[1]) if isinstance(s.args[1], Var) else None
        if not isinstance(total, Apply) or total.primitive not in (add, subtract):
            continue
        left, right = total.args
        if total.primitive is add and _reads(made_by, right, s, builder):
            left, right = right, left
        if not _reads(made_by, left, s, builder) or uses.count(left) + uses.count(s.args[1]) > 2:
            continue
        with builder.block() as parts, builder.at(s.origin):
            more = right if total.primitive is add else atom(-wrap(right))
        at = block.statements.index(s)
        block.statements[at:at] = parts.statements
        label(parts.statements, "reverse")
        s.primitive, s.args = update_add, (s.args[0], more, *s.args[2:])
        gone |= {id(total), id(made_by[left])}
    block.statements[:] = [s for s in block.statements if id(s) not in gone]
    return alone


def _reads(
    made_by: dict[Var, Statement], value: Atom, store: Apply, builder: Builder
) -> bool:
    """True if ``value`` is a read of the element that ``store`` overwrites."""
    read = made_by.get(value) if isinstance(value, Var) else None
    return reads_stored(read, store, builder) and is_element(read, builder)


class _Stores:
    """Merge the reverse pass's stores of one block to the same element."""

    def __init__(self, block: Block, builder: Builder):
        self.block, self.builder = block, builder

    def merge(self) -> None:
        """Merge each addition with an earlier store to the same element, if there is one."""
        for s in list(self.block.statements):
            if self._adds(s):
                before = self._store_before(s)
                if before is not None:
                    self._join(before, s)

    def _adds(self, s: Statement) -> TypeGuard[Apply]:
        return self._is_store(s) and s.primitive is update_add

    def _is_store(self, s: Statement) -> TypeGuard[Apply]:
        if not isinstance(s, Apply) or s.phase != "reverse":
            return False
        return is_plain_store(s) and is_element(s, self.builder)

    def _store_before(self, s: Apply) -> Apply | None:
        """The last store to the same element, if nothing in between may touch that element."""
        place = element_index(s, self.builder)
        stores = {t.outs[0]: t for t in self.block.statements if self._is_store(t)}
        base, after = s.args[0], s
        while base in stores:
            made = stores[base]
            uses = [t for t in self._users(base) if t is not after]
            if not all(self._disjoint(t, place) for t in uses):
                return None
            if same_index(element_index(made, self.builder), place):
                return made
            if not apart(element_index(made, self.builder), place, self.builder):
                return None
            base, after = made.args[0], made
        return None

    def _users(self, version: Var) -> list[Statement | None]:
        statements = self.block.statements
        found: list[Statement | None] = [t for t in statements if is_read(t, version)]
        return [*found, None] if version in self.block.results else found

    def _disjoint(self, s: Statement | None, place: ElementIndex) -> bool:
        if not isinstance(s, Apply):
            return False
        if s.primitive.kind == "size":
            return True
        if s.primitive is not getitem or not is_element(s, self.builder):
            return False
        return apart(element_index(s, self.builder), place, self.builder)

    def _join(self, first: Apply, second: Apply) -> None:
        """Merge two stores into one at the position of the second."""
        statements = self.block.statements
        value, more = first.args[1], second.args[1]
        if first.primitive is update and self._put_back(first, more):
            statements.remove(second)
            core.substitute(self.block, {second.outs[0]: second.args[0]})
        else:
            with self.builder.block() as made, self.builder.at(second.origin):
                total = more if _is_zero(value) else atom(_plus(value, more))
            at = statements.index(second)
            statements[at:at] = made.statements
            label(made.statements, "reverse")
            second.primitive = first.primitive
            second.args = (second.args[0], total, *second.args[2:])
        statements.remove(first)
        core.substitute(self.block, {first.outs[0]: first.args[0]})

    def _put_back(self, zero: Apply, more: Atom) -> bool:
        """True if an element is set to 0, and then its old value is added again."""
        if not _is_zero(zero.args[1]) or not isinstance(more, Var):
            return False
        read = self.builder.definitions.get(more)
        return reads_stored(read, zero, self.builder) and read in self.block.statements


def _is_zero(value: Atom) -> bool:
    return not isinstance(value, Var) and value == 0


def _plus(a: Atom, b: Atom) -> Any:
    """The sum of two scalars, written as a difference if the second is negated."""
    opposite = _opposite(b)
    return wrap(a) + wrap(b) if opposite is None else wrap(a) - opposite


def _opposite(value: Atom) -> Any:
    """``x`` for ``-x``, ``x * y`` for ``-x * y``; None if there is no sign to remove."""
    made = _definition(value)
    if made is None:
        return None
    if made.primitive is negative:
        return wrap(made.args[0])
    if made.primitive in (multiply, divide):
        left = _opposite(made.args[0])
        if left is not None:
            return apply(made.primitive, left, wrap(made.args[1]), **made.params)
    return None


def _definition(value: Atom) -> Apply | None:
    """The operation that computes a value; None for constants and other definitions."""
    made = current().definitions.get(value) if isinstance(value, Var) else None
    return made if isinstance(made, Apply) else None


# scalars for elements


def _numbers_in(block: Block, builder: Builder) -> None:
    made: list[Statement] = []
    for s in block.statements:
        for inner in core.blocks_of(s):
            _numbers_in(inner, builder)
        if not isinstance(s, For) or not all(isinstance(t, Apply) for t in s.body.statements):
            made.append(s)
            continue
        with builder.block() as around, builder.at(s.origin):
            _PromotedElements(s, builder).write()
        made += around.statements
        label_rest([*around.statements, *s.body.statements], s.phase)
    block.statements[:] = made


class _PromotedElements:
    """Carry elements at invariant indices through an innermost loop as scalars."""

    def __init__(self, loop: For, builder: Builder):
        self.loop, self.builder = loop, builder
        self.counter = dim_symbols(builder.dim_values.get(loop.index, 0))
        self.inside = core.defined_vars(loop.body) | {loop.index, *loop.phis}
        self.reason = Refused("it stores no doubles, or more than single elements")

    def write(self) -> None:
        """Emit the loop, with the loads before it and the stores after it."""
        chosen = {k: self._fixed(k) for k in range(len(self.loop.phis))}
        if any(chosen.values()):
            applied(self.builder, "scalar_replacement", self.loop)
        else:
            missed(self.builder, "scalar_replacement", self.loop, self.reason)
        starts = {
            k: [self._load(self.loop.inits[k], s) for s in found] for k, found in chosen.items()
        }
        self._reads_before()
        self.builder.emit(self.loop)
        for k, found in chosen.items():
            if found:
                numbers = [self._carry(k, *pair) for pair in zip(found, starts[k], strict=True)]
                self._store_after(k, found, numbers)

    def _accesses(self, k: int) -> list[Apply]:
        """The accesses to a carried array, in order; empty if not all are of single elements."""
        body, phi = self.loop.body, self.loop.phis[k]
        private = ArrayFamilies(body).private(phi, [phi], [*filter(is_size, body.statements)])
        if isinstance(private, Refused):
            return []
        version: Atom = phi
        for s in private.accesses:
            if s.args[0] is not version or not is_element(s, self.builder):
                return []
            version = version if s.primitive is getitem else s.out
        last = body.results[k] is version and body.results.count(version) == 1
        return private.accesses if last else []

    def _fixed(self, k: int) -> list[Apply]:
        """One store for each invariant index that no access at another index may alias."""
        phi = self.loop.phis[k]
        if not phi.type.ndim or phi.type.dtype != np.float64 or not self.counter:
            return []
        places = [(s, element_index(s, self.builder)) for s in self._accesses(k)]
        found: list[tuple[Apply, ElementIndex]] = []
        for s, place in places:
            if s.primitive is getitem or any(same_index(place, p) for _, p in found):
                continue
            refused = self._moves(s, places)
            if refused is None:
                found.append((s, place))
            else:
                self.reason = refused
        return [s for s, _ in found]

    def _moves(self, s: Apply, places: Sequence[tuple[Apply, ElementIndex]]) -> Refused | None:
        """The reason if a store's element is not one that a scalar can stand for in the loop."""
        place = element_index(s, self.builder)
        if any(dim_symbols(d) & self.counter for d in place if d is not None):
            return Refused("{0} stores at an index that moves with the counter", (s.origin,))
        if not self._can_be_before(s, s.args[2:]):
            return Refused("{0} has an index that is not known before the loop", (s.origin,))
        known = [t for t, p in places if same_index(p, place)]
        for t, p in places:
            if t not in known and not apart(p, place, self.builder):
                said = "{0} stores an element that may be the one that {1} uses"
                return Refused(said, (s.origin, t.origin))
        if all(_is_double(t.args[1]) for t in known if t.primitive is not getitem):
            return None
        return Refused("{0} converts the value to another dtype", (s.origin,))

    def _can_be_before(self, s: Apply, index: Iterable[Atom]) -> bool:
        """True if an index is loop-invariant, and in bounds even if the loop is zero-trip."""
        if any(a in self.inside for a in index if isinstance(a, Var)):
            return False
        return is_inside_without_iterations(s, self.loop, self.builder)

    def _reads_before(self) -> None:
        """Hoist reads of elements that the loop does not change."""
        body, mapping = self.loop.body, dict[Var, Atom]()
        accesses = {k: self._accesses(k) for k in range(len(self.loop.phis))}
        of_phi = {id(s): k for k, found in accesses.items() for s in found}
        for s in body.statements:
            assert isinstance(s, Apply)
            if s.primitive is not getitem or not is_element(s, self.builder):
                continue
            if not self._can_be_before(s, s.args[1:]):
                continue
            k = of_phi.get(id(s))
            if k is None and s.args[0] in self.inside:
                continue
            if k is not None and not self._never_stored(
                element_index(s, self.builder), accesses[k]
            ):
                continue
            base = s.args[0] if k is None else self.loop.inits[k]
            mapping[s.outs[0]] = self._load(base, s).atom
        body.statements[:] = [s for s in body.statements if s.outs[0] not in mapping]
        core.substitute(body, mapping)

    def _never_stored(self, place: ElementIndex, accesses: list[Apply]) -> bool:
        stores = [s for s in accesses if s.primitive is not getitem]
        return all(apart(element_index(s, self.builder), place, self.builder) for s in stores)

    def _load(self, base: Atom, s: Apply) -> Any:
        index = s.args[1:] if s.primitive is getitem else s.args[2:]
        value = apply(getitem, wrap(base), *map(wrap, index), **s.params)
        made = _definition(value.atom)
        assert made is not None
        made.proven = True
        return value

    def _carry(self, k: int, example: Apply, start: Any) -> Var:
        """Replace the accesses to one element by a carried scalar; return its final value."""
        loop, place = self.loop, element_index(example, self.builder)
        touched = {
            id(s) for s in self._accesses(k) if same_index(element_index(s, self.builder), place)
        }
        number, last = Var(start.type, None, loop.origin), Var(start.type, None, loop.origin)
        now: Atom = number
        mapping: dict[Var, Atom] = {}
        made: list[Statement] = []

        def sub(atoms: Iterable[Atom]) -> list[Atom]:
            return [mapping.get(a, a) if isinstance(a, Var) else a for a in atoms]

        for s in loop.body.statements:
            assert isinstance(s, Apply)
            s.args = tuple(sub(s.args))
            if id(s) not in touched:
                made.append(s)
                continue
            if s.primitive is getitem:
                mapping[s.outs[0]] = now
                continue
            with self.builder.block() as parts, self.builder.at(s.origin):
                adds = s.primitive is update_add
                now = atom(_plus(now, s.args[1])) if adds else s.args[1]
            made += parts.statements
            mapping[s.outs[0]] = s.args[0]
        loop.body.statements[:] = made
        loop.body.results = [*sub(loop.body.results), now]
        loop.phis, loop.inits = (*loop.phis, number), (*loop.inits, start.atom)
        loop.outs = (*loop.outs, last)
        return last

    def _store_after(self, k: int, examples: list[Apply], numbers: list[Var]) -> None:
        loop, final = self.loop, self.loop.outs[k]
        version = Var(final.type, final.name, final.origin)
        loop.outs = (*loop.outs[:k], version, *loop.outs[k + 1 :])
        for example, number in zip(examples, numbers, strict=True):
            ends = number is numbers[-1]
            out = final if ends else Var(final.type, final.name, final.origin)
            args = (version, number, *example.args[2:])
            params, origin = example.params, example.origin
            self.builder.emit(Apply((out,), update, args, params, origin, True))
            version = out


def _is_double(value: Atom) -> bool:
    if isinstance(value, Var):
        return value.type.dtype == np.float64
    return isinstance(value, float)
