"""NumPy's integer semantics in CUDA C: dtypes wrap around, and mixed signs keep their values.

In C signed overflow is undefined, small integers are computed as ``int``, and mixed signs are
converted to unsigned. So the text spells out NumPy's semantics::

    k[i] + 1            wrapped_sum(k[i], 1)                  of 64 bits, if it may be too large
    j[i] * j[i]         (int)((long long)j[i] * j[i])         of 32 bits
    u[i] < j[i]         (long long)u[i] < (long long)j[i]     32 bits without a sign, and with one
    w[i] < k[i]         order_of(w[i], k[i]) < 0              64 bits without a sign, and with one

A sum that 64 bits hold is ``proven``: indices and counters are written as they are.
"""

from __future__ import annotations

from typing import Any

import gast
import numpy as np

from calque.transpiler.codegen.cuda.c_types import LARGE
from calque.transpiler.codegen.text.spelling import dtype_name, fill_expression
from calque.transpiler.ir.core import Apply, Var
from calque.transpiler.primitives.elementwise import (
    absolute,
    floor_divide,
    of_number,
    remainder,
    sign,
)
from calque.transpiler.primitives.logic import left_shift, right_shift

_INT, _UNSIGNED = np.dtype("i4"), np.dtype("u4")
_LONG, _UNSIGNED_LONG = np.dtype("i8"), np.dtype("u8")
_WRAPPED = {
    "add": "wrapped_sum({0}, {1})",
    "subtract": "wrapped_difference({0}, {1})",
    "multiply": "wrapped_product({0}, {1})",
    "negative": "wrapped_negative({0})",
    "abs": "wrapped_abs({0})",
}
_IN_PLACE = {gast.Add: ("add", "+"), gast.Sub: ("subtract", "-"), gast.Mult: ("multiply", "*")}
_COMPARED = {
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "equal": "==",
    "not_equal": "!=",
}
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


def compared_in(s: Apply, loop: list[np.dtype]) -> list[np.dtype]:
    """The dtypes of compared operands; a negative Python number is signed."""
    below = [type(a) is int and a < 0 for a in s.args]
    if s.primitive.arithmetic not in _COMPARED or not any(below) or loop[0].kind != "u":
        return loop
    if loop[0] == _UNSIGNED_LONG:
        return [_LONG if b else _UNSIGNED_LONG for b in below]
    return [_LONG] * len(loop)


def of_integers(loop: list[np.dtype]) -> bool:
    """True if NumPy computes an operation with integers."""
    return bool(loop) and all(d.kind in "iu" for d in loop)


def integer_text(s: Apply, loop: list[np.dtype]) -> str | None:
    """The text of an operation on integers if C's operator or function differs; else None."""
    name, last = s.primitive.arithmetic, loop[-1]
    unsigned = last.kind == "u"
    letter = "u" if last == _UNSIGNED_LONG else ""
    if name in _COMPARED and {*loop} == {_LONG, _UNSIGNED_LONG}:
        operator = _COMPARED[name]
        if loop[0] == _UNSIGNED_LONG:
            return f"order_of({{0}}, {{1}}) {operator} 0"
        return f"order_of({{1}}, {{0}}) {_TURNED[operator]} 0"
    if s.primitive in (floor_divide, remainder):
        word = "floor_divide" if s.primitive is floor_divide else "remainder_of"
        return f"{word}{letter}({{0}}, {{1}})"
    if s.primitive in (left_shift, right_shift):
        word = "left_shift" if s.primitive is left_shift else "right_shift"
        return f"{word}{letter}({{0}}, {{1}}, {8 * last.itemsize})"
    if s.primitive is sign and unsigned:
        return f"{dtype_name(last)}({{0}} != 0)"
    if s.primitive in (absolute, of_number) and unsigned:
        return "{0}"
    if last == _LONG and s.out.type.dtype == _LONG and not s.proven:
        return _WRAPPED.get(name)
    return None


def _computed(s: Apply, want: np.dtype) -> np.dtype:
    """The dtype in which C must compute an operation that it would compute as ``int``."""
    name = s.primitive.arithmetic
    if want == _INT and name in _WRAPPED:
        return _LONG
    return _UNSIGNED if want == np.dtype("u2") and name == "multiply" else want


def integer_casts(s: Apply, text: str, own: list[np.dtype], loop: list[np.dtype]) -> list[bool]:
    """For each operand, True if it must be cast to the dtype that ``computed_in`` returns."""
    numbers = [isinstance(a, Var) and d.kind != "b" for a, d in zip(s.args, own, strict=True)]
    if "(" in text:  # a function, which takes 64 bits
        return [False] * len(own)
    if computed_in(s, loop) != loop[-1]:
        first = numbers.index(True) if True in numbers else -1
        return [k == first and have != computed_in(s, loop) for k, have in enumerate(own)]
    differ = zip(numbers, own, loop, strict=True)
    return [number and have != want and want.itemsize >= 4 for number, have, want in differ]


def computed_in(s: Apply, loop: list[np.dtype]) -> np.dtype:
    """The dtype in which C computes an operation on integers."""
    return _computed(s, loop[-1])


def integer_result(s: Apply, text: str, loop: list[np.dtype]) -> np.dtype | None:
    """The dtype that a result must be cast to, if C computes it in another one; else None."""
    out = s.out.type.dtype
    if out.kind not in "iu" or text.startswith(f"{dtype_name(out)}("):
        return None
    wide = of_integers(loop) and computed_in(s, loop) != loop[-1]
    narrow = out.itemsize < 4 or (out.itemsize == 4 and (wide or "(" in text))
    return out if narrow else None


def integer_literal(value: int, dtype: np.dtype) -> np.dtype | None:
    """The dtype to write with an integer literal; None if its C type fits."""
    return dtype if dtype == _UNSIGNED and value >= LARGE else None


def whole_text(have: np.dtype, want: np.dtype) -> str | None:
    """The template of a cast from a float to an integer, defined for all floats; else None."""
    if have.kind not in "fc" or want.kind not in "iu":
        return None
    inner = "{0}.real" if have.kind == "c" else "{0}"
    if want in (_INT, _LONG, _UNSIGNED_LONG):
        return f"{dtype_name(want)}_of({inner})"
    wide = "int32_of" if want.kind == "i" else "int64_of"
    return f"{dtype_name(want)}({wide}({inner}))"


def stored_text(operator: object, dtype: np.dtype) -> str | None:
    """The text for ``x[i] += v`` of integers; None if C's operator does as NumPy's."""
    if type(operator) not in _IN_PLACE or dtype.kind not in "iu":
        return None
    name, sign_ = _IN_PLACE[type(operator)]
    if dtype == _LONG:
        return _WRAPPED[name]
    if dtype.kind == "i":
        return f"{dtype_name(dtype)}(int64({{0}}) {sign_} {{1}})"
    if dtype.itemsize < 4:
        return f"{dtype_name(dtype)}(uint32({{0}}) {sign_} {{1}})"
    return None


def as_stored(s: Apply, line: Any) -> Any:
    """A store whose value is cast to the array's dtype, if that is an integer one."""
    dtype, value = s.out.type.dtype, s.args[1]
    match line:
        case gast.AugAssign(target=place, op=operator) if not getattr(line, "is_atomic", False):
            text = stored_text(operator, dtype)
            if text is not None:
                before = gast.Subscript(place.value, place.slice, gast.Load())
                before.is_checked = True  # as is the index of the store
                return gast.Assign([place], fill_expression(text, [before, line.value]), None)
        case gast.Assign() if isinstance(value, Var):
            text = whole_text(value.type.dtype, dtype)
            if text is not None:
                line.value = fill_expression(text, [line.value])
    return line
