"""``scipy.spatial.distance``: metrics of vectors, and of all pairs of rows.

A distance's derivative at equal points is zero, a subgradient of its kink there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.runtime.api import stop_gradient
from calque.transpiler.frontend.library.scipy_twins import read_source, twin
from calque.transpiler.frontend.library.twin_questions import is_known

SPACE = "scipy.spatial.distance"
read_source(SPACE, *"hamming jaccard yule dice rogerstanimoto russellrao sokalsneath".split())

_SYMMETRY = 1e-6  # how far a matrix of distances may be from symmetric, by its largest entry


def power_of(x: Any, p: Any) -> Any:
    """A power of numbers that are not negative; at zero all its derivatives are zero."""
    if is_known(p) and p == 1:
        return x
    zero = x == 0
    return np.where(zero, 0.0, np.where(zero, 1.0, x) ** p)


def root(x: Any) -> Any:
    """The square root; at zero all its derivatives are zero."""
    zero = x == 0
    return np.where(zero, 0.0, np.sqrt(np.where(zero, 1.0, x)))


def _sum(x: Any, w: Any) -> Any:
    return np.sum(x if w is None else w * x, axis=-1)


# metrics of two stacks of vectors, of which the last axis is summed


def _sqeuclidean(u: Any, v: Any, w: Any = None) -> Any:
    d = u - v
    return _sum(d * d, w)


def _euclidean(u: Any, v: Any, w: Any = None) -> Any:
    return root(_sqeuclidean(u, v, w))


def _seuclidean(u: Any, v: Any, V: Any) -> Any:
    return root(_sqeuclidean(u, v, 1.0 / np.asarray(V, dtype=np.float64)))


def _cityblock(u: Any, v: Any, w: Any = None) -> Any:
    return _sum(np.abs(u - v), w)


def _chebyshev(u: Any, v: Any, w: Any = None) -> Any:
    d = np.abs(u - v)
    return np.max(d if w is None else (w > 0) * d, axis=-1)


def _minkowski(u: Any, v: Any, p: Any = 2, w: Any = None) -> Any:
    if p <= 0:
        raise ValueError("p must be greater than 0")
    if p == np.inf:
        return _chebyshev(u, v, w)
    if is_known(p) and p == 2:
        return _euclidean(u, v, w)
    return power_of(_sum(power_of(np.abs(u - v), p), w), 1.0 / p)


def _mahalanobis(u: Any, v: Any, VI: Any) -> Any:
    d = u - v
    return root(np.sum(np.dot(d, np.atleast_2d(VI)) * d, axis=-1))


def _centered(u: Any, w: Any) -> Any:
    if w is None:
        return u - np.mean(u, axis=-1, keepdims=True)
    return u - np.sum(w * u, axis=-1, keepdims=True)


def _correlation(u: Any, v: Any, w: Any = None, centered: bool = True) -> Any:
    if w is not None:
        w = w / np.sum(w)
    if centered:
        u, v = _centered(u, w), _centered(v, w)
    distance = 1.0 - _sum(u * v, w) / np.sqrt(_sum(u * u, w) * _sum(v * v, w))
    excess = stop_gradient(distance - np.clip(distance, 0.0, 2.0))
    return distance - excess


def _cosine(u: Any, v: Any, w: Any = None) -> Any:
    return _correlation(u, v, w, centered=False)


def _braycurtis(u: Any, v: Any, w: Any = None) -> Any:
    return _sum(np.abs(u - v), w) / _sum(np.abs(u + v), w)


def _canberra(u: Any, v: Any, w: Any = None) -> Any:
    difference, size = np.abs(u - v), np.abs(u) + np.abs(v)
    zero = size == 0
    return _sum(np.where(zero, 0.0, difference / np.where(zero, 1.0, size)), w)


def _relative(p: Any, m: Any) -> Any:
    """``rel_entr``, of which the derivatives at zero are zero."""
    inside, zero = (p > 0) & (m > 0), (p == 0) & (m >= 0)
    ratio = np.where(inside, p, 1.0) / np.where(inside, m, 1.0)
    found = np.where(inside | zero, np.where(inside, p * np.log(ratio), 0.0), np.inf)
    return np.where(np.isnan(p + m), np.nan, found)


def _divergence(p: Any, q: Any, base: Any, axis: int, keepdims: bool) -> Any:
    p = p / np.sum(p, axis=axis, keepdims=True)
    q = q / np.sum(q, axis=axis, keepdims=True)
    m = (p + q) / 2.0
    found = np.sum(_relative(p, m) + _relative(q, m), axis=axis, keepdims=keepdims)
    return root((found if base is None else found / np.log(base)) / 2.0)


def _jensenshannon(u: Any, v: Any, base: Any = None) -> Any:
    return _divergence(u, v, base, -1, False)


def _hamming(u: Any, v: Any, w: Any = None) -> Any:
    differs = u != v
    return np.mean(differs, axis=-1) if w is None else _sum(differs, w / np.sum(w))


def _jaccard(u: Any, v: Any, w: Any = None) -> Any:
    nonzero = _sum((u != 0) | (v != 0), w)
    return _unequal(u, v, w) / np.where(nonzero == 0, 1.0, nonzero)


# those of truth values: the weight of the entries where both are true, and where only one is


def _true(u: Any, v: Any, w: Any) -> Any:
    return _sum((u != 0) & (v != 0), w)


def _unequal(u: Any, v: Any, w: Any) -> Any:
    return _sum((u != 0) != (v != 0), w)


def _dice(u: Any, v: Any, w: Any = None) -> Any:
    unequal = _unequal(u, v, w)
    return unequal / (2.0 * _true(u, v, w) + unequal)


def _rogerstanimoto(u: Any, v: Any, w: Any = None) -> Any:
    unequal = 2.0 * _unequal(u, v, w)
    return unequal / (_sum((u != 0) == (v != 0), w) + unequal)


def _russellrao(u: Any, v: Any, w: Any = None) -> Any:
    total = u.shape[-1] if w is None else np.sum(w)
    return (total - _true(u, v, w)) / total


def _sokalsneath(u: Any, v: Any, w: Any = None) -> Any:
    unequal = 2.0 * _unequal(u, v, w)
    return unequal / (_true(u, v, w) + unequal)


def _yule(u: Any, v: Any, w: Any = None) -> Any:
    only_u, only_v = _sum((u != 0) & (v == 0), w), _sum((u == 0) & (v != 0), w)
    half = 1.0 * only_u * only_v
    total = _true(u, v, w) * _sum((u == 0) & (v == 0), w) + half
    return 2.0 * half / np.where(half == 0, 1.0, total)


METRICS = {
    "braycurtis": _braycurtis,
    "canberra": _canberra,
    "chebyshev": _chebyshev,
    "cityblock": _cityblock,
    "correlation": _correlation,
    "cosine": _cosine,
    "dice": _dice,
    "euclidean": _euclidean,
    "hamming": _hamming,
    "jaccard": _jaccard,
    "jensenshannon": _jensenshannon,
    "mahalanobis": _mahalanobis,
    "minkowski": _minkowski,
    "rogerstanimoto": _rogerstanimoto,
    "russellrao": _russellrao,
    "seuclidean": _seuclidean,
    "sokalsneath": _sokalsneath,
    "sqeuclidean": _sqeuclidean,
    "yule": _yule,
}
_ALSO = {
    "chebyshev": "chebychev cheby cheb ch",
    "cityblock": "cblock cb c",
    "correlation": "co",
    "cosine": "cos",
    "euclidean": "euclid eu e",
    "hamming": "matching hamm ha h",
    "jaccard": "jacc ja j",
    "jensenshannon": "js",
    "mahalanobis": "mahal mah",
    "minkowski": "mi m pnorm",
    "seuclidean": "se s",
    "sqeuclidean": "sqe sqeuclid",
}
NAMES = {other: name for name, others in _ALSO.items() for other in others.split()}


# metrics of two vectors


def _vector(u: Any, dtype: Any = None) -> Any:
    u = np.asarray(u, dtype=dtype)
    if u.ndim != 1:
        raise ValueError("Input vector should be 1-D.")
    return u


def _weights(w: Any) -> Any:
    if w is None:
        return None
    w = _vector(w, np.float64)
    if np.any(w < 0):
        raise ValueError("Input weights should be all non-negative")
    return w


def _floating(u: Any) -> Any:
    u = np.asarray(u)
    return _vector(u, None if np.issubdtype(u.dtype, np.inexact) else np.float64)


@twin(SPACE, "sqeuclidean")
def sqeuclidean(u: Any, v: Any, w: Any = None) -> Any:
    """The squared Euclidean distance of two vectors."""
    return _sqeuclidean(_floating(u), _floating(v), _weights(w))


@twin(SPACE, "minkowski")
def minkowski(u: Any, v: Any, p: Any = 2, w: Any = None) -> Any:
    """The ``p``-norm of a difference; that of ``w ** (1 / p) * (u - v)``."""
    found = _minkowski(_vector(u), _vector(v), p, _weights(w))
    return float(found) if is_known(p) and p == 2 else found


@twin(SPACE, "euclidean")
def euclidean(u: Any, v: Any, w: Any = None) -> Any:
    """The Euclidean distance of two vectors."""
    return float(_euclidean(_vector(u), _vector(v), _weights(w)))


@twin(SPACE, "seuclidean")
def seuclidean(u: Any, v: Any, V: Any) -> Any:
    """The Euclidean distance of two vectors, whose entries have the variances ``V``."""
    u, v, V = _vector(u), _vector(v), _vector(V, np.float64)
    if V.shape[0] != u.shape[0] or u.shape[0] != v.shape[0]:
        raise TypeError("V must be a 1-D array of the same dimension as u and v.")
    return float(_euclidean(u, v, _weights(1.0 / V)))


@twin(SPACE, "mahalanobis")
def mahalanobis(u: Any, v: Any, VI: Any) -> Any:
    """The distance of two vectors with the inverse covariance ``VI``."""
    return _mahalanobis(_vector(u), _vector(v), VI)


@twin(SPACE, "cityblock")
def cityblock(u: Any, v: Any, w: Any = None) -> Any:
    """The sum of absolute differences."""
    return _cityblock(_vector(u), _vector(v), _weights(w))


@twin(SPACE, "chebyshev")
def chebyshev(u: Any, v: Any, w: Any = None) -> Any:
    """The largest absolute difference; with weights, among the entries of positive weight."""
    return _chebyshev(_vector(u), _vector(v), _weights(w))


@twin(SPACE, "correlation")
def correlation(u: Any, v: Any, w: Any = None, centered: bool = True) -> Any:
    """One minus the correlation of two vectors."""
    return _correlation(_vector(u), _vector(v), _weights(w), centered)


@twin(SPACE, "cosine")
def cosine(u: Any, v: Any, w: Any = None) -> Any:
    """One minus the cosine of the angle between two vectors."""
    return _cosine(_vector(u), _vector(v), _weights(w))


@twin(SPACE, "braycurtis")
def braycurtis(u: Any, v: Any, w: Any = None) -> Any:
    """The sum of absolute differences by that of absolute sums."""
    return _braycurtis(_vector(u), _vector(v, np.float64), _weights(w))


@twin(SPACE, "canberra")
def canberra(u: Any, v: Any, w: Any = None) -> Any:
    """The sum of absolute differences, each by the sum of the absolute values."""
    return _canberra(_vector(u), _vector(v, np.float64), _weights(w))


@twin(SPACE, "jensenshannon")
def jensenshannon(
    p: Any, q: Any, base: Any = None, *, axis: int = 0, keepdims: bool = False
) -> Any:
    """The square root of the Jensen-Shannon divergence."""
    return _divergence(np.asarray(p), np.asarray(q), base, axis, keepdims)


# all pairs


def _metric_of(metric: Any) -> Any:
    """A metric of stacks, by its name or SciPy's function; None for a function of the user's."""
    if isinstance(metric, str):
        name = metric.lower().removeprefix("test_")
        found = METRICS.get(NAMES.get(name, name))
        if found is None:
            raise ValueError(f"Unknown Distance Metric: {metric.lower()}")
        return found
    if not callable(metric):
        raise TypeError("2nd argument metric must be a string identifier or a function.")
    return None


def _sample(XA: Any, XB: Any) -> Any:
    return XA if XB is None else np.concatenate([XA, XB])


def _options(metric: Any, XA: Any, XB: Any, kwargs: Any) -> Any:
    """The options of a metric, with the variances that it takes from all rows by default."""
    found = {name: value for name, value in kwargs.items() if value is not None}
    if metric is _seuclidean and "V" not in found:
        found["V"] = np.var(_sample(XA, XB), axis=0, ddof=1)
    if metric is _mahalanobis and "VI" not in found:
        rows = _sample(XA, XB)
        if rows.shape[0] <= rows.shape[1]:
            raise ValueError(
                f"The number of observations ({rows.shape[0]}) is too small; the covariance matrix "
                f"is singular. For observations with {rows.shape[1]} dimensions, at least "
                f"{rows.shape[1] + 1} observations are required."
            )
        found["VI"] = np.linalg.inv(np.atleast_2d(np.cov(rows.T))).T
    if "w" in found:
        w = found["w"] = _weights(found["w"])
        if w.shape[0] != XA.shape[1]:
            raise ValueError(
                f"Weights must have same size as input vector. {w.shape[0]} vs. {XA.shape[1]}."
            )
    return found


def _stored(found: Any, out: Any) -> Any:
    if out is None:
        return found
    out[...] = found
    return out


@twin(SPACE, "cdist")
def cdist(XA: Any, XB: Any, metric: Any = "euclidean", *, out: Any = None, **kwargs: Any) -> Any:
    """The distance of each row of one matrix to each row of another."""
    XA, XB = np.asarray(XA), np.asarray(XB)
    if XA.ndim != 2:
        raise ValueError("XA must be a 2-dimensional array.")
    if XB.ndim != 2:
        raise ValueError("XB must be a 2-dimensional array.")
    if XA.shape[1] != XB.shape[1]:
        raise ValueError("XA and XB must have the same number of columns (i.e. feature dimension.)")
    XA, XB = XA.astype(np.float64), XB.astype(np.float64)
    stacked = _metric_of(metric)
    if stacked is not None:
        options = _options(stacked, XA, XB, kwargs)
        return _stored(stacked(XA[:, None, :], XB[None, :, :], **options), out)
    found = np.empty((XA.shape[0], XB.shape[0]))
    for i in range(XA.shape[0]):
        for j in range(XB.shape[0]):
            found[i, j] = metric(XA[i], XB[j], **kwargs)
    return _stored(found, out)


@twin(SPACE, "pdist")
def pdist(X: Any, metric: Any = "euclidean", *, out: Any = None, **kwargs: Any) -> Any:
    """The distances of the pairs of rows of a matrix, row after row of the upper triangle."""
    X = np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"A 2-dimensional array must be passed. (Shape was {X.shape}).")
    X, n = X.astype(np.float64), X.shape[0]
    stacked = _metric_of(metric)
    if stacked is not None:
        options = _options(stacked, X, None, kwargs)
        rows, columns = np.triu_indices(n, 1)
        return _stored(stacked(X[rows], X[columns], **options), out)
    found, k = np.empty(n * (n - 1) // 2), 0
    for i in range(n - 1):
        for j in range(i + 1, n):
            found[k] = metric(X[i], X[j], **kwargs)
            k += 1
    return _stored(found, out)


@twin(SPACE, "squareform")
def squareform(X: Any, force: str = "no", checks: bool = True) -> Any:
    """The symmetric matrix of a vector of distances, or that vector of such a matrix.

    In a kernel a matrix of distances is symmetric only up to the last bits of its numbers.
    """
    X = np.asarray(X)
    if force.lower() == "tomatrix" and X.ndim != 1:
        raise ValueError("Forcing 'tomatrix' but input X is not a distance vector.")
    if force.lower() == "tovector" and X.ndim != 2:
        raise ValueError("Forcing 'tovector' but input X is not a distance matrix.")
    if X.ndim == 1:
        return _square(X)
    if X.ndim != 2:
        raise ValueError(
            "The first argument must be one or two dimensional array. "
            f"A {X.ndim}-dimensional array is not permitted"
        )
    if X.shape[0] != X.shape[1]:
        raise ValueError("The matrix argument must be square.")
    if checks:
        tolerance = _SYMMETRY * np.max(np.abs(X))
        if np.any(np.abs(X - X.T) > tolerance):
            raise ValueError("Distance matrix 'X' must be symmetric.")
        if np.any(np.abs(np.diagonal(X)) > tolerance):
            raise ValueError("Distance matrix 'X' diagonal must be zero.")
    return X[np.triu_indices(X.shape[0], 1)]


def _square(X: Any) -> Any:
    d = int(np.ceil(np.sqrt(X.shape[0] * 2)))
    if d * (d - 1) != X.shape[0] * 2:
        raise ValueError(
            "Incompatible vector size. It must be a binomial coefficient n choose 2 for some "
            "integer n >= 2."
        )
    d = max(d, 1)
    found = np.zeros((d, d), dtype=X.dtype)
    found[np.triu_indices(d, 1)] = X
    return found + found.T


@twin("scipy.spatial", "minkowski_distance_p")
def minkowski_distance_p(x: Any, y: Any, p: Any = 2.0) -> Any:
    """The ``p``-th power of the ``p``-norm of differences along the last axis."""
    x, y = np.asarray(x), np.asarray(y)
    dtype = np.result_type(x.dtype, y.dtype, np.float64)
    difference = np.abs(y.astype(dtype) - x.astype(dtype))
    if p == np.inf:
        return np.max(difference, axis=-1)
    return np.sum(power_of(difference, p), axis=-1)


@twin("scipy.spatial", "minkowski_distance")
def minkowski_distance(x: Any, y: Any, p: Any = 2.0) -> Any:
    """The ``p``-norm of differences along the last axis."""
    powers = minkowski_distance_p(x, y, p)
    if p == np.inf:
        return powers
    return root(powers) if is_known(p) and p == 2 else power_of(powers, 1.0 / p)


@twin("scipy.spatial", "distance_matrix")
def distance_matrix(x: Any, y: Any, p: Any = 2.0, threshold: int = 1000000) -> Any:
    """The ``p``-norm of the difference of each row of one matrix and each row of another."""
    x, y = np.asarray(x), np.asarray(y)
    if x.shape[1] != y.shape[1]:
        raise ValueError(
            f"x contains {x.shape[1]}-dimensional vectors but y contains "
            f"{y.shape[1]}-dimensional vectors"
        )
    return minkowski_distance(x[:, None, :], y[None, :, :], p)
