"""hinge for a batch of x, y.

From tests/golden_programs.py, line 31. Written by calque 0.1.0; regenerate with
    calque show tests/golden_programs.py:hinge --transform "vmap(f, in_axes=(None, 0, 0))" --args "f8[d], f8[n,d], f8[n]"
Types: w float64[d], x float64[n, d], y float64[n].
"""
import numpy as np


def hinge_vmap(w, x, y):
    margin = y * (x @ w)
    return np.where(margin > 1.0, 0.0, (1.0 - margin) ** 2)
