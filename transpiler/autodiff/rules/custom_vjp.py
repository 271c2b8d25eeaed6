"""``custom_vjp``: calls with user-defined rules for cotangents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.transpiler.autodiff.rule_expansion import Returned, zero_of
from calque.transpiler.autodiff.rules.batched_call import (
    Call,
    held_values,
    is_float,
    is_value,
    refuse_captured,
)
from calque.transpiler.autodiff.rules.rule_tracing import Record, Recording, fits, name_of
from calque.transpiler.errors import CustomRuleError, NotDifferentiable
from calque.transpiler.frontend.machine import Machine
from calque.transpiler.ir import pytrees
from calque.transpiler.ir.builder import Array, Builder, atom, current, wrap
from calque.transpiler.ir.core import Apply, Var
from calque.transpiler.ir.rewrite import copy_facts
from calque.transpiler.primitives.called import Part, inline


class CustomVjpCall(Call):
    """A call with a rule for cotangents.

    The part "fwd" gives the values, then what "bwd" needs; the parameters of "bwd" are these and
    the cotangents of the outs that are floats; its results the cotangents of the leaves, None for
    zero.
    """

    expands = True

    def whole(
        self, key: str, k: int, value: Any, has: bool, size: Any, leaves: Sequence[bool]
    ) -> Any:
        """The cotangent of a leaf that all examples share is their sum."""
        found = super().whole(key, k, value, has, size, leaves)
        if key != "bwd" or leaves[k] or not is_value(found):
            return found
        return np.sum(found, axis=0)

    def push(self, s: Apply, tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Raise: there is no rule for tangents."""
        raise NotDifferentiable(
            f"{self.name} has a custom_vjp, and forward mode cannot use it.",
            s.origin,
            "use reverse mode, or give the function a custom_jvp, which serves both",
        )

    def expand(self, builder: Builder, s: Apply, active: set[Var]) -> list[Any]:
        """The forward rule on held values, and results whose vjp is the backward rule."""
        refuse_captured(self, s, active)
        actual = self.actual(s)
        fwd, bwd, count = self.parts["fwd"].block, self.parts["bwd"], len(s.outs)
        found = inline(builder, fwd, held_values(builder, actual, active))
        values, residuals = found[:count], found[count:]
        leaves = s.args[: self.count]

        def vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
            given = [
                atom(zero_of(o.atom) if c is None else c)
                for o, c in zip(outs, cotangents, strict=True)
                if is_float(o.atom)
            ]
            kept = [atom(a) for a in args[count + len(leaves) :]]
            mapping = dict(zip(bwd.params, [*kept[: len(residuals)], *given], strict=True))
            mapping.update(zip(actual, kept[len(residuals) :], strict=True))
            bars = inline(current(), bwd.block, mapping)
            bars = [None if isinstance(b, _Zero) else wrap(b) for b in bars]
            return (*[None] * count, *bars, *[None] * len(kept))

        record = Returned(self.name, _unused, _unused, "{0}", vjp=vjp, aliases=True)
        outs = tuple(Var(o.type, o.name, o.origin) for o in s.outs)
        for o, out in zip(s.outs, outs, strict=True):
            copy_facts(builder, o, out)
        args = (*values, *leaves, *residuals, *actual.values())
        builder.emit(Apply(outs, record, args, {}, s.origin))
        return [Array(o) for o in outs]


def _unused(*args: Any, **params: Any) -> Any:
    raise AssertionError("a marker of the reverse sweep is never computed")


def call_custom_vjp(
    machine: Machine,
    function: Any,
    rules: tuple[Any, Any],
    nondiff: Sequence[int],
    args: list[Any],
    node: Any,
) -> Any:
    """``function(*args)``, with its own rules for cotangents."""
    varying = [a for i, a in enumerate(args) if i not in nondiff]
    leaves = pytrees.flatten(tuple(varying))[0]
    if not machine.derivatives or not any(isinstance(x, Array) for x in leaves):
        return machine.call_value(function, list(args), {}, node)
    name, level = name_of(function), machine.derivatives - 1
    fwd, bwd = rules
    recording = Recording(machine, name, args, node)
    inner = recording.copies()
    value = recording.run(function, inner, 0, lambda r: [r])
    forth = recording.run(
        fwd, recording.copies(), level, lambda r: _with_residuals(r, value, name, machine)
    )
    wanted = value.leaves(0)
    for leaf, found in zip(wanted, forth.block.results, strict=False):
        if isinstance(leaf, Array):
            fits(leaf, found, f"The forward rule of {name} gives a value", machine)
    params, residuals = _residuals(forth, machine)
    outs, structure = pytrees.flatten(value.trees[0])
    bars = [cotangent_of(machine.builder, x) for x in outs]
    seeds = [zero_of(atom(x)) if b is None else Array(b) for x, b in zip(outs, bars, strict=True)]
    fixed = [recording.copies()[i] for i in nondiff]
    back = recording.run(
        bwd,
        [*fixed, residuals, pytrees.unflatten(structure, seeds)],
        level,
        lambda r: [_cotangents(r, varying, name, machine)],
    )
    values = forth.block.results[: len(wanted)]
    kept = forth.block.results[len(wanted) :]
    residual_atoms = [a for a, x in zip(kept, forth.leaves(1), strict=True) if isinstance(x, Array)]
    forth.block.results = [a for a, x in zip(values, wanted, strict=True) if isinstance(x, Array)]
    forth.block.results += residual_atoms
    own = (*params, *(b for b in bars if b is not None))
    operands = [x.atom for x in leaves if isinstance(x, Array)]
    parts = {"value": Part(value.block), "fwd": Part(forth.block), "bwd": Part(back.block, own)}
    return recording.finish(CustomVjpCall(name, len(operands), parts), operands, value, inner)


def _with_residuals(result: Any, value: Record, name: str, machine: Machine) -> list[Any]:
    """The values and the residuals that a forward rule gave."""
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise CustomRuleError(
            f"The forward rule of {name} must return a pair (result, residuals).",
            machine.return_origin,
            "return f(x), (x,)",
        )
    if pytrees.flatten(result[0])[1] != pytrees.flatten(value.trees[0])[1]:
        raise CustomRuleError(
            f"The forward rule of {name} gives a result of another structure than {name} does.",
            machine.return_origin,
        )
    return list(result)


def _residuals(forth: Record, machine: Machine) -> tuple[list[Var], Any]:
    """Parameters of the backward rule for the residuals, and these in their tree."""
    params: list[Var] = []
    made: list[Any] = []
    found, structure = pytrees.flatten(forth.trees[1])
    for leaf in found:
        if isinstance(leaf, Array):
            old = forth.block.results[len(forth.leaves(0)) + len(made)]
            var = Var(leaf.type, old.name, machine.builder.origin)
            copy_facts(machine.builder, old, var)
            params.append(var)
            leaf = Array(var)
        made.append(leaf)
    return params, pytrees.unflatten(structure, made)


def cotangent_of(builder: Builder, leaf: Any) -> Var | None:
    """A Var for the cotangent of a float leaf."""
    if not isinstance(leaf, Array) or not leaf.type.is_float:
        return None
    return Var(leaf.type, None, builder.origin)


def _cotangents(result: Any, varying: Sequence[Any], name: str, machine: Machine) -> list[Any]:
    """The cotangents that a backward rule returned, one for each leaf that is an array."""
    if not isinstance(result, (tuple, list)) or len(result) != len(varying):
        what = f"{len(result)}" if isinstance(result, (tuple, list)) else type(result).__name__
        raise CustomRuleError(
            f"The backward rule of {name} must return a tuple of {len(varying)} cotangents, one "
            f"for each differentiable argument; it returned {what}.",
            machine.return_origin,
            "return a tuple, with None where a cotangent is zero",
        )
    return [
        c
        for k, (arg, bar) in enumerate(zip(varying, result, strict=True))
        for c in _matched(arg, bar, f"argument {k}", name, machine)
    ]


def _matched(arg: Any, bar: Any, where: str, name: str, machine: Machine) -> list[Any]:
    """The cotangents of the leaves of one argument; None stands for a whole tree of zeros."""
    leaves, structure = pytrees.flatten(arg)
    if bar is None:
        return [_Zero()] * sum(isinstance(x, Array) for x in leaves)
    if pytrees.flatten(bar)[1] == structure:
        found = []
        for leaf, b in zip(leaves, pytrees.flatten(bar)[0], strict=True):
            if isinstance(leaf, Array) and leaf.type.is_float:
                what = f"The backward rule of {name} gives {where} a cotangent"
                fits(leaf, atom(b), what, machine)
            if isinstance(leaf, Array):
                found.append(b if leaf.type.is_float else _Zero())
        return found
    pairs = _children(arg, bar)
    if pairs is None:
        raise CustomRuleError(
            f"The backward rule of {name} gives {where} a cotangent of another structure.",
            machine.return_origin,
            "return the structure of the argument, with None where a cotangent is zero",
        )
    return [c for key, a, b in pairs for c in _matched(a, b, f"{where}[{key!r}]", name, machine)]


class _Zero:
    """Stands for a cotangent that is zero."""


def _children(arg: Any, bar: Any) -> list[tuple[Any, Any, Any]] | None:
    """The parts of an argument beside those of its cotangent, in the order of leaves."""
    if isinstance(arg, dict) and isinstance(bar, dict) and set(arg) == set(bar):
        return [(key, arg[key], bar[key]) for key in pytrees.keys_of(arg)]
    if isinstance(arg, (tuple, list)) and isinstance(bar, (tuple, list)) and len(arg) == len(bar):
        return [(k, a, b) for k, (a, b) in enumerate(zip(arg, bar, strict=True))]
    return None
