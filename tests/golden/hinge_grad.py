"""Gradient of hinge with respect to w.

From tests/golden_programs.py, line 31. Written by calque 0.1.0; regenerate with
    calque show tests/golden_programs.py:hinge --transform "grad(f)" --args "f8[d], f8[d], float"
Types: w float64[d], x float64[d], y float.
"""


def hinge_grad(w, x, y):
    # forward
    margin = y * (x @ w)

    # reverse
    if margin > 1.0:
        margin_bar = 0.0
    else:
        # return (1.0 - margin) ** 2
        margin_bar = -(2.0 * (1.0 - margin))
    # margin = y * (x @ w)
    w_bar = margin_bar * y * x
    return w_bar
