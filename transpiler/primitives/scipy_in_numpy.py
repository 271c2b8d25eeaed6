"""Functions of ``scipy.linalg`` said in ``np.linalg``, which stacks, and which kernels compile.

A batch of matrices is NumPy's stack of them. What NumPy has nothing like is SciPy's own stack,
which its versions since 1.16 have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.transpiler.ir.builder import FUNCTIONS
from calque.transpiler.primitives import (
    decompositions,
    linalg,
    scipy_bands,
    scipy_eigen,
    scipy_equations,
    scipy_factors,
    scipy_linalg,
    scipy_matrices,
    scipy_matrix_functions,
    scipy_more_factors,
    scipy_systems,
)
from calque.transpiler.primitives.base import Primitive, apply
from calque.transpiler.primitives.batched import all_batched, batches, rank_of, refuse
from calque.transpiler.primitives.batched_axes import reduction
from calque.transpiler.primitives.batched_products import stacked
from calque.transpiler.primitives.linalg import adjoint, transposed
from calque.transpiler.primitives.one_triangle import mirrored
from calque.transpiler.primitives.scipy_linalg import finite, triangle
from calque.transpiler.primitives.scipy_stacks import scipy_stacks

Args = Sequence[Any]
Flags = tuple[bool, ...]
Params = dict[str, Any]
Over = Callable[[Any, Any], Any]  # the x with a @ x == b


def _checked(x: Any, params: Params) -> Any:
    return apply(finite, x) if params["check_finite"] else x


def _solve(over: Over, args: Args, params: Params) -> Any:
    a, b = (_checked(x, params) for x in args)
    if params["assume_a"] in ("sym", "her", "pos"):
        lower = params["lower"]
        a = mirrored(a, "L" if lower else "U")
    if params["assume_a"] != "pos":
        return over(a, b)
    factor = apply(decompositions.cholesky, a)
    return over(adjoint(factor), over(factor, b))


def _solve_triangular(over: Over, args: Args, params: Params) -> Any:
    a, b = (_checked(x, params) for x in args)
    a = triangle(a, params["lower"], params["unit_diagonal"])
    if params["unit_diagonal"]:
        a = a + FUNCTIONS[np.eye](a.shape[-1], dtype=a.dtype)
    return over(transposed(a) if params["trans"] else a, b)


def _cholesky(a: Any, lower: bool) -> Any:
    if lower:
        return apply(decompositions.cholesky, a)
    return transposed(apply(decompositions.cholesky, transposed(a)))


def _cho_factor(over: Over, args: Args, params: Params) -> Any:
    a, lower = _checked(args[0], params), params["lower"]
    return _cholesky(a, lower) + triangle(a, not lower, 1)


def _cho_solve(over: Over, args: Args, params: Params) -> Any:
    (c, b), lower = (_checked(x, params) for x in args), params["lower"]
    factor = triangle(c, lower)
    first, second = (factor, adjoint(factor)) if lower else (adjoint(factor), factor)
    return over(second, over(first, b))


def _det(over: Over, args: Args, params: Params) -> Any:
    found = apply(linalg.det, _checked(args[0], params))
    return FUNCTIONS["cast"](found, np.result_type(found.dtype, np.float64))


IN_NUMPY: dict[Primitive, Callable[[Over, Args, Params], Any]] = {
    scipy_linalg.solve: _solve,
    scipy_linalg.solve_triangular: _solve_triangular,
    scipy_linalg.inv: lambda over, args, params: apply(linalg.inv, _checked(args[0], params)),
    scipy_linalg.det: _det,
    scipy_factors.cholesky: lambda over, args, params: _cholesky(
        _checked(args[0], params), params["lower"]
    ),
    scipy_factors.cho_factor: _cho_factor,
    scipy_factors.cho_solve: _cho_solve,
}


def _stacked(primitive: Primitive) -> Callable[[Args, Flags, Params], Any]:
    """The batch rule of a function that NumPy has."""

    def rule(args: Args, batched: Flags, params: Params) -> Any:
        rank = rank_of(args[-1], batched[-1])

        def over(a: Any, b: Any) -> Any:
            return linalg.solve.batch((a, b), (a.ndim > 2, b.ndim > rank), {})  # type: ignore[misc]

        return IN_NUMPY[primitive](over, args, params)

    return rule


for _record in IN_NUMPY:
    _record.batch = _stacked(_record)

for _record, _numpys in (
    (scipy_eigen.svd, decompositions.svd),
    (scipy_eigen.full_svd, decompositions.full_svd),
    (scipy_eigen.singular_values, decompositions.svdvals),
    (scipy_eigen.qr, decompositions.qr),
):

    def _alike(args: Args, batched: Flags, params: Params, numpys: Any = _numpys) -> Any:
        return apply(numpys, _checked(args[0], params))

    _record.batch = _alike

scipy_matrices.expm.batch = stacked(scipy_matrices.expm)


@batches(scipy_matrices.frechet)
def _frechet(args: Args, batched: Flags, params: Params) -> Any:
    double = scipy_matrices.frechet.infer(*args).dtype
    a, e = (FUNCTIONS["cast"](x, double) for x in all_batched(args, batched))
    return scipy_matrices.along(a, e)


@batches(scipy_linalg.norm)
def _norm(args: Args, batched: Flags, params: Params) -> Any:
    """SciPy's norm of a vector of float32 is a float64."""
    single = scipy_linalg.norm.infer(args[0][0], **params)
    found = reduction(scipy_linalg.norm)(args, batched, params)
    return FUNCTIONS["cast"](found, single.dtype)


def _own_stack(primitive: Primitive) -> Callable[[Args, Flags, Params], Any]:
    minor = 17 if primitive is scipy_systems.solve_toeplitz else 16

    def rule(args: Args, batched: Flags, params: Params) -> Any:
        if not scipy_stacks((1, minor)):
            raise refuse(f"scipy.{primitive}", f"SciPy stacks it since its version 1.{minor}.")
        return stacked(primitive)(all_batched(args, batched), (True,) * len(args), params)

    return rule


for _record in (
    *(scipy_eigen.eigh, scipy_eigen.eigenvalues, scipy_eigen.pair, scipy_linalg.pinv),
    *(scipy_factors.lu_factor, scipy_factors.lu_solve, scipy_eigen.full_qr),
    *(scipy_systems.solve_banded, scipy_systems.solveh_banded, scipy_systems.solve_toeplitz),
    *(scipy_more_factors.lu, scipy_more_factors.schur, scipy_more_factors.hessenberg),
    *(scipy_more_factors.rsf2csf, scipy_bands.eig_banded),
    *(scipy_matrix_functions.logm, scipy_matrix_functions.fractional_matrix_power),
    *(scipy_matrix_functions.sqrtm, scipy_matrix_functions.signm, scipy_matrix_functions.polar),
    *(scipy_equations.solve_sylvester, scipy_equations.discrete_lyapunov, scipy_equations.riccati),
):
    _record.batch = _own_stack(_record)
