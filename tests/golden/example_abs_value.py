"""Gradient of absolute with respect to x.

From examples/abs_value.py, line 8. Written by calque 0.1.0; regenerate with
    calque show examples/abs_value.py:absolute --transform "grad(f)" --args "float"
Types: x float.
"""


def absolute_grad(x):
    # reverse
    if x > 0:
        x_bar = 1.0
    else:
        x_bar = -1.0
    return x_bar
