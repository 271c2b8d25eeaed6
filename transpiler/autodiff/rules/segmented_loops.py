"""Checkpointed loops: carried values are saved only at the start of each segment of iterations.

Before::

    for i in range(n): x = step(x)

After::

    for segment in range(segments):
        first = segment * every
        x = again(for i in range(first, first + min(every, n - first)): x = step(x))

``again`` is a call that the reverse sweep runs once more, so that only the values of one segment
are in memory at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calque.transpiler.autodiff.rules.checkpoint import CheckpointCall
from calque.transpiler.autodiff.rules.rule_tracing import Recording, name_of
from calque.transpiler.frontend.machine import Machine
from calque.transpiler.ir.builder import FUNCTIONS, Array, Builder, atom, wrap
from calque.transpiler.ir.core import Apply, Atom, Block, For, If, Var, While
from calque.transpiler.ir.rewrite import copy_facts, derived, emit_loop, emit_while, inlined
from calque.transpiler.ir.types import INT
from calque.transpiler.late import Late
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.called import Part
from calque.transpiler.primitives.logic import and_

if TYPE_CHECKING:
    from calque.transpiler.autodiff.rules import bounded_memory
else:
    bounded_memory = Late("calque.transpiler.autodiff.rules.bounded_memory")

Every = int | str | None  # the number of iterations in a segment; None: the whole function


def call_checkpoint(
    machine: Machine,
    function: Any,
    every: Every,
    memory: int | None,
    args: list[Any],
    kwargs: dict[str, Any],
    node: Any,
) -> Any:
    """Call ``function(*args, **kwargs)`` such that the reverse sweep recomputes its values.

    It recomputes all of them; or those between every so many iterations of a loop; or the states of
    loops that ``memory``, a number of bytes, does not hold.
    """
    if not machine.derivatives:
        return machine.call_value(function, list(args), dict(kwargs), node)
    name = name_of(function)
    if every is not None or memory is not None:
        with machine.builder.block() as block:
            result = machine.call_value(function, list(args), dict(kwargs), node)
        if every is not None:
            block = segmented(machine.builder, block, every)
        elif memory is not None:
            bounded_memory.bound_loops(machine.builder, block, memory)
        machine.builder.blocks[-1].statements += block.statements
        return result
    recording = Recording(machine, name, [*args, *kwargs.values()], node)
    inner = recording.copies()
    named = dict(zip(kwargs, inner[len(args) :], strict=True))
    value = recording.run(function, inner[: len(args)], machine.derivatives, lambda r: [r], named)
    return recording.finish(CheckpointCall(name, 0, {"value": Part(value.block)}), [], value, inner)


def segmented(builder: Builder, block: Block, every: int | str) -> Block:
    """The block with its outermost loops cut into segments of ``every`` iterations."""
    with builder.block() as made:
        for s in block.statements:
            with builder.at(s.origin):
                match s:
                    case If():
                        s.then = segmented(builder, s.then, every)
                        s.orelse = segmented(builder, s.orelse, every)
                        builder.emit(s)
                    case For() if type(s.step) is int:
                        _cut_for(builder, s, every)
                    case While():
                        _cut_while(builder, s, every)
                    case _:
                        builder.emit(s)
        made.results = block.results
    return made


def _companions(builder: Builder, vars: tuple[Var, ...]) -> tuple[Var, ...]:
    made = []
    for var in vars:
        new = Var(var.type, var.name, var.origin)
        copy_facts(builder, var, new)
        made.append(new)
    return tuple(made)


def _again(builder: Builder, loop: For | While, carried: tuple[Var, ...]) -> list[Atom]:
    """Write the call of one segment; return its results for the values that are ``carried`` on."""
    record = CheckpointCall("the segment", 0, {"value": Part(Block([loop], list(carried)))})
    outs = _companions(builder, carried)
    builder.emit(Apply(outs, record, record.free, {}, builder.origin))
    return list(outs)


def _integer(name: str, value: Any) -> Any:
    if isinstance(value, Array) and value.atom.name is None:
        value.atom.name = name
    return value


def _cut_for(builder: Builder, s: For, every: int | str) -> None:
    start, stop, step = wrap(s.start), wrap(s.stop), s.step
    span = stop - start if step > 0 else start - stop
    iterations = span if abs(step) == 1 else (span + (abs(step) - 1)) // abs(step)
    size: Any = _integer("every", _root(iterations) if isinstance(every, str) else every)
    count = _integer("segments", (iterations + (size - 1)) // size)
    whole = not isinstance(iterations, Array) and iterations % size == 0
    segment = Var(INT, "segment", s.origin)
    phis = _companions(builder, s.phis)
    with builder.block() as body:
        stride: Any = size if step == 1 else size * step
        before = Array(segment) * stride
        first = _integer("first", before if _is_zero(start) else start + before)
        last = first + stride
        if not whole:
            last = np.minimum(last, stop) if step > 0 else np.maximum(last, stop)
        inner_outs = _companions(builder, s.phis)
        start, stop = atom(first), atom(_integer("last", last))
        loop = derived(s, outs=inner_outs, start=start, stop=stop, inits=phis)
        body.results = _again(builder, loop, inner_outs)
    emit_loop(builder, segment, (0, count, 1), phis, s.inits, body, s.outs, origin=s.origin)


def _is_zero(value: Any) -> bool:
    return not isinstance(value, Array) and value == 0


def _root(iterations: Any) -> Any:
    """About the square root of the number of iterations, at least 1."""
    if not isinstance(iterations, Array):
        return max(1, round(max(iterations, 0) ** 0.5))
    return FUNCTIONS["cast"](abs(iterations) ** 0.5, np.dtype(int)) + 1


def _cut_while(builder: Builder, s: While, every: int | str) -> None:
    """Cut a while into segments of ``every`` iterations; for a str, each has one iteration more."""
    grows = isinstance(every, str)
    phis = _companions(builder, s.phis)
    segment, count = Var(INT, "segment", s.origin), Var(INT, "done", s.origin)
    test = inlined(builder, s.test, dict(zip(s.phis, phis, strict=True)))
    with builder.block() as body:
        after = Array(segment) + 1
        size: Any = after if grows else every
        with builder.block() as going:
            going.statements += s.test.statements
            more = apply(and_, wrap(s.test.results[0]), Array(count) < size)
            going.results = [atom(more)]
        with builder.block() as inner:
            inner.statements += s.body.statements
            inner.results = [*s.body.results, atom(Array(count) + 1)]
        outs = _companions(builder, s.phis)
        last = Var(INT, "done", s.origin)
        parts = {"phis": (*s.phis, count), "inits": (*phis, 0), "outs": (*outs, last)}
        loop = derived(s, **parts, test=going, body=inner)
        body.results = [*_again(builder, loop, outs), atom(after)]
    reached = Var(INT, "segment", s.origin)
    carried = (*phis, segment), (*s.inits, 0), test, body, (*s.outs, reached)
    emit_while(builder, *carried, s.origin)
