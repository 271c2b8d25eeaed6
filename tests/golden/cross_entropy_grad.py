"""Gradient of cross_entropy with respect to logits.

From tests/golden_programs.py, line 58. Written by calque 0.1.0; regenerate with
    calque show tests/golden_programs.py:cross_entropy --transform "grad(f)" --args "f8[n,k], f8[n,k]"
Types: logits float64[n, k], targets float64[n, k].
"""
import numpy as np


def cross_entropy_grad(logits, targets):
    # forward
    max_logits = np.max(logits, axis=1, keepdims=True)
    shifted = logits - max_logits
    exp_shifted = np.exp(shifted)

    # reverse
    # return -np.mean(np.sum(targets * (shifted - log_norm), axis=1))
    shifted_bar = -1.0 / logits.shape[0] * targets
    log_norm_bar = np.sum(-shifted_bar, axis=1, keepdims=True)  # (n, k) -> (n, 1)
    # log_norm = np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))
    shifted_bar += log_norm_bar / np.sum(exp_shifted, axis=1, keepdims=True) * exp_shifted
    # shifted = logits - np.max(logits, axis=1, keepdims=True)
    max_logits_bar = np.sum(-shifted_bar, axis=1, keepdims=True)  # (n, k) -> (n, 1)
    # max: the elements that attain it share the adjoint evenly
    logits_equal = logits == max_logits
    shifted_bar_quotient = max_logits_bar / np.sum(logits_equal, axis=1, keepdims=True)
    logits_bar = shifted_bar + logits_equal * shifted_bar_quotient
    return logits_bar
