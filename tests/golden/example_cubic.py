"""Gradient with respect to x of the gradient of cubic with respect to x.

From examples/tanh_derivatives.py, line 13. Written by calque 0.1.0; regenerate with
    calque show examples/tanh_derivatives.py:cubic --transform "grad(grad(f))" --args "float"
Types: x float.
"""


def cubic_grad_grad(x):
    return 3 * (2.0 * x) + 4.0
