"""Collect like terms of sums: ``0.2 * a + 0.2 * b - c`` becomes ``(a + b) * 0.2 - c``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.transpiler.ir.builder import current, wrap
from calque.transpiler.ir.core import Apply, Atom, Var
from calque.transpiler.primitives.elementwise import multiply, negative


def total_of(values: Sequence[Atom]) -> Any:
    """The sum of values, in which terms with the same constant factor share one product."""
    parts: dict[float, list[tuple[int, Any]]] = {}
    for value in values:
        sign, factor, rest = _factored(value)
        parts.setdefault(factor, []).append((sign, rest))
    summands = []
    for factor, found in parts.items():
        sign = max(sign for sign, _ in found)
        part = _sum([(sign * own, rest) for own, rest in found])
        summands.append((sign, part if factor == 1.0 else part * factor))
    sign = max(sign for sign, _ in summands)
    total = _sum([(sign * own, part) for own, part in summands])
    return total if sign > 0 else -total


def _sum(summands: list[tuple[int, Any]]) -> Any:
    """The sum of summands with their signs; those with sign 1 come first."""
    ordered = sorted(summands, key=lambda summand: -summand[0])
    total = ordered[0][1]
    for sign, part in ordered[1:]:
        total = total + part if sign > 0 else total - part
    return total


def _factored(value: Atom) -> tuple[int, float, Any]:
    """A value as the product of a sign, a positive constant and a remaining factor."""
    made = current().definitions.get(value) if isinstance(value, Var) else None
    if isinstance(made, Apply) and made.primitive is negative:
        sign, factor, rest = _factored(made.args[0])
        return -sign, factor, rest
    if isinstance(made, Apply) and made.primitive is multiply:
        for factor, other in (made.args, made.args[::-1]):
            if type(factor) is float and factor and np.isfinite(factor):
                sign, more, rest = _factored(other)
                if more == 1.0:
                    return (sign if factor > 0 else -sign), abs(factor), rest
    return 1, 1.0, wrap(value)
