"""Products with slopes, written as one would by hand; zero where a selection left zero."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from calque.transpiler.ir.builder import FUNCTIONS, Array, atom, current, wrap
from calque.transpiler.ir.core import Apply, Var
from calque.transpiler.primitives.guards import guarded, selected
from calque.transpiler.primitives.selections import is_zero, same_condition


def definition(value: Any) -> Apply | None:
    """The Apply that defines an Array in the open program, if one does."""
    found = current().definitions.get(atom(value)) if isinstance(value, Array) else None
    return found if isinstance(found, Apply) else None


def scaled_where(cotangent: Any, slope: Any) -> Any:
    """``cotangent * slope``; where a selection left zero, zero also of an infinite slope.

    ``np.where(c, g, 0.0) * s`` is written ``np.where(c, g * s, 0.0)``: what the user's ``np.where``
    selects away is known from what defines the cotangent.
    """
    made = definition(cotangent)
    if _has_known_infinity(slope) and isinstance(cotangent, Array):
        return cotangent * FUNCTIONS[np.where](cotangent == 0, 0.0, slope)  # nothing reads it there
    if made is None or not isinstance(slope, Array):
        return scale(cotangent, slope)
    if made.primitive.arithmetic == "where":
        condition, first, second = map(wrap, made.args)
        if is_zero(second):
            return selected(condition, scaled_where(first, slope), 0.0)
        if is_zero(first):
            return selected(condition, 0.0, scaled_where(second, slope))
    return guarded(scale(cotangent, slope))


def _has_known_infinity(slope: Any) -> bool:
    """True for an array of known numbers one of which is infinite."""
    made = definition(slope)
    if made is None or "value" not in made.params or slope.dtype.kind not in "fc":
        return False
    return bool(np.isinf(made.params["value"]).any())


def scale(cotangent: Any, slope: Any) -> Any:
    """``cotangent * slope``, written as one would by hand.

    Products with 1 and -1 vanish, ``c * (1 / b)`` is ``c / b``, ``c * -a`` is ``-c * a``, and
    ``0.5 * (2.0 * a)`` is ``a``.
    """
    if not isinstance(slope, (Array, np.ndarray)):
        if slope == 1:
            return cotangent
        if slope == -1:
            return -cotangent
    made = definition(slope)
    if made is not None and made.primitive.arithmetic == "divide" and _is_one(made.args[0]):
        return cotangent / wrap(made.args[1])
    if made is not None and made.primitive.arithmetic == "negative":
        return -cotangent * wrap(made.args[0])
    if not isinstance(cotangent, Array) and _is_one(cotangent):
        return slope
    merged = _merged(cotangent, slope)
    return cotangent * slope if merged is None else merged


def _merged(factor: Any, product: Any) -> Any:
    """A number times the product of another with an array, by one number; None if not exact.

    A product with a power of two is exact, if it is neither too large nor too small.
    """
    made = definition(product) if type(factor) is float else None
    if made is None or made.primitive.arithmetic != "multiply" or made.outs[0].name is not None:
        return None
    inner, rest = made.args if isinstance(made.args[1], Var) else made.args[::-1]
    dtype = product.dtype
    if type(inner) is not float or rest.type.dtype != dtype or dtype.kind != "f":
        return None
    whole, limits = factor * inner, np.finfo(dtype)
    exact = 0.5 in (abs(math.frexp(factor)[0]), abs(math.frexp(inner)[0]))
    if not exact or not limits.tiny <= abs(whole) <= limits.max:
        return None
    return scale(whole, wrap(rest))


def _is_one(value: Any) -> bool:
    return not isinstance(value, (Var, Array)) and value == 1


def added(old: Any, new: Any) -> Any:
    """``old + new``; what one condition selects in both stays one selection."""
    a, b = definition(old), definition(new)
    if a is None or b is None or not a.primitive.arithmetic == b.primitive.arithmetic == "where":
        return old + new
    if not same_condition(a.args[0], b.args[0]):
        return old + new
    (_, first, second), (_, other_first, other_second) = (map(wrap, s.args) for s in (a, b))
    if is_zero(second) and is_zero(other_second):
        return selected(wrap(a.args[0]), added(first, other_first), 0.0)
    if is_zero(first) and is_zero(other_first):
        return selected(wrap(a.args[0]), 0.0, added(second, other_second))
    return old + new


def twice_for_two(
    args: Sequence[Any], wanted: Sequence[bool], cotangents: Sequence[Any]
) -> Iterator[tuple[Any, bool, Any]]:
    """Operands with their cotangents; ``2.0 * y_bar * x`` once for both operands of ``x * x``.

    Two reads of one element, as in ``x[i] * x[i]``, are the same operand.
    """
    triples = list(zip(args, wanted, cotangents, strict=True))
    if len(triples) == 2 and all(wanted) and _is_one_operand(*args):
        if _is_same(*cotangents):
            triples = [(args[0], True, doubled(cotangents[0]))]
    yield from triples


def _is_one_operand(one: Any, other: Any) -> bool:
    """True for one value, and for two reads of one version of an array with the same index."""
    if one is other:
        return True
    a, b = definition(wrap(one)), definition(wrap(other))
    if a is None or b is None or a.primitive is not b.primitive:
        return False
    if a.primitive.kind != "indexing":
        return False
    same = all(map(operator.is_, a.args, b.args)) and len(a.args) == len(b.args)
    return same and a.params == b.params


def _is_same(one: Any, other: Any) -> bool:
    """True if two recorded values are the same operations on the same values."""
    if not isinstance(one, Array) or not isinstance(other, Array):
        return False
    a, b = definition(one), definition(other)
    if one.atom is other.atom:
        return True
    if a is None or b is None or a.primitive is not b.primitive or a.params != b.params:
        return False
    pairs = zip(a.args, b.args, strict=True)
    return all(x is y or _is_same(wrap(x), wrap(y)) for x, y in pairs)


def doubled(value: Any) -> Any:
    """``2.0 * a * b`` for ``a * b``, and so for a quotient."""
    made = definition(value)
    if made is None or made.out.name is not None:  # a value at hand
        return 2.0 * value
    if made.primitive.arithmetic not in ("multiply", "divide"):
        return 2.0 * value
    first, second = map(wrap, made.args)
    if made.primitive.arithmetic == "divide":
        return 2.0 * first / second
    return 2.0 * first * second
