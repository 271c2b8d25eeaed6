"""Integers in Numba's compiler: sums wrap around as NumPy's, and ``int`` of a float is Python's."""

from __future__ import annotations

import operator
from contextlib import contextmanager

from llvmlite import ir
from numba.core import ir as numba_ir
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.ir_utils import build_definitions, get_definition, guard
from numba.core.types import Float, int64
from numba.core.untyped_passes import IRProcessing
from numba.cpython import numbers as integers
from numba.extending import intrinsic


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


def _python_integer(saturates):
    @intrinsic
    def whole(typingctx, x):
        if not isinstance(x, Float):
            known = typingctx.resolve_value_type(int)
            signature = known.get_call_type(typingctx, (x,), {})

            def plain(context, builder, signature, args):
                return context.get_function(known, signature)(builder, args)

            return signature, plain

        def code(context, builder, signature, args):
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
            found = context.cast(builder, number, x, int64)
            largest = found.type((1 << 63) - 1)
            found = builder.select(above, largest, found)
            return builder.select(below, found.type(1 - (1 << 63)), found)

        return int64(x), code

    return whole


_WHOLE, _SATURATING = _python_integer(False), _python_integer(True)
_COMPARISONS = {operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne}


@register_pass(mutates_CFG=False, analysis_only=False)
class _PythonIntegers(FunctionPass):
    """Has ``int`` raise what Python raises for NaN and infinity.

    A larger number than 64 bits can hold is an error too, unless it is only compared with sizes,
    or an index: then it is as good as the largest one.
    """

    _name = "calque_python_integers"

    def __init__(self):
        FunctionPass.__init__(self)

    def run_pass(self, state):
        """Call another function in its place."""
        function = state.func_ir
        statements = [s for block in function.blocks.values() for s in block.body]
        for s in statements:
            call = s.value if isinstance(s, numba_ir.Assign) else None
            if not isinstance(call, numba_ir.Expr) or call.op != "call" or len(call.args) != 1:
                continue
            found = function._definitions[call.func.name]
            if len(found) == 1 and isinstance(found[0], numba_ir.Global) and found[0].value is int:
                kind = _SATURATING if self._as_size(function, statements, s.target) else _WHOLE
                known = [t for t in statements if getattr(t, "target", None) == call.func]
                known[0].value = numba_ir.Global("int", kind, found[0].loc)
        function._definitions = build_definitions(function.blocks)
        return True

    def _as_size(self, function, statements, number):
        """True if a number is only compared with sizes, or an index."""
        if len(function._definitions[number.name]) != 1:
            return False
        for s in statements:
            if isinstance(s, numba_ir.Del) or number not in s.list_vars():
                continue
            value = getattr(s, "value", None)
            if not isinstance(s, numba_ir.Assign):
                return False
            if s.target == number:
                continue
            if isinstance(value, numba_ir.Expr) and value.op == "binop":
                other = value.rhs if value.lhs == number else value.lhs
                if value.fn in _COMPARISONS and self._is_size(function, other):
                    continue
                return False
            if isinstance(value, numba_ir.Expr) and value.op == "getitem":
                continue
            named = isinstance(value, numba_ir.Var)
            if isinstance(value, numba_ir.Expr) and value.op == "call":
                called = guard(get_definition, function, value.func)
                is_named = isinstance(called, (numba_ir.Global, numba_ir.FreeVar))
                name = called.name if is_named else None
                if name == "checked_index" and value.args[1] != number:
                    continue
                named = name == "abs"
            if not named or not self._as_size(function, statements, s.target):
                return False
        return True

    def _is_size(self, function, value):
        made = guard(get_definition, function, value)
        if isinstance(made, numba_ir.Const):
            return type(made.value) is int
        if not isinstance(made, numba_ir.Expr) or made.op not in ("getitem", "static_getitem"):
            return False
        sizes = guard(get_definition, function, made.value)
        is_attribute = isinstance(sizes, numba_ir.Expr) and sizes.op == "getattr"
        return is_attribute and sizes.attr == "shape"


class Wrapping(CompilerBase):
    """Numba's compiler, with numbers as NumPy's and Python's."""

    def define_pipelines(self):
        """Numba's own passes and one more."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(_PythonIntegers, IRProcessing)
        passes.finalize()
        return [passes]

    def compile_extra(self, func):
        """Numba's result for a function."""
        with global_compiler_lock, wrapped_numbers():
            return super().compile_extra(func)
