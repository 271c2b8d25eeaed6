"""Kernels of the gradient of jacobi with respect to a.

From examples/stencils.py, line 8. Written by calque 0.1.0; regenerate with
    calque show examples/stencils.py:jacobi --transform "jit(grad(f))" --args "f8[n], f8[n]"
Types: a float64[n], b float64[n].
Defaults: steps=20.
"""
import numpy as np
from calque.runtime.kernels import kernel, vrange
from numba import prange


@kernel
def jacobi_grad_kernel(a, b, a_bar):
    # forward
    for _ in range(20):
        for i in vrange(1, a.shape[0] - 1):
            b[i] = (a[i - 1] + a[i] + a[i + 1]) / 3.0
        for i in vrange(1, a.shape[0] - 1):
            a[i] = (b[i - 1] + b[i] + b[i + 1]) / 3.0

    # reverse
    for i in prange(a.shape[0]):
        # return np.sum(a * a)
        a_bar[i] = 2.0 * a[i]
    # for _ in range(steps):
    b_bar = np.zeros_like(b)
    for _ in range(19, -1, -1):
        for i in vrange(2, a.shape[0] - 2):
            # a[i] = (b[i - 1] + b[i] + b[i + 1]) / 3.0
            b_bar[i] += (a_bar[i - 1] + a_bar[i] + a_bar[i + 1]) * 0.3333333333333333
        # a[i] = (b[i - 1] + b[i] + b[i + 1]) / 3.0
        a_bar_second = a_bar[1]
        b_bar[0] += 0.3333333333333333 * a_bar_second
        b_bar[1] += (a_bar_second + a_bar[2]) * 0.3333333333333333
        a_bar_second_last = a_bar[a.shape[0] - 2]
        b_bar[a.shape[0] - 2] += (a_bar[a.shape[0] - 3] + a_bar_second_last) * 0.3333333333333333
        b_bar[a.shape[0] - 1] += 0.3333333333333333 * a_bar_second_last
        for i in vrange(1, a.shape[0] - 1):
            # a[i] = (b[i - 1] + b[i] + b[i + 1]) / 3.0
            a_bar[i] = 0.0
        for i in vrange(2, a.shape[0] - 2):
            # b[i] = (a[i - 1] + a[i] + a[i + 1]) / 3.0
            a_bar[i] += (b_bar[i - 1] + b_bar[i] + b_bar[i + 1]) * 0.3333333333333333
        # b[i] = (a[i - 1] + a[i] + a[i + 1]) / 3.0
        b_bar_second = b_bar[1]
        a_bar[0] += 0.3333333333333333 * b_bar_second
        a_bar[1] += (b_bar_second + b_bar[2]) * 0.3333333333333333
        b_bar_second_last = b_bar[a.shape[0] - 2]
        a_bar[a.shape[0] - 2] += (b_bar[a.shape[0] - 3] + b_bar_second_last) * 0.3333333333333333
        a_bar[a.shape[0] - 1] += 0.3333333333333333 * b_bar_second_last
        for i in vrange(1, a.shape[0] - 1):
            # b[i] = (a[i - 1] + a[i] + a[i + 1]) / 3.0
            b_bar[i] = 0.0


def jacobi_grad_jit(a, b):
    if a.shape[0] != b.shape[0]:
        raise ValueError('jacobi_grad_jit needs a.shape[0] == b.shape[0]')
    if a.shape[0] < 4:
        raise ValueError('jacobi_grad_jit needs a.shape[0] >= 4')

    # forward and reverse
    a_bar = np.empty(a.shape[0])
    b = b.copy()  # the argument is kept as it is
    a = a.copy()  # the argument is kept as it is
    jacobi_grad_kernel(a, b, a_bar)
    return a_bar
