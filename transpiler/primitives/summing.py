"""Operations that add, or multiply, many numbers in an order of NumPy's or LAPACK's own.

``jit(f, reassociate=False)`` leaves these to NumPy: a kernel's loop would add in another order.
Scans are not among them: each element continues the one before, in a loop as in NumPy.
"""

from __future__ import annotations

from calque.transpiler.primitives import (
    decompositions,
    diagonals,
    einsum,
    linalg,
    norms,
    products,
    reductions,
    scipy_linalg,
    signals,
    statistics,
    systems,
)
from calque.transpiler.primitives.special import SPECIAL

for _record in (
    *(reductions.sum_, reductions.prod, reductions.mean, statistics.var, statistics.std),
    *(diagonals.trace, einsum.einsum, norms.norm, signals.convolve),
    *(products.matmul, products.dot, products.inner, products.vdot, products.tensordot),
    *(SPECIAL["softmax"], SPECIAL["logsumexp"], SPECIAL["log_softmax"]),
    *(linalg.solve, linalg.inv, linalg.det, linalg.slogdet, decompositions.cholesky),
    *(scipy_linalg.solve, scipy_linalg.solve_triangular, scipy_linalg.inv, scipy_linalg.det),
    *(scipy_linalg.norm, systems.solve_triangular),
):
    _record.sums = True
