"""Gradient of residual with respect to params.

From tests/golden_programs.py, line 105. Written by calque 0.1.0; regenerate with
    calque show tests/golden_programs.py:residual --transform "grad(f)" --args "[(f8[d], f8[d,d]), (f8[d], f8[d,d]), (f8[d], f8[d,d]), (f8[d], f8[d,d]), (f8[d], f8[d,d])], f8[n,d]"
Types: params [(float64[d], float64[d, d]), (float64[d], float64[d, d]), (float64[d], float64[d,
    d]), (float64[d], float64[d, d]), (float64[d], float64[d, d])], x float64[n, d].
"""
import numpy as np


def block(x, s, w):
    z = x - np.mean(x, axis=1, keepdims=True)
    spread = np.sqrt(np.mean(z ** 2, axis=1, keepdims=True) + 1e-05)
    z_over_spread = z / spread
    z_product = z_over_spread * s
    h = np.tanh(z_product @ w)
    x = x + h * h
    return x, z, spread, z_over_spread, z_product, h


def block_reverse(x_bar, z, spread, z_over_spread, z_product, h, s, w):
    # reverse
    # return x + h * h
    h_bar = 2.0 * x_bar * h
    # h = np.tanh((z / spread * s) @ w)
    h_pre_bar = h_bar * (1.0 - h * h)
    h_pre_factor_bar = h_pre_bar @ w.T
    w_bar = z_product.T @ h_pre_bar
    h_pre_factor_bar_times_s = h_pre_factor_bar * s
    s_bar = np.sum(h_pre_factor_bar * z_over_spread, axis=0)  # (n, d) -> (d,)
    z_bar = h_pre_factor_bar_times_s / spread
    h_bar_product = -h_pre_factor_bar_times_s * (z_over_spread / spread)
    spread_bar = np.sum(h_bar_product, axis=1, keepdims=True)  # (n, d) -> (n, 1)
    # spread = np.sqrt(np.mean(z**2, axis=-1, keepdims=True) + 1e-5)
    z_bar += spread_bar * (0.5 / spread) / x_bar.shape[1] * (2.0 * z)
    # z = x - np.mean(x, axis=-1, keepdims=True)
    x_bar = x_bar + z_bar + np.sum(-z_bar, axis=1, keepdims=True) / x_bar.shape[1]
    return x_bar, w_bar, s_bar


def residual_grad(params, x):
    # forward
    x, *block_0_saved = block(x, *params[0])
    x, *block_1_saved = block(x, *params[1])
    x, *block_2_saved = block(x, *params[2])
    x, *block_3_saved = block(x, *params[3])
    x, *block_4_saved = block(x, *params[4])

    # reverse
    # return np.sum(x * x)
    x_bar = 2.0 * x
    x_bar, w_4_bar, s_4_bar = block_reverse(x_bar, *block_4_saved, *params[4])
    x_bar, w_3_bar, s_3_bar = block_reverse(x_bar, *block_3_saved, *params[3])
    x_bar, w_2_bar, s_2_bar = block_reverse(x_bar, *block_2_saved, *params[2])
    x_bar, w_1_bar, s_1_bar = block_reverse(x_bar, *block_1_saved, *params[1])
    _, w_0_bar, s_0_bar = block_reverse(x_bar, *block_0_saved, *params[0])
    return [
        (s_0_bar, w_0_bar),
        (s_1_bar, w_1_bar),
        (s_2_bar, w_2_bar),
        (s_3_bar, w_3_bar),
        (s_4_bar, w_4_bar),
    ]
