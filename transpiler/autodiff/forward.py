"""Forward mode: tangents computed along with the values.

Before::

    y = np.sin(x) * x

After::

    y = np.sin(x) * x
    y_dot = np.cos(x) * x_dot * x + np.sin(x) * x_dot
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.transpiler.algebra.symmetry import symmetries
from calque.transpiler.autodiff.activity import varied
from calque.transpiler.autodiff.unbroadcast import match_dtype, materialize
from calque.transpiler.errors import NotDifferentiable
from calque.transpiler.ir import core
from calque.transpiler.ir.builder import FUNCTIONS, Array, Builder, type_of, wrap
from calque.transpiler.ir.core import Apply, Atom, Block, For, Function, If, Var, While
from calque.transpiler.ir.dead_code import read_by
from calque.transpiler.ir.phases import label_rest
from calque.transpiler.ir.rewrite import derived
from calque.transpiler.ir.roles import give_words
from calque.transpiler.primitives.called import Called, define
from calque.transpiler.primitives.complexes import conj, imag, real
from calque.transpiler.primitives.elementwise import astype, to_complex, to_float, where
from calque.transpiler.primitives.guards import guarded, note_branch, note_selected
from calque.transpiler.primitives.indexing import copy
from calque.transpiler.primitives.reductions import sum_
from calque.transpiler.primitives.scaling import doubled
from calque.transpiler.primitives.selections import selections

Tangents = dict[Var, Any]

# primitives that are written the same for a Python number and for an array without dimensions
_OF_NUMBERS = (astype, copy, to_float, to_complex, where, real, imag, conj, sum_)


def forward(function: Function, builder: Builder, tangents: dict[Var, Any]) -> list[Any]:
    """Add tangents to ``function.body``, in place; return the results' tangents (None for zero).

    ``tangents`` maps parameters to their tangents. A tangent is of its primal's phase.
    """
    inputs = [v for v in tangents if v.type.is_float]
    builder.symmetries = symmetries(function)
    push = Push(builder, varied(function.body, inputs), function)
    known: Tangents = {v: t for v, t in tangents.items() if v.type.is_float}
    statements = function.body.statements
    function.swept = any(s.phase for s in statements)
    with builder.block() as block, selections():
        push.statements(statements, known)
        found = []
        for result in function.body.results:
            tangent = known.get(result) if isinstance(result, Var) else None
            found.append(
                None if tangent is None else materialize(tangent, result.type, Array(result))
            )
    function.body.statements = block.statements
    return found


def _as_its_primal(tangent: Any, primal: Atom) -> Any:
    """The tangent of an array as an array: a Python number has no ``ravel``."""
    if tangent is None or type_of(primal).weak or not type_of(tangent).weak:
        return tangent
    return FUNCTIONS[np.asarray](tangent)


class Push:
    """Pushes tangents through statements, and emits the statements again."""

    def __init__(self, builder: Builder, active: set[Var], function: Function):
        self.builder = builder
        self.active = active
        results = {r for r in function.body.results if isinstance(r, Var)}
        self.live = read_by(function.body, results)  # (what no result needs has no tangent)
        self.roles = give_words(function.body, builder.named, builder.definitions)

    def statements(self, statements: Sequence[core.Statement], tangents: Tangents) -> None:
        """Emit each statement and its tangent."""
        for s in statements:
            block = self.builder.blocks[-1]
            count = len(block.statements)
            with self.builder.at(s.origin):
                match s:
                    case Apply() if self.live.isdisjoint(s.outs):
                        self.builder.emit(s)
                    case Apply(primitive=Called()):
                        self.push_call(s, tangents)
                    case Apply():
                        self.builder.emit(s)
                        self.push_apply(s, tangents)
                    case If():
                        self.push_if(s, tangents)
                    case For() | While():
                        self.push_loop(s, tangents)
                    case _:
                        self.builder.emit(s)
            label_rest(block.statements[count:], s.phase)

    def push_call(self, s: Apply, tangents: Tangents) -> None:
        """Emit a call and its tangents by the call's own rule, which returns the values too."""
        given = [self._whole_or_none(a, tangents) for a in s.args]
        if all(t is None for t in given):
            self.builder.emit(s)
            return
        values, found = s.primitive.push(s, given)
        define(self.builder, s.outs, values)
        for out, tangent in zip(s.outs, found, strict=True):
            self.note(tangents, out, tangent)

    def _whole_or_none(self, primal: Atom, tangents: Tangents) -> Any:
        has = isinstance(primal, Var) and tangents.get(primal) is not None
        return self.whole(primal, tangents) if has else None

    def push_apply(self, s: Apply, tangents: Tangents) -> None:
        """Emit one primitive, and its tangent by the primitive's rule."""
        given = tuple(tangents.get(a) if isinstance(a, Var) else None for a in s.args)
        if s.primitive.nondifferentiable or all(t is None for t in given):
            return
        if not any(o.type.is_float for o in s.outs):
            return
        if s.primitive.jvp is None:
            raise NotDifferentiable(
                f"{s.primitive.name} has no derivative.", s.origin, "use stop_gradient around it"
            )
        args, outs = tuple(map(wrap, s.args)), tuple(Array(o) for o in s.outs)
        if s.primitive.kind != "elementwise":
            given = tuple(
                None if t is None else materialize(t, a.type, Array(a))
                for t, a in zip(given, s.args, strict=True)
            )
        if s.primitive.kind != "elementwise" and s.primitive not in _OF_NUMBERS:
            given = tuple(map(_as_its_primal, given, s.args))
        square = s.primitive.arithmetic == "multiply" and s.args[0] is s.args[1]
        given = (given[0], None) if square else given
        found = s.primitive.jvp(given, outs, args, s.params)
        found = tuple(map(doubled, found)) if square else found
        if s.primitive.arithmetic == "where":
            note_selected(found[0])
        for out, tangent in zip(s.outs, found, strict=True):
            self.note(tangents, out, guarded(tangent))
            if s.primitive.linear_in == (0,) and isinstance(tangent, Array):
                self._same_sizes(tangent, out)

    def _same_sizes(self, tangent: Array, out: Var) -> None:
        """Unify the data-dependent sizes of a tangent and of its primal."""
        dims = self.builder.dims
        for size, own in zip(tangent.dims, out.type.dims, strict=True):
            if dims.beyond_arguments(size) and dims.beyond_arguments(own):
                dims.unify(size, own)

    def note(self, tangents: Tangents, primal: Var, tangent: Any) -> None:
        """Keep a tangent, named after its primal."""
        if tangent is None or not primal.type.is_float:
            return
        tangent = match_dtype(tangent, primal.type)
        if isinstance(tangent, Array):
            tangent = Array(tangent.atom)
            if tangent.atom.name is None and primal.name is not None:
                tangent.atom.name = f"{primal.name}_dot"
            if tangent.atom.name is None:
                self.roles.name_beside(primal, tangent.atom, "dot")
        tangents[primal] = tangent

    def whole(self, primal: Atom, tangents: Tangents) -> Any:
        """The tangent of ``primal`` in its shape; zeros if it has none."""
        tangent = tangents.get(primal) if isinstance(primal, Var) else None
        t = primal.type if isinstance(primal, Var) else None
        if t is None or not t.ndim:
            return 0.0 if tangent is None else tangent
        return (
            np.zeros_like(Array(primal))
            if tangent is None
            else materialize(tangent, t, Array(primal))
        )

    def _atom(self, value: Any) -> Atom:
        return value.atom if isinstance(value, Array) else value

    def _dot(self, primal: Var) -> Var:
        return Var(primal.type, f"{primal.name}_dot" if primal.name else None, primal.origin)

    def push_if(self, s: If, tangents: Tangents) -> None:
        """Emit a branch, with a tangent for each active result."""
        wanted = [k for k, out in enumerate(s.outs) if out in self.active]
        arms = []
        for arm in (s.then, s.orelse):
            with self.builder.block() as block:
                local = dict(tangents)
                self.statements(arm.statements, local)
                dots = [self._whole_result(arm.results[k], s.outs[k], local) for k in wanted]
                block.results = [*arm.results, *map(self._atom, dots)]
            arms.append(block)
        outs = [self._dot(s.outs[k]) for k in wanted]
        then, orelse = arms
        self.builder.emit(If((*s.outs, *outs), s.test, then, orelse, s.origin))
        first = len(s.outs)
        note_branch(s.test, outs, *(Block(a.statements, a.results[first:]) for a in arms))
        for k, out in zip(wanted, outs, strict=True):
            tangents[s.outs[k]] = Array(out)

    def _whole_result(self, result: Atom, out: Var, tangents: Tangents) -> Any:
        if isinstance(result, Var):
            return self.whole(result, tangents)
        return core.UNDEFINED if result is core.UNDEFINED or out.type.ndim else 0.0

    def push_loop(self, s: For | While, tangents: Tangents) -> None:
        """Emit a loop that carries a tangent for each active carried value."""
        wanted = [k for k, phi in enumerate(s.phis) if phi in self.active]
        inits = [
            core.UNDEFINED if s.inits[k] is core.UNDEFINED else self.whole(s.inits[k], tangents)
            for k in wanted
        ]
        dots = [self._dot(s.phis[k]) for k in wanted]
        local = dict(tangents)
        for k, dot in zip(wanted, dots, strict=True):
            local[s.phis[k]] = Array(dot)
        with self.builder.block() as block:
            self.statements(s.body.statements, local)
            after = [self.whole(s.body.results[k], local) for k in wanted]
            block.results = [*s.body.results, *map(self._atom, after)]
        outs = [self._dot(s.outs[k]) for k in wanted]
        phis, all_inits = (*s.phis, *dots), (*s.inits, *map(self._atom, inits))
        parts = {"outs": (*s.outs, *outs), "phis": phis, "inits": all_inits, "body": block}
        self.builder.emit(derived(s, **parts))
        for k, out in zip(wanted, outs, strict=True):
            tangents[s.outs[k]] = Array(out)

