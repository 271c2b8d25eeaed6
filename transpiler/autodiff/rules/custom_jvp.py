"""``custom_jvp``: calls with a user-defined rule for tangents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calque.transpiler.autodiff.rule_expansion import attached, tangent, zero_of
from calque.transpiler.autodiff.rules.batched_call import (
    Call,
    held_values,
    is_float,
    refuse_captured,
)
from calque.transpiler.autodiff.rules.rule_tracing import Record, Recording, fits, name_of
from calque.transpiler.errors import CustomRuleError
from calque.transpiler.frontend.machine import Machine
from calque.transpiler.ir import pytrees
from calque.transpiler.ir.builder import Array, Builder, atom, current, wrap
from calque.transpiler.ir.core import Apply, Atom, Block, Var
from calque.transpiler.primitives.called import Part, inline, mark


class CustomJvpCall(Call):
    """A call with a rule for tangents: the part "rule" gives the values, then the tangents.

    Its parameters are the tangents of the leaves that are floats, in order.
    """

    expands = True

    def _mapping(self, s: Apply, tangents: Sequence[Any]) -> dict[Var, Atom]:
        floats = [(a, t) for a, t in zip(s.args, tangents, strict=False) if is_float(a)]
        given = [atom(zero_of(a) if t is None else t) for a, t in floats]
        return dict(zip(self.parts["rule"].params, given, strict=True))

    def batched_params(self, key: str, leaves: Sequence[bool]) -> Sequence[bool]:
        """True for the tangents of batched leaves."""
        return leaves[: len(self.parts[key].params)] if key == "rule" else []

    def push(self, s: Apply, tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Call the rule itself."""
        refuse_captured(self, s, {a for a, t in zip(s.args, tangents) if t is not None})
        mapping = {**self.actual(s), **self._mapping(s, tangents[: self.count])}
        found = [wrap(a) for a in inline(current(), self.parts["rule"].block, mapping)]
        return found[: len(s.outs)], found[len(s.outs) :]

    def expand(self, builder: Builder, s: Apply, active: set[Var]) -> list[Any]:
        """The rule on held values and on tangents that the sweep takes for variables."""
        refuse_captured(self, s, active)
        mapping = held_values(builder, self.actual(s), active)
        tangents = [
            Array(mark(builder, tangent, (a,), a)) if a in active else None
            for a in s.args[: self.count]
        ]
        mapping.update(self._mapping(s, tangents))
        found = inline(builder, self.parts["rule"].block, mapping)
        values, dots = found[: len(s.outs)], found[len(s.outs) :]
        return [
            wrap(mark(builder, attached, (v, d), o) if isinstance(d, Var) and is_float(o) else v)
            for o, v, d in zip(s.outs, values, dots, strict=True)
        ]


def call_custom_jvp(
    machine: Machine, function: Any, rule: Any, nondiff: Sequence[int], args: list[Any], node: Any
) -> Any:
    """``function(*args)``, with its own rule for tangents."""
    varying = [a for i, a in enumerate(args) if i not in nondiff]
    leaves, structure = pytrees.flatten(tuple(varying))
    if not machine.derivatives or not any(isinstance(x, Array) for x in leaves):
        return machine.call_value(function, list(args), {}, node)
    name = name_of(function)
    recording = Recording(machine, name, args, node)
    inner = recording.copies()
    value = recording.run(function, inner, 0, lambda r: [r])
    params = [tangent_of(machine.builder, x) for x in leaves]
    dots = [zero_of(atom(x)) if p is None else Array(p) for x, p in zip(leaves, params)]
    primals = recording.copies()
    given = [a for i, a in enumerate(primals) if i not in nondiff]
    fixed = [primals[i] for i in nondiff]
    rule_args = [*fixed, tuple(given), pytrees.unflatten(structure, dots)]
    made = recording.run(
        rule, rule_args, machine.derivatives - 1, lambda r: _pair(r, value, name, machine)
    )
    part = Part(_results(made, value, name, machine), tuple(p for p in params if p is not None))
    operands = [x.atom for x in leaves if isinstance(x, Array)]
    record = CustomJvpCall(name, len(operands), {"value": Part(value.block), "rule": part})
    return recording.finish(record, operands, value, inner)


def tangent_of(builder: Builder, leaf: Any) -> Var | None:
    """A Var for the tangent of a float leaf."""
    if not isinstance(leaf, Array) or not leaf.type.is_float:
        return None
    name = leaf.atom.name
    return Var(leaf.type, f"{name}_dot" if name else None, builder.origin)


def _pair(result: Any, value: Record, name: str, machine: Machine) -> list[Any]:
    """The values and the tangents that a jvp rule gave, of the function's structure."""
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise CustomRuleError(
            f"The jvp rule of {name} must return a pair (primal_out, tangent_out).",
            machine.return_origin,
            "return f(x), tangent",
        )
    wanted = pytrees.flatten(value.trees[0])[1]
    for found, what in zip(result, ("value", "tangent"), strict=True):
        if pytrees.flatten(found)[1] != wanted:
            raise CustomRuleError(
                f"The jvp rule of {name} gives a {what} of another structure than {name} does.",
                machine.return_origin,
            )
    return list(result)


def _results(made: Record, value: Record, name: str, machine: Machine) -> Block:
    """The rule's block, with results for the leaves that are arrays, of fitting types."""
    count = len(made.leaves(0))
    values, dots = made.block.results[:count], made.block.results[count:]
    wanted = value.leaves(0)
    for leaf, found, dot in zip(wanted, values, dots, strict=True):
        if isinstance(leaf, Array):
            fits(leaf, found, f"The jvp rule of {name} gives a value", machine)
            if leaf.type.is_float:
                fits(leaf, dot, f"The jvp rule of {name} gives a tangent", machine)
    keep = [k for k, x in enumerate(wanted) if isinstance(x, Array)]
    made.block.results = [values[k] for k in keep] + [dots[k] for k in keep]
    return made.block


def total(terms: Sequence[Any], out: Any) -> Any:
    """The sum of trees; zeros of the structure of ``out`` where there is none."""
    if not terms:
        return pytrees.tree_map(lambda x: zero_of(atom(x)), out)
    found = terms[0]
    for term in terms[1:]:
        found = pytrees.tree_map(lambda a, b: a + b, found, term)
    return found
