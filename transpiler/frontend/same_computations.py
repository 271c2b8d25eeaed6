"""Comparison of recorded values: do two of them compute the same from the same values?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calque.transpiler.frontend.values.containers.container_kinds import kind_of
from calque.transpiler.frontend.values.descriptions import same_constant
from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Array
from calque.transpiler.ir.core import Apply, For, If, Var, While


class SameComputations:
    """Values that compute the same, by the statements that define them."""

    def __init__(self, definitions: Mapping[Var, Any]):
        self.definitions = definitions
        self.seen: set[tuple[Var, Var]] = set()  # assumed to be the same: one pair that is not ends
        self.carried: dict[Var, tuple[Any, int]] = {}  # values of iterations: of which loop, where

    def values(self, one: Any, other: Any) -> bool:
        """True if two results hold the same, part by part."""
        if isinstance(one, Array) and isinstance(other, Array):
            return self.atoms(one.atom, other.atom)
        if isinstance(one, Array) or isinstance(other, Array) or one is other:
            return one is other
        first, second = kind_of(one).opened(one), kind_of(other).opened(other)
        if first is None or second is None:
            return same_constant(one, other)
        same = first[0] == second[0] and len(first[2]) == len(second[2])
        return same and all(map(self.values, first[2], second[2]))

    def _all(self, ones: Sequence[Any], others: Sequence[Any]) -> bool:
        return len(ones) == len(others) and all(map(self.atoms, ones, others))

    def atoms(self, one: Any, other: Any) -> bool:
        """True if two atoms hold the same."""
        if one is other:
            return True
        if not isinstance(one, Var) or not isinstance(other, Var):
            return not isinstance(one, Var) and not isinstance(other, Var) and _equal(one, other)
        if (one, other) in self.seen:
            return True
        self.seen.add((one, other))
        if one in self.carried and other in self.carried:
            return self._in_loops(*self.carried[one], *self.carried[other])
        first: Any = self.definitions.get(one)
        second: Any = self.definitions.get(other)
        if first is None or type(first) is not type(second):
            return False
        return self._statements(first, first.outs.index(one), second, second.outs.index(other))

    def _statements(self, first: Any, k: int, second: Any, j: int) -> bool:
        """True if a result of one statement is that of another."""
        if isinstance(first, Apply):
            alike = first.primitive is second.primitive and _equal(first.params, second.params)
            return alike and k == j and self._all(first.args, second.args)
        if isinstance(first, If):
            arms = zip(core.blocks_of(first), core.blocks_of(second), strict=True)
            return self.atoms(first.test, second.test) and all(
                self.atoms(a.results[k], b.results[j]) for a, b in arms
            )
        if not isinstance(first, (For, While)):
            return False
        for loop in (first, second):
            self.carried.update((phi, (loop, place)) for place, phi in enumerate(loop.phis))
        if isinstance(first, For):
            self.seen.add((first.index, second.index))
            ranges = [(each.start, each.stop, each.step) for each in (first, second)]
        else:
            ranges = [tuple(each.test.results) for each in (first, second)]
        return self._all(*ranges) and self.atoms(first.phis[k], second.phis[j])

    def _in_loops(self, first: Any, k: int, second: Any, j: int) -> bool:
        starts = self.atoms(first.inits[k], second.inits[j])
        return starts and self.atoms(first.body.results[k], second.body.results[j])


def _equal(one: Any, other: Any) -> bool:
    """True if two parameters of a statement, or two known numbers, are the same."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_equal(one[k], other[k]) for k in one)
    if isinstance(one, (tuple, list)):
        return len(one) == len(other) and all(map(_equal, one, other))
    if hasattr(one, "tobytes") and hasattr(one, "shape"):
        return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
    if isinstance(one, (float, complex)):
        return same_constant(one, other)
    return bool(one == other)
