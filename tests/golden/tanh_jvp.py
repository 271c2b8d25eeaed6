"""Value and tangent of tanh.

From tests/golden_programs.py, line 53. Written by calque 0.1.0; regenerate with
    calque show tests/golden_programs.py:tanh --transform "jvp(f)" --args "float"
Types: x float, x_dot float.
"""
import numpy as np


def tanh_jvp(x, x_dot):
    y = np.exp(-2.0 * x)
    y_dot = x_dot * -2.0 * y
    y_shifted = 1.0 + y
    y_scaled = (1.0 - y) / y_shifted
    return y_scaled, -y_dot / y_shifted - y_dot * (y_scaled / y_shifted)
