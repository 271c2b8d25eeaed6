"""A batch as a loop over examples whose control flow differs: the form that is best for kernels."""

from __future__ import annotations

from typing import Any

from calque.transpiler.autodiff.rules.checkpoint import CheckpointCall, emit
from calque.transpiler.errors import CalqueError
from calque.transpiler.frontend.control.value_join import shape_of
from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Array, Builder, loop_index
from calque.transpiler.ir.core import Block, Slot, Var
from calque.transpiler.ir.rewrite import emit_loop
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.called import Part
from calque.transpiler.primitives.creation import empty
from calque.transpiler.primitives.indexing import update
from calque.transpiler.vectorize.divergence import mapped


def one_by_one(
    builder: Builder, block: Block, companions: dict[Var, Any], size: Any, again: str | None
) -> list[tuple[Any, bool]] | None:
    """The examples in a loop, for kernels: each goes its own way, at the speed of scalar code.

    None where a result has no size before the loop. ``again`` names the function where a derivative
    is to come: a sweep back runs each example once more, so that what it saves is one example's.
    """
    varied = mapped(block, companions)
    made = {o for s in block.statements for o in s.outs}  # in the loop, also what all share
    results = [a for a in block.results if isinstance(a, Var) and (a in varied or a in made)]
    results = list(dict.fromkeys(results))
    with builder.block() as before:
        try:
            sizes = [shape_of(r.type) for r in results]
        except CalqueError:
            return None
        arrays = [
            apply(empty, size, *dims, dtype=r.type.dtype)
            for r, dims in zip(results, sizes, strict=True)
        ]
    for array, r in zip(arrays, results, strict=True):
        array.atom.name = r.name
    phis = [Var(a.type, a.atom.name, builder.origin) for a in arrays]
    lane = loop_index(0, builder.dim_of(size) - 1, "lane")
    with builder.block() as body:
        mapping: dict[Var, Any] = {}
        for var, array in companions.items():
            mapping[var] = _named(array[lane], var.name)
        if again is None:
            body.statements += block.statements
            values = [Array(mapping.get(r, r)) for r in results]
        else:
            one = Block(block.statements, list(results))
            core.substitute(one, mapping)
            record = CheckpointCall(again, 0, {"value": Part(one)})
            values = emit(builder, record, {}, one.results, builder)
        stored = []
        for phi, value in zip(phis, values, strict=True):
            new = apply(update, Array(phi), value, lane, index=(Slot(0),))
            stored.append(new.atom)
        body.results = stored
    core.substitute(body, mapping)
    with builder.block() as whole:
        loop = emit_loop(builder, lane.atom, (0, size, 1), phis, arrays, body)
    block.statements = [*before.statements, *whole.statements]
    table = dict(zip(results, loop.outs, strict=True))
    return [(Array(table[a]), True) if a in table else (_value(a), False) for a in block.results]


def _named(array: Any, name: str | None) -> Any:
    array.atom.name = array.atom.name or name
    return array.atom


def _atom(value: Any) -> Any:
    return value.atom if isinstance(value, Array) else value


def _value(atom: Any) -> Any:
    return Array(atom) if isinstance(atom, Var) else atom
