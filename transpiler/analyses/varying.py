"""Devices: along which axes of a mesh a value differs from one device to the next.

Over axes that are checked this decides what a transpose is: where a value that is the same on all
devices of an axis meets one that differs, ``pcast`` is written, whose transpose is the sum.
"""

from __future__ import annotations

from collections.abc import Iterator

from calque.transpiler import core
from calque.transpiler.builder import Array, Builder, atom
from calque.transpiler.core import Apply, Atom, Block, Effect, For, If, Statement, Var, While
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.collectives import (
    NamedAxis,
    axis_number,
    pcast,
    pmax,
    pmean,
    pmin,
    psum,
    psum_invariant,
)

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

    def of(self, value: Atom) -> Axes:
        """The axes along which a value differs."""
        if not isinstance(value, Var):
            return _NOWHERE
        if value not in self.known:
            made = self.builder.definitions.get(value)
            if made is not None:
                self.note(made)
            elif value in self.entries:
                self.assumed[value] = self.known[value] = self.of(self.entries[value])
        return self.known.get(value, _NOWHERE)

    def note(self, s: Statement) -> bool:
        """Find what a statement defines; whether anything new is known."""
        match s:
            case Apply():
                return self._set(s.outs, self._of_apply(s))
            case Effect():
                return False
            case If():
                changed = self.block(s.then) | self.block(s.orelse)
                for out, *arms in zip(s.outs, s.then.results, s.orelse.results, strict=True):
                    found = self.of(s.test).union(*map(self.of, arms))
                    changed |= self._set((out,), found)
                return changed
            case For() | While():
                return self._loop(s)

    def block(self, block: Block) -> bool:
        """Find what all of a block's statements define."""
        changed = False
        for s in block.statements:
            changed |= self.note(s)
        return changed

    def _set(self, outs: tuple[Var, ...], found: Axes) -> bool:
        changed = False
        for out in outs:
            before = self.known.get(out)
            self.known[out] = found | (before or _NOWHERE)
            changed |= before is None or self.known[out] != before
        return changed

    def _of_apply(self, s: Apply) -> Axes:
        given = _NOWHERE.union(*map(self.of, s.args))
        if s.primitive is axis_number:
            return frozenset([s.params["axis"]])
        if s.primitive.kind != "collective":
            return given
        own = frozenset([s.params["axis"]])
        return given - own if s.primitive in _JOINED else given | own

    def _loop(self, s: For | While) -> bool:
        """A phi differs where what it starts from does, or what a round hands on."""
        ever = False
        while True:
            pace = self._pace(s)
            changed = self._set((s.index,), pace) if isinstance(s, For) else False
            for phi, init, after in zip(s.phis, s.inits, s.body.results, strict=True):
                changed |= self._set((phi,), pace | self.of(init) | self.of(after))
            if isinstance(s, While):
                changed |= self.block(s.test)
            changed |= self.block(s.body)
            for out, phi in zip(s.outs, s.phis, strict=True):
                changed |= self._set((out,), self.of(phi))
            if not changed:
                return ever
            ever = True

    def _pace(self, s: For | While) -> Axes:
        """Along which axes the number of rounds differs."""
        asked = s.test.results if isinstance(s, While) else (s.start, s.stop, s.step)
        return _NOWHERE.union(*map(self.of, asked))

    def paced(self, s: Statement) -> Axes:
        """Along which axes devices differ in whether, or how often, they run what it holds."""
        if isinstance(s, If):
            return self.of(s.test)
        return self._pace(s) if isinstance(s, (For, While)) else _NOWHERE


def divergent_collectives(block: Block, varying: Varying) -> Iterator[Apply]:
    """Collectives to which not all devices of their axis may come."""
    varying.block(block)

    def visit(block: Block, apart: Axes) -> Iterator[Apply]:
        for s in block.statements:
            if (
                isinstance(s, Apply)
                and s.primitive.kind == "collective"
                and s.primitive is not pcast
            ):
                if s.params["axis"] in apart:
                    yield s
            for inner in core.blocks_of(s):
                yield from visit(inner, apart | varying.paced(s))

    return visit(block, _NOWHERE)


def cast_to_varying(block: Block, builder: Builder, varying: Varying) -> None:
    """Write ``pcast`` where a value that is the same on all devices meets one that differs."""
    varying.block(block)
    kept: list[Statement] = []
    for s in block.statements:
        match s:
            case Apply():
                s.args = tuple(
                    _cast(a, _wanted(s, varying), kept, builder, varying) for a in s.args
                )
            case If():
                for arm in (s.then, s.orelse):
                    _cast_results(arm, s.outs, builder, varying)
            case For() | While():
                s.inits = tuple(
                    _cast(a, varying.of(p), kept, builder, varying)
                    for a, p in zip(s.inits, s.phis, strict=True)
                )
                _cast_results(s.body, s.phis, builder, varying)
        for inner in core.blocks_of(s):
            cast_to_varying(inner, builder, varying)
        kept.append(s)
    block.statements[:] = kept


def _wanted(s: Apply, varying: Varying) -> Axes:
    """The axes along which every operand of a statement is to differ."""
    if s.primitive is pcast:
        return _NOWHERE
    given = _NOWHERE.union(*map(varying.of, s.args))
    if s.primitive.kind == "collective" and s.params["axis"].checked:
        return given | {s.params["axis"]}
    return given


def _cast_results(block: Block, likes: tuple[Var, ...], builder: Builder, varying: Varying) -> None:
    block.results = [
        _cast(a, varying.of(like), block.statements, builder, varying)
        for a, like in zip(block.results, likes, strict=True)
    ]


def _cast(
    value: Atom, wanted: Axes, place: list[Statement], builder: Builder, varying: Varying
) -> Atom:
    """The value, as one that differs along the axes wanted; written at the end of ``place``."""
    if not isinstance(value, Var) or not value.type.is_float:
        return value
    missing = sorted((a for a in wanted - varying.of(value) if a.checked), key=repr)
    if not missing:
        return value
    with builder.block() as written:
        found = Array(value)
        for axis in missing:
            found = apply(pcast, found, axis=axis)
    made: Var = atom(found)
    made.name = value.name
    place += written.statements
    varying.block(written)
    return made
