"""Global value numbering of expensive operations: reductions, products, and branches on them.

Before::

    if np.max(s) > 30.0: r = f(s)
    else: r = s
    if np.max(s) > 30.0: t = g(r)
    else: t = r

After::

    above = np.max(s) > 30.0
    if above: r = f(s)
    else: r = s
    if above: t = g(r)
    else: t = r

Equal operations of equal values have one number; an expensive one is replaced by an equal one that
dominates it. Within an arm, the results of an earlier branch on the same test are those of its arm
for the same truth value, and a branch whose test is known there is replaced by its arm. Cheap
operations stay as the user wrote them: to compute them again costs less than to keep an array.
"""

from __future__ import annotations

from collections import ChainMap
from typing import Any

import numpy as np

from calque.transpiler.ir import core
from calque.transpiler.ir.core import (
    UNDEFINED,
    Apply,
    Atom,
    Block,
    For,
    Function,
    If,
    Statement,
    Var,
    While,
)
from calque.transpiler.ir.dead_code import remove_dead_code
from calque.transpiler.ir.effects import is_store
from calque.transpiler.ir.types import type_of_constant
from calque.transpiler.primitives.called import Called

_DEAR = ("bilinear", "multilinear", "reduction")
_APART = ("store", "creation", "collective")  # changed later, or visible to other processes
Known = ChainMap[Any, Any]  # values by term; by test and arm, what is known where the arm is taken
Truths = dict[Atom, bool]
_TERM = 3  # parts of a term: primitive, operands, parameters


def value_numbering(function: Function) -> None:
    """Compute equal expensive operations once, in place."""
    numbers = _ValueNumbers(function.body)
    numbers.visit(function.body, ChainMap(), {})
    if numbers.replaced:
        now = numbers.replaced
        core.substitute(function.body, {v: _last(now, v) for v in now})
        remove_dead_code(function)


def _last(mapping: dict[Var, Atom], atom: Atom) -> Atom:
    while isinstance(atom, Var) and atom in mapping:
        atom = mapping[atom]
    return atom


class _ValueNumbers:
    def __init__(self, body: Block):
        self.equal: dict[Var, Atom] = {}  # to the first equal value; the Var itself may stay
        self.replaced: dict[Var, Atom] = {}
        self.rooted: set[Atom] = set()  # expensive values, and tests of them
        self.stored: set[Atom] = set()  # arrays that are changed in place
        for s in core.walk(body):
            if is_store(s):
                self.stored.add(s.args[0])
            elif isinstance(s, (For, While)):
                self.stored.update(a for a in s.inits if isinstance(a, Var) and a.type.ndim)

    def visit(self, block: Block, known: Known, truths: Truths) -> None:
        """Merge in a block; terms are ``known`` before it, and ``truths`` hold within it."""
        kept: list[Statement] = []
        for s in block.statements:
            if isinstance(s, If):
                kept += self._branch(s, known, truths)
            elif not isinstance(s, Apply) or not self._is_at_hand(s, known):
                kept.append(s)
                for inner in core.blocks_of(s):
                    self.visit(inner, known.new_child(), truths)
        block.statements[:] = kept

    def _is_at_hand(self, s: Apply, known: Known) -> bool:
        """True if equal values of an expensive statement are known: the statement is dropped."""
        if isinstance(s.primitive, Called) or s.primitive.kind in _APART or s.primitive.imported:
            return False
        params = tuple(sorted((k, _said(v)) for k, v in s.params.items()))
        term = s.primitive, tuple(map(self._number, s.args)), params
        expensive = _is_expensive(s) or self._tests_expensive_terms(s)
        return self._is_made(term, s.outs, expensive, known)

    def _is_made(self, term: Any, outs: tuple[Var, ...], expensive: bool, known: Known) -> bool:
        """True if known values replace the results ``outs`` of a term; notes the replacement."""
        if expensive:
            self.rooted.update(outs)
        first, values = known.setdefault(term, (outs, outs))
        if first is outs or any(a.type != b.type for a, b in zip(outs, first, strict=True)):
            return False
        self.equal.update(zip(outs, first, strict=True))
        if not expensive or values is None or self.stored & {*outs, *values}:
            return False
        for late, early in zip(outs, values, strict=True):
            self.replaced[late] = early
            early.name = early.name or late.name
        return True

    def _tests_expensive_terms(self, s: Apply) -> bool:
        """True if a statement computes a scalar truth value from expensive scalars."""
        if any(o.type.ndim or o.type.dtype.kind != "b" for o in s.outs):
            return False
        asked = (_last(self.equal, a) for a in s.args)
        return any(a in self.rooted and not a.type.ndim for a in asked if isinstance(a, Var))

    def _number(self, atom: Atom) -> Any:
        atom = _last(self.equal, atom)
        return atom if isinstance(atom, Var) else (type(atom), repr(atom))

    def _branch(self, s: If, known: Known, truths: Truths) -> list[Statement]:
        """Merge within both arms; a branch whose test is known is replaced by its arm."""
        test = _last(self.equal, s.test)
        if not isinstance(test, Var):
            return [s]
        if test in truths:
            arm = s.then if truths[test] else s.orelse
            if all(_type(a) == o.type for a, o in zip(arm.results, s.outs, strict=True)):
                self.visit(arm, known, truths)
                self.replaced.update(zip(s.outs, arm.results, strict=True))
                self.equal.update(zip(s.outs, arm.results, strict=True))
                return arm.statements
        for flag, arm in ((True, s.then), (False, s.orelse)):
            # a branch that stays within an arm of an equal test starts with nothing known
            terms, holds = ({}, {}) if test in truths else known.get((test, flag), ({}, {}))
            inside, within = known.new_child(dict(terms)), {**truths, **holds, test: flag}
            self.visit(arm, inside, within)
            known[test, flag] = self._learned(s, arm, inside, within)
        for k, o in enumerate(s.outs):
            if not o.type.ndim:
                pair = tuple(self._number(arm.results[k]) for arm in (s.then, s.orelse))
                self._is_made(("if", test, pair), (o,), True, known)
        return [s]

    def _learned(
        self, s: If, arm: Block, inside: Known, within: Truths
    ) -> tuple[dict[Any, Any], Truths]:
        """The terms and truths that hold where a later branch takes the same arm.

        A term's values are usable there only if they are results of the branch.
        """
        given: dict[Atom, Var] = {}
        holds = within.copy()
        for o, result in zip(s.outs, arm.results, strict=True):
            number = _last(self.equal, result)
            if isinstance(number, (bool, np.bool_)):
                holds[o] = bool(number)
            elif number in within:
                holds[o] = within[number]
            elif isinstance(number, Var) and number.type == o.type:
                given.setdefault(number, o)
        terms = {t: known for t, known in inside.maps[0].items() if len(t) == _TERM}
        for term, (first, values) in terms.items():
            if values is None or values is first:
                outs = tuple(given[v] for v in first if v in given)
                terms[term] = first, (outs if len(outs) == len(first) else None)
        return terms, holds


def _is_expensive(s: Apply) -> bool:
    """True if a statement is expensive: a product, a reduction, or one that reduces the rank."""
    p = s.primitive
    if p.kind in _DEAR:
        return True
    dims = max((a.type.ndim for a in s.args if isinstance(a, Var)), default=0)
    fewer = all(o.type.ndim < dims for o in s.outs)
    return fewer and (p.fresh if p.kind == "linear" else p.kind == "opaque")


def _said(value: Any) -> Any:
    """A hashable key for a parameter's value."""
    if isinstance(value, tuple):
        return "tuple", *map(_said, value)
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tobytes()
    return repr(value)


def _type(atom: Atom) -> Any:
    if isinstance(atom, Var):
        return atom.type
    return None if atom is UNDEFINED else type_of_constant(atom)
