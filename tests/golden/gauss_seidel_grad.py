"""Gradient of gauss_seidel with respect to u, f.

From tests/golden_programs.py, line 17. Written by calque 0.1.0; regenerate with
    calque show tests/golden_programs.py:gauss_seidel --transform "grad(f, argnums=(0, 1))" --args "f8[n,m], f8[n,m]"
Types: u float64[n, m], f float64[n, m].
"""
import numpy as np


def gauss_seidel_grad(u, f):
    # forward
    n = u.shape[0]
    u = np.copy(u)  # the argument is kept as it is
    for i in range(1, n - 1):
        for j in range(1, n - 1):
            u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - f[i, j])

    # reverse
    # return np.sum(u * u)
    u_bar = 2.0 * u
    # for i in range(1, n - 1):
    f_bar = np.zeros_like(f)
    for i in range(n - 2, 0, -1):
        for j in range(n - 2, 0, -1):
            # u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] -
            #     f[i, j])
            u_bar_ij = u_bar[i, j]
            u_bar[i, j] = 0.0
            u_sum_bar = 0.25 * u_bar_ij
            f_bar[i, j] -= u_sum_bar
            u_bar[i, j + 1] += u_sum_bar
            u_bar[i, j - 1] += u_sum_bar
            u_bar[i + 1, j] += u_sum_bar
            u_bar[i - 1, j] += u_sum_bar
    return u_bar, f_bar
