"""Types of arrays: a dtype and symbolic dimensions, so that one program serves every size.

>>> n = symbol("n")
>>> str(ArrayType(np.dtype("f8"), (n, 3)))
'float64[n, 3]'
>>> (n + 2) - 2 == n
True
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from calque.transpiler.errors import DtypeError

# Python's integers from here on are known when code is generated: proofs that an index is inside
# an array rest on sums and multiples of smaller ones, which 64 bits hold
LARGE = 1 << 31


@dataclass(frozen=True, slots=True)
class Dim:
    """An affine expression, ``const + sum(coefficient * symbol)``; a constant is an int."""

    const: int
    terms: tuple[tuple[str, int], ...]

    def __add__(self, other: DimLike) -> DimLike:
        a, b = self, _as_dim(other)
        terms = dict(a.terms)
        for name, coefficient in b.terms:
            terms[name] = terms.get(name, 0) + coefficient
        return make_dim(a.const + b.const, terms)

    __radd__ = __add__

    def __mul__(self, factor: int) -> DimLike:
        return make_dim(self.const * factor, {s: c * factor for s, c in self.terms})

    __rmul__ = __mul__

    def __neg__(self) -> DimLike:
        return self * -1

    def __sub__(self, other: DimLike) -> DimLike:
        return self + (-1 * other)

    def __rsub__(self, other: DimLike) -> DimLike:
        return (-self) + other

    def __str__(self) -> str:
        parts = [f"{c}*{s}" if abs(c) != 1 else ("-" + s if c < 0 else s) for s, c in self.terms]
        text = " + ".join(parts)
        if self.const:
            text += f" + {self.const}" if self.const > 0 else f" - {-self.const}"
        return text.replace("+ -", "- ")

    def symbols(self) -> frozenset[str]:
        """The symbols that occur."""
        return frozenset(s for s, _ in self.terms)


DimLike = int | Dim


def make_dim(const: int, terms: dict[str, int]) -> DimLike:
    """The normal form: an int when no symbol is left."""
    kept = tuple(sorted((s, c) for s, c in terms.items() if c))
    return Dim(const, kept) if kept else const


def symbol(name: str) -> Dim:
    """The dimension that is the symbol ``name``."""
    return Dim(0, ((name, 1),))


def integer_name(position: int) -> str:
    """The symbol of an argument that is a Python integer, by its place among the leaves."""
    return f"#{position}"


def _as_dim(value: DimLike) -> Dim:
    return value if isinstance(value, Dim) else Dim(int(value), ())


def dim_symbols(dim: DimLike) -> frozenset[str]:
    """The symbols of a dimension; none for an int."""
    return dim.symbols() if isinstance(dim, Dim) else frozenset()


def substitute_dim(dim: DimLike, values: dict[str, DimLike]) -> DimLike:
    """``dim`` with symbols replaced by dimensions."""
    if not isinstance(dim, Dim):
        return dim
    result: DimLike = dim.const
    for name, coefficient in dim.terms:
        result = result + coefficient * values.get(name, symbol(name))
    return result


def divide_dim(dim: DimLike, divisor: DimLike) -> DimLike | None:
    """The exact quotient, or None where it is not known to be exact."""
    if isinstance(dim, int) and isinstance(divisor, int):
        return dim // divisor if divisor and dim % divisor == 0 else None
    if dim == divisor:
        return 1
    if isinstance(dim, Dim) and isinstance(divisor, int) and divisor:
        if all(c % divisor == 0 for _, c in dim.terms) and dim.const % divisor == 0:
            return make_dim(dim.const // divisor, {s: c // divisor for s, c in dim.terms})
    if isinstance(dim, Dim) and isinstance(divisor, Dim) and len(divisor.terms) == 1:
        name, coefficient = divisor.terms[0]
        factor = dict(dim.terms).get(name, 0)
        if factor % coefficient == 0 and dim == (factor // coefficient) * divisor:
            return factor // coefficient
    return None


@dataclass(frozen=True, slots=True)
class ArrayType:
    """A dtype and dimensions; ``weak`` marks a Python scalar, which does not promote (NEP 50)."""

    dtype: np.dtype
    dims: tuple[DimLike, ...] = ()
    weak: bool = False

    @property
    def ndim(self) -> int:
        """The rank."""
        return len(self.dims)

    @property
    def is_float(self) -> bool:
        """True for real and complex floating point, which can carry derivatives."""
        return self.dtype.kind in "fc"

    def with_dims(self, dims: Sequence[DimLike]) -> ArrayType:
        """The same dtype with other dimensions; a type with dimensions is never weak."""
        return ArrayType(self.dtype, tuple(dims), self.weak and not dims)

    def with_dtype(self, dtype: np.dtype) -> ArrayType:
        """The same dimensions with another, strong dtype."""
        return ArrayType(np.dtype(dtype), self.dims, False)

    def __str__(self) -> str:
        if self.weak:
            return {"b": "bool", "i": "int", "f": "float", "c": "complex"}[self.dtype.kind]
        return self.dtype.name + (f"[{', '.join(map(str, self.dims))}]" if self.dims else "")


FLOAT = ArrayType(np.dtype("f8"), (), True)
INT = ArrayType(np.dtype("i8"), (), True)
BOOL = ArrayType(np.dtype("?"), (), True)
COMPLEX = ArrayType(np.dtype("c16"), (), True)

_PYTHON_SCALARS = {bool: BOOL, int: INT, float: FLOAT, complex: COMPLEX}


def type_of_constant(value: Any) -> ArrayType:
    """The type of a known number, a NumPy scalar or a small array.

    >>> str(type_of_constant(2.0)), str(type_of_constant(np.float32(2)))
    ('float', 'float32')
    """
    if type(value) in _PYTHON_SCALARS:
        return _PYTHON_SCALARS[type(value)]
    if isinstance(value, (np.ndarray, np.generic)):
        return ArrayType(value.dtype, value.shape, False)
    if isinstance(value, int):  # of an IntEnum, say
        return INT
    if isinstance(value, (float, complex)):
        return FLOAT if isinstance(value, float) else COMPLEX
    raise TypeError(f"no array type for {value!r}")


def python_scalar(t: ArrayType) -> Any:
    """A sample Python scalar of a weak type."""
    return {"b": True, "i": 1, "f": 1.0, "c": 1 + 0j}[t.dtype.kind]


def sample(t: ArrayType, shape: tuple[int, ...] = ()) -> Any:
    """A concrete value of the type's dtype: ones of ``shape``, or a Python scalar when weak."""
    return python_scalar(t) if t.weak else (np.ones(shape, t.dtype) if shape else t.dtype.type(1))


def elementwise_dtype(function: Callable[..., Any], types: Sequence[ArrayType]) -> np.dtype:
    """The dtype NumPy gives ``function`` on operands of these types, asked of NumPy itself."""
    return _elementwise_dtype(function, tuple((t.dtype, t.weak) for t in types))


@lru_cache(maxsize=4096)
def _elementwise_dtype(
    function: Callable[..., Any], key: tuple[tuple[np.dtype, bool], ...]
) -> np.dtype:
    samples = [sample(ArrayType(dtype, (), weak)) for dtype, weak in key]
    try:
        with np.errstate(all="ignore"):
            return np.asarray(function(*samples)).dtype
    except TypeError as error:
        name = getattr(function, "__name__", str(function))
        kinds = ", ".join(str(d) for d, _ in key)
        raise DtypeError(f"{name} is not defined for {kinds}") from error


def promote(types: Sequence[ArrayType]) -> tuple[np.dtype, bool]:
    """The common dtype of several types and whether all are weak (NEP 50).

    >>> promote([FLOAT, ArrayType(np.dtype("f4"))])
    (dtype('float32'), False)
    """
    dtype = np.result_type(*[sample(t) for t in types])
    return dtype, all(t.weak for t in types)
