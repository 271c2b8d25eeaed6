"""Kernels of heat.

From examples/stencils.py, line 25. Written by calque 0.1.0; regenerate with
    calque show examples/stencils.py:heat --transform "jit(f)" --args "f8[n,m]"
Types: u float64[n, m].
"""
import numpy as np
from calque.runtime.kernels import kernel, vrange
from numba import prange


@kernel
def heat_kernel(u, u_new, total_parts):
    for _ in range(10):
        out = np.empty((u.shape[0] - 2, u.shape[1] - 2))
        for i in prange(u.shape[0] - 2):
            for j in vrange(u.shape[1] - 2):
                # change = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * inner
                u_new_shifted = u_new[i, j + 1] + u_new[i + 2, j + 1] + u_new[i + 1, j]
                # inner = u[1:-1, 1:-1]
                inner = u_new[i + 1, j + 1]
                # change = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * inner
                change = u_new_shifted + u_new[i + 1, j + 2] - 4.0 * inner
                # u[1:-1, 1:-1] = inner + 0.1 * change
                out[i, j] = inner + 0.1 * change
        for i in prange(u.shape[0] - 2):
            for j in vrange(u.shape[1] - 2):
                # u[1:-1, 1:-1] = inner + 0.1 * change
                u_new[i + 1, j + 1] = out[i, j]
    for i in prange(u.shape[0]):
        total = 0.0
        for j in range(u.shape[1]):
            # return np.sum(u * u)
            u_new_ij = u_new[i, j]
            total = total + u_new_ij * u_new_ij
        # return np.sum(u * u)
        total_parts[i] = total
    total = 0.0
    for i in range(u.shape[0]):
        # return np.sum(u * u)
        total = total + total_parts[i]
    return total


def heat_jit(u):
    total_parts = np.empty(u.shape[0])
    u_new = np.copy(u)
    total = np.float64(heat_kernel(u, u_new, total_parts))
    u[...] = u_new
    return total
