"""Kernels of the gradient of cross_entropy with respect to logits.

From tests/golden_programs.py, line 58. Written by calque 0.1.0; regenerate with
    calque show tests/golden_programs.py:cross_entropy --transform "jit(grad(f))" --args "f8[n,k], f8[n,k]"
Types: logits float64[n, k], targets float64[n, k].
"""
import numpy as np
from calque.runtime.kernels import divide, kernel, maximum, vrange
from calque.runtime.vecmath import exp
from numba import prange


@kernel
def cross_entropy_grad_kernel(logits, out, out_new, out_b, out_c, targets, logits_bar):
    for i in prange(logits.shape[0]):
        largest = -np.inf
        for j in range(logits.shape[1]):
            # shifted = logits - np.max(logits, axis=1, keepdims=True)
            largest = maximum(largest, logits[i, j])
        # shifted = logits - np.max(logits, axis=1, keepdims=True)
        out[i, 0] = largest
        total = 0.0
        total_new = 0
        for j in range(logits.shape[1]):
            # shifted = logits - np.max(logits, axis=1, keepdims=True)
            logits_ij = logits[i, j]
            shifted = logits_ij - largest
            # log_norm = np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))
            exp_shifted = exp(shifted)
            out_new[i, j] = exp_shifted
            total = total + exp_shifted
            # shifted = logits - np.max(logits, axis=1, keepdims=True)
            total_new = total_new + np.int64(logits_ij == largest)
        # shifted = logits - np.max(logits, axis=1, keepdims=True)
        out_b[i, 0] = total
        out_c[i, 0] = total_new
    # return -np.mean(np.sum(targets * (shifted - log_norm), axis=1))
    inverse_logits = divide(-1.0, logits.shape[0])
    for i in prange(logits.shape[0]):
        log_norm_bar = 0.0
        for j in range(logits.shape[1]):
            # return -np.mean(np.sum(targets * (shifted - log_norm), axis=1))
            shifted_bar = inverse_logits * targets[i, j]
            log_norm_bar -= shifted_bar
        # log_norm = np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))
        log_norm_bar_over_out_b = log_norm_bar / out_b[i, 0]
        total = 0.0
        for j in range(logits.shape[1]):
            # return -np.mean(np.sum(targets * (shifted - log_norm), axis=1))
            shifted_bar = inverse_logits * targets[i, j]
            # log_norm = np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))
            shifted_bar += log_norm_bar_over_out_b * out_new[i, j]
            # shifted = logits - np.max(logits, axis=1, keepdims=True)
            total -= shifted_bar
        # shifted = logits - np.max(logits, axis=1, keepdims=True)
        out_i_first = out[i, 0]
        total_over_out_c = total / out_c[i, 0]
        for j in vrange(logits.shape[1]):
            # return -np.mean(np.sum(targets * (shifted - log_norm), axis=1))
            shifted_bar = inverse_logits * targets[i, j]
            # log_norm = np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))
            shifted_bar += log_norm_bar_over_out_b * out_new[i, j]
            # shifted = logits - np.max(logits, axis=1, keepdims=True)
            logits_bar[i, j] = shifted_bar + (logits[i, j] == out_i_first) * total_over_out_c


def cross_entropy_grad_jit(logits, targets):
    # forward
    out = np.empty((logits.shape[0], 1))
    out_new = np.empty((logits.shape[0], logits.shape[1]))
    out_b = np.empty((logits.shape[0], 1))
    out_c = np.empty((logits.shape[0], 1), dtype=np.int64)
    logits_bar = np.empty((logits.shape[0], logits.shape[1]))
    cross_entropy_grad_kernel(logits, out, out_new, out_b, out_c, targets, logits_bar)
    return logits_bar
