"""The text of integers in kernels, where 64 bits may not hold a result.

Of signed sums LLVM takes for granted that they fit, and of floats that an integer can hold them.
Where that is not proven, a function says what happens, as NumPy or Python have it::

    @kernel
    def sums_kernel(x, k):
        s = 0.0
        for i in range(k.size):
            s += x[checked_index(wrapped_sum(k[i], 1), x.shape[0])]
        return s

``fitting_numbers.py`` finds the sums that need no such call, and marks them as ``proven``.
"""

from __future__ import annotations

import numpy as np

from calque.transpiler.codegen.text.spelling import dtype_name
from calque.transpiler.ir.core import Apply, Var
from calque.transpiler.primitives.elementwise import floor_divide, power, to_int
from calque.transpiler.primitives.indexing import update_add

_WRAPPED = {
    "add": "wrapped_sum({0}, {1})",
    "subtract": "wrapped_difference({0}, {1})",
    "multiply": "wrapped_product({0}, {1})",
}


def wrapped(s: Apply) -> str | None:
    """The template of a 64-bit integer operation that may overflow; else None."""
    if s.outs[0].type.dtype != np.int64:
        return None
    if s.primitive is update_add:
        places = [i for i in s.params["index"] if not isinstance(i, slice)]
        return _WRAPPED["add"] if len(places) == s.out.type.ndim else None
    if s.out.type.ndim or s.proven:
        return None
    if s.primitive is power or s.primitive.scalar == "pow":
        return "integer_power({0}, {1})"
    if s.primitive is floor_divide:
        return _quotient(s)
    return _WRAPPED.get(s.primitive.arithmetic)


def _quotient(s: Apply) -> str | None:
    """The text of ``a // b`` for integers, which overflows for the least one divided by -1."""
    if not isinstance(s.args[1], Var) and s.args[1] not in (0, -1):
        return None
    return f"{'integer' if s.out.type.weak else 'wrapped'}_quotient({{0}}, {{1}})"


def python_integer(s: Apply) -> str | None:
    """The template of Python's ``int`` of a float; else None."""
    if s.primitive is not to_int or s.out.type.ndim or not _is_float(s):
        return None
    return "python_size({0})" if s.proven else "python_int({0})"


def whole(s: Apply, text: str) -> str:
    """The template of a cast of a float, or a complex number's real part, to an integer."""
    dtype = s.out.type.dtype
    if dtype.kind not in "iu" or not _is_float(s):
        return text
    inner = "{0}.real" if ".real" in text else "{0}"
    if dtype in (np.int32, np.int64, np.uint64):
        return f"{dtype_name(dtype)}_of({inner})"
    wide = "int32_of" if dtype.kind == "i" else "int64_of"
    return f"np.{dtype_name(dtype)}({wide}({inner}))"


def _is_float(s: Apply) -> bool:
    return isinstance(s.args[0], Var) and s.args[0].type.dtype.kind in "fc"
