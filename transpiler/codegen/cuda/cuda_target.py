"""CUDA C as a target: the operations that its kernels may hold, and their spelling.

>>> CUDA.cast(np.dtype("f4"))
'float32({0})'
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.transpiler.codegen.cuda.c_types import C_TYPES, KEYWORDS
from calque.transpiler.codegen.cuda.complex_numbers import is_complex, spelled_complex
from calque.transpiler.codegen.cuda.device_functions import names, suffix
from calque.transpiler.codegen.cuda.integers import (
    compared_in,
    computed_in,
    integer_casts,
    integer_literal,
    integer_result,
    integer_text,
    of_integers,
    whole_text,
)
from calque.transpiler.codegen.cuda.random_functions import RANDOM
from calque.transpiler.codegen.numba.scalar_text import finds_place, loop_dtypes, plain_type
from calque.transpiler.codegen.text.scalar_functions import SCALAR_FUNCTIONS
from calque.transpiler.codegen.text.spelling import dtype_name
from calque.transpiler.errors import UnsupportedFunction
from calque.transpiler.ir import core
from calque.transpiler.ir.core import Apply, For, If, Statement, Var, While
from calque.transpiler.ir.effects import is_access
from calque.transpiler.ir.target import Target
from calque.transpiler.ir.versions import Versions, of_plain_stores
from calque.transpiler.primitives import random, scalars
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
    to_complex,
    to_float,
    to_int,
    where,
)
from calque.transpiler.primitives.extrema import (
    greatest,
    least,
    maximum,
    minimum,
    rescaled_sum,
)
from calque.transpiler.primitives.indexing import checked_index
from calque.transpiler.primitives.logic import (
    invert,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
)
from calque.transpiler.primitives.record import Lacking, Primitive
from calque.transpiler.primitives.sorting import searchsorted

_NAMES = {name: f.c for name, f in SCALAR_FUNCTIONS.items() if f.c}
_OURS = ("maximum", "minimum", "sign")  # device functions of calque, for integers, too
_CONVERSIONS = (astype, to_float, to_int, to_bool, to_complex)
_POWERS = (power, float_power, scalars.pow_)
_LARGEST_EXPONENT = 16


class Cuda(Target):
    """Kernels of CUDA C, whose loops a grid of threads runs."""

    name = "cuda"
    grid = True
    words = frozenset(
        "cp cupyx np accumulated kernel blocks tile tiles row_blocks row_threads checked parts_of"
        " Index size_t threadIdx blockIdx gridDim blockDim INF NaN min max abs range len isnan"
        " isinf isfinite fabs fabsf llabs pow powf outside place raise_if_outside held held_columns"
        " row_memory".split()
    ).union(KEYWORDS, names(), _NAMES.values(), (f"{n}f" for n in _NAMES.values()))

    def can_compile(self, s: Statement, looping: bool = False) -> bool:
        """True for loops over scalars; other loops stay on the host, with kernels inside."""
        match s:
            case For() | While():
                if not looping and isinstance(s, While) and _has_parallel(s):
                    return False
                if not looping and isinstance(s, For) and not s.parallel and _has_parallel(s):
                    return False
                return self._has_plain_loop(s)
            case If():
                bare = core.UNDEFINED not in (*s.then.results, *s.orelse.results)
                inner = (t for b in core.blocks_of(s) for t in b.statements)
                return looping and bare and all(self.can_compile(t, looping) for t in inner)
            case Apply():
                return looping and self._can_hold(s)
        return False

    def _has_plain_loop(self, s: For | While) -> bool:
        if any(i is core.UNDEFINED for i in s.inits) or not _keeps_arrays(s):
            return False
        if isinstance(s, For) and isinstance(s.step, Var) and not s.parallel:
            return False  # the direction is not known
        return all(self.can_compile(t, True) for b in core.blocks_of(s) for t in b.statements)

    def _can_hold(self, s: Apply) -> bool:
        if s.primitive.kind == "size":
            return True
        if is_access(s):
            return _is_element(s) and _has_c_types(s)
        if s.outs[0].type.ndim or len(s.outs) != 1 or not self.can_be_scalar(s):
            return False
        if s.primitive in (checked_index, searchsorted):
            return True
        numbers = not any(isinstance(a, Var) and a.type.ndim for a in s.args)
        return numbers and self.operation(s) is not None

    def can_be_scalar(self, s: Apply) -> bool:
        """True if C has the dtypes and CUDA the function of an elementwise operation."""
        if any(type(a) is int and a.bit_length() > 63 for a in s.args):
            return False
        if not _has_c_types(s):
            return False
        if s.primitive is searchsorted:
            return finds_place(*map(plain_type, s.args[:2]))
        if s.primitive.kind != "elementwise" and s.primitive not in (where, *_CONVERSIONS):
            return True  # written as elementwise parts, each of which is tested
        if s.primitive.lowering is not None:
            return True
        if s.out.type.dtype.kind == "b" and s.primitive in (add, multiply, maximum, minimum, power):
            return False
        return self.operation(s) is not None

    def stands_alone(self, s: Statement) -> bool:
        """True for a checked index, which needs a name: it is compared before it is used."""
        return isinstance(s, Apply) and s.primitive is checked_index

    def may_raise(self, s: Statement) -> bool:
        """True for an index that is neither proven to be in bounds nor checked."""
        if not isinstance(s, Apply) or not is_access(s):
            return False
        return not s.proven

    def is_inside(self, s: Apply, looping: bool) -> bool:
        """True for scalars: they can be written within other expressions."""
        return s.primitive.kind == "size" or (not s.out.type.ndim and self._can_hold(s))

    def outside(self, s: Apply) -> str | None:
        """CuPy's template for an operation outside of kernels, if it is not NumPy's; else None."""
        found = s.primitive.cupy
        if callable(found):
            found = found(s.args, s.params)
        if isinstance(found, Lacking):
            message = f"{s.primitive.name} has no like in CuPy: no GPU computes it."
            raise UnsupportedFunction(message, s.origin, found.hint)
        return found

    def call(self, s: Apply) -> str | None:
        """The template of a conversion, or of a function that grids alone have; else None."""
        if s.primitive is rescaled_sum:
            letter = suffix(plain_type(s.args[2]).dtype)
            return f"{s.primitive.name}{letter}({{0}}, {{1}}, {{2}}, {{3}})"
        if s.primitive in (least, greatest):
            return f"{s.primitive.name}{suffix(s.out.type.dtype)}({{0}}, {{1}})"
        if s.primitive is searchsorted:
            places, value = (plain_type(a).dtype for a in s.args[:2])
            same = places == value and isinstance(s.args[1], Var)
            sought = "{1}" if same else self.cast(places).replace("{0}", "{1}")
            return f"searchsorted_{s.params['side']}({{0}}, {sought})"
        if s.primitive in _CONVERSIONS and not s.out.type.ndim:
            if s.primitive is to_bool or s.out.type.dtype.kind == "b":
                return "{0} != 0"
            whole = whole_text(plain_type(s.args[0]).dtype, s.out.type.dtype)
            if whole is not None:
                return whole
            real = is_complex(s) and s.out.type.dtype.kind != "c"
            return self.cast(s.out.type.dtype).replace("{0}", "{0}.real" if real else "{0}")
        return None

    def operation(self, s: Apply) -> str | None:
        """The template of an operator or a scalar function; else None."""
        if is_complex(s):
            return self.call(s) or spelled_complex(s)
        loop = _loop_dtypes(s)
        own = integer_text(s, loop) if of_integers(loop) else None
        return self.call(s) or own or _power(s) or _divided(s) or _spelled(s)

    def operand_casts(self, s: Apply, text: str) -> list[np.dtype | None]:
        """For each operand, the dtype to cast it to where C promotes differently; else None."""
        loop = _loop_dtypes(s)
        own = [plain_type(a).dtype for a in s.args]
        if s.primitive is rescaled_sum:  # a sum of float64, of exponents that may be float32
            return [None] * len(own)
        if is_complex(s):  # a real number becomes complex by itself
            differ = zip(own, loop, strict=True)
            return [w if (h.kind, w.kind) == ("c", "c") and h != w else None for h, w in differ]
        if of_integers(loop[1:] if s.primitive is where else loop):
            cast = integer_casts(s, text, own, loop)
            return [computed_in(s, loop) if c else None for c in cast]
        made: list[np.dtype | None] = []
        for k, (have, want) in enumerate(zip(own, loop, strict=True)):
            others = [
                w for j, w in enumerate(own) if j != k and not (s.primitive is where and j == 0)
            ]
            converted = want.kind == "f" and want in others and have.kind in "iub"
            same = have == want or want.kind == "O"  # Python integers are compared exactly
            made.append(None if same or (converted and "(" not in text) else want)
        return made

    def result_cast(self, s: Apply) -> np.dtype | None:
        """The dtype to cast a result back to: C computes small integers with 32 bits."""
        out, loop = s.out.type, _loop_dtypes(s)
        wide = (
            out.dtype == np.float64
            and any(w == np.float32 for w in loop)
            and s.primitive.kind == "elementwise"
        )
        return out.dtype if wide else integer_result(s, self.operation(s) or "", loop)

    def cast(self, dtype: np.dtype) -> str:
        """The template of a cast: a NumPy name, which the printer writes as a C cast."""
        return f"{dtype_name(dtype)}({{0}})"

    def literal(self, value: Any, dtype: np.dtype | None, s: Apply) -> tuple[Any, np.dtype | None]:
        """A number, and the dtype of the computation, in which its literal is written."""
        if dtype is None and isinstance(value, np.generic):
            value, dtype = value.item(), value.dtype
        if dtype is None:
            want = _loop_dtypes(s)
            kinds = {w for w, a in zip(want, s.args, strict=True) if a is value}
            dtype = next(iter(kinds)) if len(kinds) == 1 else None
        if dtype is not None and dtype.kind == "c":
            if isinstance(value, complex):
                return value, dtype if dtype.itemsize == 8 else None
            dtype = np.dtype(f"f{dtype.itemsize // 2}")
        if dtype is not None and dtype.kind == "f":
            return float(value), dtype if dtype.itemsize == 4 else None
        if dtype is not None and dtype.kind in "iu" and type(value) is not bool:
            return int(value), integer_literal(int(value), dtype)
        return value, None


CUDA = Cuda()


def _has_parallel(s: Statement) -> bool:
    """True if a loop holds a parallel loop, which a grid of threads could run."""
    return any(isinstance(t, For) and t.parallel for b in core.blocks_of(s) for t in core.walk(b))


def _keeps_arrays(s: For | While) -> bool:
    """True if each array that a loop carries keeps its memory: kernels swap no pointers."""
    versions = Versions.within(s.body, taken=of_plain_stores)
    carried = zip(s.phis, s.body.results, strict=True)
    return all({*versions.origins(end)} == {phi} for phi, end in carried if phi.type.ndim)


def _has_c_types(s: Apply) -> bool:
    known = (bool, int, float, complex, np.generic)
    types = [plain_type(a) for a in s.args if isinstance(a, (Var, *known))]
    return all(t.dtype in C_TYPES for t in [*types, *(o.type for o in s.outs)])


def _is_element(s: Apply) -> bool:
    """True if a statement reads one element or stores a scalar into one."""
    base = s.args[0]
    items = s.params["index"]
    first = s.primitive.first_index
    if any(isinstance(a, Var) and a.type.ndim for a in s.args[first:]):
        return False
    if any(isinstance(i, slice) or i is None or i is Ellipsis for i in items):
        return False
    return isinstance(base, Var) and len(items) == base.type.ndim > 0


def _loop_dtypes(s: Apply) -> list[np.dtype]:
    """The dtypes that NumPy casts the operands to before it computes."""
    found = loop_dtypes(s)[: len(s.args)]
    if any(d.kind == "O" for d in found):  # Python integers, which are unbounded
        found = [np.result_type(*(plain_type(a).dtype for a in s.args))] * len(found)
    return compared_in(s, found)


def _spelled(s: Apply) -> str | None:
    primitive: Primitive = s.primitive
    scalar = primitive.scalar or ""
    loop = _loop_dtypes(s)
    last = loop[-1] if loop else s.out.type.dtype
    letter = suffix(last)
    if primitive in (logical_and, logical_or):
        word = "and" if primitive is logical_and else "or"
        return f"({{0}} != 0) {word} ({{1}} != 0)" if _kinds(s) != {"b"} else f"{{0}} {word} {{1}}"
    if primitive is logical_xor:
        return "({0} != 0) != ({1} != 0)"
    negates = primitive is invert and last.kind == "b"  # ~ of a C bool is an integer
    if negates or primitive is logical_not or primitive.arithmetic == "not":
        return "not {0}"
    if primitive.arithmetic in ("and", "or"):
        return f"{{0}} {primitive.arithmetic} {{1}}"
    if primitive is where:
        return "{1} if {0} else {2}"
    if primitive is reciprocal and last.kind == "f":
        return "1.0 / {0}" if last.itemsize == 8 else "float32(1.0) / {0}"
    if primitive.arithmetic == "clip" and last.kind == "f" and all(map(_is_plain, s.args[1:])):
        return f"clamped{letter}({{0}}, {{1}}, {{2}})"
    if primitive.arithmetic == "clip":
        return f"minimum{letter}(maximum{letter}({{0}}, {{1}}), {{2}})"
    if scalar == "abs" or scalar == "fabs":
        return f"fabs{letter}({{0}})" if last.kind == "f" else "llabs({0})"
    if scalar.startswith(("max(", "min(")):
        scalar = {"max": "maximum", "min": "minimum"}[scalar[:3]]
    if scalar in _NAMES:
        result, ours = s.out.type.dtype.kind, scalar in _OURS
        if not ours and (last.kind != "f" or result not in "fb"):
            return None
        given = ", ".join(f"{{{k}}}" for k in range(len(s.args)))
        return f"{_NAMES[scalar]}{letter if ours or result == 'f' else ''}({given})"
    if primitive is random.word:
        return str(primitive.spelling)
    if scalar.partition("(")[0] in RANDOM:
        return scalar
    if "heaviside(" in (primitive.numba or "") and last.kind == "f":
        return f"heaviside{letter}({{0}}, {{1}})"
    plain = "{" in scalar and "(" not in scalar and "**" not in scalar
    return scalar if plain and not _shifts(s) else None


def _is_plain(atom: Any) -> bool:
    """True if an operand is a Python number: NumPy keeps a zero's sign for such bounds."""
    return atom.type.weak if isinstance(atom, Var) else not isinstance(atom, np.generic)


def _kinds(s: Apply) -> set[str]:
    return {plain_type(a).dtype.kind for a in s.args}


def _shifts(s: Apply) -> bool:
    return "<<" in (s.primitive.scalar or "") or ">>" in (s.primitive.scalar or "")


def _divided(s: Apply) -> str | None:
    """The text of a division as in Python and NumPy: C truncates integer quotients to zero."""
    last = _loop_dtypes(s)[-1] if s.args else s.out.type.dtype
    if s.primitive is divide:
        return "{0} / {1}" if last.kind == "f" else None
    if s.primitive not in (floor_divide, remainder):
        return None
    word = "floor_divide" if s.primitive is floor_divide else "remainder"
    return f"float_{word}{suffix(last)}({{0}}, {{1}})" if last.kind == "f" else None


def _power(s: Apply) -> str | None:
    """The text of a power: products, quotients or square roots; else CUDA's function."""
    if s.primitive not in _POWERS and (s.primitive.scalar or "") not in ("pow", "{0} * {0}"):
        return None
    dtype = s.out.type.dtype
    letter = suffix(dtype)
    if s.primitive.scalar == "{0} * {0}":
        return f"square{letter}({{0}})"
    exponent = s.args[1]
    if isinstance(exponent, Var):
        return f"pow{letter}({{0}}, {{1}})" if dtype.kind == "f" else None
    if exponent == 2:
        return f"square{letter}({{0}})"
    whole = float(exponent).is_integer() and 0 < abs(exponent) <= _LARGEST_EXPONENT
    if dtype.kind != "f":
        return f"power{letter}({{0}}, {int(exponent)})" if whole and exponent > 0 else None
    if exponent == 0.5:
        return f"sqrt{letter}({{0}})"
    one = "1.0" if dtype.itemsize == 8 else "float32(1.0)"
    if exponent == -1:
        return f"{one} / {{0}}"
    if whole:
        product = f"power{letter}({{0}}, {abs(int(exponent))})"
        return product if exponent > 0 else f"{one} / {product}"
    return f"pow{letter}({{0}}, {{1}})"
