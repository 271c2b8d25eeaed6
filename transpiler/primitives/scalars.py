"""Python's ``math`` on run-time scalars: the result is a Python number, so it does not promote."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from calque.transpiler.errors import ShapeError
from calque.transpiler.ir.builder import FUNCTIONS, Array, current, function_name, type_of
from calque.transpiler.ir.types import BOOL, FLOAT, INT, ArrayType
from calque.transpiler.primitives.base import Primitive, elementwise, implements, operand
from calque.transpiler.primitives.base import apply as apply_primitive
from calque.transpiler.primitives.elementwise import is_number, or_infinite, power_by_base
from calque.transpiler.primitives.special import SPECIAL


class _Math:
    """``math`` as rules use it: on Arrays as well."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *args: _call(name, *args)


m = _Math()


def _call(name: str, *args: Any) -> Any:
    function = getattr(math, name)
    return FUNCTIONS.get(function, function)(*args)


def handler_of(primitive: Primitive, function: Callable[..., Any]) -> Callable[..., Any]:
    """The handler of a function of Python's numbers; arrays of one element are numbers to it."""

    def call(*args: Any) -> Any:
        if not any(isinstance(a, Array) for a in args):
            return function(*args)
        values = [operand(a) for a in args]
        for value in values:
            if any(isinstance(d, int) and d != 1 for d in type_of(value).dims):
                raise ShapeError(
                    f"math.{function.__name__} takes a number, and is given {type_of(value)}.",
                    current().origin,
                    f"write {function_name(primitive.on_arrays)}",
                )
        values = [v.reshape(()) if type_of(v).ndim else v for v in values]
        return apply_primitive(primitive, *values)

    return call


def declare(
    name: str,
    partials: Callable[..., Any] | None,
    count: int = 1,
    domain: list[tuple[float, float]] | None = None,
    result: ArrayType = FLOAT,
    of_arrays: Any = None,
    **facts: Any,
) -> Primitive | None:
    """Declare ``math.name`` where this Python has it; its result is weak."""
    function = getattr(math, name, None)
    if function is None:
        return None
    primitive = elementwise(function, partials, name, arity=count, name=f"math.{name}", **facts)
    bounds = domain or [(-2.0, 2.0)] * count

    def samples(rng: np.random.Generator) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
        return [(tuple(float(rng.uniform(*b)) for b in bounds), {}) for _ in range(3)]

    primitive.infer = lambda *args: result
    primitive.samples = samples
    primitive.on_arrays = of_arrays or getattr(np, name)
    FUNCTIONS[function] = handler_of(primitive, function)
    return primitive


_LN2, _LN10, _DEGREE = math.log(2.0), math.log(10.0), math.pi / 180.0
_POSITIVE, _INSIDE = [(0.5, 3.0)], [(-0.9, 0.9)]
_PAIR = [(-2.0, 2.0), (0.5, 2.0)]

declare("exp", lambda x, y: y, smooth=True)
declare("exp2", lambda x, y: _LN2 * y)
declare("expm1", lambda x, y: y + 1.0)
declare("log", lambda x, y: 1.0 / x, domain=_POSITIVE)
declare("log2", lambda x, y: 1.0 / (_LN2 * x), domain=_POSITIVE)
declare("log10", lambda x, y: 1.0 / (_LN10 * x), domain=_POSITIVE)
declare("log1p", lambda x, y: 1.0 / (1.0 + x), domain=_POSITIVE)
declare("sqrt", lambda x, y: 0.5 / y, domain=_POSITIVE, keeps_sign=True, nonnegative=True)
declare("cbrt", lambda x, y: 1.0 / (3.0 * y * y), domain=_POSITIVE)
declare("sin", lambda x, y: m.cos(x), smooth=True)
declare("cos", lambda x, y: -m.sin(x), smooth=True)
declare("tan", lambda x, y: 1.0 + y * y, domain=_INSIDE)
declare("asin", lambda x, y: 1.0 / m.sqrt(1.0 - x * x), domain=_INSIDE)
declare("acos", lambda x, y: -1.0 / m.sqrt(1.0 - x * x), domain=_INSIDE)
declare("atan", lambda x, y: 1.0 / (1.0 + x * x), total=True)
declare("sinh", lambda x, y: m.cosh(x), smooth=True)
declare("cosh", lambda x, y: m.sinh(x), smooth=True)
declare("tanh", lambda x, y: 1.0 - y * y, total=True, smooth=True)
declare("asinh", lambda x, y: 1.0 / m.sqrt(x * x + 1.0))
declare("acosh", lambda x, y: 1.0 / m.sqrt(x * x - 1.0), domain=[(1.5, 3.0)])
declare("atanh", lambda x, y: 1.0 / (1.0 - x * x), domain=_INSIDE)
degrees = declare("degrees", lambda x, y: 1.0 / _DEGREE)
radians = declare("radians", lambda x, y: _DEGREE)
declare("fabs", lambda x, y: m.copysign(1.0, x), total=True)
declare(
    "erf", lambda x, y: 2.0 / math.sqrt(math.pi) * m.exp(-x * x), of_arrays=SPECIAL["erf"],
    smooth=True,
)
declare("erfc", lambda x, y: -2.0 / math.sqrt(math.pi) * m.exp(-x * x), of_arrays=SPECIAL["erfc"])
declare("atan2", lambda a, b, y: (b / (a * a + b * b), -a / (a * a + b * b)), 2, _PAIR)
hypot = declare(
    "hypot", lambda a, b, y: (a / or_infinite(y), b / or_infinite(y)), 2, _PAIR, total=True
)
declare("fmod", lambda a, b, y: (1.0, -m.trunc(a / b)), 2, _PAIR)
declare(
    "copysign", lambda a, b, y: (m.copysign(1.0, a) * m.copysign(1.0, b), None), 2, _PAIR
)


def _pow_partials(a: Any, b: Any, y: Any) -> tuple[Any, Any]:
    return power_by_base(a, b), None if is_number(b) else y * np.log(np.where(a == 0, 1.0, a))


pow_ = declare("pow", _pow_partials, 2, [(0.5, 2.0), (-2.0, 2.0)])
declare("floor", None, result=INT, of_arrays=lambda x: FUNCTIONS["cast"](np.floor(x), int))
declare("ceil", None, result=INT, of_arrays=lambda x: FUNCTIONS["cast"](np.ceil(x), int))
declare("trunc", None, result=INT, of_arrays=lambda x: FUNCTIONS["cast"](np.trunc(x), int))
for _name in ("isnan", "isinf", "isfinite"):
    declare(_name, None, result=BOOL)


def larger_integer(a: int, b: int) -> int:
    """Python's ``max`` of two integers."""
    return max(a, b)


def smaller_integer(a: int, b: int) -> int:
    """Python's ``min`` of two integers."""
    return min(a, b)


def _extremum(function: Callable[[int, int], int], name: str, of_arrays: Any) -> Primitive:
    text = f"{name}({{0}}, {{1}})"
    record = elementwise(
        function, None, text, spelling=text, reference=of_arrays, arity=2, name=name, smooth=True
    )
    record.infer, record.arithmetic = lambda *args: INT, name
    FUNCTIONS[function] = handler_of(record, function)
    record.batch = lambda args, batched, params: of_arrays(*args)
    record.samples = lambda rng: [((int(a), int(b)), {}) for a, b in rng.integers(-5, 5, (3, 2))]
    return record


max_ = _extremum(larger_integer, "max", np.maximum)
min_ = _extremum(smaller_integer, "min", np.minimum)


def _digamma(x: Any) -> Any:
    return FUNCTIONS[float](apply_primitive(SPECIAL["digamma"], x))


declare("lgamma", lambda x, y: _digamma(x), domain=_POSITIVE, of_arrays=SPECIAL["gammaln"])
declare("gamma", lambda x, y: y * _digamma(x), domain=_POSITIVE, of_arrays=SPECIAL["gamma"])
_log, _hypot = FUNCTIONS[math.log], FUNCTIONS[math.hypot]


@implements(math.log)
def math_log(x: Any, *base: Any) -> Any:
    """``math.log(x)`` and ``math.log(x, base)``."""
    return m.log(x) / m.log(*base) if base else _log(x)


@implements(math.hypot)
def math_hypot(*args: Any) -> Any:
    """``math.hypot`` of any number of coordinates."""
    if len(args) < 2:
        return m.fabs(args[0]) if args else 0.0
    return functools.reduce(_hypot, args)


@implements(math.prod)
def math_prod(values: Any, *, start: Any = 1) -> Any:
    """``math.prod``."""
    for value in values:
        start = start * value
    return start
