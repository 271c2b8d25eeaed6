"""Kernels of heat.

From examples/stencils.py, line 25. Written by calque 0.1.0; regenerate with
    calque show examples/stencils.py:heat --transform "jit(f)" --args "f8[n,m]"
Types: u float64[n, m].
Defaults: steps=10.
"""
import numpy as np
from calque.runtime.kernels import kernel, vrange
from numba import prange


@kernel
def heat_kernel(u, inner_sum, total_parts):
    for _ in range(10):
        for i in prange(u.shape[0] - 2):
            for j in vrange(u.shape[1] - 2):
                # change = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0
                #     * inner
                u_sum = u[i, j + 1] + u[i + 2, j + 1] + u[i + 1, j] + u[i + 1, j + 2]
                # inner = u[1:-1, 1:-1]
                inner = u[i + 1, j + 1]
                # change = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0
                #     * inner
                change = u_sum - 4.0 * inner
                # u[1:-1, 1:-1] = inner + 0.1 * change
                inner_sum[i, j] = inner + 0.1 * change
        for i in prange(u.shape[0] - 2):
            for j in vrange(u.shape[1] - 2):
                # u[1:-1, 1:-1] = inner + 0.1 * change
                u[i + 1, j + 1] = inner_sum[i, j]
    for i in prange(u.shape[0]):
        total_parts_i = 0.0
        for j in range(u.shape[1]):
            # return np.sum(u * u)
            u_ij = u[i, j]
            total_parts_i += u_ij * u_ij
        # return np.sum(u * u)
        total_parts[i] = total_parts_i
    total = 0.0
    for i in range(u.shape[0]):
        # return np.sum(u * u)
        total += total_parts[i]
    return total


def heat_jit(u):
    if u.shape[0] < 2:
        raise ValueError('heat_jit needs u.shape[0] >= 2')
    if u.shape[1] < 2:
        raise ValueError('heat_jit needs u.shape[1] >= 2')
    inner_sum = np.empty((u.shape[0] - 2, u.shape[1] - 2))
    total_parts = np.empty(u.shape[0])
    total = np.float64(heat_kernel(u, inner_sum, total_parts))
    return total
