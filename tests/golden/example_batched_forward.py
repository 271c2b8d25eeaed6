"""forward for a batch of x.

From examples/batched_forward.py, line 8. Written by calque 0.1.0; regenerate with
    calque show examples/batched_forward.py:forward --transform "vmap(f, in_axes=(0, None, None))" --args "f8[n,d], f8[d,k], float"
Types: x float64[n, d], w float64[d, k], b float.
"""
import numpy as np


def forward_vmap(x, w, b):
    return np.max(x @ w + b, axis=1)
