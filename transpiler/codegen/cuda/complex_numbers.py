"""Complex numbers for CUDA C: a struct and its functions, as NVRTC has no header for them.

A kernel's text has the operators and functions that it uses, and no others. They are overloads of
C's names: ``a * b``, ``exp(z)``, ``abs(z)``; a real operand becomes a complex one by itself, as in
NumPy. Values, infinities and branch cuts are NumPy's. Those of CuPy's own header are not: there
``0 / complex(0, inf)`` and ``0 ** 0`` are NaN, most quotients and tangents end in other digits,
``exp2`` and ``expm1`` are missing, and it includes a header of CCCL that NVRTC's wheel has not.

>>> print(definition("conj of complex64"))
__device__ __forceinline__ complex64 conj(complex64 z)
{
    return complex64(z.real, -z.imag);
}
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import gast
import numpy as np

from calque.transpiler.codegen.cuda.c_types import CASTS, c_type
from calque.transpiler.codegen.numba.scalar_text import plain_type
from calque.transpiler.codegen.text.scalar_functions import SCALAR_FUNCTIONS
from calque.transpiler.ir.core import Apply
from calque.transpiler.primitives import complexes, scalars
from calque.transpiler.primitives.elementwise import divide, float_power, power, reciprocal, where
from calque.transpiler.primitives.logic import (
    equal,
    logical_and,
    logical_not,
    logical_or,
    not_equal,
)

COMPLEX = {"complex64": "f", "complex128": ""}  # dtype: the suffix of its parts' C functions
_PARTS = {"complex64": "float", "complex128": "double"}
# limits that depend on the precision: the largest exponent of exp; a huge and a tiny number; the
# power of two that scales tiny numbers up
_ENDS = {
    "complex64": {"far": "88", "huge": "1e37f", "tiny": "1e-30f", "up": "40"},
    "complex128": {"far": "709", "huge": "1e300", "tiny": "1e-290", "up": "108"},
}
_STRUCT = """\
template <class T>
struct __align__(2 * sizeof(T)) Complex {  // a real number is one, too
    T real, imag;
    Complex() = default;
    __device__ Complex(T real, T imag = 0) : real(real), imag(imag) {}
    template <class Other>
    __device__ explicit Complex(Complex<Other> z) : real(z.real), imag(z.imag) {}
};"""
_TWO = "__device__ __forceinline__ {T} operator{op}({T} a, {T} b)"
_ONE = "__device__ {T} {name}({T} z)"
_SHORT = "__device__ __forceinline__ {T} {name}({T} z)"
_TEST = "__device__ __forceinline__ bool {name}({T} z)"
# function: the functions that it needs, and its text
_TEXTS: dict[str, tuple[tuple[str, ...], str]] = {
    "+": ((), _TWO + "\n{{\n    return {T}(a.real + b.real, a.imag + b.imag);\n}}"),
    "-": ((), _TWO + "\n{{\n    return {T}(a.real - b.real, a.imag - b.imag);\n}}"),
    "*": (
        (),
        _TWO + "\n{{\n    return {T}(a.real * b.real - a.imag * b.imag,"
        " a.real * b.imag + a.imag * b.real);\n}}",
    ),
    "/": (
        (),
        _TWO
        + """  // Smith's, as in NumPy
{{
    if (fabs{f}(b.real) >= fabs{f}(b.imag)) {{
        if (b.real == 0 && b.imag == 0)
            return {T}(a.real / fabs{f}(b.real), a.imag / fabs{f}(b.real));
        {R} ratio = b.imag / b.real, scale = 1 / (b.real + b.imag * ratio);
        return {T}((a.real + a.imag * ratio) * scale, (a.imag - a.real * ratio) * scale);
    }}
    {R} ratio = b.real / b.imag, scale = 1 / (b.imag + b.real * ratio);
    return {T}((a.real * ratio + a.imag) * scale, (a.imag * ratio - a.real) * scale);
}}""",
    ),
    "minus": (
        (),
        _SHORT.replace("{name}", "operator-") + "\n{{\n    return {T}(-z.real, -z.imag);\n}}",
    ),
    "==": (
        (),
        "__device__ __forceinline__ bool operator==({T} a, {T} b)\n{{\n"
        "    return a.real == b.real && a.imag == b.imag;\n}}",
    ),
    "!=": (
        (),
        "__device__ __forceinline__ bool operator!=({T} a, {T} b)\n{{\n"
        "    return a.real != b.real || a.imag != b.imag;\n}}",
    ),
    "atomicAdd": (
        (),
        "__device__ __forceinline__ void atomicAdd({T}* cell, {T} value)\n{{\n"
        "    atomicAdd(&cell->real, value.real);\n    atomicAdd(&cell->imag, value.imag);\n}}",
    ),
    "conj": ((), _SHORT + "\n{{\n    return {T}(z.real, -z.imag);\n}}"),
    "abs": (
        (),
        "__device__ __forceinline__ {R} abs({T} z)\n{{\n    return hypot{f}(z.real, z.imag);\n}}",
    ),
    "isnan": ((), _TEST + "\n{{\n    return isnan(z.real) || isnan(z.imag);\n}}"),
    "isinf": ((), _TEST + "\n{{\n    return isinf(z.real) || isinf(z.imag);\n}}"),
    "isfinite": ((), _TEST + "\n{{\n    return isfinite(z.real) && isfinite(z.imag);\n}}"),
    "exp": (
        ("INF", "NaN"),
        _ONE
        + """
{{
    {R} x = z.real, y = z.imag;
    if (y == 0)
        return {T}(exp{f}(x), y);
    if (!isfinite(y) && x == -INF)
        return {T}(0, copysign{f}(({R})0, y));
    if (!isfinite(y))
        return {T}(x == INF ? x : NaN, NaN);
    {R} size = exp{f}(x > {far} ? x / 2 : x), again = x > {far} ? size : 1, sine, cosine;
    sincos{f}(y, &sine, &cosine);
    return {T}(size * cosine * again, size * sine * again);
}}""",
    ),
    "square_less_1": (
        (),
        """\
__device__ {R} square_less_1({R} a, {R} b)  // a * a + b * b - 1 in twice the digits (Dekker's)
{{
    {R} found = -1, rest = 0;
    for (int k = 0; k < 2; k++) {{
        {R} part = k == 0 ? a : b, square = {round}(part, part);
        {R} total = found + square, other = total - found;
        rest += fma{f}(part, part, -square) + ((found - (total - other)) + (square - other));
        found = total;
    }}
    return found + rest;
}}""",
    ),
    "log": (
        ("square_less_1",),
        _ONE
        + """
{{
    {R} x = fabs{f}(z.real), y = fabs{f}(z.imag), angle = atan2{f}(z.imag, z.real);
    {R} large = fmax{f}(x, y), size;
    if (large >= {half} && large < 2)
        size = {half} * log1p{f}(square_less_1(x, y));
    else if (large > {huge} && isfinite(large))
        size = log{f}(hypot{f}(x / 2, y / 2)) + {ln2};
    else if (large > 0 && large < {tiny})
        size = log{f}(hypot{f}(ldexp{f}(x, {up}), ldexp{f}(y, {up}))) - {up} * {ln2};
    else
        size = log{f}(hypot{f}(x, y));
    return {T}(size, angle);
}}""",
    ),
    "sqrt": (
        (),
        _ONE
        + """
{{
    {R} x = z.real, y = z.imag, size = fmax{f}(fabs{f}(x), fabs{f}(y));
    if (isinf(y))
        return {T}(fabs{f}(y), y);
    if (isinf(x)) {{
        {R} other = isnan(y) ? y : 0;
        return x > 0 ? {T}(x, copysign{f}(other, y)) : {T}(other, copysign{f}(x, y));
    }}
    if (y == 0 && !isnan(x)) {{
        {R} root = sqrt{f}(fabs{f}(x));
        return x >= 0 ? {T}(root, y) : {T}(0, copysign{f}(root, y));
    }}
    int digits = size > {huge} ? -4 : size < {tiny} ? {up} : 0;
    x = ldexp{f}(x, digits);
    y = ldexp{f}(y, digits);
    {R} root = sqrt{f}({half} * (hypot{f}(x, y) + fabs{f}(x))), other = {half} * (y / root);
    root = ldexp{f}(root, -digits / 2);
    other = ldexp{f}(other, -digits / 2);
    return x >= 0 ? {T}(root, other) : {T}(fabs{f}(other), copysign{f}(root, y));
}}""",
    ),
    "sinh": (
        ("INF", "NaN"),
        _ONE
        + """
{{
    {R} x = z.real, y = z.imag;
    if (y == 0)
        return {T}(sinh{f}(x), y);
    if (!isfinite(y))
        return {T}(x == 0 ? x : isinf(x) ? INF : NaN, NaN);
    {R} sine, cosine;
    sincos{f}(y, &sine, &cosine);
    if (fabs{f}(x) > {far}) {{
        {R} half = exp{f}(fabs{f}(x) / 2), real = half * cosine * (half / 2);
        return {T}(x > 0 ? real : -real, half * sine * (half / 2));
    }}
    return {T}(sinh{f}(x) * cosine, cosh{f}(x) * sine);
}}""",
    ),
    "cosh": (
        ("INF", "NaN"),
        _ONE
        + """
{{
    {R} x = z.real, y = z.imag;
    if (y == 0)
        return {T}(cosh{f}(x), isnan(x) ? y : y * copysign{f}(({R})1, x));
    if (!isfinite(y))
        return {T}(isinf(x) ? INF : NaN, x == 0 ? 0 : NaN);
    {R} sine, cosine;
    sincos{f}(y, &sine, &cosine);
    if (fabs{f}(x) > {far}) {{
        {R} half = exp{f}(fabs{f}(x) / 2), imag = half * sine * (half / 2);
        return {T}(half * cosine * (half / 2), x > 0 ? imag : -imag);
    }}
    return {T}(cosh{f}(x) * cosine, sinh{f}(x) * sine);
}}""",
    ),
    "tanh": (
        ("NaN",),
        _ONE
        + """
{{
    {R} x = z.real, y = z.imag;
    if (!isfinite(y) || isnan(x)) {{
        if (isinf(x))
            return {T}(copysign{f}(({R})1, x), copysign{f}(({R})0, y));
        return {T}(x == 0 || y == 0 ? x : NaN, y == 0 ? y : NaN);
    }}
    {R} sine, cosine;
    sincos{f}(y, &sine, &cosine);
    if (fabs{f}(x) > 22) {{  // 1 to all of its digits
        {R} small = exp{f}(-fabs{f}(x));
        return {T}(copysign{f}(({R})1, x), 4 * sine * cosine * small * small);
    }}
    {R} steep = sinh{f}(x), square = steep * steep + cosine * cosine;
    return {T}(steep * cosh{f}(x) / square, sine * cosine / square);
}}""",
    ),
    "sin": (
        ("sinh",),
        _ONE + "\n{{\n    z = sinh({T}(z.imag, z.real));\n    return {T}(z.imag, z.real);\n}}",
    ),
    "cos": (("cosh",), _ONE + "\n{{\n    return cosh({T}(-z.imag, z.real));\n}}"),
    "tan": (
        ("tanh",),
        _ONE + "\n{{\n    z = tanh({T}(z.imag, z.real));\n    return {T}(z.imag, z.real);\n}}",
    ),
    **{
        name: (
            ("log",),
            _ONE + "\n{{\n    z = log(z);\n"
            f"    return {{T}}(z.real * {number}{{f}}, z.imag * {number}{{f}});\n}}}}",
        )
        for name, number in (("log2", "1.4426950408889634"), ("log10", "0.4342944819032518"))
    },
    "exp2": (("exp",), _ONE + "\n{{\n    return exp({T}(z.real * {ln2}, z.imag * {ln2}));\n}}"),
    "expm1": (
        (),
        _ONE
        + """
{{
    {R} turn = sin{f}(z.imag / 2), less = expm1{f}(z.real) * cos{f}(z.imag) - 2 * turn * turn;
    return {T}(less, exp{f}(z.real) * sin{f}(z.imag));
}}""",
    ),
    "reciprocal": (
        (),
        _ONE
        + """
{{
    if (fabs{f}(z.imag) <= fabs{f}(z.real)) {{
        {R} ratio = z.imag / z.real, scale = z.real + z.imag * ratio;
        return {T}(1 / scale, -ratio / scale);
    }}
    {R} ratio = z.real / z.imag, scale = z.real * ratio + z.imag;
    return {T}(ratio / scale, -1 / scale);
}}""",
    ),
    "pow": (
        ("log", "exp", "*", "whole_power", "NaN"),
        """\
__device__ {T} pow({T} a, {T} b)
{{
    if (b.imag == 0 && fabs{f}(b.real) < 100 && b.real == (int)b.real)
        return whole_power(a, (int)b.real);
    if (a.real == 0 && a.imag == 0)
        return b.real > 0 ? {T}(0) : {T}(NaN, NaN);
    return exp(b * log(a));
}}""",
    ),
    "whole_power": (
        ("*", "/", "NaN"),
        """\
__device__ {T} whole_power({T} z, int n)  // by squares
{{
    if (z.real == 0 && z.imag == 0 && n != 0)
        return n > 0 ? {T}(0) : {T}(NaN, NaN);
    if (n == 1 || n == 2 || n == 3)
        return n == 1 ? z : n == 2 ? z * z : z * (z * z);
    {T} product = 1, square = z;
    for (int rest = abs(n); rest > 0; rest /= 2) {{
        product = rest % 2 ? product * square : product;
        square = rest > 1 ? square * square : square;
    }}
    return n < 0 ? 1 / product : product;
}}""",
    ),
}
_TEXTS |= {
    f"{op}=": (
        (op,),
        f"__device__ __forceinline__ void operator{op}=({{T}}& a, {{T}} b)\n"
        f"{{{{\n    a = a {op} b;\n}}}}",
    )
    for op in "+-*/"
}
_FUNCTIONS = {name for name, f in SCALAR_FUNCTIONS.items() if "cuda" in f.of_complex}
_OF_REALS = ("abs", "isnan", "isinf", "isfinite", *CASTS)  # functions with a real result
_POWERS = (power, float_power, scalars.pow_)
_ARITHMETIC = re.compile(r"\{\d\} [-+*] \{\d\}")


def functions() -> list[str]:
    """The names of all functions."""
    return [name for name in _TEXTS if name.isidentifier() and name != "minus"]


def is_complex(s: Apply) -> bool:
    """True if an operation has a complex operand or a complex result."""
    return any(t.dtype.kind == "c" for t in (*map(plain_type, s.args), s.out.type))


def spelled_complex(s: Apply) -> str | None:
    """The text of an elementwise operation on complex numbers; None if there is none."""
    primitive = s.primitive
    scalar = primitive.scalar or ""
    if primitive in _POWERS:
        return _power(s)
    if primitive in (complexes.real, complexes.imag):
        return "{0}.real" if primitive is complexes.real else "{0}.imag"
    if primitive is complexes.conj:
        return "conj({0})"
    if primitive is complexes.of_parts:
        return f"{c_type(s.out.type.dtype)}({{0}}, {{1}})"
    if primitive in (divide, reciprocal):
        return "{0} / {1}" if primitive is divide else "reciprocal({0})"
    if primitive is where:
        return "{1} if {0} else {2}"
    if primitive in (logical_and, logical_or):
        word = "and" if primitive is logical_and else "or"
        return f"({{0}} != 0) {word} ({{1}} != 0)"
    if primitive is logical_not:
        return "not ({0} != 0)"
    if primitive in (equal, not_equal):
        return "{0} == {1}" if primitive is equal else "{0} != {1}"
    if scalar in _FUNCTIONS:
        return f"{scalar}({{0}})"
    return scalar if _ARITHMETIC.fullmatch(scalar) or scalar == "-{0}" else None


def _power(s: Apply) -> str:
    """The text of a power: products where the exponent is an integer."""
    exponent = s.args[1]
    whole = s.out.type.dtype.kind == "c" and isinstance(exponent, (int, float, complex, np.number))
    if not whole or exponent != int(np.real(exponent)) or not 0 < abs(exponent) < 100:
        return "sqrt({0})" if whole and exponent == 0.5 else "pow({0}, {1})"
    if exponent == 2:
        return "{0} * {0}"
    if exponent == -1:
        return "reciprocal({0})"
    return f"whole_power({{0}}, {int(np.real(exponent))})"


def complex_type(tree: Any, type_of: Callable[[Any], str]) -> str:
    """The C type of a complex expression; an empty string for any other."""
    match tree:
        case gast.Constant(value=complex()):
            return "complex128"
        case gast.Name() | gast.Subscript(value=gast.Name()):
            found = type_of(tree)
            return found if found in COMPLEX else ""
        case gast.BinOp(left=left, right=right) | gast.IfExp(body=left, orelse=right):
            return max(complex_type(left, type_of), complex_type(right, type_of), key=len)
        case gast.UnaryOp(op=gast.USub(), operand=operand):
            return complex_type(operand, type_of)
        case gast.Call(func=function, args=args):
            called = getattr(function, "attr", None) or function.id
            if called in ("complex", *COMPLEX):
                return "complex128" if called == "complex" else str(called)
            if called in _OF_REALS:
                return ""
            return max((complex_type(a, type_of) for a in args), key=len, default="")
    return ""


def needs(word: str) -> list[str]:
    """The functions that a function's text calls: ``log of complex64`` for powers."""
    what, _, kind = word.partition(" of ")
    return [f"{n} of {kind}" if n in _TEXTS else n for n in _TEXTS[what][0]]


def is_defined(word: str) -> bool:
    """True if ``word`` names an operator or a function of complex numbers."""
    what, _, kind = word.partition(" of ")
    return kind in COMPLEX and what in _TEXTS


def definition(word: str) -> str:
    """The text of an operator or a function of complex numbers."""
    what, _, kind = word.partition(" of ")
    f = COMPLEX[kind]
    words = {"T": kind, "R": _PARTS[kind], "f": f, "op": what, "name": what, **_ENDS[kind]}
    words["round"] = "__fmul_rn" if f else "__dmul_rn"
    return _TEXTS[what][1].format(**words, half=f"0.5{f}", ln2=f"0.6931471805599453{f}")


def structs(kinds: list[str]) -> str:
    """The struct definitions of the complex types in ``kinds``."""
    text = _STRUCT
    if len(kinds) == 1:  # no conversion from the other type
        text = re.sub(r"    template <class Other>\n.*\n", "", text)
    return "\n".join([text, *(f"typedef Complex<{_PARTS[kind]}> {kind};" for kind in kinds)])
