"""Kernels of selu.

From examples/selu.py, line 8. Written by calque 0.1.0; regenerate with
    calque show examples/selu.py:selu --transform "jit(f)" --args "f8[n,m]"
Types: x float64[n, m].
Defaults: alpha=1.67, scale=1.05.
"""
import numpy as np
from calque.runtime.kernels import kernel
from calque.runtime.vecmath import exp
from numba import prange


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
