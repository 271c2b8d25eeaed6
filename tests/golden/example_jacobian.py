"""Jacobian of f with respect to x, by forward mode.

From examples/jacobian.py, line 8. Written by calque 0.1.0; regenerate with
    calque show examples/jacobian.py:f --transform "jacfwd(f)" --args "f8[3]"
Types: x float64[3].
"""
import numpy as np


def f_jacfwd(x):
    eye = np.eye(3)
    eye_sum = eye[:, 1] * (2.0 * x[1]) * 4 - eye[:, 2] * 2
    x_first = x[0]
    eye_sum_with_x = eye[:, 2] * np.sin(x_first) + eye[:, 0] * np.cos(x_first) * x[2]
    return np.stack([eye[:, 0], eye[:, 2] * 5, eye_sum, eye_sum_with_x], axis=1).T
