"""Gradient of mlp with respect to params.

From tests/golden_programs.py, line 64. Written by calque 0.1.0; regenerate with
    calque show tests/golden_programs.py:mlp --transform "grad(f)" --args "[{'W': f8[d,h], 'b': f8[h]}, {'W': f8[h,1], 'b': f8[1]}], f8[n,d]"
Types: params [{W: float64[d, h], b: float64[h]}, {W: float64[h, 1], b: float64[1]}], x float64[n,
    d].
"""
import numpy as np


def mlp_grad(params, x):
    # forward
    x_new = np.tanh(x @ params[0]['W'] + params[0]['b'])
    x_b = np.tanh(x_new @ params[1]['W'] + params[1]['b'])

    # reverse
    # return np.sum(x * x)
    x_bar = x_b + x_b
    # x = np.tanh(x @ layer["W"] + layer["b"])
    x_bar_times_x_b = x_bar * (1.0 - x_b * x_b)
    x_bar = x_bar_times_x_b @ params[1]['W'].T
    x_bar_times_x_new = x_bar * (1.0 - x_new * x_new)
    return [
        {'W': x.T @ x_bar_times_x_new, 'b': np.sum(x_bar_times_x_new, axis=0)},
        {'W': x_new.T @ x_bar_times_x_b, 'b': np.sum(x_bar_times_x_b, axis=0)},
    ]
