"""Value and gradient of loss_of with respect to parameters.

From examples/logistic_regression.py, line 23. Written by calque 0.1.0; regenerate with
    calque show examples/logistic_regression.py:loss_of --transform "value_and_grad(f)" --args "{'W': f8[3], 'b': float}"
Types: parameters {W: float64[3], b: float}, inputs float64[n, 3], targets bool[n].
"""
import numpy as np


def loss_of_value_and_grad(parameters, *, inputs, targets):
    # forward
    z = inputs @ parameters['W'] + parameters['b']
    exp_minus_z = np.exp(-z)
    p_denominator = 1.0 + exp_minus_z
    p = 1.0 / p_denominator
    one_minus_targets = 1.0 - targets
    likelihood = p * targets + (1.0 - p) * one_minus_targets

    # reverse
    # return -np.sum(np.log(likelihood))
    likelihood_bar = -1.0 / likelihood
    # likelihood = p * targets + (1.0 - p) * (1.0 - targets)
    p_bar = likelihood_bar * targets - likelihood_bar * one_minus_targets
    # p = sigmoid(inputs @ w + b)
    z_bar = p_bar * (p / p_denominator) * exp_minus_z
    b_bar = np.sum(z_bar)
    w_bar = inputs.T @ z_bar
    return -np.sum(np.log(likelihood)), {'W': w_bar, 'b': b_bar}
