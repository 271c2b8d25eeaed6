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
def heat_kernel(u, u_rows, u_columns, inner_plus_change, total_parts):
    for _ in range(10):
        for i in prange(u_rows - 2):
            for j in vrange(u_columns - 2):
                # inner = u[1:-1, 1:-1]
                inner = u[i + 1, j + 1]
                # change = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0
                #     * inner
                change = u[i, j + 1] + u[i + 2, j + 1] + u[i + 1, j] + u[i + 1, j + 2] - 4.0 * inner
                # u[1:-1, 1:-1] = inner + 0.1 * change
                inner_plus_change[i, j] = inner + 0.1 * change
        for i in prange(u_rows - 2):
            for j in vrange(u_columns - 2):
                # u[1:-1, 1:-1] = inner + 0.1 * change
                u[i + 1, j + 1] = inner_plus_change[i, j]
    for i in prange(u_rows):
        total = 0.0
        for j in range(u_columns):
            # return np.sum(u * u)
            u_ij = u[i, j]
            total += u_ij * u_ij
        # return np.sum(u * u)
        total_parts[i] = total
    total = 0.0
    for i in range(u_rows):
        # return np.sum(u * u)
        total += total_parts[i]
    return total


def heat_jit(u):
    if u.shape[0] < 2:
        raise ValueError('heat_jit needs u.shape[0] >= 2')
    if u.shape[1] < 2:
        raise ValueError('heat_jit needs u.shape[1] >= 2')
    u_rows = u.shape[0]
    u_columns = u.shape[1]
    inner_plus_change = np.empty((u_rows - 2, u_columns - 2))
    total_parts = np.empty(u_rows)
    total = np.float64(heat_kernel(u, u_rows, u_columns, inner_plus_change, total_parts))
    return total
