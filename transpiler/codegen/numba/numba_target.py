"""Numba as a target: the statements that its kernels may hold, and their spelling.

>>> NUMBA.cast(np.dtype("f4"))
'np.float32({0})'
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from calque.transpiler.codegen.numba import integer_text, scalar_text, whole_array_calls
from calque.transpiler.codegen.numba.called_functions import HALF_POWERS, HOMES
from calque.transpiler.codegen.numba.scalar_text import plain_type
from calque.transpiler.codegen.numba.whole_array_calls import text_in_loops
from calque.transpiler.codegen.text.spelling import shortest
from calque.transpiler.ir import core
from calque.transpiler.ir.core import Apply, For, Kernel, Statement, Var, While
from calque.transpiler.ir.effects import is_access
from calque.transpiler.ir.target import Target
from calque.transpiler.late import Late
from calque.transpiler.primitives import scalars
from calque.transpiler.primitives.axes import transpose
from calque.transpiler.primitives.elementwise import astype, power, to_float, where
from calque.transpiler.primitives.indexing import copy, getitem
from calque.transpiler.primitives.shapes import reshape
from calque.transpiler.primitives.sorting import searchsorted

if TYPE_CHECKING:
    from calque.transpiler.loops import parallelize
else:
    parallelize = Late("calque.transpiler.loops.parallelize")

HELPERS = frozenset(["prange"]).union(*HOMES.values())
_ERRORS = [n for n in dir(builtins) if n.endswith(("Error", "Exception"))]
_BUILT_IN = "np math range abs bool int float complex min max len".split()
_WRITTEN_INSIDE = (getitem, transpose, reshape, copy)  # arrays within expressions
_AS_THEY_ARE = (np.float64, np.complex128, np.int64)  # dtypes of Python numbers


class Numba(Target):
    """Kernels that Numba compiles; a sum that is ``proven`` fits in 64 bits."""

    name = "numba"
    allocates = True
    has_parts = True
    words = HELPERS | {*_BUILT_IN, *_ERRORS}

    def can_compile(self, s: Statement, looping: bool = False) -> bool:
        """True for loops over scalars, new arrays, views, copies, and some calls within loops."""
        return scalar_text.can_compile(s, looping)

    def can_be_scalar(self, s: Apply) -> bool:
        """True if Numba has the dtypes of an operation and a function with NumPy's values."""
        return not s.primitive.on_grid and scalar_text.can_be_scalar(s)

    def is_inside(self, s: Apply, looping: bool) -> bool:
        """True for scalars, and for arrays that are views or copies: expressions in kernels."""
        if looping and text_in_loops(s) is not None:
            return True
        return (not s.out.type.ndim or s.primitive in _WRITTEN_INSIDE) and self.can_compile(s)

    def may_raise(self, s: Statement) -> bool:
        """True if a statement may raise: indices, empty arrays, singular matrices."""
        return whole_array_calls.may_raise(s)

    def may_divide_by_zero(self, s: Statement) -> bool:
        """True if a statement may divide Python numbers by zero."""
        return scalar_text.may_divide_by_zero(s)

    def head(self, s: Kernel, options: dict[str, Any]) -> str:
        """The decorator ``kernel``, with checks if an index is not proven to be in bounds."""
        parallel, checked = self.ways(s, options)
        given = [f"parallel={parallel}"] if parallel != "auto" else []
        given += [f"boundscheck={checked}"] if checked is not False else []
        return f"kernel({', '.join(given)})" if given else "kernel"

    def ways(self, s: Kernel, options: dict[str, Any]) -> tuple[Any, bool | None]:
        """The threads of a kernel, and bounds checks: None if all indices are proven."""
        parallel, checked = options.get("parallel", "auto"), options.get("boundscheck")
        statements = [t for t in core.walk(s.body) if isinstance(t, Apply)]
        proven = all(t.proven for t in statements if is_access(t))
        checked = not proven if checked is None else checked
        if any(map(self.may_raise, statements)):
            parallel = False  # threads cannot raise
        if parallel == "auto" and _has_small_nests(s.body.statements):
            parallel = '"measured"'
        return parallel, True if checked else False if proven else None

    def counter(self, s: For, depth: int, options: dict[str, Any]) -> str:
        """The range of a loop: on threads, vectorized, or sequential."""
        if options.get("parallel") is not False and parallelize.worth_threads(s, depth):
            return "prange"
        return "vrange" if s.vector else "range"

    def call(self, s: Apply) -> str | None:
        """The template of a copy, view, cast or function that Numba spells differently; or None."""
        if (text := scalar_text.of_a_number(s) or integer_text.python_integer(s)) is not None:
            return text
        if s.primitive is copy:
            return "{0}.copy()"
        if s.primitive is transpose and s.out.type.ndim > 2:
            return f"np.transpose({{0}}, {s.params['axes']})"
        if s.primitive is searchsorted:
            return f"searchsorted_{s.params['side']}({{0}}, {{1}})"
        if (text := text_in_loops(s)) is not None:
            return text
        if s.primitive is to_float and plain_type(s.args[0]).dtype.kind == "b":
            return "float(int({0}))"
        if s.primitive is astype and not s.out.type.ndim:
            real = s.out.type.dtype.kind not in "bc" and plain_type(s.args[0]).dtype.kind == "c"
            text = self.cast(s.out.type.dtype).replace("{0}", "{0}.real" if real else "{0}")
            return integer_text.whole(s, text)
        return None

    def operation(self, s: Apply) -> str | None:
        """The template of an operator or a scalar function that vectorizes; else None."""
        if (text := self.wrapped(s)) is not None:
            return text
        numbers = not any(isinstance(a, Var) and a.type.ndim for a in s.args)
        elementwise = s.primitive.kind == "elementwise" or s.primitive is where
        if not (numbers and elementwise) or s.out.type.ndim:
            return None
        return _power(s) or scalar_text.spelled(s)

    def wrapped(self, s: Apply) -> str | None:
        """The template of a 64-bit integer operation that may overflow; else None."""
        return integer_text.wrapped(s)

    def operand_casts(self, s: Apply, text: str) -> list[np.dtype | None]:
        """For each operand, the dtype to cast it to where Numba promotes differently; else None."""
        return scalar_text.operand_casts(s, text)

    def result_cast(self, s: Apply) -> np.dtype | None:
        """The dtype to cast a result back to: Numba computes integers with 64 bits."""
        return scalar_text.cast_back(s)

    def cast(self, dtype: np.dtype) -> str:
        """The template of a cast to NumPy's scalar type."""
        return scalar_text.wrapper(dtype)

    def literal(self, value: Any, dtype: np.dtype | None, s: Apply) -> tuple[Any, np.dtype | None]:
        """A Python number, and the dtype to write with it; None if Numba infers that dtype."""
        if dtype is None and isinstance(value, np.generic):
            value, dtype = shortest(value), value.dtype
        if dtype in _AS_THEY_ARE:
            return dtype.type(value).item(), None
        others = [a.type for a in s.args if isinstance(a, Var)]
        if type(value) is int and any(t.dtype.kind == "f" for t in others):
            value = float(value)
        return value, dtype


NUMBA = Numba()


def _has_small_nests(run: Sequence[Statement]) -> bool:
    """True if loops of the user within a loop could run on threads, maybe with few iterations."""
    inner = (t for s in run if isinstance(s, (For, While)) for t in s.body.statements)
    loops = (t for t in inner if isinstance(t, For) and not t.scheduled)
    return any(parallelize.worth_threads(t, 2) for t in loops)


def _power(s: Apply) -> str | None:
    """The text of a power that is a product, a quotient or a square root."""
    if s.primitive not in (power, scalars.pow_) or isinstance(s.args[1], Var):
        return None
    exponent, single = s.args[1], s.out.type.dtype == np.float32
    if s.out.type.dtype.kind == "c":
        return _complex_power(exponent) if isinstance(s.args[0], Var) else None
    if s.out.type.dtype.kind not in "f":
        return None
    if exponent == 0.5:
        return "np.sqrt({0})"
    if exponent == 2:
        return "{0} ** 2" if not isinstance(s.args[0], Var) else "{0} * {0}"
    if exponent in HALF_POWERS:
        return f"{HALF_POWERS[exponent]}{'f' if single else ''}({{0}})"
    if float(exponent).is_integer() and 0 < exponent <= 16:
        return f"{{0}} ** {int(exponent)}"
    if exponent in (-1, -2, -3):
        return ("np.float32(1.0)" if single else "1.0") + int(-exponent) * " / {0}"
    return None


def _complex_power(exponent: Any) -> str | None:
    """The text of a complex power that NumPy computes as a product, reciprocal or root."""
    plainly = {2: "{0} * {0}", -1: "complex_reciprocal({0})", 0.5: "complex_sqrt({0})"}
    if exponent in plainly:
        return plainly[exponent]
    if np.imag(exponent) or abs(exponent) >= 100:
        return None
    exponent = float(np.real(exponent))
    if exponent.is_integer():
        return f"complex_whole_power({{0}}, {int(exponent)})"
    return f"complex_power({{0}}, {exponent})"
