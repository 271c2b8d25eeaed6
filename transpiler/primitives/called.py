"""Calls that are kept whole until every derivative pass has seen them.

A ``Called`` is the record of one call, not of a function: the callee as a closed block of Core, and
the blocks of the rule that derivative passes use in its place. To every analysis it is one
operation. A pass that differentiates it puts the user's rule there; a last pass puts the callee's
statements where a call is left (``inline_calls``), so that the reader sees plain NumPy.

The operands of a call are the leaves of its arguments, then the values that its blocks read: the
latter are named by ``free``, in the blocks' own terms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Array, Builder
from calque.transpiler.ir.core import Apply, Atom, Block, Function, Var
from calque.transpiler.ir.phases import label
from calque.transpiler.ir.rewrite import copy_facts, inlined
from calque.transpiler.primitives.axis_collectives import pcast
from calque.transpiler.primitives.base import Primitive


@dataclass(eq=False)
class Part:
    """One block of a call: it reads its own parameters, and what the call names as ``free``."""

    block: Block
    params: tuple[Var, ...] = ()


class Called(Primitive):
    """One call. ``parts["value"]`` gives the values of the outs; other parts belong to its rule."""

    expands = False  # whether a reverse sweep needs the rule written out
    opened = False  # whether it is the block of values that is differentiated
    memory: int | None = None  # bytes for the states of a loop of such calls; None: all are saved

    def __init__(self, name: str, count: int, parts: dict[str, Part]):
        super().__init__(name, _never, _never, name, aliases=True)
        self.count = count  # the operands that are leaves of the call's arguments
        self.parts = parts
        self.decisions: list[Any] = []  # what a sweep that it holds saves, and why
        own = {p for part in parts.values() for p in part.params}
        free = {v: None for part in parts.values() for v in core.free_vars(part.block)}
        self.free = tuple(v for v in free if v not in own)
        value = parts["value"].block
        self.effects = any(
            isinstance(s, core.Effect) or getattr(getattr(s, "primitive", None), "effects", False)
            for s in core.walk(value)
        )

    def actual(self, s: Apply) -> dict[Var, Atom]:
        """The operands that stand for what the parts read."""
        return dict(zip(self.free, s.args[self.count :], strict=True))

    def expand(self, builder: Builder, s: Apply, active: set[Var]) -> list[Any]:
        """Write statements that a reverse sweep can do with; the values of ``s.outs``."""
        raise NotImplementedError

    def push(self, s: Apply, tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The values and the tangents of ``s.outs``, given the tangents of ``s.args``."""
        raise NotImplementedError

    def pull(self, s: Apply, cotangents: Sequence[Any], active: set[Var]) -> Sequence[Any]:
        """The cotangents of ``s.args``, in a reverse sweep."""
        raise NotImplementedError


def bounded_call(s: core.Statement) -> Called | None:
    """The record of a call, if it is one iteration of a loop whose states take a given memory."""
    called = s.primitive if isinstance(s, Apply) else None
    return called if isinstance(called, Called) and called.memory is not None else None


def memory_of(body: Block) -> int | None:
    """The bytes that the states of a loop with this body may take; None if nothing bounds them."""
    iterations = [call for call in map(bounded_call, body.statements) if call is not None]
    return iterations[0].memory if iterations else None


def _never(*args: Any, **params: Any) -> Any:
    raise AssertionError("a call is inlined, never computed")


def marker(name: str, **options: Any) -> Primitive:
    """An identity that a pass or the last one takes away; not in the table of primitives."""
    return Primitive(
        name, _first, lambda x, *_: x.type, "{0}", kind="elementwise", cheap=True, **options
    )


def _first(x: Any, *rest: Any) -> Any:
    return x


# the value of a call whose rule stands in its place
same = marker(
    "same",
    partials=lambda x, y: 1.0,
    jvp=lambda tangents, outs, args, params: tangents,
    vjp=lambda cotangents, outs, args, params: cotangents,
    keeps_layout=True,
)


def mark(builder: Builder, primitive: Primitive, args: Sequence[Atom], like: Var) -> Var:
    """``out = primitive(*args)`` of the type of ``like``."""
    out = Var(like.type, like.name, builder.origin)
    copy_facts(builder, like, out)
    builder.emit(Apply((out,), primitive, tuple(args), {}, builder.origin))
    return out


def inline(builder: Builder, block: Block, mapping: dict[Var, Atom]) -> list[Atom]:
    """Write a copy of the block's statements into the open one; its results."""
    made = inlined(builder, block, mapping)
    builder.blocks[-1].statements += made.statements
    return made.results


def define(builder: Builder, outs: Sequence[Var], values: Sequence[Any]) -> None:
    """Let the results of a call be these values."""
    for out, value in zip(outs, values, strict=True):
        atom = value.atom if isinstance(value, Array) else _constant(value, out)
        statement = Apply((out,), same, (atom,), {}, builder.origin)
        builder.emit(statement)


def _constant(value: Any, out: Var) -> Any:
    if isinstance(value, Var) or value is core.UNDEFINED or out.type.weak:
        return value
    return out.type.dtype.type(value)


def inline_calls(function: Function, builder: Builder) -> None:
    """Put the callees' statements where calls are left, in place; the last of the passes."""
    if not any(isinstance(s, Apply) and _goes(s) for s in core.walk(function.body)):
        return
    mapping: dict[Var, Atom] = {}

    def now(atom: Atom) -> Atom:
        while isinstance(atom, Var) and atom in mapping:
            atom = mapping[atom]
        return atom

    def note(out: Var, atom: Atom) -> None:
        mapping[out] = atom = now(atom)
        if isinstance(atom, Var) and atom.name is None:
            atom.name = out.name

    def visit(block: Block) -> None:
        kept: list[core.Statement] = []
        pending = list(reversed(block.statements))
        while pending:
            s = pending.pop()
            for inner in core.blocks_of(s):
                visit(inner)
            if not isinstance(s, Apply) or not _goes(s):
                kept.append(s)
                continue
            if not isinstance(s.primitive, Called):
                note(s.outs[0], s.args[0])
                continue
            function.decisions = function.decisions + s.primitive.decisions
            made = inlined(builder, s.primitive.parts["value"].block, s.primitive.actual(s))
            label(made.statements, s.phase)
            for out, atom in zip(s.outs, made.results, strict=True):
                note(out, atom)
            pending += reversed(made.statements)
        block.statements = kept

    visit(function.body)
    core.substitute(function.body, {var: now(var) for var in mapping})


def _goes(s: Apply) -> bool:
    return s.primitive in (same, pcast) or isinstance(s.primitive, Called)
