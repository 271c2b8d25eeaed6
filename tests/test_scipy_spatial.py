"""``scipy.spatial``: distances of vectors and of all pairs of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
from calque.transpiler.errors import UnsupportedFunction

spatial = pytest.importorskip("scipy.spatial")
distance = spatial.distance

RNG = np.random.default_rng(3)
U, V = RNG.uniform(0.2, 1.5, (2, 5))
W = RNG.uniform(0.1, 1.0, 5)
ROOT = RNG.normal(size=(5, 5))
VI = ROOT @ ROOT.T + np.eye(5)
X, Y = RNG.uniform(0.2, 1.5, (2, 7, 5))

WEIGHTED = (
    "euclidean sqeuclidean cityblock cosine correlation minkowski chebyshev braycurtis canberra"
).split()
PAIRS: dict[str, Callable[..., Any]] = {
    **{name: getattr(distance, name) for name in WEIGHTED},
    **{
        f"{n} with weights": lambda u, v, n=n: getattr(distance, n)(u, v, w=W) for n in WEIGHTED[:6]
    },
    "minkowski of a power": lambda u, v: distance.minkowski(u, v, 2.5, W),
    "minkowski of one": lambda u, v: distance.minkowski(u, v, p=1),
    "minkowski without bound": lambda u, v: distance.minkowski(u, v, np.inf),
    "minkowski below one": lambda u, v: distance.minkowski(u, v, 0.5),
    "chebyshev with weights": lambda u, v: distance.chebyshev(u, v, W),
    "canberra with weights": lambda u, v: distance.canberra(u, v, W),
    "mahalanobis": lambda u, v: distance.mahalanobis(u, v, VI),
    "seuclidean": lambda u, v: distance.seuclidean(u, v, W),
    "jensenshannon": distance.jensenshannon,
    "jensenshannon with a base": lambda u, v: distance.jensenshannon(u, v, base=2.0),
    "by weights": lambda u, v: distance.euclidean(u, W, v),
    "by variances": lambda u, v: distance.seuclidean(u, W, v),
    "by an inverse covariance": lambda u, v: distance.mahalanobis(u, v, np.outer(u, u) + VI),
    "by a power": lambda u, v: distance.minkowski(u, v, u[0] + 1.5),
}


def differences(f: Callable[..., Any], x: np.ndarray) -> np.ndarray:
    """The gradient of a sum of results by central differences."""
    steps = 1e-6 * np.eye(x.size).reshape(x.size, *x.shape)
    found = [np.sum(np.asarray(f(x + s)) - np.asarray(f(x - s))) / 2e-6 for s in steps]
    return np.reshape(found, x.shape)


def check(
    f: Callable[..., Any], *args: np.ndarray, second: bool = True, reverse: bool = True
) -> None:
    """Compare value, derivatives and a batch with plain Python and with differences."""
    expected = f(*args)
    found = calque.jit(f)(*args)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)
    assert np.asarray(found).dtype == np.asarray(expected).dtype
    for k in range(len(args)):

        def by(x: np.ndarray, k: int = k) -> Any:
            return f(*args[:k], x, *args[k + 1 :])

        def total(*args: Any) -> Any:
            return np.sum(f(*args))

        gradient: Any = calque.grad(total, argnums=k)
        gradient = gradient if second else calque.jit(gradient)
        slopes = differences(by, args[k])
        np.testing.assert_allclose(gradient(*args), slopes, rtol=1e-5, atol=1e-7)
        tangents = [np.zeros_like(a) if i != k else a for i, a in enumerate(args)]
        _, tangent = calque.jvp(total, args, tuple(tangents))
        np.testing.assert_allclose(tangent, np.sum(slopes * args[k]), rtol=1e-5, atol=1e-6)
        if second:
            gradients = calque.grad(lambda *a, k=k: np.sum(a[k] * calque.grad(total, k)(*a)), k)

            def along(x: np.ndarray, k: int = k, gradient: Any = gradient) -> Any:
                return np.sum(x * gradient(*args[:k], x, *args[k + 1 :]))

            slopes = differences(along, args[k])
            np.testing.assert_allclose(gradients(*args), slopes, rtol=1e-5, atol=1e-6)
    batches = [np.stack([a, 0.97 * (a[::-1] if reverse else a)]) for a in args]
    expected = [f(*row) for row in zip(*batches, strict=True)]
    np.testing.assert_allclose(calque.vmap(f)(*batches), expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", PAIRS)
def test_distances_of_two_vectors(name: str) -> None:
    check(PAIRS[name], U, V)


ALL: dict[str, Callable[..., Any]] = {
    **{name: lambda x, y, name=name: distance.cdist(x, y, name) for name in WEIGHTED},
    "weights": lambda x, y: distance.cdist(x, y, "cosine", w=W),
    "power": lambda x, y: distance.cdist(x, y, "minkowski", p=3.0, w=W),
    "variances": lambda x, y: distance.cdist(x, y, "seuclidean", V=W),
    "sample's variances": lambda x, y: distance.cdist(x, y, "se"),
    "inverse covariance": lambda x, y: distance.cdist(x, y, "mahalanobis", VI=VI),
    "sample's covariance": lambda x, y: distance.cdist(x, y, "mahalanobis"),
    "divergence": lambda x, y: distance.cdist(x, y, "jensenshannon"),
    "function": lambda x, y: distance.cdist(x, y, lambda u, v: np.sum(np.sin(u - v) ** 2)),
    "SciPy's function": lambda x, y: distance.cdist(x, y, distance.canberra),
    "distance_matrix": lambda x, y: spatial.distance_matrix(x, y) ** 2,
    "distance_matrix of a power": lambda x, y: spatial.distance_matrix(x, y, p=3),
    "pdist": lambda x, y: distance.pdist(x, "correlation") * y.sum(),
    "pdist's variances": lambda x, y: distance.pdist(x * y, "seuclidean"),
    "pdist's covariance": lambda x, y: distance.pdist(x * y, "mahalanobis"),
    "pdist of a function": lambda x, y: distance.pdist(x, lambda u, v: u @ v * y[0, 0]),
    "squareform": lambda x, y: np.cos(distance.squareform(distance.pdist(x + y))),
    "and back": lambda x, y: distance.squareform(distance.cdist(x * y, x * y, "cityblock")),
}


@pytest.mark.parametrize("name", ALL)
def test_distances_of_all_pairs(name: str) -> None:
    check(ALL[name], X, Y, second=False)


TRUTHS = "hamming jaccard yule dice rogerstanimoto russellrao sokalsneath".split()


@pytest.mark.parametrize("name", TRUTHS)
def test_distances_of_truth_values(name: str) -> None:
    u, v, metric = U > 0.8, V > 0.8, getattr(distance, name)
    for w in (None, W):

        def single(scale: float, w: Any = w) -> Any:
            return scale * metric(u, scale * v > 0.5, w)

        def pairs(x: np.ndarray, y: np.ndarray, w: Any = w) -> Any:
            options = {} if w is None else {"w": w}
            return x[0, 0] * distance.cdist(x > 0.9, y > 0.9, name, **options)

        np.testing.assert_allclose(calque.grad(single)(1.0), metric(u, v, w), rtol=1e-14)
        np.testing.assert_allclose(calque.jit(pairs)(X, Y), pairs(X, Y), rtol=1e-14)


KINKED = (
    *("euclidean cityblock mahalanobis minkowski seuclidean chebyshev canberra").split(),
    "jensenshannon",
)


@pytest.mark.parametrize("name", KINKED)
def test_no_derivative_is_nan_at_zero_distance(name: str) -> None:
    def total(x: np.ndarray) -> Any:
        return np.sum(distance.cdist(x, X, name, **({"p": 1.5} if name == "minkowski" else {})))

    assert np.isfinite(calque.grad(total)(X)).all()
    assert np.isfinite(calque.hessian(total)(X)).all()
    fixed = {"seuclidean": {"V": W}, "mahalanobis": {"VI": VI}}.get(name, {})

    def one(x: np.ndarray) -> Any:
        return np.sum(distance.cdist(x[None], x[None], name, **fixed))

    np.testing.assert_array_equal(calque.grad(one)(U), 0.0)


def test_dtypes_are_scipys() -> None:
    for name in (*WEIGHTED, "jensenshannon"):
        metric = getattr(distance, name)
        for dtype in (np.float32, np.int64):
            u, v = (10 * U).astype(dtype), (10 * V).astype(dtype)
            found, expected = calque.jit(metric)(u, v), metric(u, v)
            np.testing.assert_allclose(found, expected, rtol=1e-6)
            assert np.asarray(found).dtype == np.asarray(expected).dtype, (name, dtype)


def test_distances_in_compiled_loops() -> None:
    @calque.jit
    def energy(x: np.ndarray) -> Any:
        total = 0.0
        for i in range(x.shape[0]):
            for j in range(i):
                total += 1.0 / distance.euclidean(x[i], x[j]) + distance.cosine(x[i], x[j])
        return total

    pairs = distance.pdist(X)
    expected = np.sum(1.0 / pairs) + np.sum(distance.pdist(X, "cosine"))
    np.testing.assert_allclose(energy(X), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("f", "error", "words"),
    [
        (lambda x: distance.euclidean(x, x), ValueError, "1-D"),
        (lambda x: distance.euclidean(x[0], x[1], -x[2]), ValueError, "non-negative"),
        (lambda x: distance.minkowski(x[0], x[1], -1), ValueError, "greater than 0"),
        (lambda x: distance.cdist(x, x, "euclidian"), ValueError, "Unknown Distance Metric"),
        (lambda x: distance.cdist(x, x[:, 1:]), ValueError, "number of columns"),
        (lambda x: distance.pdist(x[0]), ValueError, "2-dimensional"),
        (lambda x: distance.cdist(x, x, w=np.ones(1)), ValueError, "same size as input"),
        (lambda x: distance.pdist(x[:3], "mahalanobis"), ValueError, "observations"),
        (lambda x: distance.squareform(x[0]), ValueError, "binomial"),
        (lambda x: distance.squareform(x[:5] + 0.0), ValueError, "symmetric"),
        (lambda x: spatial.KDTree(x).query(x)[0], UnsupportedFunction, "KDTree"),
        (lambda x: spatial.ConvexHull(x).volume, UnsupportedFunction, "ConvexHull"),
    ],
)
def test_wrong_arguments_raise_as_in_scipy(f: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        calque.grad(lambda x: np.sum(f(x)))(X)
