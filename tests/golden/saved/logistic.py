"""Kernels of the gradient of loss with respect to w, b.

From examples/logistic_regression.py, line 17. Written by calque 0.1.0; regenerate with
    calque show examples/logistic_regression.py:loss --transform "jit(grad(f, argnums=(0, 1)))" --args "f8[3], float"
Types: w float64[3], b float, inputs float64[n, 3], targets bool[n].
Kernels need Numba alone; they were tried with 0.61 to 0.68.
"""
import numpy as np
from numba import njit

vrange = range  # of a loop whose iterations may run side by side


def kernel(function=None, parallel=False, boundscheck=False, reassociate=True):
    """Numba's decorator: NumPy's division by zero, no lock of Python's, sums in any order."""
    options = {"error_model": "numpy", "nogil": True, "boundscheck": boundscheck}
    compiled = njit(fastmath={"contract", "reassoc"} if reassociate else False, **options)
    return compiled(function) if function else compiled


@kernel
def loss_grad_kernel(b, inputs, targets, inputs_dot_w, z_bar):
    # reverse
    b_bar = 0.0
    for i in vrange(inputs.shape[0]):
        # p = sigmoid(inputs @ w + b)
        z = inputs_dot_w[i] + b
        exp_minus_z = exp(-z)
        p_denominator = 1.0 + exp_minus_z
        p = 1.0 / p_denominator
        # likelihood = p * targets + (1.0 - p) * (1.0 - targets)
        targets_i = targets[i]
        one_minus_targets = 1.0 - targets_i
        likelihood = p * targets_i + (1.0 - p) * one_minus_targets
        # return -np.sum(np.log(likelihood))
        likelihood_bar = -1.0 / likelihood
        # likelihood = p * targets + (1.0 - p) * (1.0 - targets)
        p_bar = likelihood_bar * targets_i - likelihood_bar * one_minus_targets
        # p = sigmoid(inputs @ w + b)
        z_bar_i = p_bar * (p / p_denominator) * exp_minus_z
        z_bar[i] = z_bar_i
        b_bar += z_bar_i
    return b_bar


def loss_grad_jit(w, b, *, inputs, targets):
    if w.shape[0] != 3:
        raise ValueError('loss_grad_jit needs w.shape[0] == 3')
    if inputs.shape[1] != 3:
        raise ValueError('loss_grad_jit needs inputs.shape[1] == 3')
    if inputs.shape[0] != targets.shape[0]:
        raise ValueError('loss_grad_jit needs inputs.shape[0] == targets.shape[0]')

    # forward
    inputs_dot_w = inputs @ w

    # reverse
    z_bar = np.empty(inputs.shape[0])
    b_bar = np.float64(loss_grad_kernel(b, inputs, targets, inputs_dot_w, z_bar))
    w_bar = inputs.T @ z_bar
    return w_bar, b_bar


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
