"""Hessian of rosenbrock with respect to x.

From examples/hessian.py, line 8. Written by calque 0.1.0; regenerate with
    calque show examples/hessian.py:rosenbrock --transform "hessian(f)" --args "f8[n]"
Types: x float64[n].
"""
import numpy as np


def rosenbrock_hessian(x):
    eye_x = np.eye(x.shape[0])

    # forward
    x_but_last = x[:-1]
    eye_x_but_last_column = eye_x[:, :-1]

    # reverse
    # return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)
    x_bar_dot = np.zeros((x.shape[0], x.shape[0]))
    x_bar_dot[:, :-1] += 2.0 * eye_x[:, :-1]
    x_bar_factor_dot = (eye_x[:, 1:] - eye_x_but_last_column * (2.0 * x_but_last)) * 200.0
    x_product = -(2.0 * eye_x_but_last_column) * (200.0 * (x[1:] - x_but_last ** 2))
    x_bar_dot[:, :-1] += x_product - x_bar_factor_dot * (2.0 * x_but_last)
    x_bar_dot[:, 1:] += x_bar_factor_dot
    return x_bar_dot.T
