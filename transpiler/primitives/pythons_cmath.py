"""Python's ``cmath`` on run-time numbers: NumPy's functions of a complex number of Python's."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from calque.transpiler.errors import ShapeError
from calque.transpiler.ir.builder import FUNCTIONS, current, type_of
from calque.transpiler.ir.types import COMPLEX
from calque.transpiler.primitives.base import apply, elementwise, implements, operand
from calque.transpiler.primitives.pythons_math import is_close
from calque.transpiler.primitives.scalars import m
from calque.transpiler.primitives.transcendental import of_hyperbolic, of_sine


def _number(value: Any, name: str) -> Any:
    """A Python complex number of an argument."""
    value = operand(value)
    if any(isinstance(d, int) and d != 1 for d in type_of(value).dims):
        raise ShapeError(
            f"cmath.{name} takes a number, and is given {type_of(value)}.",
            current().origin,
            f"write np.{name}",
        )
    return FUNCTIONS[complex](value)


# the slopes, of z and the value
_SLOPES: dict[str, Callable[[Any, Any], Any]] = {
    "exp": lambda z, y: y,
    "log": lambda z, y: 1.0 / z,
    "log10": lambda z, y: 1.0 / (math.log(10.0) * z),
    "sqrt": lambda z, y: 0.5 / y,
    "sin": lambda z, y: np.cos(z),
    "cos": lambda z, y: -np.sin(z),
    "tan": lambda z, y: 1.0 + y * y,
    "asin": lambda z, y: 1.0 / of_sine(z),
    "acos": lambda z, y: -1.0 / of_sine(z),
    "atan": lambda z, y: 1.0 / (1.0 + z * z),
    "sinh": lambda z, y: np.cosh(z),
    "cosh": lambda z, y: np.sinh(z),
    "tanh": lambda z, y: 1.0 - y * y,
    "asinh": lambda z, y: 1.0 / np.sqrt(z * z + 1.0),
    "acosh": lambda z, y: 1.0 / of_hyperbolic(z),
    "atanh": lambda z, y: 1.0 / (1.0 - z * z),
}


def _samples(rng: np.random.Generator) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    return [((complex(*rng.uniform(0.3, 0.7, 2)),), {}) for _ in range(3)]


def _declare(name: str, slope: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """The handler of a function of one complex number, which gives a number of Python's."""
    function = getattr(cmath, name)
    of_numpy = name.replace("a", "arc", 1) if name[0] == "a" else name
    made = elementwise(
        function,
        slope,
        spelling=f"cmath.{name}({{0}})",
        arity=1,
        name=f"cmath.{name}",
        numba=f"complex_{of_numpy}({{0}})",
    )
    made.infer = lambda z: COMPLEX
    made.on_arrays = getattr(np, of_numpy)
    made.samples = _samples

    def call(z: Any) -> Any:
        return apply(made, _number(z, name))

    return implements(function)(call)


_HANDLERS = {name: _declare(name, slope) for name, slope in _SLOPES.items()}
_log = _HANDLERS["log"]


@implements(cmath.log)
def cmath_log(z: Any, *base: Any) -> Any:
    """``cmath.log(z)`` and ``cmath.log(z, base)``."""
    return _log(z) / _log(*base) if base else _log(z)


@implements(cmath.phase)
def cmath_phase(z: Any) -> Any:
    """``cmath.phase``."""
    z = _number(z, "phase")
    return m.atan2(z.imag, z.real)


@implements(cmath.polar)
def cmath_polar(z: Any) -> tuple[Any, Any]:
    """``cmath.polar``: the modulus and the angle."""
    z = _number(z, "polar")
    return FUNCTIONS[abs](z), m.atan2(z.imag, z.real)


@implements(cmath.rect)
def cmath_rect(r: Any, phi: Any) -> Any:
    """``cmath.rect``."""
    return FUNCTIONS[complex](r * m.cos(phi), r * m.sin(phi))


@implements(cmath.isclose)
def cmath_isclose(a: Any, b: Any, *, rel_tol: Any = 1e-9, abs_tol: Any = 0.0) -> Any:
    """``cmath.isclose``."""
    a, b = (_number(v, "isclose") for v in (a, b))
    return is_close(abs(a), abs(b), abs(a - b), a == b, rel_tol, abs_tol)


def _test(name: str, either: bool) -> Callable[..., Any]:
    """A test of both parts of a number: that one of them passes, or both."""
    function = getattr(math, name)

    def call(z: Any) -> Any:
        z = _number(z, name)
        real, imag = (FUNCTIONS[function](part) for part in (z.real, z.imag))
        return FUNCTIONS[bool](real | imag if either else real & imag)

    return call


for _name in ("isnan", "isinf", "isfinite"):
    implements(getattr(cmath, _name))(_test(_name, _name != "isfinite"))
