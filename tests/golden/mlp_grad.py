"""Gradient of mlp with respect to params.

From tests/golden_programs.py, line 64. Written by calque 0.1.0; regenerate with
    calque show tests/golden_programs.py:mlp --transform "grad(f)" --args "[{'W': f8[d,h], 'b': f8[h]}, {'W': f8[h,1], 'b': f8[1]}], f8[n,d]"
Types: params [{W: float64[d, h], b: float64[h]}, {W: float64[h, 1], b: float64[1]}], x float64[n,
    d].
"""
import numpy as np


def mlp_grad(params, x):
    # forward
    first_x = np.tanh(x @ params[0]['W'] + params[0]['b'])
    second_x = np.tanh(first_x @ params[1]['W'] + params[1]['b'])

    # reverse
    # return np.sum(x * x)
    x_bar = 2.0 * second_x
    # x = np.tanh(x @ layer["W"] + layer["b"])
    second_x_pre_bar = x_bar * (1.0 - second_x * second_x)
    x_bar = second_x_pre_bar @ params[1]['W'].T
    first_x_pre_bar = x_bar * (1.0 - first_x * first_x)
    return [
        {'W': x.T @ first_x_pre_bar, 'b': np.sum(first_x_pre_bar, axis=0)},
        {'W': first_x.T @ second_x_pre_bar, 'b': np.sum(second_x_pre_bar, axis=0)},
    ]
