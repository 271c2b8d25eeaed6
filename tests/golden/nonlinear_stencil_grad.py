"""Gradient of nonlinear_stencil with respect to u.

From tests/golden_programs.py, line 25. Written by calque 0.1.0; regenerate with
    calque show tests/golden_programs.py:nonlinear_stencil --transform "grad(f)" --args "f8[n]"
Types: u float64[n].
"""
import numpy as np


def nonlinear_stencil_grad(u):
    # forward
    u_saved = np.empty(u.shape[0])
    u = u.copy()  # the argument is kept as it is
    for i in range(1, u.shape[0]):
        u_saved[i] = u[i]
        u[i] = np.sin(u[i]) * u[i - 1]

    # reverse
    # for i in range(1, u.shape[0]):
    u_bar = np.full(u.shape[0], 1.0)
    for i in range(u.shape[0] - 1, 0, -1):
        # u[i] = np.sin(u[i]) * u[i - 1]
        u[i] = u_saved[i]  # as it was before this statement
        u_bar_i = u_bar[i]
        u_bar[i] = 0.0
        u_i = u[i]
        u_bar[i - 1] += u_bar_i * np.sin(u_i)
        u_bar[i] += u_bar_i * u[i - 1] * np.cos(u_i)
    return u_bar
