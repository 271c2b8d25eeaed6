"""Building blocks of the vector functions: sums without rounding errors, parts of numbers."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit
from numba.extending import intrinsic
from numba.types import float32

# ``fastmath=False`` is said, not left out: a function without it takes the flags of the kernel that
# calls it first, and ``reassoc`` turns ``(x + ROUND) - ROUND`` into ``x``. ``forceinline`` is done
# by LLVM, where every instruction keeps its own flags; ``inline="always"`` would mix them.
vector = njit(forceinline=True, fastmath=False, error_model="numpy", boundscheck=False)

# 1.5 * 2**52: adding and subtracting it rounds to a whole number, which stands in the low bits
ROUND = 6755399441055744.0
INF = np.inf
NAN = np.nan


@intrinsic
def fma(typingctx, a, b, c):
    """a * b + c, rounded once: one instruction."""
    return a(a, b, c), lambda context, builder, signature, args: builder.fma(*args)


@intrinsic
def fmaf(typingctx, a, b, c):
    """a * b + c in float32, rounded once."""
    kinds = float32, float32, float32
    return float32(*kinds), lambda context, builder, signature, args: builder.fma(*args)


def masked_variants(module, scalar):
    """Functions for 2 to 16 lanes, which ask whether any is wanted, and then compute all."""
    names = []
    for n in (2, 4, 8, 16):
        lanes = ir.VectorType(scalar.ftype.return_type, n)
        mask = ir.VectorType(ir.IntType(1), n)
        variant = ir.Function(module, ir.FunctionType(lanes, [lanes, mask]), f"{scalar.name}.{n}")
        variant.linkage = "weak_odr"  # kept although no loop calls it yet
        body = ir.IRBuilder(variant.append_basic_block())
        y, mask = variant.args
        wanted = body.bitcast(mask, ir.IntType(n))
        with body.if_then(body.icmp_unsigned("==", wanted, ir.IntType(n)(0))):
            body.ret(y)
        for lane in map(ir.IntType(32), range(n)):
            y = body.insert_element(y, body.call(scalar, [body.extract_element(y, lane)]), lane)
        body.ret(y)
        names.append(f"_ZGV_LLVM_M{n}v_{scalar.name}({variant.name})")
    # llvmlite's own ``add`` takes only attributes without a value
    set.add(scalar.attributes, f'"vector-function-abi-variant"="{",".join(names)}"')


def rarely(function):
    """A function of one float64 for use as ``if c: y = f(x)`` where c is seldom true.

    In a vectorized loop LLVM makes of that one call for all lanes, of a variant that returns at
    once where c is true for none ("vector-function-abi-variant", LLVM Language Reference). So f is
    called for some x where c is false: it may return anything there.
    """
    name = f"vecmath.{function.__name__}"

    def called(context, builder, signature, args):
        if name not in builder.module.globals:
            kind = ir.FunctionType(args[0].type, [args[0].type])
            scalar = ir.Function(builder.module, kind, name)
            scalar.linkage = "linkonce_odr"
            for attribute in ("noinline", "nounwind", "readnone"):
                scalar.attributes.add(attribute)
            function.compile(signature.args)
            compiled = function.overloads[signature.args]
            context.active_code_library.add_linking_library(compiled.library)
            body = ir.IRBuilder(scalar.append_basic_block())
            _, y = context.call_internal_no_propagate(body, compiled.fndesc, signature, scalar.args)
            body.ret(y)
            masked_variants(builder.module, scalar)
        return builder.call(builder.module.globals[name], args)

    found = intrinsic(lambda typingctx, x: (x(x), called))
    found.seldom = function
    return found


@vector
def two_to(n):
    """2.0**n for a whole n from -1022 to 1023: n becomes the bits of the exponent."""
    return np.int64(np.float64(n + (ROUND + 1023.0)).view(np.int64) << 52).view(np.float64)


@vector
def with_sign(a, x):
    """a >= 0 with the sign of x, that of a zero included."""
    sign = np.float64(x).view(np.int64) & -0x8000000000000000
    return np.int64(np.float64(a).view(np.int64) | sign).view(np.float64)


@vector
def split_normal(x):
    """k and m with x = 2**k * m, m from sqrt(1/2) to sqrt(2), for a positive x, no denormal."""
    # the bits of 1.0, less those of sqrt(1/2): the exponent now changes at sqrt(1/2)
    bits = np.float64(x).view(np.int64) + (0x3FF0000000000000 - 0x3FE6A09E667F3BCD)
    # the exponent as the low bits of 2**52: no conversion of integers, which AVX2 has not
    k = np.int64(((bits >> 52) & 0xFFF) + 0x4330000000000000).view(np.float64) - 4503599627371519.0
    return k, np.int64((bits & 0xFFFFFFFFFFFFF) + 0x3FE6A09E667F3BCD).view(np.float64)


@vector
def split(x):
    """``split_normal`` for denormals too."""
    tiny = x < 2.2250738585072014e-308
    k, m = split_normal(x * 18014398509481984.0 if tiny else x)
    return k - (54.0 if tiny else 0.0), m


@vector
def whole_sum(a, b):
    """a + b, and its rounding error exactly (Knuth's two-sum)."""
    total = a + b
    rest = total - a
    return total, (a - (total - rest)) + (b - rest)


@vector
def ordered_sum(a, b):
    """``whole_sum`` for abs(a) >= abs(b), or a = 0 (Dekker's)."""
    total = a + b
    return total, b - (total - a)


# as ROUND, for float32
SHIFT = 12582912.0


@vector
def two_to_single(n):
    """2.0**n in float32 for a whole n from -126 to 127."""
    bits = np.float32(n + np.float32(SHIFT + 127.0)).view(np.int32)
    return np.int32(bits << 23).view(np.float32)


@vector
def with_sign_single(a, x):
    """a >= 0 with the sign of x, in float32."""
    sign = np.float32(x).view(np.int32) & -0x80000000
    return np.int32(np.float32(a).view(np.int32) | sign).view(np.float32)
