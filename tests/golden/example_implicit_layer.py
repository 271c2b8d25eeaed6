"""Gradient of loss with respect to W, U, b.

From examples/implicit_layer.py, line 8. Written by calque 0.1.0; regenerate with
    calque show examples/implicit_layer.py:loss --transform "grad(f, argnums=(0, 1, 2))" --args "f8[n,n], f8[n,m], f8[n], f8[m], f8[n]"
Types: W float64[n, n], U float64[n, m], b float64[n], x float64[m], target float64[n].
"""
import numpy as np


def loss_grad(W, U, b, x, target):
    # forward
    z = np.zeros(b.size)
    change = np.tanh(W @ z + U @ x + b) - z
    while np.max(np.abs(change)) > 1e-13:
        z = z + change
        change = np.tanh(W @ z + U @ x + b) - z
    tanh_W_sum = np.tanh(W @ z + U @ x + b)
    W_difference = 1.0 - tanh_W_sum * tanh_W_sum

    # reverse
    # return np.sum((z - target) ** 2)
    z_bar = 2.0 * (z - target)
    # z = calque.custom_root(residual, np.zeros(b.size), iterate)
    b_bar = -np.linalg.solve(W.T * W_difference - np.eye(W.shape[0]), z_bar) * W_difference
    U_bar = np.outer(b_bar, x)
    W_bar = np.outer(b_bar, z)
    return W_bar, U_bar, b_bar
