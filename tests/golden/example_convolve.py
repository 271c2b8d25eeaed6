"""convolve for a batch of x.

From examples/convolve.py, line 8. Written by calque 0.1.0; regenerate with
    calque show examples/convolve.py:convolve --transform "vmap(f, in_axes=(0, None))" --args "f8[m,n], f8[3]"
Types: x float64[m, n], w float64[3].
"""
import numpy as np


def convolve_vmap(x, w):
    out = np.empty((x.shape[0], x.shape[1] - 2))
    for i in range(1, x.shape[1] - 1):
        out[:, i - 1] = x[:, i - 1:i + 2] @ w
    return out
