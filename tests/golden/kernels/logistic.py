"""Kernels of the gradient of loss with respect to w, b.

From examples/logistic_regression.py, line 17. Written by calque 0.1.0; regenerate with
    calque show examples/logistic_regression.py:loss --transform "jit(grad(f, argnums=(0, 1)))" --args "f8[3], float"
Types: w float64[3], b float, inputs float64[n, 3], targets bool[n].
"""
import numpy as np
from calque.runtime.kernels import kernel, vrange
from calque.runtime.vecmath import exp


@kernel
def loss_grad_kernel(b, inputs, targets, inputs_dot_w, z_bar):
    # reverse
    b_bar = 0.0
    for i in vrange(inputs.shape[0]):
        # p = sigmoid(inputs @ w + b)
        z = inputs_dot_w[i] + b
        exp_minus_z = exp(-z)
        p_denominator = 1.0 + exp_minus_z
        p = 1.0 / p_denominator
        # likelihood = p * targets + (1.0 - p) * (1.0 - targets)
        targets_i = targets[i]
        one_minus_targets = 1.0 - targets_i
        likelihood = p * targets_i + (1.0 - p) * one_minus_targets
        # return -np.sum(np.log(likelihood))
        likelihood_bar = -1.0 / likelihood
        # likelihood = p * targets + (1.0 - p) * (1.0 - targets)
        p_bar = likelihood_bar * targets_i - likelihood_bar * one_minus_targets
        # p = sigmoid(inputs @ w + b)
        z_bar_i = p_bar * (p / p_denominator) * exp_minus_z
        z_bar[i] = z_bar_i
        b_bar += z_bar_i
    return b_bar


def loss_grad_jit(w, b, *, inputs, targets):
    if w.shape[0] != 3:
        raise ValueError('loss_grad_jit needs w.shape[0] == 3')
    if inputs.shape[1] != 3:
        raise ValueError('loss_grad_jit needs inputs.shape[1] == 3')
    if inputs.shape[0] != targets.shape[0]:
        raise ValueError('loss_grad_jit needs inputs.shape[0] == targets.shape[0]')

    # forward
    inputs_dot_w = inputs @ w

    # reverse
    z_bar = np.empty(inputs.shape[0])
    b_bar = np.float64(loss_grad_kernel(b, inputs, targets, inputs_dot_w, z_bar))
    w_bar = inputs.T @ z_bar
    return w_bar, b_bar
