"""Gradient with respect to x of the gradient of tanh with respect to x.

From tests/golden_programs.py, line 53. Written by calque 0.1.0; regenerate with
    calque show tests/golden_programs.py:tanh --transform "grad(grad(f))" --args "float"
Types: x float.
"""
import numpy as np


def tanh_grad_grad(x):
    # forward
    y = np.exp(-2.0 * x)
    one_plus_y = 1.0 + y
    y_quotient = (1.0 - y) / one_plus_y

    # first derivative
    # return (1.0 - y) / (1.0 + y)
    y_quotient_over_one_plus_y = y_quotient / one_plus_y
    return_numerator_bar = 1.0 / one_plus_y
    y_bar = -1.0 * y_quotient_over_one_plus_y - return_numerator_bar

    # reverse
    # derivative of: y = np.exp(-2.0 * x)
    y_bar_bar = -2.0 * y
    y_bar *= -2.0
    # derivative of: return (1.0 - y) / (1.0 + y)
    y_bar_bar_product = y_bar_bar * (y_quotient_over_one_plus_y / one_plus_y)
    one_plus_y_bar = y_bar_bar * (return_numerator_bar / one_plus_y) + y_bar_bar_product
    # return (1.0 - y) / (1.0 + y)
    one_plus_y_bar += y_bar_bar / one_plus_y * (y_quotient / one_plus_y)
    y_bar = y_bar + one_plus_y_bar + y_bar_bar / one_plus_y / one_plus_y
    return y_bar * y * -2.0
