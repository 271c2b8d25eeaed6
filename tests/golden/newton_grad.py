"""Gradient of newton with respect to a.

From tests/golden_programs.py, line 38. Written by calque 0.1.0; regenerate with
    calque show tests/golden_programs.py:newton --transform "grad(f)" --args "float"
Types: a float.
"""
import numpy as np


def newton_grad(a):
    # forward
    x_saved = np.empty(16)
    x = a
    iterations = 0
    while np.abs(x * x - a) > 1e-10:
        if iterations == x_saved.shape[0]:
            x_saved = np.concatenate((x_saved, np.empty_like(x_saved)))
        x_saved[iterations] = x
        x = 0.5 * (x + a / x)
        iterations += 1

    # reverse
    # while np.abs(x * x - a) > 1e-10:
    x_bar = 1.0
    a_bar = 0.0
    for i in range(iterations - 1, -1, -1):
        # x = 0.5 * (x + a / x)
        x_bar *= 0.5
        x = float(x_saved[i])
        a_bar += x_bar / x
        x_bar -= x_bar * (a / x / x)
    a_bar += x_bar
    return a_bar
