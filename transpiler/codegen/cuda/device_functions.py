"""Device functions that CUDA lacks: their text, and the functions that it needs.

The last letter of a name is its type: none for ``double``, f for ``float``, l for ``long long``,
as in C's ``fmod`` and ``fmodf``, u for ``unsigned long long``; c for ``complex64`` and z for
``complex128``, as in BLAS.

>>> print(definitions({"maximumf"}))
__device__ __forceinline__ float maximumf(float a, float b)  // NaN wins, as in NumPy
{
    return a > b || a != a ? a : b;
}
>>> definitions({"expf"})
''
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from calque.transpiler.codegen.cuda import complex_numbers
from calque.transpiler.codegen.cuda.c_types import DEFINITIONS
from calque.transpiler.codegen.cuda.complex_numbers import COMPLEX
from calque.transpiler.codegen.cuda.random_functions import RANDOM
from calque.transpiler.codegen.cuda.thread_reductions import (
    BLOCK,
    COMBINED,
    ROW,
    RUNNING,
    SIXTEEN,
)

SUFFIXES = {"double": "", "float": "f", "long long": "l", "unsigned long long": "u"}
SUFFIXES |= {"complex64": "c", "complex128": "z"}
_PAIR = "__device__ __forceinline__ {T} {name}({T} a, {T} b)"
_ONE = "__device__ __forceinline__ {T} {name}({T} x)"
_REALS = ("double", "float")
_WHOLE = ("long long", "unsigned long long")
_ALL = (*_REALS, *_WHOLE)
_SHUFFLE = re.compile(r"(__shfl\w+)\(0xffffffff, value, (\w+)\)")
# name: the types that it exists for, and its text
_TEMPLATES: dict[str, tuple[tuple[str, ...], str]] = {
    "maximum": (
        _ALL,
        f"{_PAIR}  // NaN wins, as in NumPy\n{{{{\n    return a > b || a != a ? a : b;\n}}}}",
    ),
    "minimum": (
        _ALL,
        f"{_PAIR}  // NaN wins, as in NumPy\n{{{{\n    return a < b || a != a ? a : b;\n}}}}",
    ),
    "least": (_REALS, f"{_PAIR}  // Python's min\n{{{{\n    return b < a ? b : a;\n}}}}"),
    "greatest": (_REALS, f"{_PAIR}  // Python's max\n{{{{\n    return b > a ? b : a;\n}}}}"),
    "square": (_ALL, f"{_ONE}\n{{{{\n    return x * x;\n}}}}"),
    "sign": (
        (*_REALS, "long long"),
        f"{_ONE}  // of NaN: NaN\n{{{{\n    return x > 0 ? 1 : x < 0 ? -1 : x == 0 ? 0 : x;\n}}}}",
    ),
    "clamped": (
        _REALS,
        "__device__ __forceinline__ {T} {name}({T} x, {T} low, {T} high)  // NaN wins\n{{\n"
        "    if (x < low || low != low)\n        x = low;\n"
        "    return x > high || high != high ? high : x;\n}}",
    ),
    "heaviside": (
        _REALS,
        f"{_PAIR}  // b at 0\n{{{{\n    return a != a ? a : a > 0 ? 1 : a < 0 ? 0 : b;\n}}}}",
    ),
    "power": (
        _ALL,
        "__device__ __forceinline__ {T} {name}({T} x, int n)  // x times x, n times\n{{\n"
        "    {T} product = 1;\n    for (; n > 0; n /= 2, x *= x)\n        if (n % 2)\n"
        "            product *= x;\n    return product;\n}}",
    ),
    "row_last": (
        (*_ALL, *COMPLEX),
        "__device__ {T} {name}({T} value)  // that of the last of a row's threads\n{{\n"
        "    if (blockDim.x == 32)\n        return __shfl_sync(0xffffffff, value, 31);\n"
        "    __shared__ {T} last[1];\n    __syncthreads();  // an earlier call may still be read\n"
        "    if (threadIdx.x == 255)\n        last[0] = value;\n    __syncthreads();\n"
        "    return last[0];\n}}",
    ),
    "rescaled_sum": (
        _REALS,
        "// sums relative to the largest so far and to x, as one relative to the larger of them\n"
        "__device__ __forceinline__ double {name}(double total, {T} largest, {T} x, double term)\n"
        "{{\n"
        "    double scale = x == largest ? 1 : exp{f}(-fabs{f}(x - largest));\n"
        "    return x > largest ? total * scale + term : total + term * scale;\n}}",
    ),
    "rescaled": (
        _REALS,
        "__device__ __forceinline__ double {name}(double total, {T} before, {T} largest)\n{{\n"
        "    return before == largest ? total : total * exp{f}(before - largest);\n}}",
    ),
    "float_remainder": (
        _REALS,
        f"{_PAIR}  // of the divisor's sign, as in Python\n{{{{\n"
        "    {T} rest = fmod{f}(a, b);\n    if (rest == 0)\n"
        "        return copysign{f}(({T})0, b);\n"
        "    return (rest < 0) != (b < 0) ? rest + b : rest;\n}}",
    ),
    "float_floor_divide": (
        _REALS,
        f"{_PAIR}  // rounded down, as in NumPy\n{{{{\n"
        "    if (b == 0)\n        return a / b;\n    {T} rest = fmod{f}(a, b);\n"
        "    {T} quotient = (a - rest) / b;\n"
        "    if (rest != 0 && (rest < 0) != (b < 0))\n        quotient -= 1;\n"
        "    if (quotient == 0)\n        return copysign{f}(({T})0, a / b);\n"
        "    {T} whole = floor{f}(quotient);\n"
        "    return quotient - whole > 0.5 ? whole + 1 : whole;"
        "\n}}",
    ),
}
_INDEX_PAIR = """\
__device__ __forceinline__ Index {name}(Index a, Index b)
{{
    return a {op} b ? a : b;
}}"""
_SEARCH = """\
template <class Array, class T>
__device__ Index searchsorted_{side}(Array sorted, Index size, T value)  // by halving
{{
    Index begin = 0;
    while (size > 0) {{
        Index half = size / 2, middle = begin + half;
        bool later = {stays};
        begin = later ? middle + 1 : begin;
        size = later ? size - half - 1 : half;
    }}
    return begin;
}}"""
_OTHERS = {
    **RANDOM,
    "row_wait": """\
__device__ __forceinline__ void row_wait()  // of a row's threads, a warp or a block, for each other
{
    if (blockDim.x == 32)
        __syncwarp();
    else if (blockDim.x > 32)
        __syncthreads();
}""",
    **{
        f"wrapped_{word}": f"""\
__device__ __forceinline__ long long wrapped_{word}(long long a, long long b)  // modulo 2**64
{{
    return (long long)((unsigned long long)a {operator} (unsigned long long)b);
}}"""
        for word, operator in (("sum", "+"), ("difference", "-"), ("product", "*"))
    },
    "wrapped_negative": """\
__device__ __forceinline__ long long wrapped_negative(long long a)  // modulo 2**64
{
    return (long long)(0ULL - (unsigned long long)a);
}""",
    "wrapped_abs": """\
__device__ __forceinline__ long long wrapped_abs(long long a)  // of the least: itself
{
    return a < 0 ? wrapped_negative(a) : a;
}""",
    "order_of": """\
__device__ __forceinline__ int order_of(unsigned long long a, long long b)  // 1 where a is larger
{
    if (b < 0)
        return 1;
    return a > (unsigned long long)b ? 1 : a < (unsigned long long)b ? -1 : 0;
}""",
    "left_shift": """\
__device__ __forceinline__ long long left_shift(long long a, long long by, int bits)
{
    return by >= 0 && by < bits ? (long long)((unsigned long long)a << by) : 0;
}""",
    "left_shiftu": """\
__device__ __forceinline__ unsigned long long left_shiftu(
    unsigned long long a, unsigned long long by, int bits)
{
    return by < bits ? a << by : 0;
}""",
    "right_shift": """\
__device__ __forceinline__ long long right_shift(long long a, long long by, int bits)
{
    return by >= 0 && by < bits ? a >> by : a < 0 ? -1 : 0;
}""",
    "right_shiftu": """\
__device__ __forceinline__ unsigned long long right_shiftu(
    unsigned long long a, unsigned long long by, int bits)
{
    return by < bits ? a >> by : 0;
}""",
    "int64_of": """\
__device__ __forceinline__ long long int64_of(double x)  // the least, of what it cannot hold
{
    const double end = 9223372036854775808.0;
    return x >= -end && x < end ? (long long)x : -9223372036854775807LL - 1;
}""",
    "int32_of": """\
__device__ __forceinline__ int int32_of(double x)  // the least, of what it cannot hold
{
    return x > -2147483649.0 && x < 2147483648.0 ? (int)x : -2147483647 - 1;
}""",
    "uint64_of": """\
__device__ __forceinline__ unsigned long long uint64_of(double x)  // modulo 2**64, of what it can
{
    const double half = 9223372036854775808.0;
    return x >= half && x < 2 * half ? (unsigned long long)x : (unsigned long long)int64_of(x);
}""",
    "floor_divideu": """\
__device__ __forceinline__ unsigned long long floor_divideu(
    unsigned long long a, unsigned long long b)  // 0 by 0
{
    return b == 0 ? 0 : a / b;
}""",
    "remainder_ofu": """\
__device__ __forceinline__ unsigned long long remainder_ofu(
    unsigned long long a, unsigned long long b)  // 0 by 0
{
    return b == 0 ? 0 : a % b;
}""",
    "floor_divide": """\
__device__ __forceinline__ long long floor_divide(long long a, long long b)  // as in Python; 0 by 0
{
    if (b == 0)
        return 0;
    if (b == -1)
        return (long long)(0ULL - (unsigned long long)a);
    long long quotient = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}""",
    "remainder_of": """\
__device__ __forceinline__ long long remainder_of(long long a, long long b)  // as in Python; 0 by 0
{
    if (b == 0 || b == -1)
        return 0;
    long long rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}""",
    "checked_index": """\
// counted from the start; outside: -1, and the host is told (by number: where, and which index)
__device__ __forceinline__ Index checked_index(
    long long index, Index size, volatile long long* outside, long long place)
{
    if (-(long long)size <= index && index < size)
        return (Index)(index < 0 ? index + size : index);
    const long long far = 1LL << 39;
    long long told = index < -far ? -far : index >= far ? far - 1 : index;
    if (*outside == 0)  // others may come of the first
        *outside = place * (2 * far) + told + far;
    return -1;
}""",
    "as_index": """\
__device__ __forceinline__ long long as_index(unsigned long long index)  // outside stays outside
{
    const unsigned long long largest = 9223372036854775807ULL;
    return (long long)(index < largest ? index : largest);
}""",
    "atomicAdd of long long": """\
__device__ __forceinline__ long long atomicAdd(long long* cell, long long value)
{
    return (long long)atomicAdd((unsigned long long*)cell, (unsigned long long)value);
}""",
    "searchsorted_left": _SEARCH.format(
        side="left", stays="comes_before<T>(sorted[middle], value)"
    ),
    "searchsorted_right": _SEARCH.format(
        side="right", stays="!comes_before<T>(value, sorted[middle])"
    ),
    "comes_before": """\
template <class T>
__device__ __forceinline__ bool comes_before(T a, T b)  // NaN is the largest number
{
    return a < b || (b != b && a == a);
}""",
    "index_max": _INDEX_PAIR.format(name="index_max", op=">"),
    "index_min": _INDEX_PAIR.format(name="index_min", op="<"),
}


def names() -> frozenset[str]:
    """The names of all device functions, which the user's names must avoid.

    >>> sorted(n for n in names() if "square" in n)
    ['square', 'square_less_1', 'squarec', 'squaref', 'squarel', 'squareu', 'squarez']
    """
    forms = ("row", "row_running", "block")
    reduced = [f"{form}_{how}" for form in forms for how in COMBINED]
    reduced += [f"row_running_{how}s" for how in COMBINED]
    stems = [*_TEMPLATES, *reduced]
    own = {"Complex", *COMPLEX, *complex_numbers.functions()}
    return frozenset([*_OTHERS, *own, *(s + letter for s in stems for letter in SUFFIXES.values())])


def suffix(dtype: np.dtype) -> str:
    """The last letter of the names of functions for a dtype.

    >>> suffix(np.dtype("f4")), suffix(np.dtype("i1")), suffix(np.dtype("c16"))
    ('f', 'l', 'z')
    """
    dtype = np.dtype(dtype)
    if dtype.kind == "c":
        return SUFFIXES[dtype.name]
    if dtype.kind == "f":
        return "f" if dtype.itemsize == 4 else ""
    return "u" if dtype == np.uint64 else "l"


_FORMS = (
    *(("row_", "", ROW), ("row_running_", "", RUNNING), ("block_", "", BLOCK)),
    ("row_running_", "s", SIXTEEN),
)


def _text(name: str) -> str | None:
    if name in _OTHERS:
        return _OTHERS[name]
    if complex_numbers.is_defined(name):
        return complex_numbers.definition(name)
    for type_, letter in SUFFIXES.items():
        stem = name.removesuffix(letter) if letter else name
        if letter and stem == name:
            continue
        if stem in _TEMPLATES and type_ in _TEMPLATES[stem][0]:
            text = _TEMPLATES[stem][1].format(T=type_, name=name, f=letter)
            text = _wrapped(text) if type_ == "long long" else text
            return _of_parts(text, type_) if type_ in COMPLEX else text
        for form, end, template in _FORMS:
            how = stem.removeprefix(form).removesuffix(end)
            if stem != f"{form}{how}{end}":
                continue
            if how != stem and how in COMBINED:
                combined = combined_text(how, np.dtype("i8") if letter == "l" else np.dtype("f8"))
                combined = combined.format(f=letter)
                before = combined.replace("value", "before")
                words = {"T": type_, "name": name, "combined": combined}
                text = template.format(**words, before=before, result=combined)
                return _of_parts(text, type_) if type_ in COMPLEX else text
    return None


def combined_text(how: str, dtype: np.dtype) -> str:
    """The text that combines ``value`` and ``other`` of a dtype; ``{f}`` is the dtype's letter.

    >>> combined_text("sum", np.dtype("i8")), combined_text("sum", np.dtype("u8"))
    ('wrapped_sum(value, other)', 'value + other')
    """
    text = COMBINED[how][0]
    promoted = dtype.kind == "i" or (dtype.kind == "u" and dtype.itemsize < 4)
    return _wrapped(text) if promoted else text


def _wrapped(text: str) -> str:
    """A text with signed integer sums and products that wrap around instead of being undefined."""
    text = text.replace("value + other", "wrapped_sum(value, other)")
    text = text.replace("value * other", "wrapped_product(value, other)")
    text = text.replace("return x * x;", "return wrapped_product(x, x);")
    text = text.replace("product *= x;", "product = wrapped_product(product, x);")
    return text.replace("x *= x)", "x = wrapped_product(x, x))")


def _of_parts(text: str, type_: str) -> str:
    """A text with shuffles of complex numbers written for each part: CUDA shuffles reals only."""
    shuffled = rf"{type_}(\1(0xffffffff, value.real, \2), \1(0xffffffff, value.imag, \2))"
    text = _SHUFFLE.sub(shuffled, text)
    long = re.compile(r"^( +)(.{90,}?\(0xffffffff, value.real, \w+\)), ", re.M)
    return long.sub(r"\1\2,\n\1    ", text)


def _needed(name: str, text: str) -> set[str]:
    """The functions that a function's text calls."""
    if complex_numbers.is_defined(name):
        return set(complex_numbers.needs(name))
    called = set(re.findall(r"\b(\w+)(?:<T>)?\(", text)) - {name}
    kind = next((k for k in COMPLEX if re.search(rf"\b{k}\b", text)), None)
    if kind is not None:
        called |= {f"{op} of {kind}" for op in "+*" if f"(value {op} other)" in text}
        called |= {f"{op} of {kind}" for op in "+*" if f" = value {op} other;" in text}
    return called


def definitions(used: Iterable[str]) -> str:
    """The definitions of the used functions and macros that CUDA lacks, in order."""
    texts: dict[str, str] = {}

    def add(name: str) -> None:
        text = _text(name)
        if text is None or name in texts:
            return
        for called in sorted(_needed(name, text)):
            add(called)
        texts[name] = text

    for name in sorted(used):
        add(name)
    kinds = [k for k in COMPLEX if any(re.search(rf"\b{k}\b", t) for t in (*used, *texts.values()))]
    words = {w for name in texts if complex_numbers.is_defined(name) for w in _needed(name, "")}
    words = {w for w in DEFINITIONS if w in used or w in words}
    defined = "\n".join(f"#define {w} {DEFINITIONS[w]}" for w in sorted(words))
    structs = complex_numbers.structs(kinds) if kinds else ""
    return "\n\n".join(filter(None, [defined, structs, *texts.values()]))
