"""Gradient of growing with respect to x.

From tests/golden_programs.py, line 70. Written by calque 0.1.0; regenerate with
    calque show tests/golden_programs.py:growing --transform "grad(f)" --args "float, int"
Types: x float, n int.
"""
import numpy as np


def growing_grad(x, n):
    # forward
    x_saved = np.empty(np.maximum(n, 0))
    for k in range(n):
        x_saved[k] = x
        x = x * (1.0 - x)

    # reverse
    # for _ in range(n):
    path_bar = np.full(np.maximum(n, 0), 1.0)
    x_bar = 0.0
    for k in range(n - 1, -1, -1):
        # path.append(x)
        path_bar_k = path_bar[k]
        path_bar[k] = 0.0
        x_bar += path_bar_k
        # x = x * (1.0 - x)
        x = float(x_saved[k])
        x_bar = x_bar * (1.0 - x) - x_bar * x
    return x_bar
