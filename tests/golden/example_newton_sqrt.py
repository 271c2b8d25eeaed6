"""Gradient of newton_sqrt with respect to a.

From examples/newton_sqrt.py, line 8. Written by calque 0.1.0; regenerate with
    calque show examples/newton_sqrt.py:newton_sqrt --transform "grad(f)" --args "float"
Types: a float.
"""
import numpy as np


def newton_sqrt_grad(a):
    # forward
    x = 0.5 * (1.0 + a)
    x_saved = np.empty(16)
    iterations = 0
    while np.abs(x * x - a) > 1e-12 * a:
        if iterations == x_saved.shape[0]:
            x_saved = np.concatenate((x_saved, np.empty_like(x_saved)))
        x_saved[iterations] = x
        x = 0.5 * (x + a / x)
        iterations += 1

    # reverse
    # while np.abs(x * x - a) > 1e-12 * a:
    x_bar = 1.0
    a_bar = 0.0
    for i in range(iterations - 1, -1, -1):
        # x = 0.5 * (x + a / x)
        x_bar *= 0.5
        x = float(x_saved[i])
        a_bar += x_bar / x
        x_bar -= x_bar * (a / x / x)
    # x = 0.5 * (1.0 + a)
    a_bar += 0.5 * x_bar
    return a_bar
