"""Python twins of functions of NumPy that NumPy writes in Python: interpreted where used.

``decided`` and ``between_zeros`` are the interpreter's: what a test of values says, where the dtype
or the length of a result depends on it.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def decided(test: Any, x: Any, name: str) -> Any:
    """A test of the values of ``x`` on which the dtype of a result depends."""
    raise NotImplementedError


def between_zeros(p: Any) -> Any:
    """The coefficients from the first to the last that is not zero, and how many come behind."""
    raise NotImplementedError


# np.emath, whose results are complex where they must be


_SINGLE = (np.float16, np.float32, np.int8, np.uint8, np.int16, np.uint16, np.complex64)


def as_complex(x: Any) -> Any:
    """The numbers as complex ones, of their own precision."""
    return x.astype(np.complex64 if x.dtype.type in _SINGLE else np.complex128)


def complex_where_negative(x: Any, name: str) -> Any:
    """The numbers, complex if one of them is negative."""
    x = np.asarray(x)
    if x.dtype.kind == "c":
        return x[()]
    if decided(np.any(x < 0), x, name):
        return as_complex(x)[()]
    return x[()]


def complex_beyond_one(x: Any, name: str) -> Any:
    """The numbers, complex if the size of one of them is more than one."""
    x = np.asarray(x)
    if x.dtype.kind == "c":
        return x[()]
    if decided(np.any(np.abs(x) > 1), x, name):
        return as_complex(x)[()]
    return x[()]


def sqrt(x: Any) -> Any:
    """``np.emath.sqrt``."""
    return np.sqrt(complex_where_negative(x, "sqrt"))


def log(x: Any) -> Any:
    """``np.emath.log``."""
    return np.log(complex_where_negative(x, "log"))


def log2(x: Any) -> Any:
    """``np.emath.log2``."""
    return np.log2(complex_where_negative(x, "log2"))


def log10(x: Any) -> Any:
    """``np.emath.log10``."""
    return np.log10(complex_where_negative(x, "log10"))


def logn(n: Any, x: Any) -> Any:
    """``np.emath.logn``."""
    x, n = complex_where_negative(x, "logn"), complex_where_negative(n, "logn")
    return np.log(x) / np.log(n)


def power(x: Any, p: Any) -> Any:
    """``np.emath.power``."""
    x, p = complex_where_negative(x, "power"), np.asarray(p)
    if p.dtype.kind in "iu" and decided(np.any(p < 0), p, "power"):
        return np.power(x, p * 1.0)
    return np.power(x, p)


def arccos(x: Any) -> Any:
    """``np.emath.arccos``."""
    return np.arccos(complex_beyond_one(x, "arccos"))


def arcsin(x: Any) -> Any:
    """``np.emath.arcsin``."""
    return np.arcsin(complex_beyond_one(x, "arcsin"))


def arctanh(x: Any) -> Any:
    """``np.emath.arctanh``."""
    return np.arctanh(complex_beyond_one(x, "arctanh"))


def real_if_close(a: Any, tol: Any = 100) -> Any:
    """``np.real_if_close``."""
    a = np.asanyarray(a)
    if a.dtype.kind != "c":
        return a
    if tol > 1:
        tol = np.finfo(a.dtype).eps * tol
    if decided(np.all(np.abs(a.imag) < tol), a, "real_if_close"):
        return a.real[()]
    return a[()]


# sets, and roots of polynomials


def union1d(ar1: Any, ar2: Any) -> Any:
    """``np.union1d``."""
    return np.unique(np.concatenate((np.ravel(ar1), np.ravel(ar2))))


def intersect1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    """``np.intersect1d``."""
    first = np.sort(np.ravel(ar1)) if assume_unique else np.unique(ar1)
    return first[np.isin(first, ar2)]


def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    """``np.setdiff1d``."""
    first = np.ravel(ar1) if assume_unique else np.unique(ar1)
    return first[np.logical_not(np.isin(first, ar2))]


def setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    """``np.setxor1d``."""
    first, second = setdiff1d(ar1, ar2, assume_unique), setdiff1d(ar2, ar1, assume_unique)
    return np.sort(np.concatenate((first, second)))


def array_equiv(a1: Any, a2: Any) -> Any:
    """``np.array_equiv``, of shapes that fit together."""
    return np.all(np.asarray(a1) == np.asarray(a2))


def roots(p: Any) -> Any:
    """``np.roots``: the eigenvalues of the companion matrix."""
    p = np.atleast_1d(p)
    if p.ndim != 1:
        raise ValueError("Input must be a rank-1 array.")
    if p.dtype.kind not in "fc":
        p = p.astype(float)
    p, at_zero = between_zeros(p)
    found = np.array([])
    if len(p) > 1:
        companion = np.diag(np.ones(len(p) - 2, p.dtype), -1)
        companion[0, :] = -p[1:] / p[0]
        found = np.linalg.eigvals(companion)
    return np.hstack((found, np.zeros(at_zero, found.dtype))) if at_zero else found


# memory, which generated code has of its own


_MEMORY = ("C", "CONTIGUOUS", "C_CONTIGUOUS", "A", "ALIGNED", "E", "ENSUREARRAY")


def require(a: Any, dtype: Any = None, requirements: Any = None) -> Any:
    """``np.require``."""
    wanted = [w.upper() for w in requirements or ()]
    if not all(w in _MEMORY for w in wanted):
        raise NotImplementedError("np.require of memory that is said to be written or owned.")
    found = np.asarray(a, dtype)
    if any(w.startswith("C") for w in wanted) and found.ndim:
        return np.ascontiguousarray(found)
    return found


class ElementsOf:
    """``set(x)`` of an array: what it is asked of, not its order."""

    def __init__(self, values: Any):
        self.values = values

    def __le__(self, other: Any) -> Any:
        return np.all(np.isin(self.values, listed(other)))

    def __ge__(self, other: Any) -> Any:
        return np.all(np.isin(listed(other), self.values))

    def __lt__(self, other: Any) -> Any:
        return (self <= other) and not (self >= other)

    def __gt__(self, other: Any) -> Any:
        return (self >= other) and not (self <= other)

    def __eq__(self, other: object) -> Any:
        return (self <= other) and (self >= other)

    def __ne__(self, other: object) -> Any:
        return not (self == other)

    def __contains__(self, value: Any) -> Any:
        return np.any(self.values == value)

    def __len__(self) -> Any:
        return np.unique(self.values).size

    def __iter__(self) -> Any:
        raise NotImplementedError("The order of a set of run-time values is not known.")

    issubset, issuperset, __hash__ = __le__, __ge__, None  # type: ignore[assignment]


def listed(values: Any) -> Any:
    """The elements of a set, as an array."""
    return values.values if isinstance(values, ElementsOf) else np.array(list(values))


# methods of ufuncs


def reduced(
    function: Any, array: Any, axis: Any = 0, keepdims: bool = False, initial: Any = None
) -> Any:
    """``ufunc.reduce``, in order."""
    x = np.asarray(array)
    axes = tuple(range(x.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    rows = np.moveaxis(x, axes, tuple(range(len(axes))))
    if len(axes) > 1:
        rows = rows.reshape((-1, *rows.shape[len(axes) :]))
    total = rows[0] if initial is None else function(initial, rows[0])
    for k in range(1, rows.shape[0]):
        total = function(total, rows[k])
    return np.expand_dims(total, axes) if keepdims else total


def accumulated(function: Any, array: Any, axis: int = 0) -> Any:
    """``ufunc.accumulate``."""
    rows = np.moveaxis(np.asarray(array), axis, 0)
    found = np.empty(rows.shape, function(rows[:1], rows[:1]).dtype)
    found[0] = rows[0]
    for k in range(1, rows.shape[0]):
        found[k] = function(found[k - 1], rows[k])
    return np.moveaxis(found, 0, axis)


# functions of parts of arrays, which a signature as "(n),()->(n)" tells


def generalized(
    function: Any, cores: Any, results: Any, numbers: Any, kinds: Any, given: Any
) -> Any:
    """A function that stores its results, of each part: ``numba.guvectorize``.

    ``cores`` and ``results`` name the axes of a part, ``numbers`` says which inputs are numbers.
    """
    arrays = [np.asarray(array) for array in given]
    around = np.broadcast_shapes(
        *[array.shape[: array.ndim - len(core)] for array, core in zip(arrays, cores)]
    )
    sizes, count, parts = {}, 1, []
    for size in around:
        count = count * size
    for array, core in zip(arrays, cores):
        own = array.shape[array.ndim - len(core) :]
        for name, size in zip(core, own):
            sizes[name] = size
        parts.append(np.broadcast_to(array, (*around, *own)).reshape((count, *own)))
    shapes = [tuple([sizes[name] for name in core]) for core in results]
    outs = [np.zeros((count, *shape), kind) for shape, kind in zip(shapes, kinds)]
    for k in range(count):
        taken = [
            part[k].item() if number else part[k] if core else part[k : k + 1]
            for part, core, number in zip(parts, cores, numbers)
        ]
        stored = [out[k] if core else out[k : k + 1] for out, core in zip(outs, results)]
        function(*taken, *stored)
    found = [out.reshape((*around, *shape))[()] for out, shape in zip(outs, shapes)]
    return found[0] if len(found) == 1 else tuple(found)


def matrix_power(a: Any, n: Any) -> Any:
    """``np.linalg.matrix_power``, by an exponent that the run knows."""
    base = a
    if n < 0:
        base = np.linalg.inv(a)
    return product_of_equals(base, abs(n))


def product_of_equals(a: Any, n: Any) -> Any:
    """The product of ``n`` times the same matrix, or the same of each of a stack."""
    found = np.broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape)
    for _ in range(n):
        found = found @ a
    return found
