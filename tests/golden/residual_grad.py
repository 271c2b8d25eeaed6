"""Gradient of residual with respect to params.

From tests/golden_programs.py, line 105. Written by calque 0.1.0; regenerate with
    calque show tests/golden_programs.py:residual --transform "grad(f)" --args "[(f8[d,d], f8[d]), (f8[d,d], f8[d]), (f8[d,d], f8[d]), (f8[d,d], f8[d]), (f8[d,d], f8[d])], f8[n,d]"
Types: params [(float64[d, d], float64[d]), (float64[d, d], float64[d]), (float64[d, d],
    float64[d]), (float64[d, d], float64[d]), (float64[d, d], float64[d])], x float64[n, d].
"""
import numpy as np


def block(x, w, b):
    mean = np.mean(x, axis=1, keepdims=True)
    x_minus_mean = x - mean
    spread = np.sqrt(np.mean(x_minus_mean ** 2, axis=1, keepdims=True) + 1e-05)
    x_quotient = (x - mean) / spread
    h = np.tanh(x_quotient @ w + b)
    x = x + h * h
    return x, x_minus_mean, spread, x_quotient, h


def block_reverse(x_bar, x_minus_mean, spread, x_quotient, h, w):
    # return x + h * h
    h_bar = 2.0 * x_bar * h
    # h = np.tanh((x - mean) / spread @ w + b)
    h_pre_bar = h_bar * (1.0 - h * h)
    b_bar = np.sum(h_pre_bar, axis=0)
    h_pre_factor_bar = h_pre_bar @ w.T
    w_bar = x_quotient.T @ h_pre_bar
    h_numerator_bar = h_pre_factor_bar / spread
    spread_bar = np.sum(-h_pre_factor_bar * (x_quotient / spread), axis=1, keepdims=True)
    x_bar = x_bar + h_numerator_bar
    mean_bar = np.sum(-h_numerator_bar, axis=1, keepdims=True)
    # spread = np.sqrt(np.mean((x - mean) ** 2, axis=-1, keepdims=True) + 1e-5)
    spread_base_bar = spread_bar * (0.5 / spread) / x_bar.shape[1] * (2.0 * x_minus_mean)
    x_bar += spread_base_bar
    mean_bar += np.sum(-spread_base_bar, axis=1, keepdims=True)
    # mean = np.mean(x, axis=-1, keepdims=True)
    x_bar += mean_bar / x_bar.shape[1]
    return x_bar, b_bar, w_bar


def residual_grad(params, x):
    # forward
    x, _, _, x_quotient, h = block(x, params[0][0], params[0][1])
    x, *block_1 = block(x, params[1][0], params[1][1])
    x, *block_2 = block(x, params[2][0], params[2][1])
    x, *block_3 = block(x, params[3][0], params[3][1])
    x, *block_4 = block(x, params[4][0], params[4][1])

    # reverse
    # return np.sum(x * x)
    x_bar = 2.0 * x
    x_bar, b_4_bar, w_4_bar = block_reverse(x_bar, *block_4, params[4][0])
    x_bar, b_3_bar, w_3_bar = block_reverse(x_bar, *block_3, params[3][0])
    x_bar, b_2_bar, w_2_bar = block_reverse(x_bar, *block_2, params[2][0])
    x_bar, b_1_bar, w_1_bar = block_reverse(x_bar, *block_1, params[1][0])
    # block: return x + h * h
    h_bar = 2.0 * x_bar * h
    # block: h = np.tanh((x - mean) / spread @ w + b)
    h_pre_bar = h_bar * (1.0 - h * h)
    b_0_bar = np.sum(h_pre_bar, axis=0)
    w_0_bar = x_quotient.T @ h_pre_bar
    return [
        (w_0_bar, b_0_bar),
        (w_1_bar, b_1_bar),
        (w_2_bar, b_2_bar),
        (w_3_bar, b_3_bar),
        (w_4_bar, b_4_bar),
    ]
