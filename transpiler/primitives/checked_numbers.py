"""Numbers as they are, which kernels refuse where NumPy or Python does.

Integers that a narrower dtype cannot hold, exponents of integers and shift counts below zero, zero
to a negative power. NumPy source needs none of these: what it calls looks for itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.transpiler.ir.builder import type_of
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.primitives.base import Primitive, register
from calque.transpiler.primitives.elementwise import cast_text
from calque.transpiler.primitives.record import rule_of


def _bounded(x: Any, low: int, high: int, dtype: np.dtype) -> Any:
    if np.any(x < low) or np.any(x > high):
        raise OverflowError(f"Python integer {x} out of bounds for {dtype}")
    return np.asarray(x, dtype)[()]


# the cast of a Python integer where a kernel would cut it to its bits; NumPy looks itself
bounded = register(
    Primitive(
        "bounded",
        _bounded,
        lambda x, low, high, dtype: ArrayType(dtype),
        lambda args, params: cast_text(args, params["dtype"]).format(
            "{0}" if type_of(args[0]).weak else "int({0})"
        ),
        kind="elementwise",
        nondifferentiable=True,
        cheap=True,
        scalar="bounded({0}, {1}, {2})",
        suffix="cast",
        samples=lambda rng: [
            ((k, -128, 127), {"dtype": np.dtype("i1")}) for k in (5, -128, np.int64(127))
        ],
    )
)


def _not_negative(number: Any, error: str) -> Any:
    if np.any(np.less(number, 0)):
        raise ValueError(error)
    return number


def _checked_integer(name: str, error: str) -> Primitive:
    """An integer as it is, which a kernel refuses below zero; NumPy, or Python, does so itself."""
    return register(
        Primitive(
            name.replace("_", " "),
            lambda n: _not_negative(n, error),
            lambda n: type_of(n),
            "{0}",
            kind="elementwise",
            nondifferentiable=True,
            cheap=True,
            arithmetic="same",
            scalar=f"{name}({{0}})",
            samples=lambda rng: [((k,), {}) for k in (5, 0, np.int8(3))],
        )
    )


def _not_zero(a: Any, b: Any) -> Any:
    if np.any((np.asarray(a) == 0) & (np.asarray(b) < 0)):
        raise ZeroDivisionError("0.0 cannot be raised to a negative power")
    return a


# the base of a power of Python's floats as it is, which a kernel refuses where Python does
power_base = register(
    Primitive(
        "power base",
        _not_zero,
        lambda a, b: type_of(a),
        "{0}",
        kind="elementwise",
        nondifferentiable=True,
        cheap=True,
        scalar="power_base({0}, {1})",
        samples=lambda rng: [((2.0, -1.0), {}), ((0.0, 2), {})],
    )
)


@rule_of("batch")(power_base)
def _bases(args: Sequence[Any], batched: Sequence[bool], params: dict[str, Any]) -> Any:
    base, exponent = args
    return base if batched[0] else np.broadcast_to(base, exponent.shape)


NEGATIVE_EXPONENT = "Integers to negative integer powers are not allowed."
NEGATIVE_COUNT = "negative shift count"
whole_exponent = _checked_integer("whole_exponent", NEGATIVE_EXPONENT)
shift_count = _checked_integer("shift_count", NEGATIVE_COUNT)
