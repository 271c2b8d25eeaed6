"""``np.polyval`` and its family, as NumPy defines them: coefficients from the highest power down.

``np.polymul`` and ``np.polydiv`` drop leading zeros, so that the length of their results depends on
the data: they are refused (``np.convolve`` multiplies polynomials).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.transpiler.errors import ShapeError, UnsupportedFunction
from calque.transpiler.ir.builder import FUNCTIONS, current, known_int, type_of
from calque.transpiler.primitives.base import implements, operand


def _coefficients(p: Any) -> Any:
    found = FUNCTIONS[np.atleast_1d](FUNCTIONS[np.asarray](operand(p)))
    if found.ndim != 1:
        raise ShapeError("The coefficients of a polynomial have one axis.", current().origin)
    return found


@implements(np.polyval)
def np_polyval(p: Any, x: Any) -> Any:
    """``np.polyval``, by Horner's rule, written out."""
    p, x = FUNCTIONS[np.asarray](operand(p)), FUNCTIONS[np.asarray](operand(x))
    if not p.ndim:
        raise TypeError("iteration over a 0-d array")
    y = np.zeros_like(x)
    for k in range(known_int(p.shape[0], "The number of coefficients")):
        y = y * x + p[k]
    return y


def _padded(p: Any, q: Any) -> tuple[Any, Any]:
    """Both with the length of the longer."""
    p, q = _coefficients(p), _coefficients(q)
    if current().dims.same(p.dims[0], q.dims[0]):
        return p, q
    n, m = (known_int(c.shape[0], "The number of coefficients") for c in (p, q))
    if n < m:
        return np.concatenate([np.zeros(m - n, p.dtype), p]), q
    return p, np.concatenate([np.zeros(n - m, q.dtype), q]) if m < n else q


@implements(np.polyadd)
def np_polyadd(a1: Any, a2: Any) -> Any:
    """``np.polyadd``."""
    p, q = _padded(a1, a2)
    return p + q


@implements(np.polysub)
def np_polysub(a1: Any, a2: Any) -> Any:
    """``np.polysub``."""
    p, q = _padded(a1, a2)
    return p - q


@implements(np.polyder)
def np_polyder(p: Any, m: int = 1) -> Any:
    """``np.polyder``."""
    p = _coefficients(p)
    for _ in range(int(m)):
        p = p[:-1] * FUNCTIONS[np.arange](p.shape[0] - 1, 0, -1)
    return p


@implements(np.polyint)
def np_polyint(p: Any, m: int = 1, k: Any = None) -> Any:
    """``np.polyint``; ``k`` gives the constants of integration."""
    p, count = _coefficients(p), int(m)
    constants = list(k) if isinstance(k, (list, tuple)) else [0.0 if k is None else k] * count
    if len(constants) < count:
        raise ShapeError("np.polyint needs a constant for each integral.", current().origin)
    for constant in constants[:count]:
        raised = p / FUNCTIONS[np.arange](p.shape[0], 0, -1)
        p = np.concatenate([raised, FUNCTIONS[np.atleast_1d](operand(constant))])
    return p


@implements(np.polyfit)
def np_polyfit(
    x: Any,
    y: Any,
    deg: Any,
    rcond: Any = None,
    full: bool = False,
    w: Any = None,
    cov: Any = False,
) -> Any:
    """``np.polyfit``: least squares on the scaled Vandermonde matrix, as NumPy does it."""
    if full or cov or isinstance(deg, (list, tuple)):
        raise UnsupportedFunction(
            "np.polyfit with full=, cov= or several degrees.", current().origin
        )
    x, y = (FUNCTIONS[np.asarray](operand(v)) + 0.0 for v in (x, y))
    if rcond is None:
        rcond = known_int(x.shape[0], "The number of points") * np.finfo(x.dtype).eps
    left = np.vander(x, known_int(deg, "The degree of a polynomial") + 1)
    if w is not None:
        w = FUNCTIONS[np.asarray](operand(w)) + 0.0
        left, y = left * w[:, None], (y * w[:, None] if type_of(y).ndim == 2 else y * w)
    scale = np.sqrt(np.sum(left * left, axis=0))
    found = np.linalg.lstsq(left / scale, y, rcond)[0]
    return (found.T / scale).T


@implements(np.poly)
def np_poly(seq_of_zeros: Any) -> Any:
    """``np.poly`` of real roots."""
    roots = FUNCTIONS[np.atleast_1d](FUNCTIONS[np.asarray](operand(seq_of_zeros)))
    if roots.ndim != 1 or roots.dtype.kind == "c":
        raise UnsupportedFunction(
            "np.poly of a matrix, or of complex roots, has no rule.", current().origin
        )
    found = np.ones(1, np.result_type(roots.dtype, np.float64 if roots.dtype.kind in "iub" else 0))
    for k in range(known_int(roots.shape[0], "The number of roots")):
        found = np.convolve(found, FUNCTIONS[np.array]([1.0, -roots[k]], roots.dtype))
    return found
