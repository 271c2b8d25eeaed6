"""``calque.sparse``: sparse Jacobians and Hessians, with their patterns and colours.

The pattern of a derivative is read from the program, for all inputs of some sizes; its columns or
rows are coloured, so that few tangents or cotangents give all entries, and one compiled program
computes them. In come functions and arguments of a call, out come functions that give matrices of
SciPy. Read ``sparse_derivatives``, then ``evaluation``, ``detecting`` and ``coloring``;
``transpiler/sparsity`` follows programs.

>>> import numpy as np
>>> from calque import sparse
>>> x = np.linspace(0.0, 1.0, 5)
>>> jac = sparse.jacobian(lambda x: np.diff(x**2), x)
>>> jac.coloring.num_colors, jac(x).nnz
(2, 8)
"""

from __future__ import annotations

from calque.runtime.sparse.coloring import ColoredPattern
from calque.runtime.sparse.detecting import DenseBlockWarning
from calque.runtime.sparse.patterns import SparsityPattern
from calque.runtime.sparse.sparse_derivatives import (
    hessian,
    hessian_coloring,
    hessian_from_coloring,
    hessian_sparsity,
    jacobian,
    jacobian_coloring,
    jacobian_from_coloring,
    jacobian_sparsity,
    value_and_hessian,
    value_and_jacobian,
)

__all__ = [
    "ColoredPattern",
    "DenseBlockWarning",
    "SparsityPattern",
    "hessian",
    "hessian_coloring",
    "hessian_from_coloring",
    "hessian_sparsity",
    "jacobian",
    "jacobian_coloring",
    "jacobian_from_coloring",
    "jacobian_sparsity",
    "value_and_hessian",
    "value_and_jacobian",
]
