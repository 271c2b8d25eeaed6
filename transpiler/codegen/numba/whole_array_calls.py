"""NumPy's functions of whole arrays that Numba has, called within the loops of a kernel.

Outside of loops such a call goes to NumPy itself, which is no slower. Within a loop, a call from
Python would keep the whole loop out of the kernel.
"""

from __future__ import annotations

import numpy as np

from calque.transpiler.codegen.text.spelling import template
from calque.transpiler.ir.core import Apply, Statement, Var
from calque.transpiler.primitives.checked_numbers import (
    bounded,
    power_base,
    shift_count,
    whole_exponent,
)
from calque.transpiler.primitives.creation import arange
from calque.transpiler.primitives.elementwise import to_int
from calque.transpiler.primitives.indexing import checked_index
from calque.transpiler.primitives.ranges import linspace
from calque.transpiler.primitives.selecting import flatnonzero, nonzero

_REAL = (np.float64, np.int64)
_OF_BOOLEANS = (nonzero, flatnonzero)
# Text in NumPy source -> text in kernels, for vectors of 64 bits. Numba's own median ignores NaN;
# its sums and extrema differ in the sign of zero.
_SAFE = {
    "np.sort({0})": "np.sort({0})",
    "np.argsort({0}, kind='stable')": "np.argsort({0}, kind='mergesort')",
    "np.argsort({0}, kind='quicksort')": "np.argsort({0}, kind='mergesort')",
    "np.argsort({0})": "np.argsort({0}, kind='mergesort')",
    "np.cumsum({0})": "running_sum({0})",
    "np.maximum.accumulate({0})": "running_max({0})",
    "np.minimum.accumulate({0})": "running_min({0})",
    "np.median({0})": "array_median({0})",
    "np.cumprod({0})": "np.cumprod({0})",
    "np.roll({0}, {1})": "np.roll({0}, {1})",
    "np.roll({0}, {1}, axis=0)": "np.roll({0}, {1})",
    "np.repeat({0}, {1}, axis=0)": "np.repeat({0}, {1})",
    "np.kron({0}, {1})": "np.kron({0}, {1})",
    "np.sum({0})": "np.sum({0})",
    "np.prod({0})": "np.prod({0})",
    "np.linspace({0}, {1}, {2})": "np.linspace({0}, {1}, {2})",
    "np.arange({1})": "np.arange({1})",
    "np.arange({0}, {1})": "np.arange({0}, {1})",
    "np.nonzero({0})[0]": "np.flatnonzero({0})",
    "np.flatnonzero({0})": "np.flatnonzero({0})",
}
_RAISING = {
    text: text
    for text in (
        "np.argmax({0})",
        "np.argmin({0})",
        "np.interp({0}, {1}, {2})",
        "np.digitize({0}, {1})",
        "np.convolve({0}, {1})",
        "np.cross({0}, {1})",
    )
} | {
    "np.max({0})": "array_max({0})",
    "np.min({0})": "array_min({0})",
    "np.quantile({0}, {1})": "array_quantile({0}, {1})",
    "np.percentile({0}, {1})": "array_quantile({0}, {1} / 100)",
}


def text_in_loops(s: Apply) -> str | None:
    """The template by which a kernel's loop calls NumPy for a statement; None if Numba cannot."""
    if s.primitive.in_loops is not None:
        return _of_types(s.primitive.in_loops, s) if s.proven else None
    if s.primitive.name not in _NAMES:
        return None
    arrays = [a for a in s.args if isinstance(a, Var) and a.type.ndim]
    values = [*(a for a in s.args if isinstance(a, Var)), *s.outs]
    kinds = (*_REAL, np.bool_) if s.primitive in _OF_BOOLEANS else _REAL
    if any(v.type.dtype not in kinds or v.type.ndim > 1 for v in values):
        return None
    if not arrays and s.primitive not in (linspace, arange):
        return None
    if s.primitive is arange and s.out.type.dtype != np.int64:
        return None  # Numba's float ranges differ in the last bits
    text = template(s.primitive, s.args, s.params)
    return _SAFE.get(text) or _RAISING.get(text)


def _of_types(text: str, s: Apply) -> str:
    """The template for a matrix operation, where functions have names by types."""
    if text in _BY_KIND and s.outs[0].type.dtype.kind == "c":
        return f"complex_{text}"
    if text == "checked_finite({0})" and s.out.type.ndim:
        return "checked_finite_array({0})"
    return text


_CHECKED = (checked_index, bounded, whole_exponent, shift_count, power_base)


def may_raise(s: Statement) -> bool:
    """True if a statement may raise for some indices or arrays, which threads cannot do."""
    if not isinstance(s, Apply):
        return False
    if s.primitive is to_int and isinstance(s.args[0], Var):
        return s.args[0].type.dtype.kind == "f"
    return s.primitive in _CHECKED or text_in_loops(s) in _MAY_RAISE


_BY_KIND = ("determinant({0})", "cholesky_factor({0})", "sign_and_logdet({0})")
_FACTORIZING = (
    *("solve({0}, {1})", "matrix_inverse({0})"),
    *("cholesky_factor({0})", "complex_cholesky_factor({0})"),
)
_FINITE = ("checked_finite({0})", "checked_finite_array({0})")
_MAY_RAISE = {*_RAISING.values(), *_FACTORIZING, *_FINITE}
_NAMES = {text.partition("(")[0] for text in (*_SAFE, *_RAISING)}
