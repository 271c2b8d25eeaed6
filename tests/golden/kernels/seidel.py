"""Kernels of the gradient of seidel with respect to u.

From examples/stencils.py, line 17. Written by calque 0.1.0; regenerate with
    calque show examples/stencils.py:seidel --transform "jit(grad(f))" --args "f8[n,m]"
Types: u float64[n, m].
Defaults: steps=4.
"""
import numpy as np
from calque.runtime.kernels import kernel
from numba import prange


@kernel
def seidel_grad_kernel(u):
    # forward
    for _ in range(4):
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])

    # reverse
    # return np.sum(u**3)
    u_flat = u.reshape(-1)
    u_bar = np.empty(u_flat.size)
    for i in prange(u_flat.size):
        # return np.sum(u**3)
        u_bar[i] = 3.0 * (u_flat[i] * u_flat[i])
    # return np.sum(u**3)
    u_bar = u_bar.reshape(u.shape[0], u.shape[1])
    for _ in range(3, -1, -1):
        for i in range(u.shape[0] - 2, 0, -1):
            for j in range(u.shape[1] - 2, 0, -1):
                # u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j +
                #     1])
                u_bar_ij = u_bar[i, j]
                u_bar[i, j] = 0.0
                u_sum_bar = 0.25 * u_bar_ij
                u_bar[i, j + 1] += u_sum_bar
                u_bar[i, j - 1] += u_sum_bar
                u_bar[i + 1, j] += u_sum_bar
                u_bar[i - 1, j] += u_sum_bar
    return u_bar


def seidel_grad_jit(u):
    # forward and reverse
    u = np.copy(u)  # the argument is kept as it is
    u_bar = seidel_grad_kernel(u)
    return u_bar
