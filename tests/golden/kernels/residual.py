"""Kernels of the gradient of residual with respect to params.

From tests/golden_programs.py, line 105. Written by calque 0.1.0; regenerate with
    calque show tests/golden_programs.py:residual --transform "jit(grad(f))" --args "[(f8[d,d], f8[d]), (f8[d,d], f8[d]), (f8[d,d], f8[d]), (f8[d,d], f8[d]), (f8[d,d], f8[d])], f8[n,d]"
Types: params [(float64[d, d], float64[d]), (float64[d, d], float64[d]), (float64[d, d],
    float64[d]), (float64[d, d], float64[d]), (float64[d, d], float64[d])], x float64[n, d].
"""
import numpy as np
from calque.runtime.kernels import kernel, vrange
from calque.runtime.vecmath import tanh
from numba import prange


@kernel
def block_kernel(x, int_x_columns, x_minus_mean, spread, x_quotient):
    for i in prange(x.shape[0]):
        total = 0.0
        for j in range(x.shape[1]):
            # mean = np.mean(x, axis=-1, keepdims=True)
            total += x[i, j]
        # mean = np.mean(x, axis=-1, keepdims=True)
        mean = total / x.shape[1]
        total = 0.0
        for j in vrange(x.shape[1]):
            # spread = np.sqrt(np.mean((x - mean) ** 2, axis=-1, keepdims=True) + 1e-5)
            x_minus_mean_ij = x[i, j] - mean
            x_minus_mean[i, j] = x_minus_mean_ij
            total += x_minus_mean_ij * x_minus_mean_ij
        # spread = np.sqrt(np.mean((x - mean) ** 2, axis=-1, keepdims=True) + 1e-5)
        spread_i_first = np.sqrt(total / int_x_columns + 1e-05)
        spread[i, 0] = spread_i_first
        for j in vrange(x.shape[1]):
            # h = np.tanh((x - mean) / spread @ w + b)
            x_quotient[i, j] = (x[i, j] - mean) / spread_i_first


@kernel
def block_kernel_2(x, b, x_quotient_dot_w, h, x_now):
    for i in prange(x.shape[0]):
        for j in vrange(x.shape[1]):
            # h = np.tanh((x - mean) / spread @ w + b)
            h_ij = tanh(x_quotient_dot_w[i, j] + b[j])
            h[i, j] = h_ij
            # return x + h * h
            x_now[i, j] = x[i, j] + h_ij * h_ij


def block(x, w, b):
    int_x_columns = int(x.shape[1])
    x_minus_mean = np.empty((x.shape[0], x.shape[1]))
    spread = np.empty((x.shape[0], 1))
    x_quotient = np.empty((x.shape[0], x.shape[1]))
    block_kernel(x, int_x_columns, x_minus_mean, spread, x_quotient)
    x_quotient_dot_w = x_quotient @ w
    h = np.empty((x.shape[0], x.shape[1]))
    x_now = np.empty((x.shape[0], x.shape[1]))
    block_kernel_2(x, b, x_quotient_dot_w, h, x_now)
    return x_now, x_minus_mean, spread, x_quotient, h


@kernel
def block_reverse_kernel(x_bar, h, h_pre_bar, b_bar):
    for i in range(x_bar.shape[0]):
        for j in vrange(x_bar.shape[1]):
            # return x + h * h
            h_ij = h[i, j]
            h_bar = 2.0 * x_bar[i, j] * h_ij
            # h = np.tanh((x - mean) / spread @ w + b)
            h_pre_bar_ij = h_bar * (1.0 - h_ij * h_ij)
            h_pre_bar[i, j] = h_pre_bar_ij
            b_bar[j] += h_pre_bar_ij


@kernel
def block_reverse_kernel_2(x_bar, x_minus_mean, spread, x_quotient, h_pre_factor_bar, x_bar_now):
    for i in prange(x_bar.shape[0]):
        # h = np.tanh((x - mean) / spread @ w + b)
        spread_i_first = spread[i, 0]
        spread_bar = 0.0
        mean_bar = 0.0
        for j in range(x_bar.shape[1]):
            # h = np.tanh((x - mean) / spread @ w + b)
            h_pre_bar_ij = h_pre_factor_bar[i, j]
            spread_bar -= h_pre_bar_ij * (x_quotient[i, j] / spread_i_first)
            mean_bar -= h_pre_bar_ij / spread_i_first
        # spread = np.sqrt(np.mean((x - mean) ** 2, axis=-1, keepdims=True) + 1e-5)
        spread_pre_term_bar = spread_bar * (0.5 / spread_i_first) / x_bar.shape[1]
        total = 0.0
        for j in range(x_bar.shape[1]):
            # spread = np.sqrt(np.mean((x - mean) ** 2, axis=-1, keepdims=True) + 1e-5)
            total -= spread_pre_term_bar * (2.0 * x_minus_mean[i, j])
        # spread = np.sqrt(np.mean((x - mean) ** 2, axis=-1, keepdims=True) + 1e-5)
        mean_bar += total
        # mean = np.mean(x, axis=-1, keepdims=True)
        mean_bar_quotient = mean_bar / x_bar.shape[1]
        for j in vrange(x_bar.shape[1]):
            # h = np.tanh((x - mean) / spread @ w + b)
            x_bar_then = x_bar[i, j] + h_pre_factor_bar[i, j] / spread_i_first
            # spread = np.sqrt(np.mean((x - mean) ** 2, axis=-1, keepdims=True) + 1e-5)
            x_bar_later = x_bar_then + spread_pre_term_bar * (2.0 * x_minus_mean[i, j])
            # mean = np.mean(x, axis=-1, keepdims=True)
            x_bar_now[i, j] = x_bar_later + mean_bar_quotient


def block_reverse(x_bar, x_minus_mean, spread, x_quotient, h, w):
    h_pre_bar = np.empty((x_bar.shape[0], x_bar.shape[1]))
    b_bar = np.full(x_bar.shape[1], 0.0)
    block_reverse_kernel(x_bar, h, h_pre_bar, b_bar)
    h_pre_factor_bar = h_pre_bar @ w.T
    w_bar = x_quotient.T @ h_pre_bar
    x_bar_now = h_pre_bar  # h_pre_bar is not read again
    block_reverse_kernel_2(x_bar, x_minus_mean, spread, x_quotient, h_pre_factor_bar, x_bar_now)
    return x_bar_now, b_bar, w_bar


@kernel
def residual_grad_kernel(x_flat, x_bar):
    # reverse
    for i in prange(x_flat.size):
        # return np.sum(x * x)
        x_bar[i] = 2.0 * x_flat[i]


@kernel
def residual_grad_kernel_2(w_0, x, h, x_bar, h_pre_bar, b_0_bar):
    # reverse
    for i in range(x.shape[0]):
        for j in vrange(w_0.shape[0]):
            # block: return x + h * h
            h_ij = h[i, j]
            h_bar = 2.0 * x_bar[i, j] * h_ij
            # block: h = np.tanh((x - mean) / spread @ w + b)
            h_pre_bar_ij = h_bar * (1.0 - h_ij * h_ij)
            h_pre_bar[i, j] = h_pre_bar_ij
            b_0_bar[j] += h_pre_bar_ij


def residual_grad_jit(params, x):
    if params[0][0].shape[1] != params[0][0].shape[0]:
        raise ValueError('residual_grad_jit needs params[0][0].shape[1] == params[0][0].shape[0]')
    if params[0][1].shape[0] != params[0][0].shape[0]:
        raise ValueError('residual_grad_jit needs params[0][1].shape[0] == params[0][0].shape[0]')
    if params[1][0].shape[0] != params[0][0].shape[0]:
        raise ValueError('residual_grad_jit needs params[1][0].shape[0] == params[0][0].shape[0]')
    if params[1][0].shape[1] != params[0][0].shape[0]:
        raise ValueError('residual_grad_jit needs params[1][0].shape[1] == params[0][0].shape[0]')
    if params[1][1].shape[0] != params[0][0].shape[0]:
        raise ValueError('residual_grad_jit needs params[1][1].shape[0] == params[0][0].shape[0]')
    if params[2][0].shape[0] != params[0][0].shape[0]:
        raise ValueError('residual_grad_jit needs params[2][0].shape[0] == params[0][0].shape[0]')
    if params[2][0].shape[1] != params[0][0].shape[0]:
        raise ValueError('residual_grad_jit needs params[2][0].shape[1] == params[0][0].shape[0]')
    if params[2][1].shape[0] != params[0][0].shape[0]:
        raise ValueError('residual_grad_jit needs params[2][1].shape[0] == params[0][0].shape[0]')
    if params[3][0].shape[0] != params[0][0].shape[0]:
        raise ValueError('residual_grad_jit needs params[3][0].shape[0] == params[0][0].shape[0]')
    if params[3][0].shape[1] != params[0][0].shape[0]:
        raise ValueError('residual_grad_jit needs params[3][0].shape[1] == params[0][0].shape[0]')
    if params[3][1].shape[0] != params[0][0].shape[0]:
        raise ValueError('residual_grad_jit needs params[3][1].shape[0] == params[0][0].shape[0]')
    if params[4][0].shape[0] != params[0][0].shape[0]:
        raise ValueError('residual_grad_jit needs params[4][0].shape[0] == params[0][0].shape[0]')
    if params[4][0].shape[1] != params[0][0].shape[0]:
        raise ValueError('residual_grad_jit needs params[4][0].shape[1] == params[0][0].shape[0]')
    if params[4][1].shape[0] != params[0][0].shape[0]:
        raise ValueError('residual_grad_jit needs params[4][1].shape[0] == params[0][0].shape[0]')
    if x.shape[1] != params[0][0].shape[0]:
        raise ValueError('residual_grad_jit needs x.shape[1] == params[0][0].shape[0]')

    # forward
    x, _, _, x_quotient, h = block(x, params[0][0], params[0][1])
    x, *block_1 = block(x, params[1][0], params[1][1])
    x, *block_2 = block(x, params[2][0], params[2][1])
    x, *block_3 = block(x, params[3][0], params[3][1])
    x, *block_4 = block(x, params[4][0], params[4][1])

    # reverse
    x_flat = x.reshape(-1)
    x_bar = np.empty(x_flat.size)
    residual_grad_kernel(x_flat, x_bar)
    x_bar = x_bar.reshape(x.shape[0], params[0][0].shape[0])
    x_bar, b_4_bar, w_4_bar = block_reverse(x_bar, *block_4, params[4][0])
    x_bar, b_3_bar, w_3_bar = block_reverse(x_bar, *block_3, params[3][0])
    x_bar, b_2_bar, w_2_bar = block_reverse(x_bar, *block_2, params[2][0])
    x_bar, b_1_bar, w_1_bar = block_reverse(x_bar, *block_1, params[1][0])
    h_pre_bar = np.empty((x.shape[0], params[0][0].shape[0]))
    b_0_bar = np.full(params[0][0].shape[0], 0.0)
    residual_grad_kernel_2(params[0][0], x, h, x_bar, h_pre_bar, b_0_bar)
    w_0_bar = x_quotient.T @ h_pre_bar
    return [
        (w_0_bar, b_0_bar),
        (w_1_bar, b_1_bar),
        (w_2_bar, b_2_bar),
        (w_3_bar, b_3_bar),
        (w_4_bar, b_4_bar),
    ]
