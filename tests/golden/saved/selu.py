"""Kernels of selu.

From examples/selu.py, line 8. Written by calque 0.1.0; regenerate with
    calque show examples/selu.py:selu --transform "jit(f)" --args "f8[n,m]"
Types: x float64[n, m].
Defaults: alpha=1.67, scale=1.05.
Kernels need Numba alone; they were tried with 0.61 to 0.68.
"""
import os

import numpy as np
from numba import njit, prange

# elements of an array from which a kernel runs on threads
LARGE = 1 << 17
PROCESS = os.getpid()  # threads do not outlive a fork: in the child, OpenMP ends the program


def kernel(function=None, parallel="auto", boundscheck=False, reassociate=True):
    """Numba's decorator: NumPy's division by zero, no lock of Python's, sums in any order.

    Loops over ``prange`` run on threads if ``parallel``, and if "auto" where an array is large.
    """
    if function is None:
        given = {"parallel": parallel, "boundscheck": boundscheck, "reassociate": reassociate}
        return lambda function: kernel(function, **given)
    options = {"error_model": "numpy", "nogil": True, "boundscheck": boundscheck}
    options["fastmath"] = {"contract", "reassoc"} if reassociate else False
    serial = njit(**options)(function)
    called = [function.__globals__.get(name) for name in function.__code__.co_names]
    texts = [function, *(c.py_func for c in called if hasattr(c, "py_func"))]
    looped = any("prange" in text.__code__.co_names for text in texts)
    if boundscheck or parallel not in ("auto", True) or not looped:
        return serial
    threads = njit(parallel={"prange": True}, **options)(function)
    least = 0 if parallel is True else LARGE

    def launch(*args):
        large = any(isinstance(a, np.ndarray) and a.size >= least for a in args)
        return (threads if large and os.getpid() == PROCESS else serial)(*args)

    return launch


@kernel
def selu_kernel(x_flat, out):
    for i in prange(x_flat.size):
        # return scale * np.where(x > 0, x, alpha * np.exp(x) - alpha)
        x_flat_i = x_flat[i]
        out[i] = 1.05 * (x_flat_i if x_flat_i > 0.0 else 1.67 * exp(x_flat_i) - 1.67)


def selu_jit(x):
    x_flat = x.reshape(-1)
    out = np.empty(x_flat.size)
    selu_kernel(x_flat, out)
    return out.reshape(x.shape[0], x.shape[1])


# Elementary functions in plain Numba: polynomials that LLVM vectorizes, or the C library's.
#
# At most 4 ulp from the true value. Sines and powers need products to twice the digits, and bits of
# 2 / pi, so that each is a call of the C library.

# inlined by LLVM, where each instruction keeps its own flags: kernels may sum in any order, these
# may not
vector = njit(forceinline=True, fastmath=False, error_model="numpy", boundscheck=False)
fused = njit(forceinline=True, fastmath={"contract"}, error_model="numpy", boundscheck=False)


@fused
def fma(a, b, c):
    """a * b + c, rounded once where the processor can."""
    return a * b + c


# Building blocks of the vector functions: sums without rounding errors, parts of numbers.

# 1.5 * 2**52: adding and subtracting it rounds to a whole number, which stands in the low bits
ROUND = 6755399441055744.0


@vector
def two_to(n):
    """2.0**n for a whole n from -1022 to 1023: n becomes the bits of the exponent."""
    return np.int64(np.float64(n + (ROUND + 1023.0)).view(np.int64) << 52).view(np.float64)


# Exponentials and hyperbolic functions in float64.
#
# Method: x = n * log(2) + r with |r| <= log(2) / 2 (Cody and Waite), then expm1(r) as a polynomial
# (minimax, benchmarks/minimax.py: "expm1"), from which each function is put together without the
# cancellation that it would have written in terms of exp.

LOG2_E = 1.4426950408889634

# in two parts; the first has zeros at its end: its whole multiples are exact, fused or not
LN2_HIGH = 6.93147180369123816490e-01
LN2_LOW = 1.90821492927058770002e-10


@vector
def expm1_near(r):
    """expm1(r) for |r| <= log(2) / 2: r + r**2 / 2 + r**3 * p(r)."""
    square = r * r
    even = 2.511262728820157e-8
    even = fma(even, square, 2.7557234434390444e-6)
    even = fma(even, square, 0.00019841269894939439)
    even = fma(even, square, 0.0083333333333187652)
    even = fma(even, square, 0.16666666666666679)
    odd = 2.7622623225516159e-7
    odd = fma(odd, square, 2.4801515461690081e-5)
    odd = fma(odd, square, 0.0013888888921118359)
    odd = fma(odd, square, 0.041666666666618739)
    p = fma(odd, r, even)
    return fma(r * r, fma(p, r, 0.5), r)


@vector
def exp_parts(x, low):
    """n and q with exp(x + low) = 2**n * (1 + q), low a correction, |x| < 2000."""
    n = fma(x, LOG2_E, ROUND) - ROUND
    return n, expm1_near(fma(n, -LN2_HIGH, x) + fma(n, -LN2_LOW, low))


@vector
def times_two_to(m, n):
    """m * 2**n in two steps, so that n may pass the exponents and a denormal is rounded once."""
    half = fma(n, 0.5, ROUND) - ROUND
    return m * two_to(half) * two_to(n - half)


@vector
def exp_sum(x, low):
    """exp(x + low), low a correction of x."""
    x = 800.0 if x > 800.0 else x
    x = -800.0 if x < -800.0 else x
    n, q = exp_parts(x, low)
    return times_two_to(1.0 + q, n)


@vector
def exp(x):
    """e**x."""
    return exp_sum(x, 0.0)
