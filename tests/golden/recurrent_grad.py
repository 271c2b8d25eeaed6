"""Gradient of recurrent with respect to params.

From tests/golden_programs.py, line 91. Written by calque 0.1.0; regenerate with
    calque show tests/golden_programs.py:recurrent --transform "grad(f)" --args "{'W': f8[7,4], 'b': f8[4]}, f8[n,3]"
Types: params {W: float64[7, 4], b: float64[4]}, xs float64[n, 3].
"""
import numpy as np


def recurrent_grad(params, xs):
    W = params['W']

    # forward
    h = np.zeros(4)
    h_saved = np.empty((xs.shape[0], 4))
    concatenate_h_saved = np.empty((xs.shape[0], 7))
    for i in range(xs.shape[0]):
        x = xs[i]
        concatenate_h = np.concatenate([h, x])
        concatenate_h_saved[i] = concatenate_h
        z = concatenate_h @ W + params['b']
        h = np.tanh(z)
        h_saved[i] = h

    # reverse
    # return np.sum(h * h)
    h_bar = 2.0 * h
    # for x in xs:
    W_bar = np.zeros_like(W)
    b_bar = np.zeros_like(params['b'])
    for i in range(xs.shape[0] - 1, -1, -1):
        # cell: return np.tanh(z)
        h = h_saved[i]
        z_bar = h_bar * (1.0 - h * h)
        # cell: z = np.concatenate([h, x]) @ params["W"] + params["b"]
        b_bar += z_bar
        W_bar += np.outer(concatenate_h_saved[i], z_bar)
        h_bar = (W @ z_bar)[:4]
    return {'W': W_bar, 'b': b_bar}
