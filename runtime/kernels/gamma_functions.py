"""The logarithmic derivative of the gamma function, which kernels call: SciPy's ``digamma``.

Between 1 and 2 by the rational approximation of Boost's ``digamma`` (John Maddock, 2006), which
keeps its digits at the root; from 10 on by the asymptotic series (Abramowitz and Stegun, 6.3.18);
in between by recurrence (6.3.5), and below zero by reflection (6.3.7).
"""

from __future__ import annotations

import math

import numpy as np
from numba.extending import register_jitable


@register_jitable
def _digamma_from_1_to_2(x):
    root = 1569415565.0 / 1073741824.0
    root_rest = 381566830.0 / 1073741824.0 / 1073741824.0
    root_end = 0.9016312093258695918615325266959189453125e-19
    t = x - 1.0
    above = -0.0020713321167745952 * t - 0.045251321448739056
    above = (above * t - 0.28919126444774784) * t - 0.65031853770896507
    above = (above * t - 0.32555031186804491) * t + 0.25479851061131551
    below = -0.55789841321675513e-6 * t + 0.0021284987017821144
    below = (below * t + 0.054151797245674225) * t + 0.43593529692665969
    below = ((below * t + 1.4606242909763515) * t + 2.0767117023730469) * t + 1.0
    return (x - root - root_rest - root_end) * (0.99558162689208984 + above / below)


@register_jitable
def _digamma_from_10(x):
    if x > 1e17:
        return math.log(x)
    z = 1.0 / (x * x)
    series = 8.33333333333333333333e-2 * z - 2.10927960927960927961e-2
    series = (series * z + 7.57575757575757575758e-3) * z - 4.16666666666666666667e-3
    series = (series * z + 3.96825396825396825397e-3) * z - 8.33333333333333333333e-3
    series = (series * z + 8.33333333333333333333e-2) * z
    return math.log(x) - 0.5 / x - series


@register_jitable
def digamma(x):
    """``scipy.special.digamma`` of a float64: NaN at negative integers and at -inf."""
    if math.isnan(x) or x == math.inf:
        return x
    if x == 0.0:
        return math.copysign(math.inf, -x)
    found = 0.0
    if x < 0.0:
        part = x - np.trunc(x)
        if not part < 0.0:
            return math.nan
        found = -math.pi / math.tan(math.pi * part)
        x = 1.0 - x
    if x >= 10.0:
        return found + _digamma_from_10(x)
    while x < 1.0:
        found -= 1.0 / x
        x += 1.0
    while x > 2.0:
        x -= 1.0
        found += 1.0 / x
    return found + _digamma_from_1_to_2(x)
