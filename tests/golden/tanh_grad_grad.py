"""Gradient with respect to x of the gradient of tanh with respect to x.

From tests/golden_programs.py, line 53. Written by calque 0.1.0; regenerate with
    calque show tests/golden_programs.py:tanh --transform "grad(grad(f))" --args "float"
Types: x float.
"""
import numpy as np


def tanh_grad_grad(x):
    # forward
    y = np.exp(-2.0 * x)
    y_shifted = 1.0 + y
    y_scaled = (1.0 - y) / y_shifted
    y_scaled_next = y_scaled / y_shifted
    inverse_y = 1.0 / y_shifted
    y_bar = -1.0 * y_scaled_next
    y_bar -= inverse_y

    # reverse
    # y = np.exp(-2.0 * x)
    y_bar_bar = -2.0 * y
    y_bar = -2.0 * y_bar
    # return (1.0 - y) / (1.0 + y)
    y_bar_bar_times_y = y_bar_bar * (y_scaled_next / y_shifted)
    y_bar_bar_shifted = y_bar_bar * (inverse_y / y_shifted) + y_bar_bar_times_y
    y_bar_bar_times_y = y_bar_bar / y_shifted * (y_scaled / y_shifted)
    y_bar = y_bar + (y_bar_bar_shifted + y_bar_bar_times_y) + y_bar_bar / y_shifted / y_shifted
    return y_bar * y * -2.0
