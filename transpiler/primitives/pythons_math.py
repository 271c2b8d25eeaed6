"""More of Python's ``math`` on run-time numbers: parts of numbers, remainders, neighbours.

``math.remainder`` is said in ``fmod`` as CPython says it, ``modf`` by the remainder of 1; what
gives two numbers is a record for each.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from calque.transpiler.ir.builder import FUNCTIONS, Array
from calque.transpiler.ir.types import FLOAT, INT, ArrayType
from calque.transpiler.primitives.base import Primitive, elementwise, implements, operand, strong
from calque.transpiler.primitives.scalars import declare, handler_of, m, math_hypot


def mantissa(x: float) -> float:
    """The first result of ``math.frexp``."""
    return math.frexp(x)[0]


def exponent(x: float) -> int:
    """The second result of ``math.frexp``."""
    return math.frexp(x)[1]


def _part(
    function: Callable[[float], Any], index: int, result: ArrayType, partials: Any
) -> Primitive:
    """A result of ``math.frexp``."""
    text = f"math.frexp({{0}})[{index}]"
    made = elementwise(
        function,
        partials,
        spelling=text,
        arity=1,
        name=f"math.frexp {function.__name__}",
        numba=text,
    )
    made.infer = lambda x: result
    made.samples = lambda rng: [((float(x),), {}) for x in rng.uniform(0.6, 0.9, 3)]
    made.on_arrays = lambda x: FUNCTIONS["cast"](np.frexp(x)[index], result.dtype)
    FUNCTIONS[function] = handler_of(made, function)
    return made


_part(mantissa, 0, FLOAT, lambda x, y: np.ldexp(1.0, -FUNCTIONS[exponent](x)))
_part(exponent, 1, INT, None)


def rounded_off(total: Any, value: Any, added: Any) -> Any:
    """The rest of ``total + value`` beside ``added``, its rounded sum (Knuth's two-sum)."""
    part = added - total
    return (total - (added - part)) + (value - part)


_TEXT = "({0} - ({2} - ({2} - {0}))) + ({1} - ({2} - {0}))"
elementwise(rounded_off, None, _TEXT, spelling=_TEXT, arity=3, name="rounded off", total=True)
declare(
    "ulp",
    None,
    of_arrays=lambda x: np.spacing(np.abs(x)),
    numba="(abs({0}) if np.isinf({0}) else np.spacing(abs({0})))",
)
_ldexp = declare(
    "ldexp",
    lambda x, i, y: (m.ldexp(1.0, i), None),
    2,
    [(-2.0, 2.0), (1.0, 1.0)],
    numba="math.ldexp({0}, int({1}))",
)
assert _ldexp is not None
_ldexp.samples = lambda rng: [((float(x), 3), {}) for x in rng.normal(size=3)]


@implements(math.frexp)
def math_frexp(x: Any) -> tuple[Any, Any]:
    """``math.frexp``."""
    return FUNCTIONS[mantissa](x), FUNCTIONS[exponent](x)


@implements(math.modf)
def math_modf(x: Any) -> tuple[Any, Any]:
    """``math.modf``: the remainder of 1, and the rest."""
    x = FUNCTIONS[float](x)
    inside = np.where(np.isinf(x), 0.0, x)
    rest = np.where(np.isinf(x), np.copysign(0.0, x), np.fmod(inside, 1.0))
    return FUNCTIONS[float](rest), FUNCTIONS[float](np.trunc(x))


@implements(math.nextafter)
def math_nextafter(x: Any, y: Any) -> Any:
    """``math.nextafter``, by one step."""
    return FUNCTIONS[float](np.nextafter(*(strong(FUNCTIONS[float](v)) for v in (x, y))))


@implements(math.remainder)
def math_remainder(x: Any, y: Any) -> Any:
    """``math.remainder``: from ``fmod``, one divisor less where more than half of it is left."""
    rest, size = m.fmod(x, y), m.fabs(y)
    left = m.fabs(rest)
    over = size - left
    odd = np.fmod(0.5 * (m.fabs(x) - left), size) != 0.0
    return FUNCTIONS[float](
        np.where((left > over) | ((left == over) & odd), rest - np.copysign(size, x), rest)
    )


@implements(math.dist)
def math_dist(p: Any, q: Any) -> Any:
    """``math.dist``."""
    if isinstance(p, Array) or isinstance(q, Array):
        return FUNCTIONS[float](np.linalg.norm(operand(p) - operand(q)))
    if len(p) != len(q):
        raise ValueError("both points must have the same number of dimensions")
    return math_hypot(*[a - b for a, b in zip(p, q, strict=True)])


def math_sumprod(p: Any, q: Any) -> Any:
    """``math.sumprod``: to rounding."""
    if isinstance(p, Array) or isinstance(q, Array):
        return np.dot(operand(p), operand(q))
    return sum(a * b for a, b in zip(p, q, strict=True))


if hasattr(math, "sumprod"):
    implements(math.sumprod)(math_sumprod)


@implements(math.isclose)
def math_isclose(a: Any, b: Any, *, rel_tol: Any = 1e-9, abs_tol: Any = 0.0) -> Any:
    """``math.isclose``."""
    return is_close(m.fabs(a), m.fabs(b), m.fabs(a - b), a == b, rel_tol, abs_tol)


def is_close(a: Any, b: Any, apart: Any, same: Any, rel_tol: Any, abs_tol: Any) -> Any:
    """True if numbers of these sizes are no further apart than they may be."""
    near = apart <= np.maximum(rel_tol * np.maximum(a, b), abs_tol)
    return FUNCTIONS[bool](same | (near & np.isfinite(a) & np.isfinite(b)))


@implements(method="is_integer")
def is_integer(x: Any) -> Any:
    """``x.is_integer()`` of a number."""
    if x.dtype.kind in "iu":
        return True
    return FUNCTIONS[bool](np.isfinite(x) & (np.floor(x) == x))
