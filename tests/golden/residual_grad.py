"""Gradient of residual with respect to params.

From tests/golden_programs.py, line 105. Written by calque 0.1.0; regenerate with
    calque show tests/golden_programs.py:residual --transform "grad(f)" --args "[(f8[d], f8[d,d]), (f8[d], f8[d,d]), (f8[d], f8[d,d]), (f8[d], f8[d,d]), (f8[d], f8[d,d])], f8[n,d]"
Types: params [(float64[d], float64[d, d]), (float64[d], float64[d, d]), (float64[d], float64[d,
    d]), (float64[d], float64[d, d]), (float64[d], float64[d, d])], x float64[n, d].
"""
import numpy as np


def block(x, gain, w):
    centred = x - np.mean(x, axis=1, keepdims=True)
    spread = np.sqrt(np.mean(centred ** 2, axis=1, keepdims=True) + 1e-05)
    centred_over_spread = centred / spread
    centred_product = centred_over_spread * gain
    h = np.tanh(centred_product @ w)
    x = x + h * h
    return x, centred, spread, centred_over_spread, centred_product, h


def block_reverse(x_bar, centred, spread, centred_over_spread, centred_product, h, gain, w):
    # reverse
    # return x + h * h
    h_bar = 2.0 * x_bar * h
    # h = np.tanh((centred / spread * gain) @ w)
    h_pre_bar = h_bar * (1.0 - h * h)
    h_pre_factor_bar = h_pre_bar @ w.T
    w_bar = centred_product.T @ h_pre_bar
    h_pre_factor_bar_times_gain = h_pre_factor_bar * gain
    gain_bar = np.sum(h_pre_factor_bar * centred_over_spread, axis=0)  # (n, d) -> (d,)
    centred_bar = h_pre_factor_bar_times_gain / spread
    h_bar_product = -h_pre_factor_bar_times_gain * (centred_over_spread / spread)
    spread_bar = np.sum(h_bar_product, axis=1, keepdims=True)  # (n, d) -> (n, 1)
    # spread = np.sqrt(np.mean(centred**2, axis=-1, keepdims=True) + 1e-5)
    centred_bar += spread_bar * (0.5 / spread) / x_bar.shape[1] * (2.0 * centred)
    # centred = x - np.mean(x, axis=-1, keepdims=True)
    x_bar = x_bar + centred_bar + np.sum(-centred_bar, axis=1, keepdims=True) / x_bar.shape[1]
    return x_bar, w_bar, gain_bar


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
    x_bar, w_4_bar, gain_4_bar = block_reverse(x_bar, *block_4_saved, *params[4])
    x_bar, w_3_bar, gain_3_bar = block_reverse(x_bar, *block_3_saved, *params[3])
    x_bar, w_2_bar, gain_2_bar = block_reverse(x_bar, *block_2_saved, *params[2])
    x_bar, w_1_bar, gain_1_bar = block_reverse(x_bar, *block_1_saved, *params[1])
    _, w_0_bar, gain_0_bar = block_reverse(x_bar, *block_0_saved, *params[0])
    return [
        (gain_0_bar, w_0_bar),
        (gain_1_bar, w_1_bar),
        (gain_2_bar, w_2_bar),
        (gain_3_bar, w_3_bar),
        (gain_4_bar, w_4_bar),
    ]
