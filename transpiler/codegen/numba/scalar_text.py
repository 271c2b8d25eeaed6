"""The text of scalar operations in Numba kernels, and the conditions under which there is one.

Numba promotes as C does where NumPy 2 does not: a Python float among float32 numbers is written
``np.float32(0.5)``, and small integers are cast back to their dtype.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from calque.transpiler.codegen.numba.called_functions import DRAWN, OF_COMPLEX, VECTORIZED
from calque.transpiler.codegen.numba.compiled_scipy import call_of, is_scipys
from calque.transpiler.codegen.numba.whole_array_calls import text_in_loops
from calque.transpiler.codegen.text.scalar_functions import SCALAR_FUNCTIONS, VECTOR
from calque.transpiler.codegen.text.spelling import dtype_name, template
from calque.transpiler.ir import core
from calque.transpiler.ir.core import Apply, Atom, Effect, For, If, Kernel, Statement, Var, While
from calque.transpiler.ir.effects import ends_call
from calque.transpiler.ir.types import ArrayType, type_of_constant
from calque.transpiler.primitives import complexes, scalars, transcendental
from calque.transpiler.primitives.axes import transpose
from calque.transpiler.primitives.checked_numbers import (
    bounded,
    power_base,
    shift_count,
    whole_exponent,
)
from calque.transpiler.primitives.complexes import conj, imag, of_parts
from calque.transpiler.primitives.creation import (
    empty,
    empty_like,
    full,
    ones,
    ones_like,
    space,
    zeros,
    zeros_like,
)
from calque.transpiler.primitives.elementwise import (
    add,
    astype,
    divide,
    float_power,
    floor_divide,
    multiply,
    power,
    reciprocal,
    remainder,
    to_bool,
    to_float,
    to_int,
    where,
)
from calque.transpiler.primitives.extrema import clip, maximum, minimum
from calque.transpiler.primitives.growing import room, widened
from calque.transpiler.primitives.indexing import checked_index, copy, getitem, update, update_add
from calque.transpiler.primitives.logic import (
    equal,
    greater,
    greater_equal,
    isclose,
    left_shift,
    less,
    less_equal,
    logical_and,
    logical_or,
    nan_to_num,
    not_equal,
    python_round,
    right_shift,
    round_,
)
from calque.transpiler.primitives.reductions import (
    all_,
    any_,
    argmax,
    argmin,
    is_largest,
    is_smallest,
    max_,
    mean,
    min_,
    prod,
    sum_,
)
from calque.transpiler.primitives.shapes import flat, reshape
from calque.transpiler.primitives.sorting import searchsorted
from calque.transpiler.primitives.special import SPECIAL

# Text in a kernel, by the primitive's ``scalar``; others are written as in NumPy source.
_SPELLINGS = {n: f.numba for n, f in SCALAR_FUNCTIONS.items() if f.numba not in ("", VECTOR)}
_ALIKE = (round_, python_round, isclose, nan_to_num, transcendental.sinc)
_PARTS = (complexes.real, imag, conj, of_parts)  # parts of complex numbers
_NUMBERS = (where, astype, to_float, to_int, to_bool, checked_index, searchsorted)
_ARRAY_PARTS = (
    empty,
    zeros,
    ones,
    empty_like,
    zeros_like,
    ones_like,
    full,
    space,
    transpose,
    flat,
    copy,
    room,
    widened,
)
# reductions of a scalar whose result has its dtype; those of others differ
_OF_A_NUMBER = dict.fromkeys((sum_, prod, max_, min_, any_, all_, mean), "{0}")
_OF_A_NUMBER |= {argmax: "0", argmin: "0"}
_ORDER = (less, less_equal, greater, greater_equal)
_COMPARISONS = (*_ORDER, equal, not_equal, is_largest, is_smallest)
_POWERS = (power, float_power, scalars.pow_)
_SHIFTS = (left_shift, right_shift)
_CHECKED = (bounded, whole_exponent, shift_count, power_base)
_DIGAMMA = (SPECIAL["digamma"], SPECIAL["psi"])
_DIVISIONS = {divide: "divide", floor_divide: "quotient", remainder: "remainder"}


def spelled(s: Apply) -> str | None:
    """The kernel's text for an elementwise operation on scalars; None if there is none."""
    found = _spelled(s)
    types = [plain_type(a) for a in s.args if _has_type(a)]
    call = call_of(s, types) if found is None else None
    return call[0] if call else found


def _spelled(s: Apply) -> str | None:
    primitive, name, scalar = s.primitive, s.primitive.name, s.primitive.scalar or ""
    kinds = {plain_type(a).dtype.kind for a in s.args if _has_type(a)}
    of_reals = scalar in _SPELLINGS and not SCALAR_FUNCTIONS[scalar].of_complex
    if "c" in kinds and (of_reals or primitive in _ORDER):
        return None
    if scalar == "abs" and "c" in kinds:
        of = "hypotf" if s.out.type.dtype == np.float32 else "hypot"
        return f"{of}({{0}}.real, {{0}}.imag)"
    if primitive in _DIVISIONS and (function := _division(s, "c" in kinds)):
        return function
    if primitive is reciprocal:
        return _RECIPROCALS.get(s.out.type.dtype.char)
    if primitive is power and s.out.type.dtype.kind == "c":
        return "complex_power({0}, {1})"
    if primitive is power and s.out.type.dtype.kind in "iu" and not _is_small(s.args[1]):
        return "integer_power({0}, {1})"
    if primitive in _SHIFTS and _shifts_inside(s):
        return str(s.primitive.spelling)
    if primitive is bounded and plain_type(s.args[0]).dtype.kind == "u":
        return "bounded_unsigned({0}, {1}, {2})"
    if scalar == "fmod" and s.out.type.dtype.kind in "iu":
        return "integer_fmod({0}, {1})"
    if primitive is clip and "c" in kinds:
        return "np.minimum(np.maximum({0}, {1}), {2})"
    if primitive is clip and s.out.type.dtype.kind == "f" and _is_ordered(*s.args[1:]):
        return "clipped({0}, {1}, {2})"
    if primitive.numba is not None:
        plain = kinds == {"b"} and primitive in (logical_and, logical_or)
        return f"{{0}} {primitive.arithmetic} {{1}}" if plain else str(primitive.numba)
    if primitive in _ALIKE:
        return _alike(s)
    if primitive in _DIGAMMA:
        return "digamma({0})" if plain_type(s.args[0]).dtype == np.float64 else None
    real = kinds <= set("fiub") and s.out.type.dtype.kind == "f"
    if primitive in _POWERS[:2] and real and not s.out.type.weak:
        return "powf({0}, {1})" if s.out.type.dtype == np.float32 else "pow({0}, {1})"
    if "{" in scalar:
        return scalar
    if "c" in kinds and name.removeprefix("np.") in OF_COMPLEX:
        return f"complex_{name.removeprefix('np.')}({{0}})"
    if scalar in VECTORIZED:
        if real:
            arguments = ", ".join(f"{{{k}}}" for k in range(len(s.args)))
            return f"{scalar}{'f' if s.out.type.dtype == np.float32 else ''}({arguments})"
        return f"{name}({{0}})" if name.startswith("np.") else None
    return _SPELLINGS.get(scalar)


def of_a_number(s: Apply) -> str | None:
    """The text of a reduction of a scalar: kernels have no other reductions."""
    if s.primitive not in _OF_A_NUMBER or s.outs[0].type.ndim or not isinstance(s.args[0], Var):
        return None
    t, out = s.args[0].type, s.outs[0].type
    if t.ndim:
        return None
    if s.primitive in (argmax, argmin) or t.dtype == out.dtype:
        return _OF_A_NUMBER[s.primitive]
    if s.primitive in (any_, all_):
        return "{0} != 0"
    if not {t.dtype.kind, out.dtype.kind} <= {*"iub", "f" if s.primitive is mean else ""}:
        return None
    number = "int({0})" if t.dtype.kind == "b" else "{0}"
    return wrapper(out.dtype).replace("{0}", number)


def _alike(s: Apply) -> str | None:
    """The text of a function that Numba and NumPy compute equally for scalars; else None."""
    if any(plain_type(a).dtype != np.float64 for a in s.args if _has_type(a)):
        return None
    if s.primitive is python_round:
        return None if s.params else "python_int(np.rint({0}))"
    if s.params.get("posinf") is not None or s.params.get("neginf") is not None:
        return None
    return template(s.primitive, s.args, s.params)


def _is_ordered(low: Atom, high: Atom) -> bool:
    """True if both bounds are known, and the lower one is no larger: neither is NaN."""
    return not isinstance(low, Var) and not isinstance(high, Var) and bool(low <= high)


def _is_small(exponent: Atom) -> bool:
    """True if an exponent is known, and so small that Numba multiplies integers for it."""
    return not isinstance(exponent, Var) and 0 <= exponent <= 64


def _shifts_inside(s: Apply) -> bool:
    """True if a shift is by fewer bits than the type has: LLVM defines no other."""
    bits = s.args[1]
    return not isinstance(bits, Var) and 0 <= bits < 8 * loop_dtypes(s)[0].itemsize


_RECIPROCALS = {"d": "1.0 / {0}", "f": "np.float32(1.0) / {0}"}
_RECIPROCALS |= dict.fromkeys("FD", "complex_reciprocal({0})")


def _division(s: Apply, is_complex: bool) -> str | None:
    """A dividing function, where Numba's operator differs from NumPy's or Python's; else None."""
    divisor = s.args[1]
    by_zero = isinstance(divisor, Var) or not divisor
    if is_complex and s.primitive is divide:
        return "complex_divide({0}, {1})"
    if s.out.type.weak and by_zero:
        return f"{_DIVISIONS[s.primitive]}({{0}}, {{1}})"
    return None


def may_divide_by_zero(s: Statement) -> bool:
    """True if a statement divides Python numbers and may raise ZeroDivisionError."""
    if not isinstance(s, Apply) or s.primitive not in _DIVISIONS or not s.out.type.weak:
        return False
    return not s.out.type.ndim and (isinstance(s.args[1], Var) or not s.args[1])


def plain_type(atom: Atom) -> ArrayType:
    """The type of an operand."""
    return atom.type if isinstance(atom, Var) else type_of_constant(atom)


def can_be_scalar(s: Apply) -> bool:
    """True if an array operation can be written as a scalar one in a kernel."""
    if any(type(a) is int and a.bit_length() > 63 for a in s.args):
        return False  # a kernel's integers are of 64 bits
    types = [plain_type(a) for a in s.args if _has_type(a)] + [o.type for o in s.outs]
    if not all(map(has_numbers_of, types)):
        return False
    if s.primitive is searchsorted:
        return finds_place(*types[:2])
    if s.primitive.kind != "elementwise" or s.primitive.lowering is not None:
        return True  # written as elementwise parts, each of which is tested
    return spelled(s) is not None and not _odd_booleans(s) and not _may_refuse(s)


def has_numbers_of(t: ArrayType) -> bool:
    """True if Numba has scalars of a type with NumPy's semantics."""
    if t.dtype.kind not in "fiubc" or t.dtype == np.float16:
        return False
    return t.dtype.itemsize <= (16 if t.dtype.kind == "c" else 8)


def finds_place(places: ArrayType, value: ArrayType) -> bool:
    """True if ``searchsorted`` compares a value with real elements without casting these."""
    return places.dtype.kind in "iuf" and np.result_type(places.dtype, value.dtype) == places.dtype


def _has_type(atom: Atom) -> bool:
    return isinstance(atom, (Var, bool, int, float, complex, np.generic))


def _may_refuse(s: Apply) -> bool:
    """True for integer powers of arrays: NumPy raises for negative exponents."""
    if s.primitive is not power or s.out.type.dtype.kind not in "iu" or not s.out.type.ndim:
        return False
    return isinstance(s.args[1], Var) or s.args[1] < 0


def _odd_booleans(s: Apply) -> bool:
    """True for operations on booleans that NumPy defines differently from integers."""
    if s.out.type.dtype.kind != "b":
        return False
    return s.primitive in (add, multiply, maximum, minimum, power)


def can_compile(s: Statement, looping: bool = False) -> bool:
    """True if Numba can compile a statement and its blocks; ``looping``: within a loop."""
    match s:
        case Apply():
            return _can_compile_apply(s) or (looping and text_in_loops(s) is not None)
        case Effect():
            values = (a for a in s.args if isinstance(a, Var))
            return ends_call(s) and all(has_numbers_of(v.type) for v in values)
        case If():
            bare = core.UNDEFINED not in (*s.then.results, *s.orelse.results)
            inner = (t for b in core.blocks_of(s) for t in b.statements)
            return bare and all(can_compile(t, looping) for t in inner)
        case For() | While():
            if any(i is core.UNDEFINED for i in s.inits):
                return False
            if isinstance(s, For) and isinstance(s.step, Var):
                return False
            return all(can_compile(t, True) for b in core.blocks_of(s) for t in b.statements)
        case Kernel():
            return False  # it is a kernel already


def _can_compile_apply(s: Apply) -> bool:
    primitive = s.primitive
    if not can_be_scalar(s):
        return False
    if primitive.kind == "size" or primitive in _ARRAY_PARTS:
        return True
    if primitive is reshape:
        return s.proven  # True for memory that is known to be contiguous
    if primitive in (getitem, update, update_add):
        return _plain_index(s)
    if s.outs[0].type.ndim:
        return False
    known = primitive.kind == "elementwise" or primitive in (*_NUMBERS, *_PARTS)
    return known or of_a_number(s) is not None


def _plain_index(s: Apply) -> bool:
    """True for an index of integers and slices that Numba can read or store."""
    first = s.primitive.first_index
    if any(isinstance(a, Var) and a.type.ndim for a in s.args[first:]):
        return False
    if s.primitive is getitem:
        return s.params["index"] != (Ellipsis,)
    if None in s.params["index"] or Ellipsis in s.params["index"]:
        return False
    return _stores_slice(s) or (
        all(not isinstance(i, slice) for i in s.params["index"])
        and len(s.params["index"]) == s.out.type.ndim
    )


def _stores_slice(s: Apply) -> bool:
    """True if a statement stores an array into slices of the same dtype and rank."""
    base, value = s.args[:2]
    if s.primitive is not update or not isinstance(base, Var) or not isinstance(value, Var):
        return False
    integers = sum(not isinstance(i, slice) for i in s.params["index"])
    return value.type.dtype == base.type.dtype and value.type.ndim == base.type.ndim - integers > 0


# dtypes


def loop_dtypes(s: Apply) -> list[np.dtype]:
    """The dtypes that NumPy casts the operands to before it computes."""
    types = [plain_type(a) for a in s.args if _has_type(a)]
    function = s.primitive.function
    if isinstance(function, np.ufunc):
        given = [_PYTHON_TYPES[t.dtype.kind] if t.weak else t.dtype for t in types]
        return list(_resolved(function, *given))
    if s.primitive is where:
        return [types[0].dtype, s.out.type.dtype, s.out.type.dtype]
    if s.primitive.name.startswith("math."):
        return [np.dtype("f8")] * len(types)
    if _spelled(s) is None and (call := call_of(s, types)) is not None:
        return call[1]
    kept = s.primitive in _CHECKED or s.primitive.name.removesuffix("f") in DRAWN
    if s.out.type.dtype.kind == "b" or kept:
        return [t.dtype for t in types]
    return [s.out.type.dtype] * len(types)


@lru_cache(maxsize=1024)
def _resolved(function: np.ufunc, *given: Any) -> list[np.dtype]:
    found = function.resolve_dtypes((*given, *[None] * function.nout))
    return [np.dtype("f4") if d == np.float16 else d for d in found]


_PYTHON_TYPES: dict[str, Any] = {"b": np.dtype(bool), "i": int, "f": float, "c": complex}


def operand_casts(s: Apply, text: str) -> list[np.dtype | None]:
    """For each operand, the dtype to which the kernel must cast it; None where Numba does so."""
    if "bool(" in text or text == "not {0}" or text.endswith(".imag)"):
        return [None] * len(s.args)
    own = [plain_type(a).dtype for a in s.args]
    loop = loop_dtypes(s)
    primitive = s.primitive
    is_complex = s.out.type.dtype.kind == "c"
    plain = "(" not in text and "**" not in text and primitive not in _POWERS
    operator = primitive is where or plain or (primitive in _DIVISIONS and not is_complex)
    first = 1 if primitive is where else 0
    made: list[np.dtype | None] = []
    for k, (have, want) in enumerate(zip(own, loop)):
        others = own[first:k] + own[k + 1 :]
        promoted = want.kind in "iu" and want != np.uint64 and "b" not in (have.kind, want.kind)
        promoted |= want in (np.float64, np.complex128) and want in others
        whole = {have.kind, *(o.kind for o in others)} <= set("iu")
        promoted |= whole and (primitive in _COMPARISONS or primitive is divide)
        counts = type(s.args[k]) is int and is_scipys(primitive)  # an order stays an integer
        made.append(None if (have == want and not counts) or (operator and promoted) else want)
    return made


def cast_back(s: Apply) -> np.dtype | None:
    """The dtype to which a result must be cast if Numba's is wider; else None."""
    out = s.out.type
    if out.weak or out.dtype.kind not in "iu":
        return None
    small = out.dtype.itemsize < 8
    mixed = any(plain_type(a).dtype.kind != out.dtype.kind for a in s.args if _has_type(a))
    return out.dtype if small or mixed or out.dtype == np.uint64 else None


def wrapper(dtype: np.dtype) -> str:
    """The template of a cast: ``np.float32({0})``."""
    return f"np.{dtype_name(dtype)}({{0}})"
