"""Integers in Numba's compiler: sums, quotients and casts that Numba leaves undefined."""

from __future__ import annotations

from contextlib import contextmanager

from llvmlite import ir
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.cpython import numbers as integers


@contextmanager
def wrapped_numbers():
    """Integers wrap around, and each cast has a value, in what Numba writes; its lock is held.

    Numba tells LLVM that no sum overflows, and that no number is too large for the integer it
    becomes: LLVM then drops the checks of bounds that only such a number would fail.
    """
    theirs = ir.IRBuilder.fptosi, ir.IRBuilder.fptoui
    flags, divided = integers._int_arith_flags, integers.int_divmod_signed
    signed, unsigned = theirs

    def to_signed(builder, x, kind, name=""):
        wide = ir.IntType(max(kind.width, 32))
        end = x.type(2.0 ** (wide.width - 1))
        inside = builder.and_(
            builder.fcmp_ordered(">=", x, x.type(-end.constant)),
            builder.fcmp_ordered("<", x, end),
        )
        least = wide(-(1 << (wide.width - 1)))  # what processors give for all others
        found = builder.select(inside, signed(builder, x, wide), least)
        return builder.trunc(found, kind, name) if kind.width < 32 else found

    def to_unsigned(builder, x, kind, name=""):
        wide = ir.IntType(64)
        found = to_signed(builder, x, wide)
        if kind.width < 64:
            return builder.trunc(found, kind, name)
        half, end = x.type(2.0**63), x.type(2.0**64)
        large = builder.and_(builder.fcmp_ordered(">=", x, half), builder.fcmp_ordered("<", x, end))
        return builder.select(large, unsigned(builder, x, wide), found, name)

    def divmod_signed(context, builder, kind, a, b):
        quotient, rest = divided(context, builder, kind, a, b)  # 0 where the quotient overflows
        least = builder.icmp_signed("==", a, a.type(-(1 << (kind.bitwidth - 1))))
        overflows = builder.and_(least, builder.icmp_signed("==", b, b.type(-1)))
        return builder.select(overflows, a, quotient), rest

    integers._int_arith_flags, integers.int_divmod_signed = lambda kind: [], divmod_signed
    ir.IRBuilder.fptosi, ir.IRBuilder.fptoui = to_signed, to_unsigned
    try:
        yield
    finally:
        integers._int_arith_flags, integers.int_divmod_signed = flags, divided
        ir.IRBuilder.fptosi, ir.IRBuilder.fptoui = theirs


class Wrapping(Compiler):
    """Numba's compiler, with numbers as NumPy's and Python's."""

    def compile_extra(self, func):
        """Numba's result for a function."""
        with global_compiler_lock, wrapped_numbers():
            return super().compile_extra(func)
