"""What the vector functions are built of: a fused multiply-add, and numbers taken apart by bits.

``fastmath=False`` is said, not left out: a function without it takes the flags of the kernel that
calls it first, and ``reassoc`` turns ``(x + ROUND) - ROUND`` into ``x``. ``forceinline`` is done by
LLVM, where every instruction keeps its own flags; ``inline="always"`` would mix them.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numba.extending import intrinsic

vector = njit(forceinline=True, fastmath=False, error_model="numpy", boundscheck=False)

# 1.5 * 2**52: adding and subtracting it rounds to a whole number, which stands in the low bits
ROUND = 6755399441055744.0
INF = np.inf
NAN = np.nan


@intrinsic
def fma(typingctx, a, b, c):
    """a * b + c, rounded once: one instruction."""
    return a(a, b, c), lambda context, builder, signature, args: builder.fma(*args)


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
