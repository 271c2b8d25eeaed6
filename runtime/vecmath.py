"""Stand-in until the vector functions are merged."""

import numpy as np
from numba import njit

for _n, _m in [(n, n) for n in "exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh cbrt".split()] + [("a" + n, "arc" + n) for n in "sin cos tan sinh cosh tanh".split()]:
    exec(f"{_n} = njit(lambda x: np.{_m}(x))")
atan2 = njit(lambda y, x: np.arctan2(y, x))
expit = njit(lambda x: 1 / (1 + np.exp(-x)))
import math
erf = njit(lambda x: math.erf(x))
erfc = njit(lambda x: math.erfc(x))
