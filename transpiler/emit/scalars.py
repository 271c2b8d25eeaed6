"""How an operation on numbers is written in a kernel, and which can be.

Numba promotes as C does where NumPy 2 does not: a Python float among float32 numbers is written
``np.float32(0.5)``, and small integers are cast back to their dtype.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calque.transpiler import core
from calque.transpiler.core import Apply, Atom, Effect, For, If, Statement, Var, While
from calque.transpiler.emit.spelling import dtype_name
from calque.transpiler.types import ArrayType, type_of_constant

# What the vector functions of ``runtime/vecmath`` compute.
_VECTOR = (
    "exp exp2 exp10 expm1 log log2 log10 log1p sin cos tan asin acos atan atan2 sinh cosh tanh"
    " asinh acosh atanh cbrt erf erfc erfcx expit log_expit logit hypot"
).split()
VECTOR_FUNCTIONS = frozenset([*_VECTOR, *(f"{name}f" for name in _VECTOR), "pow", "powf"])
# What ``runtime/kernels.py`` gives besides: NumPy's functions on numbers.
KERNEL_FUNCTIONS = frozenset(["maximum", "minimum", "heaviside", "sign"])
_NUMPY_NAMES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2"}
_NUMPY_NAMES |= {"asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh"}

# By the record's ``scalar``: text in a kernel; what is not here is written as in NumPy source.
_SPELLINGS = {
    "abs": "abs({0})",
    "sqrt": "np.sqrt({0})",
    "isnan": "np.isnan({0})",
    "isfinite": "np.isfinite({0})",
    "isinf": "np.isinf({0})",
    "signbit": "np.signbit({0})",
    "sign": "sign({0})",
    "floor": "np.floor({0})",
    "ceil": "np.ceil({0})",
    "trunc": "np.trunc({0})",
    "rint": "np.rint({0})",
    "maximum": "maximum({0}, {1})",
    "minimum": "minimum({0}, {1})",
    "fmax": "np.fmax({0}, {1})",
    "fmin": "np.fmin({0}, {1})",
    "fmod": "np.fmod({0}, {1})",
    "copysign": "np.copysign({0}, {1})",
    "nextafter": "np.nextafter({0}, {1})",
    "ldexp": "np.ldexp({0}, {1})",
    "degrees": "np.degrees({0})",
    "radians": "np.radians({0})",
    "fabs": "abs({0})",
    "lgamma": "math.lgamma({0})",
    "gammaln": "math.lgamma({0})",
    "gamma": "math.gamma({0})",
    "pow": "{0} ** {1}",
}
_BY_NAME = {
    "np.logical_and": "bool({0}) and bool({1})",
    "np.logical_or": "bool({0}) or bool({1})",
    "np.logical_xor": "bool({0}) != bool({1})",
    "np.logical_not": "not {0}",
    "not": "not {0}",
    "np.clip": "minimum(maximum({0}, {1}), {2})",
    "np.deg2rad": "np.deg2rad({0})",
    "np.radians": "np.deg2rad({0})",
    "np.rad2deg": "np.rad2deg({0})",
    "np.degrees": "np.rad2deg({0})",
    "np.where": "{1} if {0} else {2}",
    "stop_gradient": "{0}",
    "np.logaddexp": "np.logaddexp({0}, {1})",
    "np.heaviside": "heaviside({0}, {1})",
    "np.positive": "{0}",
    "np.conj": "np.conj({0})",
}
_TRUE_NUMBERS = ("special.", "math.")
_PLAIN_KINDS = ("size",)
_ARRAY_PARTS = {"np.empty", "np.zeros", "np.ones", "np.empty_like", "np.zeros_like", "np.full"}
_ARRAY_PARTS |= {"np.ones_like", "space for rounds"}
_VIEWS = {"np.transpose", "flat"}
_COMPARISONS = ("<", ">", "==", "!=")


def numpy_name(scalar: str) -> str:
    """The NumPy function behind a vector function."""
    return f"np.{_NUMPY_NAMES.get(scalar, scalar)}"


def spelled(s: Apply) -> str | None:
    """The kernel's text for an elementwise operation on numbers; None where there is none."""
    name, scalar = s.primitive.name, s.primitive.scalar or ""
    if name in _BY_NAME:
        return _BY_NAME[name]
    if "{" in scalar:
        return scalar
    real = all(_type(a).dtype.kind in "fiub" for a in s.args) and s.out.type.dtype.kind == "f"
    if name in ("np.power", "np.float_power") and real:
        return "powf({0}, {1})" if s.out.type.dtype == np.float32 else "pow({0}, {1})"
    if scalar in _VECTOR:
        if real:
            arguments = ", ".join(f"{{{k}}}" for k in range(len(s.args)))
            return f"{scalar}{'f' if s.out.type.dtype == np.float32 else ''}({arguments})"
        return f"{numpy_name(scalar)}({{0}})" if name.startswith("np.") else None
    return _SPELLINGS.get(scalar)


def wants_floats(s: Apply) -> bool:
    """Whether the kernel's function takes floating-point numbers only."""
    text = spelled(s) or ""
    return text.split("(")[0] in VECTOR_FUNCTIONS


def _type(atom: Atom) -> ArrayType:
    return atom.type if isinstance(atom, Var) else type_of_constant(atom)


def can_be_scalar(s: Apply) -> bool:
    """Whether an array operation can be written as one on numbers, in a kernel."""
    types = [_type(a) for a in s.args if _has_type(a)] + [o.type for o in s.outs]
    if any(t.dtype.kind not in "fiubc" or t.dtype == np.float16 for t in types):
        return False
    if any(t.dtype.itemsize > (16 if t.dtype.kind == "c" else 8) for t in types):
        return False
    if s.primitive.kind != "elementwise":
        return True
    return spelled(s) is not None and not _odd_booleans(s)


def _has_type(atom: Atom) -> bool:
    return isinstance(atom, (Var, bool, int, float, complex, np.generic))


def _odd_booleans(s: Apply) -> bool:
    """Sums and products of booleans are NumPy's own."""
    if s.out.type.dtype.kind != "b":
        return False
    return s.primitive.name in ("np.add", "np.multiply", "np.maximum", "np.minimum", "np.power")


def can_compile(s: Statement) -> bool:
    """Whether Numba takes a statement, with all that is in it."""
    match s:
        case Apply():
            return _can_compile_apply(s)
        case Effect():
            text = s.template.strip()
            return text.startswith(("raise ", "assert ")) and "{" not in text.replace("{{", "")
        case If():
            bare = core.UNDEFINED not in (*s.then.results, *s.orelse.results)
            return bare and all(can_compile(t) for b in core.blocks_of(s) for t in b.statements)
        case For() | While():
            if any(i is core.UNDEFINED for i in s.inits):
                return False
            if isinstance(s, For) and isinstance(s.step, Var):
                return False
            return all(can_compile(t) for b in core.blocks_of(s) for t in b.statements)


def _can_compile_apply(s: Apply) -> bool:
    name, kind = s.primitive.name, s.primitive.kind
    if not can_be_scalar(s):
        return False
    if kind in _PLAIN_KINDS or name in _VIEWS:
        return True
    if name in _ARRAY_PARTS:
        return True
    if name == "np.reshape":
        return s.inside  # of memory that is known to be contiguous
    if name in ("copy", "room", "widened"):
        return True
    if name in ("getitem", "update", "update_add"):
        return _plain_index(s)
    if s.outs[0].type.ndim:
        return False
    return kind == "elementwise" or name in ("np.where", "astype", "float", "int", "bool")


def _plain_index(s: Apply) -> bool:
    """Integers and slices; an array may be read so, and numbers stored."""
    first = 1 if s.primitive.name == "getitem" else 2
    if any(isinstance(a, Var) and a.type.ndim for a in s.args[first:]):
        return False
    if any(i is None or i is Ellipsis for i in s.params["index"]):
        return False
    if s.primitive.name == "getitem":
        return True
    return all(not isinstance(i, slice) for i in s.params["index"]) and len(
        s.params["index"]
    ) == s.out.type.ndim


# dtypes


def narrow(s: Apply) -> np.dtype | None:
    """The dtype to which numbers must be brought before the operation, where Numba would not."""
    strong = [_type(a) for a in s.args if _has_type(a) and not _type(a).weak]
    if not strong or len(strong) == sum(map(_has_type, s.args)):
        return None
    dtype = np.result_type(*[t.dtype for t in strong])
    usual = dtype in (np.dtype("f8"), np.dtype("i8"), np.dtype("c16"))
    return None if usual or dtype.kind == "b" else dtype


def cast_back(s: Apply) -> np.dtype | None:
    """The dtype to which a result must be cast, where Numba's is wider."""
    out = s.out.type
    if out.weak or out.dtype.kind not in "iuf":
        return None
    if out.dtype.kind == "f":
        whole = any(a.type.dtype.kind in "iub" for a in s.args if isinstance(a, Var))
        return out.dtype if out.dtype == np.float32 and whole else None
    small = out.dtype.itemsize < 8
    mixed = out.dtype == np.uint64 or any(
        _type(a).dtype == np.uint64 for a in s.args if _has_type(a)
    )
    return out.dtype if small or mixed else None


def wrapper(dtype: np.dtype) -> str:
    """``np.float32({0})``."""
    return f"np.{dtype_name(dtype)}({{0}})"


def is_comparison(text: str) -> bool:
    """Whether a spelling compares."""
    return any(sign in text for sign in _COMPARISONS)


def plain_types(args: Sequence[Atom]) -> list[ArrayType]:
    """The types of the arguments that have one."""
    return [_type(a) for a in args if _has_type(a)]
