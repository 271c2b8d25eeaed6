"""The functions on numbers that kernels call, as LLVM's instructions.

``kernel_functions.py`` has the same as Python, for arguments that are not here: Numba compiles each
such function for each kind of arguments, in a library of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core.types import Array, Complex, Float, Integer, float64, int64
from numba.extending import intrinsic

from calque.runtime.kernels import kernel_functions, matrix_functions

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


def _place(index: Any, size: Any) -> Any:
    return int64 if isinstance(index, Integer) and isinstance(size, Integer) else None


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


DIRECT: dict[Any, Any] = {
    kernel_functions.checked_index: _direct(kernel_functions.checked_index, _place, _checked_index),
    kernel_functions.maximum: _direct(kernel_functions.maximum, _same_floats, _extremum("maximum")),
    kernel_functions.minimum: _direct(kernel_functions.minimum, _same_floats, _extremum("minimum")),
    kernel_functions.heaviside: _direct(kernel_functions.heaviside, _first_float, _heaviside),
    kernel_functions.sign: _direct(kernel_functions.sign, _same_floats, _sign),
    kernel_functions.divide: _direct(kernel_functions.divide, _quotient, _divide),
    matrix_functions._one: _direct(matrix_functions._one, _of_matrices, _one),
}
