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
def cross_entropy_grad_kernel(
    logits, targets, max_logits, exp_shifted, sum_exp_shifted, sum_logits_equal,
    logits_bar
):
    # forward and reverse
    for i in prange(logits.shape[0]):
        largest = -np.inf
        for j in range(logits.shape[1]):
            # shifted = logits - np.max(logits, axis=1, keepdims=True)
            largest = maximum(largest, logits[i, j])
        # shifted = logits - np.max(logits, axis=1, keepdims=True)
        max_logits[i, 0] = largest
        sum_exp_shifted_i = 0.0
        sum_logits_equal_i = 0
        for j in range(logits.shape[1]):
            # shifted = logits - np.max(logits, axis=1, keepdims=True)
            logits_ij = logits[i, j]
            shifted = logits_ij - largest
            # log_norm = np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))
            exp_shifted_ij = exp(shifted)
            exp_shifted[i, j] = exp_shifted_ij
            sum_exp_shifted_i += exp_shifted_ij
            # shifted = logits - np.max(logits, axis=1, keepdims=True)
            # max: the elements that attain it share the adjoint evenly
            sum_logits_equal_i += np.int64(logits_ij == largest)
        # log_norm = np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))
        sum_exp_shifted[i, 0] = sum_exp_shifted_i
        # shifted = logits - np.max(logits, axis=1, keepdims=True)
        sum_logits_equal[i, 0] = sum_logits_equal_i

    # reverse
    # return -np.mean(np.sum(targets * (shifted - log_norm), axis=1))
    sum_targets_product_bar = divide(-1.0, logits.shape[0])
    for i in prange(logits.shape[0]):
        log_norm_bar = 0.0
        for j in range(logits.shape[1]):
            # return -np.mean(np.sum(targets * (shifted - log_norm), axis=1))
            shifted_bar = sum_targets_product_bar * targets[i, j]
            log_norm_bar -= shifted_bar
        # log_norm = np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))
        sum_exp_shifted_bar = log_norm_bar / sum_exp_shifted[i, 0]
        total = 0.0
        for j in range(logits.shape[1]):
            # return -np.mean(np.sum(targets * (shifted - log_norm), axis=1))
            shifted_bar = sum_targets_product_bar * targets[i, j]
            # log_norm = np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))
            shifted_bar += sum_exp_shifted_bar * exp_shifted[i, j]
            # shifted = logits - np.max(logits, axis=1, keepdims=True)
            total -= shifted_bar
        # shifted = logits - np.max(logits, axis=1, keepdims=True)
        max_logits_i = max_logits[i, 0]
        total_over_sum_logits_equal = total / sum_logits_equal[i, 0]
        for j in vrange(logits.shape[1]):
            # return -np.mean(np.sum(targets * (shifted - log_norm), axis=1))
            shifted_bar = sum_targets_product_bar * targets[i, j]
            # log_norm = np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))
            shifted_bar += sum_exp_shifted_bar * exp_shifted[i, j]
            # shifted = logits - np.max(logits, axis=1, keepdims=True)
            logits_product = (logits[i, j] == max_logits_i) * total_over_sum_logits_equal
            logits_bar[i, j] = shifted_bar + logits_product


def cross_entropy_grad_jit(logits, targets):
    if logits.shape[0] != targets.shape[0]:
        raise ValueError('cross_entropy_grad_jit needs logits.shape[0] == targets.shape[0]')
    if logits.shape[1] != targets.shape[1]:
        raise ValueError('cross_entropy_grad_jit needs logits.shape[1] == targets.shape[1]')
    if logits.shape[1] < 1:
        raise ValueError('cross_entropy_grad_jit needs logits.shape[1] >= 1')

    # forward and reverse
    max_logits = np.empty((logits.shape[0], 1))
    exp_shifted = np.empty((logits.shape[0], logits.shape[1]))
    sum_exp_shifted = np.empty((logits.shape[0], 1))
    sum_logits_equal = np.empty((logits.shape[0], 1), dtype=np.int64)
    logits_bar = np.empty((logits.shape[0], logits.shape[1]))
    cross_entropy_grad_kernel(
        logits, targets, max_logits, exp_shifted, sum_exp_shifted, sum_logits_equal,
        logits_bar
    )
    return logits_bar
