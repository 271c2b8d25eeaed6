"""Variance over a mesh: the axes along which a value differs from one device to the next.

Over axes that are checked, variance decides the transposes: where a value that is the same on all
devices of an axis is combined with one that differs, ``pcast`` is written, whose transpose is the
sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Array, Builder, atom
from calque.transpiler.ir.core import (
    Apply,
    Atom,
    Block,
    Effect,
    For,
    If,
    Kernel,
    Statement,
    Var,
    While,
)
from calque.transpiler.ir.rewrite import copy_facts
from calque.transpiler.primitives.axis_collectives import (
    NamedAxis,
    axis_number,
    pcast,
    pmax,
    pmean,
    pmin,
    psum,
    psum_invariant,
)
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.called import Called

Axes = frozenset[NamedAxis]
_NOWHERE: Axes = frozenset()
_JOINED = (psum, psum_invariant, pmean, pmax, pmin)  # the result is the same on all devices


class Varying:
    """The axes along which each value differs; what is not known yet is found when it is asked."""

    def __init__(self, builder: Builder):
        self.builder = builder
        self.known: dict[Var, Axes] = {}
        self.entries: dict[Var, Atom] = {}  # phis of loops: what they start from
        self.assumed: dict[Var, Axes] = {}  # phis of loops that were open when they were asked
        self.apart: Axes = _NOWHERE  # along which not all devices come to the statement at hand

    def of(self, value: Atom) -> Axes:
        """The axes along which a value differs."""
        if not isinstance(value, Var):
            return _NOWHERE
        if value not in self.known:
            made = self.builder.definitions.get(value)
            if made is not None:
                before, self.apart = self.apart, _NOWHERE
                self.note(made)
                self.apart = before
            elif value in self.entries:
                self.assumed[value] = self.known[value] = self.of(self.entries[value])
        return self.known.get(value, _NOWHERE)

    def note(self, s: Statement) -> bool:
        """Find what a statement defines; whether anything new is known."""
        match s:
            case Apply():
                if isinstance(s.primitive, Called) and s.primitive.opened:
                    return self._of_call(s)
                return self._set(s.outs, self._of_apply(s))
            case Effect():
                return False
            case If():
                changed = self._within(s, s.then, s.orelse)
                for out, *arms in zip(s.outs, s.then.results, s.orelse.results, strict=True):
                    found = self.of(s.test).union(*map(self.of, arms))
                    changed |= self._set((out,), found)
                return changed
            case For() | While():
                return self._loop(s)
            case Kernel():
                return self.block(s.body)

    def block(self, block: Block) -> bool:
        """Find what all of a block's statements define."""
        changed = False
        for s in block.statements:
            changed |= self.note(s)
        return changed

    def _within(self, s: If | For | While, *blocks: Block) -> bool:
        """Find what a statement's blocks define: it differs where not all devices come to them."""
        before, self.apart = self.apart, self.apart | self.paced(s)
        changed = False
        for block in blocks:
            changed |= self.block(block)
        self.apart = before
        return changed

    def _set(self, outs: tuple[Var, ...], found: Axes) -> bool:
        changed = False
        for out in outs:
            before = self.known.get(out)
            self.known[out] = found | (before or _NOWHERE)
            changed |= before is None or self.known[out] != before
        return changed

    def inside(self, s: Apply, given: Axes | None = None) -> Varying:
        """The axes known in the blocks of a call; ``given``: those of all values that they read."""
        found = Varying(self.builder)
        found.apart = self.apart
        for v, a in s.primitive.actual(s).items():
            found.known[v] = self.of(a) if given is None else given
        for part in s.primitive.parts.values():
            found.known.update(dict.fromkeys(part.params, given or _NOWHERE))
        return found

    def _of_call(self, s: Apply) -> bool:
        inside, value = self.inside(s), s.primitive.parts["value"].block
        inside.block(value)
        changed = False
        for out, result in zip(s.outs, value.results, strict=True):
            changed |= self._set((out,), inside.of(result))
        return changed

    def _of_apply(self, s: Apply) -> Axes:
        given = self.apart.union(*map(self.of, s.args))
        if s.primitive is axis_number:
            return given | {s.params["axis"]}
        if s.primitive.kind != "collective":
            return given
        own = frozenset([s.params["axis"]])
        return given - own if s.primitive in _JOINED else given | own

    def _loop(self, s: For | While) -> bool:
        """Let a phi differ where its initial or its next value does; True if anything changed."""
        ever = False
        for phi, init in zip(s.phis, s.inits, strict=True):
            ever |= self._set((phi,), self.of(init))
        while True:
            pace = self._pace(s)
            changed = self._set((s.index,), pace) if isinstance(s, For) else False
            for phi, init, after in zip(s.phis, s.inits, s.body.results, strict=True):
                changed |= self._set((phi,), pace | self.of(init) | self.of(after))
            changed |= self._within(s, *core.blocks_of(s))
            for out, phi in zip(s.outs, s.phis, strict=True):
                changed |= self._set((out,), self.of(phi))
            if not changed:
                return ever
            ever = True

    def _pace(self, s: For | While) -> Axes:
        """The axes along which the trip count of a loop differs."""
        asked = s.test.results if isinstance(s, While) else (s.start, s.stop, s.step)
        return _NOWHERE.union(*map(self.of, asked))

    def paced(self, s: Statement) -> Axes:
        """The axes along which devices differ in whether, or how often, they run its blocks."""
        if isinstance(s, If):
            return self.of(s.test)
        return self._pace(s) if isinstance(s, (For, While)) else _NOWHERE


def divergent_collectives(block: Block, varying: Varying) -> Iterator[Apply]:
    """Collectives to which not all devices of their axis may come."""
    varying.block(block)

    def visit(block: Block, apart: Axes, varying: Varying) -> Iterator[Apply]:
        for s in block.statements:
            if isinstance(s, Apply) and isinstance(s.primitive, Called):
                inside, value = varying.inside(s), s.primitive.parts["value"].block
                inside.block(value)
                yield from visit(value, apart, inside)
            elif (
                isinstance(s, Apply)
                and s.primitive.kind == "collective"
                and s.primitive is not pcast
                and s.params["axis"] in apart
            ):
                yield s
            for inner in core.blocks_of(s):
                yield from visit(inner, apart | varying.paced(s), varying)

    return visit(block, _NOWHERE, varying)


def cast_to_varying(block: Block, builder: Builder, varying: Varying) -> None:
    """Write ``pcast`` where a value that is the same on all devices meets one that differs.

    It stands where the value is known, once for all uses, so that the sum that is its transpose is
    taken once, and never in a loop or an arm to which not all devices come.
    """
    varying.block(block)
    _Casts(builder, varying).block(block)


@dataclass(eq=False)
class _Place:
    """A block that is being rewritten: its statements so far, and the values cast in it."""

    statements: list[Statement] = field(default_factory=list)
    casts: dict[tuple[Var, Axes], Var] = field(default_factory=dict)


class _Casts:
    """The blocks from the outermost one to that which is being rewritten."""

    def __init__(self, builder: Builder, varying: Varying):
        self.builder, self.varying = builder, varying
        self.outermost: _Place | None = None
        self.defined_in: dict[Var, _Place] = {}

    def block(
        self, block: Block, bound: tuple[Var, ...] = (), wanted: Sequence[Axes] = ()
    ) -> None:
        """Rewrite a block that binds Vars, and whose results are to differ as is wanted."""
        place = _Place()
        self.outermost = self.outermost or place
        self.defined_in.update(dict.fromkeys(bound, place))
        for s in block.statements:
            self._operands(s)
            place.statements.append(s)
            self.defined_in.update(dict.fromkeys(s.outs, place))
        for k, axes in enumerate(wanted):
            block.results[k] = self._cast(block.results[k], axes)
        block.statements[:] = place.statements

    def _operands(self, s: Statement) -> None:
        of = self.varying.of
        match s:
            case Apply() if isinstance(s.primitive, Called):
                self._call(s)
            case Apply():
                wanted = self._wanted(s)
                s.args = tuple(self._cast(a, wanted) for a in s.args)
            case If():
                self.block(s.then, (), [*map(of, s.outs)])
                self.block(s.orelse, (), [*map(of, s.outs)])
            case For() | While():
                pairs = zip(s.inits, s.phis, strict=True)
                s.inits = tuple(self._cast(a, of(phi)) for a, phi in pairs)
                if isinstance(s, While):
                    self.block(s.test, s.phis)
                self.block(s.body, core.bound_vars(s), [*map(of, s.phis)])

    def _call(self, s: Apply) -> None:
        """Cast within the blocks; where a rule relates these, cast all operands and results."""
        if s.primitive.opened:
            inside, value = self.varying.inside(s), s.primitive.parts["value"].block
            inside.block(value)
            _Casts(self.builder, inside).block(value)
            return
        wanted = self._wanted(s)
        s.args = tuple(self._cast(a, wanted) for a in s.args)
        for part in s.primitive.parts.values():
            inside = self.varying.inside(s, wanted)
            inside.block(part.block)
            _Casts(self.builder, inside).block(part.block, (), [wanted] * len(part.block.results))

    def _wanted(self, s: Apply) -> Axes:
        """The axes along which every operand of a statement is to differ."""
        if s.primitive is pcast:
            return _NOWHERE
        given = _NOWHERE.union(*map(self.varying.of, (*s.args, *s.outs)))
        if s.primitive.kind == "collective" and s.params["axis"].checked:
            return given | {s.params["axis"]}
        return given

    def _cast(self, value: Atom, wanted: Axes) -> Atom:
        """The value, as one that differs along the axes wanted."""
        if not isinstance(value, Var) or not value.type.is_float:
            return value
        missing = frozenset(a for a in wanted - self.varying.of(value) if a.checked)
        if not missing:
            return value
        place = self.defined_in.get(value) or self.outermost
        assert place is not None
        if (value, missing) not in place.casts:
            made = self._again if self._made_of_outer(value, place) else self._written
            place.casts[value, missing] = made(value, missing, place)
        return place.casts[value, missing]

    def _made_of_outer(self, value: Atom, place: _Place) -> bool:
        """True if a value in a loop or an arm is computed cheaply from floats around it."""
        made = self.builder.definitions.get(value) if isinstance(value, Var) else None
        if place is self.outermost or not isinstance(made, Apply) or not made.primitive.cheap:
            return False
        floats = [a for a in made.args if isinstance(a, Var) and a.type.is_float]
        return bool(floats) and all(
            self.defined_in.get(a) is not place or self._made_of_outer(a, place) for a in floats
        )

    def _again(self, value: Var, missing: Axes, place: _Place) -> Var:
        """Recompute the value from differing operands: its own sum would be in each iteration."""
        made = self.builder.definitions[value]
        assert isinstance(made, Apply)
        wanted = missing | self.varying.of(value)
        args = tuple(self._cast(a, wanted) for a in made.args)
        out = Var(value.type, value.name, value.origin)
        copy_facts(self.builder, value, out)
        self.varying.known[out] = wanted
        copy = Apply((out,), made.primitive, args, made.params, made.origin, made.proven)
        self.builder.definitions[out] = copy
        self.defined_in[out] = place
        place.statements.append(copy)
        return out

    def _written(self, value: Var, missing: Axes, place: _Place) -> Var:
        with self.builder.block() as written:
            found = Array(value)
            for axis in sorted(missing, key=repr):
                found = apply(pcast, found, axis=axis)
        made: Var = atom(found)
        made.name = value.name
        place.statements += written.statements
        self.varying.block(written)
        return made
