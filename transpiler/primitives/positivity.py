"""Values that are never zero, or never negative, told from the operations that make them.

``1.0 + x * x`` and ``np.sqrt(np.var(x) + 1e-5)`` are positive whatever ``x`` is, so that a quotient
by them has finite slopes. Exponentials are left out: they overflow for numbers of ordinary size.
"""

from __future__ import annotations

from typing import Any

from calque.transpiler.ir.builder import current
from calque.transpiler.ir.core import Apply, Var

_DEPTH = 12  # how far back an operand is looked for


def is_positive(value: Any, depth: int = _DEPTH) -> bool:
    """True if a value is greater than zero wherever it is a number."""
    made = _made(value, depth)
    if made is None:
        return _is_real(value) and value > 0
    args, below = made.args, depth - 1
    match made.primitive.arithmetic:
        case "add":
            first, second = args
            return (is_positive(first, below) and is_nonnegative(second, below)) or (
                is_nonnegative(first, below) and is_positive(second, below)
            )
        case "multiply" | "divide" | "min":
            return all(is_positive(a, below) for a in args)
        case "max":
            return any(is_positive(a, below) for a in args)
        case "clip":
            return all(is_positive(a, below) for a in args[1:])
        case "power":
            return is_positive(args[0], below) and _is_real(args[1])
    return _keeps_signs(made) and is_positive(args[0], below)


def is_nonnegative(value: Any, depth: int = _DEPTH) -> bool:
    """True if a value is at least zero wherever it is a number."""
    made = _made(value, depth)
    if made is None:
        unsigned = isinstance(value, Var) and value.type.dtype.kind in "bu"
        return unsigned or (_is_real(value) and value >= 0)
    args, below = made.args, depth - 1
    match made.primitive.arithmetic:
        case "multiply" if args[0] is args[1]:
            return True
        case "power" if _is_real(args[1]) and args[1] % 2 == 0:
            return True
        case "add" | "multiply" | "divide" | "min" | "power":
            return all(is_nonnegative(a, below) for a in args)
        case "max":
            return any(is_nonnegative(a, below) for a in args)
        case "clip":
            return all(is_nonnegative(a, below) for a in args[1:])
    return made.primitive.nonnegative or (
        _keeps_signs(made) and is_nonnegative(args[0], below)
    )


def _made(value: Any, depth: int) -> Apply | None:
    """The operation of real numbers that a value is the result of."""
    if not isinstance(value, Var) or not depth or value.type.dtype.kind == "c":
        return None
    made = current().definitions.get(value)
    real = isinstance(made, Apply) and all(_is_real(a) for a in made.args if not isinstance(a, Var))
    return made if real else None


def _keeps_signs(made: Apply) -> bool:
    """True if a result has the sign that all elements of the first operand have."""
    primitive = made.primitive
    return primitive.arithmetic == "same" or primitive.moves or primitive.keeps_sign


def _is_real(value: Any) -> bool:
    return not isinstance(value, (Var, str, complex)) and value is not None and value == value
