"""Exponentials, logarithms, trigonometric and hyperbolic functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from calque.transpiler.ir.builder import FUNCTIONS, known, type_of
from calque.transpiler.primitives.base import elementwise, implements

_LN2, _LN10, _DEGREE = math.log(2.0), math.log(10.0), math.pi / 180.0
_POSITIVE = [(0.5, 3.0)]
_INSIDE = [(-0.9, 0.9)]


def _below(a: Any, y: Any) -> Any:
    finite = known(a) and not np.any(np.isinf(a))
    return a - y if finite else np.where(a == y, 0.0, a - y)


def of_sine(x: Any) -> Any:
    """The cosine of the angle with this sine; of a complex one on its side of the branch cuts."""
    if type_of(x).dtype.kind != "c":
        return np.sqrt(1.0 - x * x)
    return np.sqrt(-(x - 1.0)) * np.sqrt(x + 1.0)


def of_hyperbolic(x: Any) -> Any:
    """The hyperbolic sine of the number with this hyperbolic cosine."""
    if type_of(x).dtype.kind != "c":
        return np.sqrt(x * x - 1.0)
    return np.sqrt(x - 1.0) * np.sqrt(x + 1.0)


exp = elementwise(np.exp, lambda x, y: y, "exp", smooth=True)
elementwise(np.exp2, lambda x, y: _LN2 * y, "exp2", smooth=True)
elementwise(np.expm1, lambda x, y: y + 1.0, "expm1", smooth=True)
log = elementwise(np.log, lambda x, y: 1.0 / x, "log", domain=_POSITIVE)
elementwise(np.log2, lambda x, y: 1.0 / (_LN2 * x), "log2", domain=_POSITIVE)
elementwise(np.log10, lambda x, y: 1.0 / (_LN10 * x), "log10", domain=_POSITIVE)
elementwise(np.log1p, lambda x, y: 1.0 / (1.0 + x), "log1p", domain=[(-0.5, 3.0)])
# the slope is 1 where a and y are the same infinity: their difference is no number
elementwise(
    np.logaddexp, lambda a, b, y: (np.exp(_below(a, y)), np.exp(_below(b, y))), smooth=True,
    numba="np.logaddexp({0}, {1})",
)
elementwise(np.logaddexp2, lambda a, b, y: (np.exp2(_below(a, y)), np.exp2(_below(b, y))))
sqrt = elementwise(
    np.sqrt, lambda x, y: 0.5 / y, "sqrt", domain=_POSITIVE, keeps_sign=True, nonnegative=True
)
elementwise(np.cbrt, lambda x, y: 1.0 / (3.0 * y * y), "cbrt", domain=_POSITIVE)

sin = elementwise(np.sin, lambda x, y: np.cos(x), "sin", smooth=True)
cos = elementwise(np.cos, lambda x, y: -np.sin(x), "cos", smooth=True)
elementwise(np.tan, lambda x, y: 1.0 + y * y, "tan", domain=[(-1.0, 1.0)])
elementwise(np.arcsin, lambda x, y: 1.0 / of_sine(x), "asin", domain=_INSIDE)
elementwise(np.arccos, lambda x, y: -1.0 / of_sine(x), "acos", domain=_INSIDE)
elementwise(np.arctan, lambda x, y: 1.0 / (1.0 + x * x), "atan", total=True, smooth=True)
elementwise(np.sinh, lambda x, y: np.cosh(x), "sinh", smooth=True)
elementwise(np.cosh, lambda x, y: np.sinh(x), "cosh", smooth=True)
tanh = elementwise(np.tanh, lambda x, y: 1.0 - y * y, "tanh", total=True, smooth=True)
elementwise(np.arcsinh, lambda x, y: 1.0 / np.sqrt(x * x + 1.0), "asinh", smooth=True)
elementwise(np.arccosh, lambda x, y: 1.0 / of_hyperbolic(x), "acosh", domain=[(1.5, 3.0)])
elementwise(np.arctanh, lambda x, y: 1.0 / (1.0 - x * x), "atanh", domain=_INSIDE)

deg2rad, radians = (
    elementwise(f, lambda x, y: _DEGREE, smooth=True, numba="np.deg2rad({0})")
    for f in (np.deg2rad, np.radians)
)
rad2deg, degrees = (
    elementwise(f, lambda x, y: 1.0 / _DEGREE, smooth=True, numba="np.rad2deg({0})")
    for f in (np.rad2deg, np.degrees)
)


def _arctan2_partials(a: Any, b: Any, y: Any) -> tuple[Any, Any]:
    square = a * a + b * b
    return b / square, -a / square


elementwise(np.arctan2, _arctan2_partials, "atan2", domain=[(0.5, 2.0), (-2.0, 2.0)])
def hypot_partials(a: Any, b: Any, y: Any) -> tuple[Any, Any]:
    """The slopes of ``hypot``; at (0, 0) those of a maximum at a tie, as JAX's."""
    safe = np.where(y == 0, 1.0, y)
    return np.where(y == 0, 0.5, a / safe), np.where(y == 0, 0.5, b / safe)


hypot = elementwise(
    np.hypot, hypot_partials, "hypot", domain=[(0.5, 2.0), (-2.0, 2.0)], total=True,
    nonnegative=True,
)


def _sinc_slope(x: Any, y: Any) -> Any:
    """The slope of ``sinc``: by its series near 0, where the closed form would cancel."""
    near = np.abs(x) < 0.1
    safe = np.where(near, 1.0, x)
    square = (math.pi * x) ** 2
    series = 1 / 840 - square * (1 / 45360 - square / 3991680)
    series = x * math.pi**2 * (square * (1 / 30 - square * series) - 1 / 3)
    return np.where(near, series, (np.cos(math.pi * safe) - y) / safe)


sinc = elementwise(np.sinc, _sinc_slope, reference=np.sinc)


@implements(np.unwrap)
def np_unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: float = 2 * math.pi) -> Any:
    """``np.unwrap``: adds multiples of the period, so its derivative is the identity's."""
    p, high = FUNCTIONS[np.asarray](p), period / 2
    steps = FUNCTIONS[np.diff](p, axis=axis)
    wrapped = (steps + high) % period - high
    wrapped = np.where((wrapped == -high) & (steps > 0), high, wrapped)
    jump = np.where(np.abs(steps) < (high if discont is None else discont), 0.0, wrapped - steps)
    rest = (slice(None),) * (axis % p.ndim)
    added = np.cumsum(jump, axis=axis)
    first, others = p[(*rest, slice(None, 1))], p[(*rest, slice(1, None))]
    return np.concatenate([first, others + added], axis=axis)
