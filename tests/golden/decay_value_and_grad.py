"""Value and gradient of decay with respect to x.

From tests/golden_programs.py, line 78. Written by calque 0.1.0; regenerate with
    calque show tests/golden_programs.py:decay --transform "value_and_grad(f)" --args "f8[n], float"
Types: x float64[n], rate float.
"""
import numpy as np


def decay_value_and_grad(x, rate):
    # forward
    s_saved = np.empty(x.shape[0])
    s = 0.0
    for i in range(x.shape[0]):
        s_saved[i] = s
        s = s * rate + x[i] * s * s
        s = s + x[i]

    # reverse
    # for i in range(x.shape[0]):
    x_bar = np.zeros_like(x)
    s_bar = 1.0
    for i in range(x.shape[0] - 1, -1, -1):
        # s = s + x[i]
        x_bar[i] += s_bar
        # s = s * rate + x[i] * s * s
        s_before = s_saved[i]
        s_factor_bar = s_bar * s_before
        x_i = x[i]
        x_bar[i] += s_factor_bar * s_before
        s_bar = s_bar * (x_i * s_before) + s_factor_bar * x_i + s_bar * rate
    return s, x_bar
