"""Gradient of logistic_loss with respect to w, b.

From tests/golden_programs.py, line 10. Written by calque 0.1.0; regenerate with
    calque show tests/golden_programs.py:logistic_loss --transform "grad(f, argnums=(0, 1))" --args "f8[d], float, f8[n,d], f8[n]"
Types: w float64[d], b float, x float64[n, d], y float64[n].
"""
import numpy as np


def logistic_loss_grad(w, b, x, y):
    # forward
    z = x @ w + b
    exp_minus_z = np.exp(-z)
    p_denominator = 1.0 + exp_minus_z
    p = 1.0 / p_denominator

    # reverse
    # return -np.mean(ll)
    ll_bar = -1.0 / y.size
    # ll = y * np.log(p) + (1.0 - y) * np.log(1.0 - p)
    p_bar = ll_bar * y / p - ll_bar * (1.0 - y) / (1.0 - p)
    # p = sigmoid(z)
    z_bar = p_bar * (p / p_denominator) * exp_minus_z
    # z = x @ w + b
    b_bar = np.sum(z_bar)
    w_bar = x.T @ z_bar
    return w_bar, b_bar
