"""Values that are finite, with finite slopes, wherever what they are made of is."""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np

from calque.transpiler.ir.builder import current
from calque.transpiler.ir.core import (
    Apply,
    Statement,
    Var,
    blocks_of,
    bound_vars,
    free_vars,
    operands,
    walk,
)
from calque.transpiler.primitives.positivity import is_positive

_SMOOTH_KINDS = frozenset(
    "creation linear bilinear multilinear size store indexing collective".split()
)


def may_be_infinite(
    value: Var, numbers: Collection[Var], known: dict[Var, bool], by_element: bool = False
) -> bool:
    """True if a value is computed by operations that are not smooth everywhere.

    ``numbers`` are finite whatever they are made of; ``known`` holds what was found before. If
    asked ``by_element``, sums are taken to be finite: one infinite term takes all elements with it.
    """
    definitions = current().definitions
    stack = [value]
    while stack:
        var = stack[-1]
        if var in known:
            stack.pop()
            continue
        made = definitions.get(var)
        if made is None or var.type.dtype.kind in "biu" or var in numbers:
            known[var] = False
        elif isinstance(made, Apply) and _is_finite(made, by_element):
            known[var] = False
        elif not is_smooth_throughout(made):
            known[var] = True
        else:
            read = _read_by(made)
            missing = [a for a in read if a not in known]
            if missing:
                stack += missing
                continue
            known[var] = any(known[a] for a in read)
        stack.pop()
    return known[value]


def is_smooth_throughout(made: Statement) -> bool:
    """True if a statement, and all within it, is smooth."""
    if isinstance(made, Apply):
        return is_smooth(made)
    inner = (s for block in blocks_of(made) for s in walk(block))
    return all(is_smooth(s) for s in inner if isinstance(s, Apply) and s.outs[0].type.is_float)


def _read_by(made: Statement) -> list[Var]:
    """The values from outside that a statement is made of."""
    read = dict.fromkeys(a for a in operands(made) if isinstance(a, Var))
    for block in blocks_of(made):
        read |= free_vars(block)
    return [a for a in read if a not in bound_vars(made)]


def _is_finite(made: Apply, by_element: bool) -> bool:
    primitive = made.primitive
    sums = primitive.kind in ("bilinear", "multilinear") or primitive.reduction is not None
    return primitive.nondifferentiable or (by_element and sums)


def is_smooth(made: Apply) -> bool:
    """True if finite operands give finite results and slopes of every order."""
    primitive, args = made.primitive, made.args
    if primitive.arithmetic == "divide":
        divisor = args[1]
        if isinstance(divisor, Var):
            return _is_never_zero(divisor)
        return bool(divisor)
    if primitive.arithmetic == "power":
        exponent = args[1]
        if isinstance(exponent, (Var, complex, np.complexfloating)):
            return False
        return (exponent >= 0 and float(exponent).is_integer()) or is_positive(args[0])
    if primitive.scalar in ("sqrt", "log") and is_positive(args[0]):
        return True
    if callable(primitive.smooth):
        return primitive.smooth(made.params)
    return primitive.kind in _SMOOTH_KINDS or primitive.smooth


def _is_never_zero(divisor: Var) -> bool:
    """True of a number of elements, and of ``np.where(y == 0, np.inf, y)``."""
    if divisor.type.dtype.kind in "iu" or is_positive(divisor):
        return True
    made = current().definitions.get(divisor)
    if not isinstance(made, Apply):
        return False
    if made.primitive.reduction is not None:  # of truths: how many there are
        counted = made.args[0]
        return isinstance(counted, Var) and counted.type.dtype.kind == "b"
    if made.primitive.arithmetic != "where":
        return False
    condition, first, second = made.args
    test = current().definitions.get(condition)
    if not isinstance(test, Apply) or test.primitive.arithmetic != "equal":
        return False
    return type(first) is float and math.isinf(first) and test.args == (second, 0)
