"""Expand calls with custom rules before a reverse sweep, and remove the markers after it.

The sweep differentiates a ``custom_jvp`` by what the user's rule computes, which is linear in the
tangents::

    y = f(x)

becomes, before the sweep, with ``rule(x, t)`` written out::

    t = tangent(x)                      # zero; its cotangent goes to x
    v, v_dot = rule(held(x), t)         # held: a constant to this sweep
    y = attached(v, v_dot)              # v; its cotangent goes to v_dot

After the sweep the code that depends on ``t`` is dead, and is dropped: the forward phase computes
the rule's values without tangents, and the sweep is the transpose of its tangents.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from calque.transpiler.autodiff.activity import varied
from calque.transpiler.errors import CustomRuleError
from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Array, Builder
from calque.transpiler.ir.core import Apply, Atom, Block, Effect, Function, Var
from calque.transpiler.ir.dead_code import prune
from calque.transpiler.primitives.base import Primitive
from calque.transpiler.primitives.called import Called, define, marker, same
from calque.transpiler.primitives.creation import empty_like, ones_like, zeros_like
from calque.transpiler.vectorize.divergence import mapped

held = marker("held", nondifferentiable=True)
tangent = marker("tangent", vjp=lambda cotangents, outs, args, params: cotangents)
attached = Primitive(
    "attached",
    lambda x, dot: x,
    lambda x, dot: x.type,
    "{0}",
    aliases=True,
    vjp=lambda cotangents, outs, args, params: (None, cotangents[0]),
)
_SHAPE_ONLY = frozenset((zeros_like, ones_like, empty_like))
_MARKERS = (held, tangent, attached)


class Returned(Primitive):
    """The results of a ``custom_vjp`` and its operands; its vjp is the user's backward rule."""


def expand_rules(function: Function, builder: Builder, inputs: Sequence[Var]) -> None:
    """Replace the calls that ``inputs`` reach by their rules, in place."""
    while _has_calls(function.body):
        active = varied(function.body, inputs)
        if not _expand(function.body, builder, active):
            return


def _has_calls(block: Block) -> bool:
    return any(isinstance(s, Apply) and isinstance(s.primitive, Called) for s in core.walk(block))


def _expand(block: Block, builder: Builder, active: set[Var]) -> bool:
    found = False
    kept: list[core.Statement] = []
    for s in block.statements:
        for inner in core.blocks_of(s):
            found |= _expand(inner, builder, active)
        record = s.primitive if isinstance(s, Apply) else None
        if (
            not isinstance(s, Apply)
            or not isinstance(record, Called)
            or not record.expands
            or not any(a in active for a in s.args if isinstance(a, Var))
        ):
            kept.append(s)
            continue
        with builder.at(s.origin), builder.block() as made:
            define(builder, s.outs, record.expand(builder, s, active))
        kept += made.statements
        found = True
    block.statements = kept
    return found


def remove_rule_markers(function: Function, kept: Iterable[Atom]) -> dict[Var, Atom]:
    """Remove the markers, in place; return the replacements of removed Vars.

    ``kept`` are atoms that are needed besides the results.
    """
    statements = [s for s in core.walk(function.body) if isinstance(s, Apply)]
    seeds = {s.outs[0]: s for s in statements if s.primitive is tangent}
    if not any(s.primitive in _MARKERS or isinstance(s.primitive, Returned) for s in statements):
        return {}
    for s in statements:
        if (s.primitive.kind == "size" or s.primitive in _SHAPE_ONLY) and s.args[0] in seeds:
            s.args = (seeds[s.args[0]].args[0], *s.args[1:])
    mapping = _unmark(function.body)
    core.substitute(function.body, mapping)
    if not seeds:
        return mapping
    tainted = mapped(function.body, seeds, _SHAPE_ONLY)
    wanted = [a for a in [*function.body.results, *kept] if isinstance(a, Var)]
    wanted = [a for a in (mapping.get(w, w) for w in wanted) if isinstance(a, Var)]
    for var in wanted:
        if var in tainted:
            where = next(iter(seeds.values())).origin
            raise CustomRuleError(
                "The jvp rule cannot be used in reverse mode: its tangents are not a linear "
                "function of the tangents it was given.",
                where,
                "compute the tangents by products and sums of the given ones, or use custom_vjp",
            )
    defined = [o for s in function.body.statements for o in s.outs if o not in tainted]
    for block in [function.body, *(b for s in core.walk(function.body) for b in core.blocks_of(s))]:
        block.statements = [s for s in block.statements if not _shows(s, tainted)]
    prune(function.body, {*defined, *wanted})
    for seed in seeds.values():  # where its shape is still read
        seed.primitive, seed.params = zeros_like, {"dtype": seed.out.type.dtype}
    return mapping


def _shows(s: core.Statement, tainted: set[Var]) -> bool:
    """True if a statement prints, or asserts something about, a tangent that has no value here."""
    return isinstance(s, Effect) and any(isinstance(a, Var) and a in tainted for a in s.args)


def _unmark(block: Block) -> dict[Var, Atom]:
    """Replace the markers by identities, and constants of this sweep by the original values."""
    mapping: dict[Var, Atom] = {}
    for inner in [block, *(b for s in core.walk(block) for b in core.blocks_of(s))]:
        made: list[core.Statement] = []
        for s in inner.statements:
            if not isinstance(s, Apply):
                made.append(s)
            elif s.primitive is held:
                mapping[s.outs[0]] = mapping.get(s.args[0], s.args[0])
            elif s.primitive is attached:
                made.append(Apply(s.outs, same, s.args[:1], {}, s.origin))
            elif isinstance(s.primitive, Returned):
                made += [
                    Apply((o,), same, (a,), {}, s.origin)
                    for o, a in zip(s.outs, s.args, strict=False)
                ]
            else:
                made.append(s)
        inner.statements = made
    return mapping


def zero_of(leaf: Atom) -> Any:
    """A zero tangent, or cotangent, of a leaf."""
    if not isinstance(leaf, Var):
        return 0.0
    if not leaf.type.is_float:
        return np.zeros(leaf.type.ndim * (1,), [("float0", "V")])
    if not leaf.type.ndim:
        return 0.0 if leaf.type.weak else leaf.type.dtype.type(0)
    return np.zeros_like(Array(leaf))
