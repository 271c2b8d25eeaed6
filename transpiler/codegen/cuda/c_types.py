"""The CUDA C spelling of dtypes and numbers.

>>> c_type(np.dtype("f4")), c_number(0.1, np.dtype("f4")), c_number(2, np.dtype("f8"))
('float', '0.1f', '2.0')
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.transpiler.codegen.text.spelling import shortest

C_TYPES: dict[np.dtype, str] = {
    np.dtype("?"): "bool",
    np.dtype("i1"): "signed char",
    np.dtype("u1"): "unsigned char",
    np.dtype("i2"): "short",
    np.dtype("u2"): "unsigned short",
    np.dtype("i4"): "int",
    np.dtype("u4"): "unsigned int",
    np.dtype("i8"): "long long",
    np.dtype("u8"): "unsigned long long",
    np.dtype("f4"): "float",
    np.dtype("f8"): "double",
    np.dtype("c8"): "complex64",  # ours: complex_numbers
    np.dtype("c16"): "complex128",
}
CASTS = {  # the target's names for casts; NumPy's names, too
    **{t: t for t in "int8 uint8 int16 uint16 int32 uint32 int64 uint64 float32 float64".split()},
    **{t: t for t in ("complex64", "complex128")},
    "bool_": "bool",
    "float": "float64",  # Python's own
    "int": "int64",
    "bool": "bool",
    "complex": "complex128",
}
KEYWORDS = frozenset(
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t"
    " class compl const const_cast constexpr continue decltype default delete do double"
    " dynamic_cast else enum explicit export extern false float for friend goto if inline int long"
    " mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public"
    " register reinterpret_cast return short signed sizeof static static_assert static_cast struct"
    " switch template this thread_local throw true try typedef typeid typename union unsigned using"
    " virtual void volatile wchar_t while xor xor_eq".split()
)
# macros for values without a literal: NVRTC has no header for them
DEFINITIONS = {"INF": "__int_as_float(0x7f800000)", "NaN": "__int_as_float(0x7fc00000)"}
LARGE = 2**30  # indices from here on, and numbers computed with such a constant, have 64 bits


def c_type(dtype: np.dtype) -> str:
    """The C type of a dtype."""
    return C_TYPES[np.dtype(dtype)]


def c_number(value: Any, dtype: np.dtype | None = None) -> str:
    """A number as a literal of ``dtype``, or of its Python type's dtype."""
    dtype = np.dtype(dtype) if dtype is not None else np.asarray(value).dtype
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.kind in "iu":
        return _whole(int(value), dtype)
    if dtype.kind == "c":
        return _complex(complex(value), dtype)
    with np.errstate(over="ignore"):  # values beyond float32 become infinite, as in NumPy
        number = float(np.float32(value)) if dtype.itemsize == 4 else float(value)
    if number != number:
        return "NaN"
    if np.isinf(number):
        return "INF" if number > 0 else "-INF"
    text = repr(shortest(np.float32(number)) if dtype.itemsize == 4 else number)
    if "." not in text and "e" not in text:
        text += ".0"
    return f"{text}f" if dtype.itemsize == 4 else text


def _complex(value: complex, dtype: np.dtype) -> str:
    """A complex literal; a real value is written as a float, which C++ converts."""
    kind = np.dtype(f"f{dtype.itemsize // 2}")
    real, imag = c_number(value.real, kind), c_number(value.imag, kind)
    plain = value.imag == 0 and not np.signbit(value.imag)
    return real if plain else f"{C_TYPES[dtype]}({real}, {imag})"


def _whole(value: int, dtype: np.dtype) -> str:
    if dtype == np.dtype("u8"):
        return f"{value}ULL"
    if dtype == np.dtype("u4") and value >= LARGE:
        return f"{value}u"
    if value == -(2**63):
        return "(-9223372036854775807LL - 1)"
    return f"{value}LL" if abs(value) >= LARGE else str(value)
