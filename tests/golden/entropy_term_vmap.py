"""entropy_term for a batch of p.

From tests/golden_programs.py, line 45. Written by calque 0.1.0; regenerate with
    calque show tests/golden_programs.py:entropy_term --transform "vmap(f, in_axes=(0, None))" --args "f8[n], float"
Types: p float64[n], scale float.
"""
import numpy as np


def entropy_term_vmap(p, scale):
    lanes = np.flatnonzero(p > 0.0)
    p_lanes = p[lanes]
    h_lanes = -p_lanes * np.log(p_lanes)
    h = np.zeros(p.shape[0])
    h[lanes] = h_lanes
    return scale * h
