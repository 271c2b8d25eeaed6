"""Multivariate distributions of ``scipy.stats``: normal, Student's, Dirichlet's and Wishart's.

Densities follow from the Cholesky factor of the covariance, which must be positive definite, as it
must in SciPy unless ``allow_singular`` is said: then densities are those on its range, as in SciPy,
and a derivative by the covariance is that of changes that keep its rank.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from calque.transpiler.frontend.library.scipy_twins import twin, twin_of_instances
from calque.transpiler.primitives.scipy_stats import is_number

_MODULE = "scipy.stats._multivariate"
_LOG_2PI = math.log(2.0 * math.pi)


def matrix_of(spread: Any, dim: int) -> Any:
    """A covariance matrix: of a number a multiple of the unit matrix, of a vector the diagonal."""
    spread = np.asarray(spread)
    if spread.ndim == 0:
        return spread * np.eye(dim)
    return np.diag(spread) if spread.ndim == 1 else spread


def off_center(x: Any, center: Any, spread: Any) -> tuple[Any, int]:
    """The differences from the mean, and the dimension."""
    dim = np.size(center) if center is not None else 1
    if np.ndim(spread) == 2:
        dim = np.shape(spread)[0]
    elif np.ndim(spread) == 1 and np.size(spread) != dim:
        raise ValueError(f"A vector of {np.size(spread)} variances needs a mean of that length.")
    if center is not None and np.shape(center) != (dim,) and (dim, np.size(center)) != (1, 1):
        raise ValueError(f"Array 'mean' must be a vector of length {dim}.")
    x = np.asarray(x)
    if x.ndim == 1 and dim == 1:
        x = x[:, np.newaxis]
    return (x if center is None else x - np.reshape(center, (dim,))), dim


def distances(x: Any, center: Any, spread: Any) -> tuple[Any, Any, int]:
    """Mahalanobis distances, squared, the logarithm of the determinant, and the dimension."""
    off, dim = off_center(x, center, spread)
    factor = np.linalg.cholesky(matrix_of(spread, dim))
    rows = np.reshape(off, (-1, dim))
    z = np.linalg.solve(factor, rows.T)
    found = np.reshape(np.sum(z**2, axis=0), off.shape[:-1])
    return np.squeeze(found), _log_determinant(factor), dim


def distances_on_range(x: Any, center: Any, spread: Any) -> tuple[Any, Any, Any, Any]:
    """The same of a covariance that may be singular: with its rank, and who is on its range.

    Eigenvalues below 1e6 machine epsilons (of float32 1e3) of the largest are zero, as in SciPy.
    """
    off, dim = off_center(x, center, spread)
    matrix = matrix_of(spread, dim)
    single = np.asarray(matrix).dtype == np.float32
    relative = 1e3 * np.finfo(np.float32).eps if single else 1e6 * np.finfo(np.float64).eps
    values, vectors = np.linalg.eigh(matrix)
    least = relative * np.max(np.abs(values))
    if np.min(values) < -least:
        raise ValueError("The input matrix must be symmetric positive semidefinite.")
    kept = values > least
    logarithms = np.where(kept, np.log(np.where(kept, values, 1.0)), 0.0)
    inverse = np.linalg.pinv(matrix, rcond=relative)
    square = np.sum((off @ inverse) * off, axis=-1)
    beside = np.sqrt(np.sum(np.where(kept, 0.0, off @ vectors) ** 2, axis=-1))
    inside = (beside < 1e3 * least) | np.all(kept)
    return np.squeeze(square), np.sum(logarithms), np.sum(kept), np.squeeze(inside)


@twin(_MODULE, "multivariate_normal_gen.logpdf")
def logpdf_of_normals(
    dist: Any, x: Any, mean: Any = None, cov: Any = 1, allow_singular: Any = False
) -> Any:
    """The logarithm of the density."""
    if allow_singular:
        square, determinant, rank, inside = distances_on_range(x, mean, cov)
        return np.where(inside, -0.5 * (rank * _LOG_2PI + determinant + square), -np.inf)
    square, determinant, dim = distances(x, mean, cov)
    return -0.5 * (dim * _LOG_2PI + determinant + square)


@twin(_MODULE, "multivariate_normal_gen.pdf")
def pdf_of_normals(
    dist: Any, x: Any, mean: Any = None, cov: Any = 1, allow_singular: Any = False
) -> Any:
    """The density."""
    return np.exp(logpdf_of_normals(dist, x, mean, cov, allow_singular))


@twin(_MODULE, "multivariate_normal_gen.entropy")
def entropy_of_normals(dist: Any, mean: Any = None, cov: Any = 1) -> Any:
    """The differential entropy."""
    center = np.zeros(np.shape(cov)[0]) if mean is None and np.ndim(cov) else mean
    zero = 0.0 if center is None else center
    _, determinant, dim = distances(np.zeros(np.shape(zero)), center, cov)
    return 0.5 * (dim * (_LOG_2PI + 1.0) + determinant)


@twin(_MODULE, "multivariate_t_gen.logpdf")
def logpdf_of_students(
    dist: Any, x: Any, loc: Any = None, shape: Any = 1, df: Any = 1, allow_singular: Any = False
) -> Any:
    """The logarithm of the density."""
    from scipy import special

    df = 1 if df is None else df
    if df <= 0:
        raise ValueError("'df' must be greater than zero.")
    if is_number(df, math.inf):
        return logpdf_of_normals(dist, x, loc, shape, allow_singular)
    if allow_singular:
        square, determinant, _, _ = distances_on_range(x, loc, shape)
        dim = np.size(loc) if loc is not None else 1
        dim = np.shape(shape)[0] if np.ndim(shape) == 2 else dim
    else:
        square, determinant, dim = distances(x, loc, shape)
    half = 0.5 * (df + dim)
    front = special.gammaln(half) - special.gammaln(0.5 * df) - 0.5 * dim * np.log(df * math.pi)
    return front - 0.5 * determinant - half * np.log1p(square / df)


@twin(_MODULE, "multivariate_t_gen.pdf")
def pdf_of_students(
    dist: Any, x: Any, loc: Any = None, shape: Any = 1, df: Any = 1, allow_singular: Any = False
) -> Any:
    """The density."""
    return np.exp(logpdf_of_students(dist, x, loc, shape, df, allow_singular))


@twin(_MODULE, "dirichlet_gen.logpdf")
def logpdf_of_shares(dist: Any, x: Any, alpha: Any) -> Any:
    """The logarithm of the density at shares that sum to 1; the last one may be left out."""
    from scipy import special

    x, alpha = np.asarray(x), np.asarray(alpha)
    if alpha.ndim != 1:
        raise ValueError(
            f"Parameter vector 'a' must be one dimensional, but a.shape = {alpha.shape}."
        )
    if x.shape[0] + 1 == alpha.shape[0]:
        x = np.concatenate([x, 1.0 - np.sum(x, axis=0, keepdims=True)])
    if x.shape[0] != alpha.shape[0]:
        raise ValueError(
            "Vector 'x' must have either the same number of entries as, or one entry fewer than, "
            f"parameter vector 'a', but alpha.shape = {alpha.shape} and x.shape = {x.shape}."
        )
    if np.any(np.abs(np.sum(x, axis=0) - 1.0) > 1e-9) or np.any(x < 0.0):
        raise ValueError("The input vector 'x' must lie within the normal simplex.")
    if np.any(alpha <= 0.0):
        raise ValueError("All parameters must be greater than 0")
    if np.any((x.T == 0.0) & (alpha < 1.0)):
        raise ValueError(
            "Each entry in 'x' must be greater than zero if its alpha is less than one."
        )
    front = special.gammaln(np.sum(alpha)) - np.sum(special.gammaln(alpha))
    return np.squeeze(front + np.sum(special.xlogy((alpha - 1.0), x.T).T, axis=0))


@twin(_MODULE, "dirichlet_gen.pdf")
def pdf_of_shares(dist: Any, x: Any, alpha: Any) -> Any:
    """The density at shares that sum to 1."""
    return np.exp(logpdf_of_shares(dist, x, alpha))


@twin(_MODULE, "wishart_gen.logpdf")
def logpdf_of_matrices(dist: Any, x: Any, df: Any, scale: Any) -> Any:
    """The logarithm of the density at a matrix, or at matrices along the last axis."""
    from scipy import special

    scale = np.asarray(scale)
    scale = matrix_of(scale, 1)
    dim = scale.shape[0]
    if df <= dim - 1:
        raise ValueError(
            "Degrees of freedom must be greater than the dimension of scale matrix minus 1."
        )
    x = np.asarray(x)
    if x.ndim == 3:
        x = np.moveaxis(x, -1, 0)
    elif x.ndim < 2:
        x = np.reshape(x, (-1, 1, 1)) if dim == 1 else matrix_of(x, dim)
    root, root_of_x = np.linalg.cholesky(scale), np.linalg.cholesky(x)
    # trace(inv(scale) @ x), of the roots
    total = np.sum(np.linalg.solve(root, root_of_x) ** 2, axis=(-2, -1))
    orders = 0.5 * (df - np.arange(dim))
    gammas = 0.25 * dim * (dim - 1) * math.log(math.pi) + np.sum(special.gammaln(orders))
    front = 0.5 * df * (dim * math.log(2.0) + _log_determinant(root)) + gammas
    return np.squeeze(0.5 * (df - dim - 1) * _log_determinant(root_of_x) - 0.5 * total - front)


def _log_determinant(root: Any) -> Any:
    """The logarithm of the determinant of ``root @ root.T``, a triangular ``root``."""
    return 2.0 * np.sum(np.log(np.diagonal(root, axis1=-2, axis2=-1)), axis=-1)


@twin(_MODULE, "wishart_gen.pdf")
def pdf_of_matrices(dist: Any, x: Any, df: Any, scale: Any) -> Any:
    """The density at a matrix, or at matrices along the last axis."""
    return np.exp(logpdf_of_matrices(dist, x, df, scale))


class FrozenMultivariate:
    """A multivariate distribution with its parameters."""

    def __init__(self, dist: Any, args: Any, kwds: Any):
        self.dist, self.args, self.kwds = dist, args, kwds

    def logpdf(self, x: Any) -> Any:
        """The logarithm of the density."""
        return self.dist.logpdf(x, *self.args, **self.kwds)

    def pdf(self, x: Any) -> Any:
        """The density."""
        return self.dist.pdf(x, *self.args, **self.kwds)

    def rvs(self, size: Any = 1, random_state: Any = None) -> Any:
        """Random numbers."""
        return self.dist.rvs(*self.args, **self.kwds)


@twin_of_instances(_MODULE, "multivariate_normal_gen", "multivariate_t_gen")
@twin_of_instances(_MODULE, "dirichlet_gen", "wishart_gen")
def freeze_multivariate(dist: Any, *args: Any, **kwds: Any) -> FrozenMultivariate:
    """The distribution with these parameters."""
    return FrozenMultivariate(dist, args, kwds)


@twin(_MODULE, "multivariate_normal_frozen.logpdf")
def logpdf_of_frozen_normals(frozen: Any, x: Any) -> Any:
    """The logarithm of the density of a distribution that was made outside."""
    return logpdf_of_normals(
        None, x, frozen.mean, frozen.cov_object._covariance, frozen.allow_singular
    )


@twin(_MODULE, "multivariate_normal_frozen.pdf")
def pdf_of_frozen_normals(frozen: Any, x: Any) -> Any:
    """The density of a distribution that was made outside."""
    return np.exp(logpdf_of_frozen_normals(frozen, x))
