"""Integers of a statement that NumPy refuses where the dtype of an array cannot hold them.

NumPy converts a Python integer to the dtype at hand, and raises OverflowError where it is out of
bounds: in a cast, in a store, in a sum with narrower integers. A kernel's cast would truncate it to
the dtype's bits, and so would a cast of a batch; both ask here which operands to check first::

    np.int8(k)          k, from -128 to 127
    small[i] + k        the same
    small[i] = 300      300, which is not
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from calque.transpiler.ir.builder import type_of
from calque.transpiler.ir.core import Apply, Atom, Var
from calque.transpiler.primitives.creation import full, stack_rows
from calque.transpiler.primitives.elementwise import astype, to_int
from calque.transpiler.primitives.extrema import clip
from calque.transpiler.primitives.indexing import update

_PYTHONS = np.dtype(np.int64)  # what a program's Python integers are


@dataclass(frozen=True)
class Conversion:
    """An operand that becomes an integer of a dtype."""

    position: int
    dtype: np.dtype
    held: str = ""  # "low", "high": what is beyond this end is as good as the end itself

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the largest integer that 64 bits and the dtype hold.

        >>> Conversion(0, np.dtype("u8")).bounds
        (0, 9223372036854775807)
        """
        own, wide = np.iinfo(self.dtype), np.iinfo(_PYTHONS)
        return max(int(own.min), int(wide.min)), min(int(own.max), int(wide.max))

    def refuses(self, value: Atom) -> bool:
        """True if an operand may be out of the dtype's bounds, as far as its type tells.

        >>> narrow = Conversion(0, np.dtype("i1"))
        >>> narrow.refuses(127.9), narrow.refuses(128), narrow.refuses(float("nan"))
        (False, True, True)
        """
        if isinstance(value, Var):
            return not np.can_cast(value.type.dtype, self.dtype)
        own = np.iinfo(self.dtype)
        return not own.min - 1 < value < own.max + 1


def conversions(s: Apply) -> list[Conversion]:
    """The conversions to integers in a statement that NumPy may refuse."""
    return [c for c in _converted(s) if c.refuses(s.args[c.position])]


def _converted(s: Apply) -> Iterator[Conversion]:
    match s.primitive:
        case primitive if primitive is to_int:
            if type_of(s.args[0]).dtype.kind == "u":
                yield Conversion(0, _PYTHONS)
        case primitive if primitive is update:
            value = s.args[1]
            if s.out.type.dtype.kind in "iu" and not isinstance(value, Var):
                if type(value) in (int, float) or s.out.type.dtype.kind == "i":
                    yield Conversion(1, s.out.type.dtype)
        case primitive if primitive in (astype, full, stack_rows):
            for k in range(len(s.args) if primitive is stack_rows else 1):
                if s.params["dtype"].kind in "iu" and _is_pythons(s.args[k]):
                    yield Conversion(k, s.params["dtype"])
        case primitive if primitive is clip:
            if s.out.type.dtype.kind in "iu":
                for k, held in ((1, "low"), (2, "high")):
                    if _is_pythons(s.args[k]):
                        yield Conversion(k, s.out.type.dtype, held)
        case primitive if isinstance(primitive.function, np.ufunc):
            if s.out.type.dtype.kind in "iu" and not s.out.type.weak:
                for k, value in enumerate(s.args):
                    if _is_pythons(value):
                        yield Conversion(k, s.out.type.dtype)


def _is_pythons(value: Any) -> bool:
    """True if a value is a Python integer."""
    found = type_of(value)
    return found.weak and found.dtype.kind == "i"
