"""Parameters and masks of ``scipy.stats``'s distributions, as SciPy's own methods take them."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from calque.transpiler.errors import DtypeError
from calque.transpiler.ir.builder import FUNCTIONS, Array, current

_TRUTH = (bool, np.bool_)


def real_numbers(x: Any) -> Any:
    """The places, or probabilities, of a call as an array."""
    x = FUNCTIONS[np.asarray](x)
    if x.dtype.kind not in "biuf":
        message = f"Distributions of scipy.stats take real numbers, not {x.dtype}."
        raise DtypeError(message, current().origin)
    return x


def parameters(dist: Any, args: Any, kwds: dict[str, Any]) -> tuple[list[Any], Any, Any]:
    """The shape parameters, the location and the scale; SciPy's own error for wrong arguments."""
    shapes, loc, scale = dist._parse_args(*args, **kwds)
    return [_parameter(a) for a in shapes], _parameter(loc), _parameter(scale)


def _parameter(value: Any) -> Any:
    """A parameter; of Python's numbers SciPy makes arrays of 64 bits."""
    if is_truth(value):
        return np.float64(value)
    return np.float64(value) if isinstance(value, (int, float)) else real_numbers(value)


def is_number(value: Any, number: float) -> bool:
    """True if a value is known to be this number.

    >>> is_number(np.float64(1.0), 1), is_number(2.0, 1)
    (True, False)
    """
    return not isinstance(value, (Array, np.ndarray)) and bool(value == number)


def is_truth(value: Any) -> bool:
    """True for a known truth.

    >>> is_truth(np.True_), is_truth(1.0)
    (True, False)
    """
    return isinstance(value, _TRUTH)


def chosen(condition: Any, then: Any, otherwise: Any) -> Any:
    """``np.where``; of one known truth what it selects, in the shape of both.

    >>> chosen(True, 1.0, 2.0), chosen(False, np.zeros(2), 1.0)
    (1.0, array([1., 1.]))
    """
    if is_truth(condition):
        taken, left = (then, otherwise) if condition else (otherwise, then)
        shape = getattr(left, "shape", ())
        return np.full(shape, taken) if shape and np.ndim(taken) == 0 else taken
    return np.where(condition, then, otherwise)


def both(first: Any, second: Any) -> Any:
    """``first & second``; of a known truth the other, or False.

    >>> both(True, np.True_), both(False, np.True_)
    (np.True_, False)
    """
    if is_truth(first):
        return second if first else False
    if is_truth(second):
        return first if second else False
    return first & second


def either(first: Any, second: Any) -> Any:
    """``first | second``; of a known truth the other, or True.

    >>> either(False, np.False_), either(True, np.False_)
    (np.False_, True)
    """
    if is_truth(first):
        return True if first else second
    if is_truth(second):
        return True if second else first
    return first | second


def standardized(x: Any, loc: Any, scale: Any) -> Any:
    """``(x - loc) / scale``, of 64 bits at least."""
    x = real_numbers(x)
    x = x if is_number(loc, 0) else x - loc
    x = x if is_number(scale, 1) else x / scale
    return doubled(x)


def doubled(x: Any) -> Any:
    """An array of 64 bits at least."""
    x = FUNCTIONS[np.asarray](x)
    return FUNCTIONS["cast"](x, np.promote_types(x.dtype, np.float64))


def scaled(z: Any, loc: Any, scale: Any) -> Any:
    """``z * scale + loc``."""
    z = z if is_number(scale, 1) else z * scale
    return z if is_number(loc, 0) else z + loc


def below(z: Any, low: Any, closed: bool) -> Any:
    """The places before the support, or at its start where the support is open."""
    if is_number(low, -math.inf) and closed:
        return False
    return z < low if closed else z <= low


def above(z: Any, high: Any, closed: bool) -> Any:
    """The places beyond the support, or at its end where the support is open."""
    if is_number(high, math.inf) and closed:
        return False
    return z > high if closed else z >= high


def point_inside(low: Any, high: Any) -> Any:
    """A number between the ends of a support."""
    first, last = _is_endless(low), _is_endless(high)
    one_sided = chosen(last, chosen(first, 1.0, low + 1.0), high - 1.0)
    if is_truth(first) and is_truth(last):
        return one_sided if first or last else 0.5 * (low + high)
    return np.where(np.isfinite(low) & np.isfinite(high), 0.5 * (low + high), one_sided)


def whole_number_inside(low: Any) -> Any:
    """A whole number of the support of a discrete distribution, from its start."""
    return 0.0 if is_number(low, -math.inf) else low


def _is_endless(end: Any) -> Any:
    return np.isinf(end) if isinstance(end, (Array, np.ndarray)) else math.isinf(end)


def is_open(dist: Any) -> bool:
    """True for a distribution that has no density at the ends of its support."""
    mask: Any = type(dist)._support_mask
    return bool(mask.__name__ == "_open_support_mask")


def is_public(dist: Any) -> bool:
    """True for a distribution of ``scipy.stats``, or a copy of one."""
    known = getattr(sys.modules.get("scipy.stats"), dist.name or "", None)
    return type(known) is type(dist)
