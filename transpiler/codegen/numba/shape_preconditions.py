"""Checks of argument sizes at the start of a saved module's functions, before kernels run.

``jit`` checks sizes when it dispatches a call, and compiles another program if they differ. A saved
module has no dispatch, and its kernels access memory by the sizes that they were written for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import gast

from calque.transpiler.codegen.text.layout import to_text
from calque.transpiler.codegen.text.signature import leaf_paths
from calque.transpiler.codegen.text.spelling import name, parsed
from calque.transpiler.ir.builder import Builder
from calque.transpiler.ir.core import EqualDims, Function, Var
from calque.transpiler.ir.dims import Dims
from calque.transpiler.ir.types import Dim, DimLike, dim_symbols, substitute_dim, symbol
from calque.transpiler.ir.value_ranges import ARGUMENT


def size_checks(function: Function, builder: Builder) -> list[gast.stmt]:
    """An ``if`` that raises ValueError for each assumption of the kernels."""
    sizes, dims = _Sizes(function, builder.dims), builder.dims
    relied = builder.magnitudes.relied
    asked: list[tuple[str, str] | None] = [sizes.within(p) for p in function.params if p in relied]
    asked += sizes.equalities(function.equal_dims)
    for dim in dims.assumptions:
        asked.append(sizes.nonnegative(dims.resolve(dim)) or sizes.nonnegative(dim))
    return [
        _refusal(function.name, wrong, right)
        for wrong, right in dict.fromkeys(pair for pair in asked if pair is not None)
    ]


def _refusal(function: str, wrong: str, right: str) -> Any:
    return parsed(f"if {wrong}:\n    raise ValueError({f'{function} needs {right}'!r})")


class _Sizes:
    """The text of conditions on arguments' sizes: each as its negation and itself."""

    def __init__(self, function: Function, dims: Dims):
        self.dims = dims
        paths = leaf_paths(function)
        self.texts = {p: self._text(p, paths) for p in function.params}
        self.params = [(self.texts[p], p.type.dims) for p in function.params]
        self.places: dict[str, str] = {}
        for text, given in self.params:
            for axis, dim in enumerate(given):
                if isinstance(dim, Dim):
                    self.places.setdefault(_name(dim), f"{text}.shape[{axis}]")
        for param in function.params:
            own = function.dim_values.get(param)
            if isinstance(own, Dim) and not param.type.ndim:
                self.places.setdefault(_name(own), self.texts[param])

    @staticmethod
    def _text(var: Var, paths: dict[Var, Any]) -> str:
        path = paths[var][0] if var in paths else name(var.name or "x")
        return to_text(path)

    def within(self, number: Var) -> tuple[str, str]:
        """The condition that an integer argument is in the range assumed for its sums."""
        low, high = ARGUMENT
        inside = f"{low} <= {self.texts[number]} <= {high}"
        return f"not {inside}", inside

    def equalities(self, equal_dims: Iterable[EqualDims]) -> list[tuple[str, str]]:
        """All conditions that sizes are equal, in the order of the arguments.

        Arrays of one size have one symbol, or several that are equal: the conditions are the same.
        """
        found = [*self.known(), *(pair for e in equal_dims for pair in self._equal(e))]
        return sorted(dict.fromkeys(found), key=self._place_of_last)

    def _place_of_last(self, pair: tuple[str, str]) -> int:
        places = [f"{text}.shape[{axis}]" for text, own in self.params for axis in range(len(own))]
        return max((k for k, place in enumerate(places) if place in pair[1]), default=-1)

    def _equal(self, equality: EqualDims) -> list[tuple[str, str]]:
        """The conditions of an equality: that each of its sizes is what it stands for."""
        difference = equality.left - equality.right
        meant = {s: self.dims.resolve(symbol(s)) for s in sorted(dim_symbols(difference))}
        found = [self.equal(symbol(s) - dim) for s, dim in meant.items() if dim != symbol(s)]
        if substitute_dim(difference, meant) != 0 or None in found:
            found = [self.equal(difference)]  # these conditions do not imply it
        return [pair for pair in found if pair is not None]

    def known(self) -> list[tuple[str, str]]:
        """The conditions that sizes equal a constant, or other sizes with the same symbol."""
        found = []
        for text, given in self.params:
            for axis, dim in enumerate(given):
                own = f"{text}.shape[{axis}]"
                left, right = own, str(dim)
                if isinstance(dim, Dim):
                    left, right = self.places[_name(dim)], own
                if left != right:
                    found.append((f"{left} != {right}", f"{left} == {right}"))
        return found

    def nonnegative(self, dim: DimLike) -> tuple[str, str] | None:
        """The condition ``dim >= 0``; None if the arguments do not determine it."""
        sides = self._sides(dim)
        return sides and (f"{sides[0]} < {sides[1]}", f"{sides[0]} >= {sides[1]}")

    def equal(self, dim: DimLike) -> tuple[str, str] | None:
        """The condition ``dim == 0``; None if the arguments do not determine it."""
        first = next((s for s in self.places if s in dim_symbols(dim)), None)
        if any(s == first and c < 0 for s, c in getattr(dim, "terms", ())):
            dim = -1 * dim  # the first argument stands on the left
        sides = self._sides(dim)
        return sides and (f"{sides[0]} != {sides[1]}", f"{sides[0]} == {sides[1]}")

    def _sides(self, dim: DimLike) -> tuple[str, str] | None:
        """The positive and the negative terms of a size; None if arguments do not determine it."""
        if not isinstance(dim, Dim):
            return None
        if self.dims.beyond_arguments(dim) - self.dims.integers.keys():
            return None
        terms = [(self._symbol(s), c) for s, c in dim.terms]
        if not all(text for text, _ in terms):
            return None
        both = [(text, c) for text, c in terms if c > 0], [(text, -c) for text, c in terms if c < 0]
        constants = max(dim.const, 0), max(-dim.const, 0)
        left, right = map(_sum, both, constants)
        return left, right

    def _symbol(self, s: str) -> str:
        if s in self.dims.floors and s not in self.places:
            dividend, divisor = self.dims.floors[s]
            sides = self._sides(dividend)
            if not sides:
                return ""
            whole = sides[0] if sides[1] == "0" else f"({sides[0]} - ({sides[1]}))"
            return f"({whole} // {divisor})"
        if s not in self.dims.quotients:
            return self.places.get(s, "")
        length, step = self.dims.quotients[s]
        sides = self._sides(length)
        return f"max(-(({sides[1]} - ({sides[0]})) // {step}), 0)" if sides else ""


def _name(dim: Dim) -> str:
    """The symbol of an argument's size that is a single symbol."""
    (name,) = dim_symbols(dim)
    return name


def _sum(terms: list[tuple[str, int]], constant: int) -> str:
    found = [text if c == 1 else f"{c} * {text}" for text, c in terms]
    return " + ".join([*found, str(constant)] if constant or not found else found)
