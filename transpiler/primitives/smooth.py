"""Which values, made of numbers, are numbers, and have slopes that are."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np

from calque.transpiler.ir.builder import current
from calque.transpiler.ir.core import Apply, Var

_SMOOTH_KINDS = frozenset(
    "creation linear bilinear multilinear size store indexing collective".split()
)


def may_be_infinite(value: Var, numbers: Collection[Var], known: dict[Var, bool]) -> bool:
    """Whether a value is made of what is not smooth everywhere.

    ``numbers`` are finite whatever they are made of; ``known`` holds what was found before.
    """
    definitions = current().definitions
    stack = [value]
    while stack:
        var = stack[-1]
        if var in known:
            stack.pop()
            continue
        made = definitions.get(var)
        if made is None or var.type.dtype.kind in "biu" or _ends_at(var, made, numbers):
            known[var] = False
        elif not isinstance(made, Apply) or not is_smooth(made):
            known[var] = True
        else:
            operands = [a for a in made.args if isinstance(a, Var)]
            missing = [a for a in operands if a not in known]
            if missing:
                stack += missing
                continue
            known[var] = any(known[a] for a in operands)
        stack.pop()
    return known[value]


def _ends_at(var: Var, made: Any, numbers: Collection[Var]) -> bool:
    return var in numbers or (isinstance(made, Apply) and made.primitive.nondifferentiable)


def is_smooth(made: Apply) -> bool:
    """True if finite operands give finite results and slopes of every order."""
    primitive, args = made.primitive, made.args
    if primitive.arithmetic == "divide":
        divisor = args[1]
        if isinstance(divisor, Var):
            return divisor.type.dtype.kind in "iu" or _is_never_zero(divisor)
        return bool(divisor)
    if primitive.arithmetic == "power":
        exponent = args[1]
        number = not isinstance(exponent, (Var, complex, np.complexfloating))
        return number and exponent >= 0 and float(exponent).is_integer()
    if callable(primitive.smooth):
        return primitive.smooth(made.params)
    return primitive.kind in _SMOOTH_KINDS or primitive.smooth


def _is_never_zero(divisor: Var) -> bool:
    """True of ``np.where(y == 0, np.inf, y)``."""
    made = current().definitions.get(divisor)
    if not isinstance(made, Apply) or made.primitive.arithmetic != "where":
        return False
    condition, first, second = made.args
    test = current().definitions.get(condition)
    if not isinstance(test, Apply) or test.primitive.arithmetic != "equal":
        return False
    return type(first) is float and math.isinf(first) and test.args == (second, 0)
