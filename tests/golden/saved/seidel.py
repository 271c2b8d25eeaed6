"""Kernels of the gradient of seidel with respect to u.

From examples/stencils.py, line 17. Written by calque 0.1.0; regenerate with
    calque show examples/stencils.py:seidel --transform "jit(grad(f))" --args "f8[n,m]"
Types: u float64[n, m].
Defaults: steps=4.
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
