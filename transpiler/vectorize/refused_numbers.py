"""Checks, for a whole batch, of conversions to integers that Python or NumPy may refuse.

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

from calque.transpiler.ir.core import Apply
from calque.transpiler.primitives.base import raise_where
from calque.transpiler.primitives.checked_numbers import NEGATIVE_COUNT
from calque.transpiler.primitives.elementwise import cast, to_int
from calque.transpiler.primitives.integer_conversions import Conversion, conversions
from calque.transpiler.primitives.logic import left_shift, right_shift

_END = 2.0**63
_NO_NUMBER = "cannot convert float NaN to integer"
_TOO_LARGE = "Python int too large to convert to C long"


def refuse(s: Apply, values: tuple[Any, ...], batched: tuple[bool, ...]) -> None:
    """Raise what one example would raise: ``values`` of all stand for a statement's operands."""
    for conversion in conversions(s):
        if batched[conversion.position]:
            value = values[conversion.position]
            error = OverflowError(f"Python integer out of bounds for {conversion.dtype}")
            raise_where(np.any(_outside(value, conversion)), error)
    if s.primitive in (left_shift, right_shift) and s.out.type.weak and batched[1]:
        raise_where(np.any(values[1] < 0), ValueError(NEGATIVE_COUNT))
    if s.primitive is to_int and batched[0] and values[0].dtype.kind == "f":
        raise_where(np.any(np.isnan(values[0])), ValueError(_NO_NUMBER))
        outside = (values[0] < -_END) | (values[0] >= _END)
        raise_where(np.any(outside), OverflowError(_TOO_LARGE))


def _outside(value: Any, conversion: Conversion) -> Any:
    """A mask of the integers that are out of bounds."""
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
