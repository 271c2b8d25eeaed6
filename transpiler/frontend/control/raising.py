"""Tests that say for which numbers an operation of Python raises an error, and which error.

``x / y`` of Python's floats raises ZeroDivisionError for ``y == 0``; ``math.log(x)`` raises
ValueError for ``x <= 0``. Within a ``try`` with a handler, such a test decides at run time whether
the handler runs. A statement of the program that may raise without such a test is told here, too.
"""

from __future__ import annotations

import builtins
import cmath
import math
import operator
from collections.abc import Callable, Iterator
from typing import Any, cast

import gast
import numpy as np

from calque.transpiler.frontend.values.containers.list_kinds import rows_of
from calque.transpiler.ir import core
from calque.transpiler.ir.builder import FUNCTIONS, OPERATORS, Array, current, type_of

Raising = tuple[Any, type[Exception], str]  # a test, and the error where it holds

DIVISIONS = (gast.Div, gast.FloorDiv, gast.Mod)
_LARGEST_EXPONENT = 709.782712893384  # of math.exp
_LARGEST_ANGLE = 710.4758600739439  # of math.cosh and math.sinh
_DOMAIN, _RANGE = "math domain error", "math range error"


def _outside(test: Callable[[Any], Any]) -> Callable[..., Iterator[Raising]]:
    """The ValueError of a function of one number outside of its domain."""

    def raising(x: Any, *_: Any) -> Iterator[Raising]:
        yield test(x), ValueError, _DOMAIN

    return raising


def _too_large(most: float, both: bool = False) -> Callable[..., Iterator[Raising]]:
    """The OverflowError of a function that grows exponentially."""

    def raising(x: Any) -> Iterator[Raising]:
        size = _abs(x) if both else x
        yield _and(size > most, size != math.inf), OverflowError, _RANGE

    return raising


def _abs(x: Any) -> Any:
    return OPERATORS["abs"](x) if isinstance(x, Array) else abs(x)


def _and(left: Any, right: Any) -> Any:
    return operator.and_(left, right)


def _not_finite(x: Any) -> Any:
    return _abs(x) == math.inf


def _power(x: Any, y: Any) -> Iterator[Raising]:
    whole = FUNCTIONS[np.floor](y) == y if isinstance(y, Array) else math.floor(y) == y
    negative = _and(x < 0, x != -math.inf)
    if whole is not True:
        yield (negative if whole is False else _and(negative, whole != True)), ValueError, _DOMAIN  # noqa: E712
    yield _and(x == 0, y < 0), ValueError, _DOMAIN
    yield _overflows(x, y), OverflowError, _RANGE


def _overflows(x: Any, y: Any) -> Any:
    """True where a power of finite numbers is larger than any float."""
    size = (
        FUNCTIONS[np.where](_not_zero(x), _abs(x), 1.0) if isinstance(x, Array) else abs(x) or 1.0
    )
    finite = _and(size < math.inf, _abs(y) < math.inf)
    logarithm = FUNCTIONS[np.log](size) if isinstance(size, Array) else math.log(size)
    return _and(finite, logarithm * y > _LARGEST_EXPONENT)


def _not_zero(x: Any) -> Any:
    return x != 0


def _remainder(x: Any, y: Any) -> Iterator[Raising]:
    yield _not_finite(x), ValueError, _DOMAIN
    yield y == 0, ValueError, _DOMAIN


def _to_integer(x: Any, *_: Any) -> Iterator[Raising]:
    if type_of(x).dtype.kind == "f":
        yield x != x, ValueError, "cannot convert float NaN to integer"
        yield _not_finite(x), OverflowError, "cannot convert float infinity to integer"


def _never(*_: Any) -> Iterator[Raising]:
    yield from ()


def _logarithm_of_complex(z: Any) -> Iterator[Raising]:
    yield z == 0, ValueError, _DOMAIN


_LOGARITHM = _outside(lambda x: x <= 0)
_PERIODIC = _outside(_not_finite)
_BEYOND_ONE = _outside(lambda x: _abs(x) > 1)
FUNCTIONS_THAT_RAISE: dict[Any, Callable[..., Iterator[Raising]]] = {
    math.sqrt: _outside(lambda x: x < 0),
    math.log: _LOGARITHM,
    math.log2: _LOGARITHM,
    math.log10: _LOGARITHM,
    math.log1p: _outside(lambda x: x <= -1),
    math.asin: _BEYOND_ONE,
    math.acos: _BEYOND_ONE,
    math.acosh: _outside(lambda x: x < 1),
    math.atanh: _outside(lambda x: _abs(x) >= 1),
    math.sin: _PERIODIC,
    math.cos: _PERIODIC,
    math.tan: _PERIODIC,
    math.exp: _too_large(_LARGEST_EXPONENT),
    math.expm1: _too_large(_LARGEST_EXPONENT),
    math.cosh: _too_large(_LARGEST_ANGLE, both=True),
    math.sinh: _too_large(_LARGEST_ANGLE, both=True),
    math.pow: _power,
    math.fmod: _remainder,
    math.remainder: _remainder,
    **dict.fromkeys((math.frexp, math.modf, cmath.sqrt, cmath.phase, cmath.polar), _never),
    cmath.log: _logarithm_of_complex,
    cmath.log10: _logarithm_of_complex,
    math.floor: _to_integer,
    math.ceil: _to_integer,
    math.trunc: _to_integer,
    int: _to_integer,
}


def of_call(function: Any, args: list[Any], kwargs: dict[str, Any]) -> list[Raising] | None:
    """The errors of a call for some numbers; None if they are not known by tests."""
    of_matrix = bool(args) and isinstance(args[0], Array) and args[0].ndim >= 2
    if of_matrix and not kwargs and _in_table(function, TESTS_OF_MATRICES):
        test, text = TESTS_OF_MATRICES[function]
        return [(test(args[0]), np.linalg.LinAlgError, text)]
    if not args or kwargs or not _in_table(function, FUNCTIONS_THAT_RAISE):
        return None
    of_complex = getattr(function, "__module__", "") == "cmath"
    if not all(_is_number(a) or (of_complex and _is_complex(a)) for a in args):
        return None
    if function in (math.log, cmath.log) and len(args) > 1:
        return None
    return list(FUNCTIONS_THAT_RAISE[function](*args))


def _singular(matrix: Array) -> Any:
    """True if a factorization of the matrix has a pivot of zero, as LAPACK's routines test it."""
    sign = FUNCTIONS[np.linalg.slogdet](matrix)[0]
    return FUNCTIONS[np.any](sign == 0)


# functions of matrices that raise LinAlgError, each with a test, and the error's text
TESTS_OF_MATRICES: dict[Any, tuple[Callable[[Array], Any], str]] = dict.fromkeys(
    (np.linalg.solve, np.linalg.inv), (_singular, "Singular matrix")
)


def _in_table(function: Any, table: dict[Any, Any]) -> bool:
    try:
        return function in table
    except TypeError:
        return False


def of_operator(kind: type, left: Any, right: Any) -> list[Raising]:
    """The errors of an operator on Python's numbers: those of a division by zero."""
    if not _is_number_of_python([left, right]):
        return []
    if kind in DIVISIONS:
        return [(right == 0, ZeroDivisionError, "division by zero")]
    if kind is gast.Pow:
        zero = _and(left == 0, right < 0)
        text = "0.0 cannot be raised to a negative power"
        found: list[Raising] = [(zero, ZeroDivisionError, text)]
        if "f" in (type_of(left).dtype.kind, type_of(right).dtype.kind):
            found.append((_overflows(left, right), OverflowError, "Numerical result out of range"))
        return found
    return []


def of_index(owner: Any, index: Any) -> list[Raising]:
    """The error of reading an element of an array, a list or a tuple outside of its bounds."""
    if isinstance(owner, (list, tuple)) and rows_of(owner) is None and isinstance(index, Array):
        if not _is_place(index) or isinstance(current().dim_of(index), int):
            return []
        kind = type(owner).__name__ if type(owner) is tuple else "list"
        text, place, count = f"{kind} index out of range", cast(Any, index), len(owner)
        return [(place >= count, IndexError, text), (place < -count, IndexError, text)]
    if not isinstance(owner, Array):
        return []
    places = index if isinstance(index, tuple) else (index,)
    if not all(_is_place(p) for p in places) or len(places) > owner.ndim:
        return []
    found: list[Raising] = []
    for axis, place in enumerate(places):
        if isinstance(place, slice):
            continue
        size = owner.shape[axis]
        if isinstance(place, Array) or isinstance(size, Array):
            text = f"index is out of bounds for axis {axis}"
            found.append((place >= size, IndexError, text))
            found.append((place < -size, IndexError, text))
    return found


def _is_place(value: Any) -> bool:
    if isinstance(value, slice):
        return True
    if isinstance(value, Array):
        return value.ndim == 0 and value.dtype.kind in "iu"
    return type(value) is int or isinstance(value, np.integer)


def _is_number(value: Any) -> bool:
    """True for one real number, of Python's or of NumPy's."""
    if isinstance(value, Array):
        return value.ndim == 0 and value.dtype.kind in "biuf"
    return isinstance(value, (bool, int, float, np.number)) and not np.iscomplexobj(value)


def _is_complex(value: Any) -> bool:
    """True for one complex number."""
    if isinstance(value, Array):
        return value.ndim == 0 and value.dtype.kind == "c"
    return isinstance(value, (complex, np.complexfloating))


def _is_number_of_python(values: list[Any]) -> bool:
    """True if operations on values follow Python's rules, not NumPy's."""
    plain = (bool, int, float)
    return all(
        type(v) in plain or (isinstance(v, Array) and not v.ndim and type_of(v).weak)
        for v in values
    )


def kinds_of_statement(s: Any, named: dict[str, type]) -> tuple[type, ...]:
    """The classes of the errors that one statement of the program may raise.

    ``named`` are the classes of the user's own errors, by name.
    """
    if isinstance(s, core.Effect):
        text = s.template.strip()
        if text.startswith("assert"):
            return (AssertionError,)
        if not text.startswith("raise "):
            return ()
        name = text.removeprefix("raise ").partition("(")[0].rpartition(".")[2]
        found = named.get(name) or getattr(builtins, name, None)
        return (found,) if isinstance(found, type) else (Exception,)
    if not isinstance(s, core.Apply):
        return ()
    return tuple(_kinds_of_apply(s))


_FALLIBLE = ("np.linalg.", "scipy.")
_WITHOUT_ERRORS = ("np.linalg.norm", "np.linalg.det", "np.linalg.slogdet", "scipy.special.")
_TOTAL = {f"math.{name}" for name in ("isinf", "isnan", "isfinite", "fabs", "copysign", "atan")}
_TOTAL |= {f"math.{name}" for name in ("atan2", "asinh", "tanh", "erf", "erfc", "hypot", "degrees")}
_TOTAL |= {f"math.{name}" for name in ("radians", "cbrt", "nextafter", "ulp")}
_ACCESSES = ("getitem", "update", "np.take", "np.put", "gather")
_WEAK_DIVISIONS = ("np.divide", "np.floor_divide", "np.remainder", "np.true_divide")


def _kinds_of_apply(s: core.Apply) -> Iterator[type]:
    name, out = s.primitive.name, s.outs[0].type
    if name in _WEAK_DIVISIONS and out.weak and not _is_nonzero(s.args[1]):
        yield ZeroDivisionError
    elif name == "np.power" and out.weak:
        yield from (ZeroDivisionError, OverflowError)
    elif name.startswith(("math.", "cmath.")) and name not in _TOTAL:
        yield from (ValueError, OverflowError)
    elif name == "int" and isinstance(s.args[0], core.Var) and s.args[0].type.dtype.kind == "f":
        yield from (ValueError, OverflowError)
    elif name.startswith(_ACCESSES) and not s.proven:
        if not _within_bounds(s):
            yield IndexError
    elif name.startswith(_FALLIBLE) and not name.startswith(_WITHOUT_ERRORS):
        yield from (np.linalg.LinAlgError, ValueError)


def _within_bounds(s: core.Apply) -> bool:
    """True if an index consists of slices, and of known places within known sizes."""
    index, owner = s.params.get("index"), s.args[0]
    if index is None or not isinstance(owner, core.Var):
        return False
    if all(map(_is_slice, index)):
        return True
    dims = owner.type.dims
    return (
        len(index) <= len(dims)
        and not any(part is None or part is Ellipsis for part in index)
        and all(
            _is_slice(part) or (type(part) is int and type(d) is int and -d <= part < d)
            for part, d in zip(index, dims, strict=False)
        )
    )


def _is_slice(part: Any) -> bool:
    return part is None or part is Ellipsis or isinstance(part, slice)


def _is_nonzero(value: Any) -> bool:
    return not isinstance(value, core.Var) and bool(value)
