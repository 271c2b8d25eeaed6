"""Value and tangent of mlp.

From tests/golden_programs.py, line 64. Written by calque 0.1.0; regenerate with
    calque show tests/golden_programs.py:mlp --transform "jvp(f)" --args "[{'W': f8[d,h], 'b': f8[h]}, {'W': f8[h,1], 'b': f8[1]}], f8[n,d]"
Types: params [{W: float64[d, h], b: float64[h]}, {W: float64[h, 1], b: float64[1]}], x float64[n,
    d], params_dot [{W: float64[d, h], b: float64[h]}, {W: float64[h, 1], b: float64[1]}], x_dot
    float64[n, d].
"""
import numpy as np


def mlp_jvp(params, x, params_dot, x_dot):
    x_pre_dot = x_dot @ params[0]['W'] + x @ params_dot[0]['W'] + params_dot[0]['b']
    first_x = np.tanh(x @ params[0]['W'] + params[0]['b'])
    x_dot = x_pre_dot * (1.0 - first_x * first_x)
    x_pre_dot = x_dot @ params[1]['W'] + first_x @ params_dot[1]['W'] + params_dot[1]['b']
    second_x = np.tanh(first_x @ params[1]['W'] + params[1]['b'])
    x_dot = x_pre_dot * (1.0 - second_x * second_x)
    return np.sum(second_x * second_x), np.sum(2.0 * x_dot * second_x)
