"""The functions on numbers that kernels call, as LLVM's instructions.

``kernel_functions.py`` has the same as Python, for arguments that are not here: Numba compiles each
such function for each kind of arguments, in a library of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core.types import Array, Complex, Float, Integer, float64, int32, int64, uint64
from numba.extending import intrinsic

from calque.runtime.kernels import integer_functions, kernel_functions, matrix_functions

Code = Callable[[Any, Any, Any, list[Any]], Any]


def _extremum(name: str) -> Code:
    def code(context: Any, builder: Any, signature: Any, args: list[Any]) -> Any:
        kind = args[0].type
        head = ir.FunctionType(kind, [kind, kind])
        known = builder.module.declare_intrinsic(f"llvm.{name}", [kind], head)
        return builder.call(known, args)

    return code


def _heaviside(context: Any, builder: Any, signature: Any, args: list[Any]) -> Any:
    x, middle = args
    zero, one = x.type(0.0), x.type(1.0)
    middle = context.cast(builder, middle, signature.args[1], signature.return_type)
    found = builder.select(builder.fcmp_ordered("==", x, zero), middle, x)
    found = builder.select(builder.fcmp_ordered(">", x, zero), one, found)
    return builder.select(builder.fcmp_ordered("<", x, zero), zero, found)


def _sign(context: Any, builder: Any, signature: Any, args: list[Any]) -> Any:
    (x,) = args
    zero = x.type(0.0)
    found = builder.select(builder.fcmp_ordered("==", x, zero), zero, x)
    found = builder.select(builder.fcmp_ordered("<", x, zero), x.type(-1.0), found)
    return builder.select(builder.fcmp_ordered(">", x, zero), x.type(1.0), found)


def _divide(context: Any, builder: Any, signature: Any, args: list[Any]) -> Any:
    gives = signature.return_type
    a, b = [context.cast(builder, v, t, gives) for v, t in zip(args, signature.args, strict=True)]
    with builder.if_then(builder.fcmp_ordered("==", b, b.type(0.0)), likely=False):
        problem = ZeroDivisionError, ("division by zero",)
        context.call_conv.return_user_exc(builder, *problem)
    return builder.fdiv(a, b)


def _checked_index(context: Any, builder: Any, signature: Any, args: list[Any]) -> Any:
    index, size = (
        context.cast(builder, v, t, int64) for v, t in zip(args, signature.args, strict=True)
    )
    from_end = builder.icmp_signed("<", index, index.type(0))
    place = builder.select(from_end, builder.add(index, size), index)
    with builder.if_then(builder.icmp_unsigned(">=", place, size), likely=False):
        problem = IndexError, ("index is out of bounds",)
        context.call_conv.return_user_exc(builder, *problem)
    return place


def _one(context: Any, builder: Any, signature: Any, args: list[Any]) -> Any:
    return context.get_constant_generic(builder, signature.return_type, 1.0)


def _of_matrices(a: Any) -> Any:
    """The type of what linear algebra gives for an array."""
    if not isinstance(a, Array):
        return None
    return a.dtype if isinstance(a.dtype, (Float, Complex)) else float64


def _same_floats(*types: Any) -> Any:
    """The result's type, of arguments that are floating-point numbers of one width."""
    return types[0] if isinstance(types[0], Float) and len(set(types)) == 1 else None


def _first_float(x: Any, middle: Any) -> Any:
    return x if isinstance(x, Float) and isinstance(middle, (Float, Integer)) else None


def _integer(name: str) -> Code:
    """Sums modulo 2**64: LLVM is not told that they fit."""

    def code(context: Any, builder: Any, signature: Any, args: list[Any]) -> Any:
        whole = [context.cast(builder, v, t, int64) for v, t in zip(args, signature.args)]
        return getattr(builder, name)(*whole)

    return code


def _whole(context: Any, builder: Any, signature: Any, args: list[Any]) -> Any:
    """The cast that ``wrapping_integers`` has in place of Numba's."""
    return context.cast(builder, args[0], signature.args[0], signature.return_type)


def _python_integer(saturates: bool) -> Code:
    """Python's ``int`` of a float, with its errors; a larger number than 64 bits is one, or cut."""

    def code(context: Any, builder: Any, signature: Any, args: list[Any]) -> Any:
        (number,) = args
        no_number = builder.fcmp_unordered("uno", number, number)
        size = builder.call(
            builder.module.declare_intrinsic("llvm.fabs", [number.type]), [number]
        )
        infinite = builder.fcmp_ordered("==", size, number.type(float("inf")))
        below = builder.fcmp_ordered("<", number, number.type(-(2.0**63)))
        above = builder.fcmp_ordered(">=", number, number.type(2.0**63))
        problems = [
            (no_number, ValueError, "cannot convert float NaN to integer"),
            (infinite, OverflowError, "cannot convert float infinity to integer"),
        ]
        if not saturates:
            text = "an integer of 64 bits cannot hold a float as large as this"
            problems.append((builder.or_(below, above), OverflowError, text))
        for wrong, kind, text in problems:
            with builder.if_then(wrong, likely=False):
                context.call_conv.return_user_exc(builder, kind, (text,))
        found = context.cast(builder, number, signature.args[0], int64)
        largest = found.type((1 << 63) - 1)
        found = builder.select(above, largest, found)
        return builder.select(below, found.type(1 - (1 << 63)), found)

    return code


def _from_float(kind: Any) -> Callable[..., Any]:
    return lambda x: kind if isinstance(x, Float) else None


def _integers(a: Any, b: Any) -> Any:
    return int64 if isinstance(a, Integer) and isinstance(b, Integer) else None


def _quotient(a: Any, b: Any) -> Any:
    numbers = isinstance(a, (Float, Integer)) and isinstance(b, (Float, Integer))
    return _same_floats(a, b) or (float64 if numbers else None)


def _direct(function: Any, gives: Callable[..., Any], code: Code) -> Any:
    """A function for kernels to call; Numba's own for arguments that ``gives`` does not know."""

    def typed(typingctx: Any, *types: Any) -> Any:
        result = gives(*types)
        if result is not None:
            return result(*types), code
        known = typingctx.resolve_value_type(function)
        signature = known.get_call_type(typingctx, types, {})

        def plain(context: Any, builder: Any, signature: Any, args: list[Any]) -> Any:
            return context.get_function(known, signature)(builder, args)

        return signature, plain

    if function.__code__.co_argcount == 1:
        return intrinsic(lambda typingctx, x: typed(typingctx, x))
    return intrinsic(lambda typingctx, a, b: typed(typingctx, a, b))


_DIRECT: list[tuple[Any, Callable[..., Any], Code]] = [
    (integer_functions.checked_index, _integers, _checked_index),
    (integer_functions.wrapped_sum, _integers, _integer("add")),
    (integer_functions.wrapped_difference, _integers, _integer("sub")),
    (integer_functions.wrapped_product, _integers, _integer("mul")),
    (integer_functions.int64_of, _from_float(int64), _whole),
    (integer_functions.int32_of, _from_float(int32), _whole),
    (integer_functions.uint64_of, _from_float(uint64), _whole),
    (integer_functions.python_int, _from_float(int64), _python_integer(False)),
    (integer_functions.python_size, _from_float(int64), _python_integer(True)),
    (kernel_functions.maximum, _same_floats, _extremum("maximum")),
    (kernel_functions.minimum, _same_floats, _extremum("minimum")),
    (kernel_functions.heaviside, _first_float, _heaviside),
    (kernel_functions.sign, _same_floats, _sign),
    (kernel_functions.divide, _quotient, _divide),
    (matrix_functions._one, _of_matrices, _one),
]
DIRECT: dict[Any, Any] = {function: _direct(function, *given) for function, *given in _DIRECT}
