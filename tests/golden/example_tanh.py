"""Gradient of tanh with respect to x.

From examples/tanh_derivatives.py, line 8. Written by calque 0.1.0; regenerate with
    calque show examples/tanh_derivatives.py:tanh --transform "grad(f)" --args "float"
Types: x float.
"""
import numpy as np


def tanh_grad(x):
    # forward
    y = np.exp(-2.0 * x)
    one_plus_y = 1.0 + y

    # reverse
    # return (1.0 - y) / (1.0 + y)
    y_bar = -((1.0 - y) / one_plus_y / one_plus_y) - 1.0 / one_plus_y
    # y = np.exp(-2.0 * x)
    x_bar = y_bar * y * -2.0
    return x_bar
