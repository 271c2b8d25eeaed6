"""Value and gradient of rosenbrock with respect to x.

From examples/scipy_minimize.py, line 9. Written by calque 0.1.0; regenerate with
    calque show examples/scipy_minimize.py:rosenbrock --transform "value_and_grad(f)" --args "f8[n]"
Types: x float64[n].
"""
import numpy as np


def rosenbrock_value_and_grad(x):
    # forward
    x_but_last = x[:-1]
    x_difference = x[1:] - x_but_last ** 2
    one_minus_x = 1.0 - x[:-1]

    # reverse
    # return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)
    x_bar = np.zeros_like(x)
    x_bar[:-1] -= 2.0 * one_minus_x
    x_difference_bar = 200.0 * x_difference
    x_bar[:-1] -= x_difference_bar * (2.0 * x_but_last)
    x_bar[1:] += x_difference_bar
    return np.sum(100.0 * x_difference ** 2 + one_minus_x ** 2), x_bar
