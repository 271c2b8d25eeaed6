"""Kernels of saved modules: the same programs in plain Numba, without calque.

In this process kernels have an extended compiler, in which integers wrap around, ``int`` rejects
NaN, and functions are specialized to types. A saved module uses ``njit``, so that its text has
calls for these semantics where they matter::

    @kernel
    def sums_kernel(x, k):
        s = 0.0
        for i in range(k.size):
            s += x[checked_index(wrapped_sum(k[i], 1), x.shape[0])]
        return s

``fitting_numbers.py`` finds the sums that need no such call.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.transpiler.codegen.numba.called_functions import SAVED
from calque.transpiler.codegen.numba.numba_target import Numba
from calque.transpiler.codegen.numba.scalar_text import plain_type
from calque.transpiler.codegen.text.spelling import dtype_name
from calque.transpiler.ir.core import Apply, For, Var
from calque.transpiler.primitives.elementwise import astype, floor_divide, power, to_int
from calque.transpiler.primitives.indexing import update_add
from calque.transpiler.primitives.logic import python_round

_WRAPPED = {
    "add": "wrapped_sum({0}, {1})",
    "subtract": "wrapped_difference({0}, {1})",
    "multiply": "wrapped_product({0}, {1})",
}
_OF_FLOATS = ("sign(", "heaviside(")  # functions that return a float64 for a float32
_SHIFTS = ("lshift({0}, {1})", "rshift({0}, {1})")


class SavedNumba(Numba):
    """Kernels that plain Numba compiles; a sum that is ``proven`` fits in 64 bits."""

    name = "numba, saved"
    words = Numba.words | SAVED

    def counter(self, s: For, depth: int, options: dict[str, Any]) -> str:
        """The range of a loop: serial for integer sums, as Numba reduces no ``wrapped_sum``."""
        found = super().counter(s, depth, options)
        carried = (v.type for v in s.phis)
        summed = any(t.dtype.kind in "iu" and not t.ndim for t in carried)
        return "range" if found == "prange" and summed else found

    def call(self, s: Apply) -> str | None:
        """The template of a cast; else that of ``Numba``."""
        text = super().call(s)
        if s.primitive is to_int and _is_float(s.args[0]) and not s.out.type.ndim:
            return "python_size({0})" if s.proven else "python_int({0})"
        if s.primitive is astype and not s.out.type.ndim:
            return _whole(s, text) if _is_float(s.args[0]) else text
        return text

    def operation(self, s: Apply) -> str | None:
        """The template of an operation, by functions where Numba's operator is undefined."""
        if s.primitive is python_round:
            text = super().operation(s)
            return None if text is None else text.replace("int(", "python_int(")
        if (text := self.wrapped(s)) is not None:
            return text
        text = super().operation(s)
        return None if text is None else _plainly(s, text)

    def wrapped(self, s: Apply) -> str | None:
        """The template of a 64-bit integer operation that may overflow; else None."""
        if s.outs[0].type.dtype != np.int64:
            return None
        if s.primitive is update_add:
            places = [i for i in s.params["index"] if not isinstance(i, slice)]
            return _WRAPPED["add"] if len(places) == s.out.type.ndim else None
        if s.out.type.ndim or s.proven:
            return None
        if s.primitive is power or s.primitive.scalar == "pow":
            return "wrapped_power({0}, {1})"
        if s.primitive is floor_divide:
            return _quotient(s)
        return _WRAPPED.get(s.primitive.arithmetic)


def _quotient(s: Apply) -> str | None:
    """The text of ``a // b`` for integers, which overflows for the least one divided by -1."""
    if not isinstance(s.args[1], Var) and s.args[1] not in (0, -1):
        return None
    return f"{'integer' if s.out.type.weak else 'wrapped'}_quotient({{0}}, {{1}})"


def _is_float(atom: Any) -> bool:
    return isinstance(atom, Var) and atom.type.dtype.kind in "fc"


def _whole(s: Apply, text: str | None) -> str | None:
    """The text that converts a float, or the real part of a complex number, to an integer."""
    dtype = s.out.type.dtype
    if dtype.kind not in "iu" or text is None:
        return text
    inner = "{0}.real" if ".real" in text else "{0}"
    if dtype in (np.int32, np.int64, np.uint64):
        return f"{dtype_name(dtype)}_of({inner})"
    wide = "int32_of" if dtype.kind == "i" else "int64_of"
    return f"np.{dtype_name(dtype)}({wide}({inner}))"


def _plainly(s: Apply, text: str) -> str:
    """A text adapted to functions that are not specialized to types."""
    dtype = s.out.type.dtype
    if text.startswith("bounded(") and plain_type(s.args[0]).dtype.kind == "u":
        text = text.replace("bounded(", "bounded_unsigned(", 1)
    elif text.startswith("sign(") and dtype.kind in "iu":
        text = f"integer_{text}"
    elif text.startswith("fmod(") and dtype.kind in "iu":
        text = f"integer_{text}"
    elif text.startswith("integer_power("):
        text = text.replace("integer", "wrapped", 1)
    elif text in _SHIFTS:
        text = f"{text[:-1]}, {8 * dtype.itemsize})"
    if dtype == np.float32 and text.startswith(_OF_FLOATS):
        return f"np.float32({text})"
    return text


SAVED_NUMBA = SavedNumba()
