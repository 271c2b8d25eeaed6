"""Linear systems of which something is known, as ``jit`` has them: the passes put these in.

No derivative and no batch is taken of them: that is done before. What they compute here is right,
and no quicker than ``np.linalg``; the quick form is the runtime's, under the same names.
"""

from __future__ import annotations

import numpy as np

from calque.transpiler.primitives.base import opaque
from calque.transpiler.primitives.linalg import SYSTEM, solve_in_cupy
from calque.transpiler.primitives.sampling import Drawn, case, cases


def _low(*shape: int, dtype: str = "f8") -> Drawn:
    return Drawn(shape, dtype, lambda x: np.tril(x) + 3 * np.eye(shape[-1]))


solve_triangular = opaque(
    "solve_triangular",
    lambda a, b, lower: np.linalg.solve(a, b),
    SYSTEM,
    lambda args, params: f"solve_triangular({{0}}, {{1}}, lower={params['lower']})",
    cupy=solve_in_cupy,
    nondifferentiable=True,
    fresh=True,
    samples=cases(
        case(_low(3, 3), (3,), lower=True),
        case(_low(2, 3, 3), (3, 2), lower=True),
        case(_low(2, 2, dtype="f4"), Drawn((2,), "f4"), lower=True),
    ),
    word="solve",
)
