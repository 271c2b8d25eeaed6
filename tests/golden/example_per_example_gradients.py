"""The gradient of loss with respect to w for a batch of x, y.

From examples/per_example_gradients.py, line 8. Written by calque 0.1.0; regenerate with
    calque show examples/per_example_gradients.py:loss --transform "vmap(grad(f), in_axes=(None, 0, 0))" --args "f8[d], f8[n,d], f8[n]"
Types: w float64[d], x float64[n, d], y float64[n].
"""
import numpy as np


def loss_grad_vmap(w, x, y):
    # forward
    tanh_x_dot_w = np.tanh(x @ w)

    # reverse
    # return (np.tanh(x @ w) - y) ** 2
    w_bar = (2.0 * (tanh_x_dot_w - y) * (1.0 - tanh_x_dot_w * tanh_x_dot_w))[:, None] * x
    return w_bar
