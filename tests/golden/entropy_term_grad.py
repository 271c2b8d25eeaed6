"""Gradient of entropy_term with respect to p.

From tests/golden_programs.py, line 45. Written by calque 0.1.0; regenerate with
    calque show tests/golden_programs.py:entropy_term --transform "grad(f)" --args "float, float"
Types: p float, scale float.
"""
import numpy as np


def entropy_term_grad(p, scale):
    # reverse
    if p > 0.0:
        # h = -p * np.log(p)
        p_bar = -scale * p / np.float64(p) - scale * np.log(p)
    else:
        p_bar = 0.0
    return p_bar
