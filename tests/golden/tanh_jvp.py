"""Value and tangent of tanh.

From tests/golden_programs.py, line 53. Written by calque 0.1.0; regenerate with
    calque show tests/golden_programs.py:tanh --transform "jvp(f)" --args "float"
Types: x float, x_dot float.
"""
import numpy as np


def tanh_jvp(x, x_dot):
    y = np.exp(-2.0 * x)
    y_dot = x_dot * -2.0 * y
    one_plus_y = 1.0 + y
    y_quotient = (1.0 - y) / one_plus_y
    return y_quotient, -y_dot / one_plus_y - y_dot * (y_quotient / one_plus_y)
