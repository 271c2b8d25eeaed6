"""``checkpoint``: calls whose values are not saved, so that the reverse sweep recomputes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from calque.transpiler.autodiff.forward import forward
from calque.transpiler.autodiff.reverse import reverse
from calque.transpiler.autodiff.rules.batched_call import Call, is_float
from calque.transpiler.autodiff.tape.policy import Decision
from calque.transpiler.ir import core
from calque.transpiler.ir.blocks import prune_block
from calque.transpiler.ir.builder import Array, Builder, atom, current, wrap
from calque.transpiler.ir.core import Apply, Atom, Block, Effect, Function, Var
from calque.transpiler.ir.phases import AGAIN
from calque.transpiler.ir.rewrite import copy_facts, inlined
from calque.transpiler.primitives.called import Called, Part


class CheckpointCall(Call):
    """A call of a checkpointed function: one operation for the recording of values."""

    opened = True

    def _opened(self, builder: Builder) -> tuple[Block, dict[Var, Var]]:
        """A copy of the function's block, and its parameters for the values that it reads."""
        names: dict[Var, Var] = {}
        for p in self.free:
            names[p] = Var(p.type, p.name, p.origin)
            copy_facts(builder, p, names[p])
        mapping: dict[Var, Atom] = dict(names)
        return inlined(builder, self.parts["value"].block, mapping), names

    def push(self, s: Apply, tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """One call that computes the function and its tangents together."""
        builder = current()
        block, names = self._opened(builder)
        actual: dict[Var, Atom] = dict(zip(names.values(), s.args, strict=True))
        given: dict[Var, Any] = {}
        for p, t in zip(names.values(), tangents, strict=True):
            if isinstance(t, Array):
                dot = Var(t.type, t.atom.name, p.origin)
                actual[dot], t = t.atom, Array(dot)
            if t is not None:
                given[p] = t
        program = Function(self.name, list(names.values()), block, None)
        found = [atom(d) for d in forward(program, builder, given)]
        varying = [k for k, d in enumerate(found) if isinstance(d, Var)]
        values = len(block.results)
        block.results += [found[k] for k in varying]
        results = emit(builder, self.again({"value": Part(block)}), actual, block.results, s)
        for place, k in enumerate(varying):
            found[k] = results[values + place].atom
        return list(results[:values]), [None if d is None else wrap(d) for d in found]

    def pull(self, s: Apply, cotangents: Sequence[Any], active: set[Var]) -> Sequence[Any]:
        """One call that reruns the function and its reverse sweep; later passes save no values."""
        builder = current()
        block, names = self._opened(builder)
        actual: dict[Var, Atom] = dict(zip(names.values(), s.args, strict=True))
        _silence(block)
        program = Function(self.name, list(names.values()), block, None)
        wanted = [k for k, a in enumerate(s.args) if is_float(a) and a in active]
        seeds: dict[int, Any] = {}
        for k, c in enumerate(cotangents):
            if isinstance(c, Array):
                bar = Var(c.type, c.atom.name, s.origin)
                actual[bar], c = c.atom, Array(bar)
            if c is not None:
                seeds[k] = c
        bars = reverse(program, builder, wanted, seeds)
        say_again(program, self.name)
        found: list[Any] = [None] * len(s.args)
        given = [(k, b) for k, b in zip(wanted, bars, strict=True) if b is not None]
        program.body.results = [b.atom for _, b in given if isinstance(b, Array)]
        prune_block(program.body)  # what it does not read is no operand of the call
        record = CheckpointCall(self.name, self.count, {"value": Part(program.body)})
        why = f"checkpoint: {self.name} is run again"
        record.decisions = [Decision(o, "recomputed", why) for o in s.outs if o.origin]
        record.decisions += program.decisions
        results = iter(emit(builder, record, actual, program.body.results, s))
        for k, b in given:
            found[k] = next(results) if isinstance(b, Array) else b
        return found


def _silence(block: Block) -> None:
    """Remove prints and assertions from a block: the first run has done them."""
    for inner in [block, *(b for s in core.walk(block) for b in core.blocks_of(s))]:
        inner.statements = [
            s
            for s in inner.statements
            if not (isinstance(s, Effect) and s.template.startswith(("print", "assert")))
        ]


def say_again(program: Function, name: str) -> None:
    """Mark the statements that run once more in their comments."""
    forth = [s for s in program.body.statements if s.phase != "reverse"]
    for s in core.walk(Block(forth)):
        if s.origin is not None and not s.origin.note:
            s.origin = replace(s.origin, note=f"run {name} {AGAIN}")


def emit(
    builder: Builder, record: Called, actual: dict[Var, Atom], values: Sequence[Atom], s: Any
) -> list[Array]:
    """Write a call that returns ``values``; ``actual`` maps the values its block reads."""
    outs = []
    for value in values:
        out = Var(value.type, value.name, value.origin)
        copy_facts(builder, value, out)
        outs.append(out)
    args = tuple(actual.get(v, v) for v in record.free)
    builder.emit(Apply(tuple(outs), record, args, {}, s.origin))
    return [Array(o) for o in outs]
