"""Calls with custom rules under vmap: the call of a batch is a call of the batched blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calque.transpiler.autodiff.rule_expansion import held
from calque.transpiler.errors import NotDifferentiable
from calque.transpiler.frontend.values.descriptions import is_number
from calque.transpiler.ir.builder import Array, Builder, atom, current
from calque.transpiler.ir.core import Apply, Atom, Function, Var
from calque.transpiler.ir.rewrite import copy_facts, inlined
from calque.transpiler.primitives.batched import size_among, spread
from calque.transpiler.primitives.called import Called, Part, mark
from calque.transpiler.vectorize.batch import batch


class Call(Called):
    """A call that is batched by batching its blocks."""

    def __init__(self, name: str, count: int, parts: dict[str, Part]):
        super().__init__(name, count, parts)
        self.batch = lambda args, batched, params: batched_call(self, args, batched)

    def again(self, parts: dict[str, Part]) -> Call:
        """The same call with other blocks."""
        return type(self)(self.name, self.count, parts)

    def batched_params(self, key: str, leaves: Sequence[bool]) -> Sequence[bool]:
        """For each parameter of a part, True if it has a batch axis when these leaves have one."""
        return [True] * len(self.parts[key].params)

    def whole(
        self, key: str, k: int, value: Any, has: bool, size: Any, leaves: Sequence[bool]
    ) -> Any:
        """Result k of a part with a batch axis."""
        return value if has or not is_value(value) else spread(value, size)


def is_value(value: Any) -> bool:
    return isinstance(value, Array) or is_number(value)


def is_float(atom: Atom) -> bool:
    return isinstance(atom, Var) and atom.type.is_float


def held_values(builder: Builder, actual: dict[Var, Atom], active: set[Var]) -> dict[Var, Atom]:
    """The operands, with active ones held constant."""
    return {
        p: mark(builder, held, (a,), a) if isinstance(a, Var) and a in active else a
        for p, a in actual.items()
    }


def refuse_captured(record: Called, s: Apply, active: Any) -> None:
    """Raise if a captured value is active: a custom rule has no derivative for it."""
    leaves = set(s.args[: record.count])
    for captured in s.args[record.count :]:
        if is_float(captured) and captured in active and captured not in leaves:
            raise NotDifferentiable(
                f"{record.name} captures {captured.name or 'a value'}, which is differentiated, "
                "and its rule says nothing of it.",
                s.origin,
                "pass it as an argument",
            )


def batched_call(record: Call, args: Sequence[Any], batched: Sequence[bool]) -> Any:
    """The call for all examples; every result has the batch axis."""
    builder = current()
    size = size_among(args, batched)
    names: dict[Var, Var] = {}
    companions: dict[Var, Any] = {}
    actual: dict[Var, Atom] = {}
    for p, value, has in zip(record.free, args[record.count :], batched[record.count :]):
        names[p] = one = Var(p.type, p.name, p.origin)
        copy_facts(builder, p, one)
        if has:
            whole = Var(value.type, p.name, p.origin)
            companions[one], actual[whole] = Array(whole), value.atom
        else:
            actual[one] = atom(value)
    leaves = batched[: record.count]
    parts = {
        key: _batched_part(record, key, part, names, companions, size, leaves)
        for key, part in record.parts.items()
    }
    made = record.again(parts)
    outs = tuple(
        Var(_batched_type(builder, a, size), getattr(a, "name", None), builder.origin)
        for a in record.parts["value"].block.results
    )
    operands = [atom(a) for a in args[: record.count]]
    builder.emit(
        Apply(outs, made, (*operands, *(actual.get(v, v) for v in made.free)), {}, builder.origin)
    )
    return tuple(map(Array, outs))


def _batched_type(builder: Builder, var: Var, size: Any) -> Any:
    return var.type.with_dims((builder.dim_of(size), *var.type.dims))


def _batched_part(
    record: Call,
    key: str,
    part: Part,
    names: dict[Var, Var],
    companions: dict[Var, Any],
    size: Any,
    leaves: Sequence[bool],
) -> Part:
    """One block of a call for all examples, with its own parameters."""
    builder = current()
    given = dict(companions)
    mapping: dict[Var, Atom] = dict(names)
    params = []
    for p, has in zip(part.params, record.batched_params(key, leaves), strict=True):
        mapping[p] = one = Var(p.type, p.name, p.origin)
        copy_facts(builder, p, one)
        if has:
            whole = Var(_batched_type(builder, p, size), p.name, p.origin)
            given[one] = Array(whole)
            one = whole
        params.append(one)
    program = Function(record.name, [], inlined(builder, part.block, mapping), None)
    with builder.block() as block:
        found = batch(program, builder, given, size, steady=True)
        block.statements += program.body.statements
        for k, (value, has) in enumerate(found):
            block.results.append(atom(record.whole(key, k, value, has, size, leaves)))
    return Part(block, tuple(params))
