"""Numbers of which Python or NumPy makes no integer for one example, looked at for all of them.

Before, for one example::

    small[0] = int(x)

After, with NumPy's cast, which has a value for all numbers::

    if np.any(np.isnan(x)):
        raise ValueError('cannot convert float NaN to integer')
    if np.any((x_int < -128) | (x_int > 127)):
        raise OverflowError('Python integer out of bounds for int8')
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.transpiler.ir.builder import Builder
from calque.transpiler.ir.core import Apply, Block, If
from calque.transpiler.primitives.checked_numbers import NEGATIVE_COUNT
from calque.transpiler.primitives.elementwise import cast, to_int
from calque.transpiler.primitives.integer_conversions import Conversion, conversions
from calque.transpiler.primitives.logic import left_shift, right_shift

_END = 2.0**63
_NO_NUMBER = "ValueError('cannot convert float NaN to integer')"
_TOO_LARGE = "OverflowError('Python int too large to convert to C long')"

_NEGATIVE_SHIFT = f"ValueError({NEGATIVE_COUNT!r})"


def refuse(s: Apply, values: tuple[Any, ...], batched: tuple[bool, ...], builder: Builder) -> None:
    """Raise what one example would raise: ``values`` of all stand for a statement's operands."""
    for conversion in conversions(s):
        if batched[conversion.position]:
            value = values[conversion.position]
            error = f"OverflowError('Python integer out of bounds for {conversion.dtype}')"
            _raise_where(_outside(value, conversion), error, builder)
    if s.primitive in (left_shift, right_shift) and s.out.type.weak and batched[1]:
        _raise_where(values[1] < 0, _NEGATIVE_SHIFT, builder)
    if s.primitive is to_int and batched[0] and values[0].dtype.kind == "f":
        _raise_where(np.isnan(values[0]), _NO_NUMBER, builder)
        _raise_where((values[0] < -_END) | (values[0] >= _END), _TOO_LARGE, builder)


def _outside(value: Any, conversion: Conversion) -> Any:
    """Of each integer, whether it is out of bounds."""
    if value.dtype == np.uint64:
        return cast(value, np.int64) < 0
    least, most = conversion.bounds
    kind = np.iinfo(value.dtype)
    sides = []
    if kind.min < least and conversion.held != "low":
        sides.append(value < least)
    if kind.max > most and conversion.held != "high":
        sides.append(value > most)
    return sides[0] if len(sides) == 1 else sides[0] | sides[1]


def _raise_where(outside: Any, error: str, builder: Builder) -> None:
    """An error where a test holds of any example."""
    found: Any = np.any(outside)
    with builder.block() as block:
        builder.effect(f"raise {error}", [])
    builder.emit(If((), found.atom, block, Block(), builder.origin))
