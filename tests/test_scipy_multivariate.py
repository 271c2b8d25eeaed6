"""Multivariate distributions of ``scipy.stats``, against SciPy and differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque

stats = pytest.importorskip("scipy.stats")
normal, student = stats.multivariate_normal, stats.multivariate_t

ROOT = np.array([[1.2, 0.0, 0.0], [0.3, 0.9, 0.0], [-0.4, 0.2, 0.7]])
X = np.array([[0.1, 0.5, -0.3], [1.0, -0.2, 0.4]])
CENTER = np.array([0.2, 0.1, -0.1])
PROGRAMS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "normal": (lambda x, m, r: normal.logpdf(x, m, r @ r.T), (X, CENTER, ROOT)),
    "normal's density": (lambda x, m, r: normal.pdf(x, mean=m, cov=r @ r.T), (X, CENTER, ROOT)),
    "normal of a number": (lambda x, m, s: normal.logpdf(x, m, s), (X, CENTER, 1.7)),
    "normal of variances": (
        lambda x, m, v: normal.logpdf(x, m, cov=v),
        (X, CENTER, np.array([1.0, 2.0, 0.5])),
    ),
    "normal of one axis": (lambda x, m, s: normal.logpdf(x, m, s), (X[0], 0.2, 1.7)),
    "frozen normal": (lambda x, m, r: normal(m, r @ r.T).logpdf(x[0]), (X, CENTER, ROOT)),
    "Student": (lambda x, m, r, df: student.logpdf(x, m, r @ r.T, df), (X, CENTER, ROOT, 4.3)),
    "Student's density": (lambda x, m, r: student.pdf(x, m, r @ r.T, 3), (X, CENTER, ROOT)),
    "Dirichlet": (
        lambda x, a: stats.dirichlet.logpdf(x, a),
        (np.array([0.2, 0.5]), np.array([1.5, 2.0, 0.8])),
    ),
    "Dirichlet of several": (
        lambda x, a: stats.dirichlet.pdf(x, a),
        (np.array([[0.2, 0.1], [0.5, 0.3]]), np.array([1.5, 2.0, 0.8])),
    ),
    "Wishart": (lambda r, df, s: stats.wishart.logpdf(r @ r.T, df, s @ s.T), (ROOT, 4.5, ROOT.T)),
    "frozen Wishart": (lambda r, df: stats.wishart(df, np.eye(3)).pdf(r @ r.T), (ROOT, 4.5)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_densities(name: str) -> None:
    f, args = PROGRAMS[name]
    np.testing.assert_allclose(calque.jit(f)(*args), f(*args), rtol=1e-11)
    assert np.shape(calque.jit(f)(*args)) == np.shape(f(*args))
    found = calque.grad(lambda *a: np.sum(f(*a)), argnums=tuple(range(len(args))))(*args)
    for k, got in enumerate(found):
        given = np.asarray(args[k], float)
        for place in np.ndindex(given.shape):
            step = np.zeros(given.shape)
            step[place] = 1e-6
            high, low = (f(*args[:k], given + s, *args[k + 1 :]) for s in (step, -step))
            want = np.sum(high - low) / 2e-6
            np.testing.assert_allclose(np.asarray(got)[place], want, rtol=1e-6, atol=1e-8)


PRIOR = normal(CENTER, ROOT @ ROOT.T)


def test_frozen_outside() -> None:
    f = lambda x: PRIOR.logpdf(x) + PRIOR.pdf(x)
    np.testing.assert_allclose(calque.jit(f)(X[0]), f(X[0]), rtol=1e-12)
    want = [(f(X[0] + s) - f(X[0] - s)) / 2e-6 for s in 1e-6 * np.eye(3)]
    np.testing.assert_allclose(calque.grad(f)(X[0]), want, rtol=1e-7)


def test_batches_and_errors() -> None:
    f = lambda x, r: normal.logpdf(x, CENTER, r @ r.T)
    mapped = calque.vmap(f, in_axes=(None, 0))(X[0], np.stack([ROOT, 2.0 * ROOT]))
    np.testing.assert_allclose(mapped, [f(X[0], ROOT), f(X[0], 2.0 * ROOT)], rtol=1e-12)
    with pytest.raises(np.linalg.LinAlgError):
        calque.grad(lambda c: normal.logpdf(X[0], CENTER, c))(np.ones((3, 3)) - np.eye(3))
    with pytest.raises(ValueError, match="number of entries"):
        calque.grad(lambda x: stats.dirichlet.logpdf(x, np.ones(5)))(np.array([0.2, 0.8]))
    for wrong in (np.array([0.7, 0.8]), np.array([-0.1, 1.1])):
        with pytest.raises(ValueError, match="simplex"):
            calque.grad(lambda x: stats.dirichlet.logpdf(x, np.ones(2)))(wrong)
    shares = np.array([[0.2, 0.8], [0.5, 0.5]])
    f = lambda x, a: stats.dirichlet.logpdf(x, a)
    alpha = np.array([1.5, 2.5])
    mapped = calque.vmap(calque.grad(f, 1), in_axes=(0, None))(shares, alpha)
    np.testing.assert_allclose(mapped, [calque.grad(f, 1)(x, alpha) for x in shares], rtol=1e-12)


SCALE = np.array([[1.4, 0.3], [0.3, 0.8]])
SHAPES: dict[str, tuple[Any, Any]] = {
    "one place of several": (lambda x: normal.logpdf(x, CENTER), X[:1]),
    "places of three axes": (lambda x: normal.pdf(x, CENTER), X[:, np.newaxis]),
    "one matrix of several": (
        lambda x: stats.wishart.logpdf(x, 3.5, SCALE),
        SCALE[..., np.newaxis],
    ),
    "numbers for matrices": (lambda x: stats.wishart.logpdf(x, 3.5, 2.0), X[0] ** 2),
    "a diagonal": (lambda x: stats.wishart.logpdf(x, 3.5, x + 1.0), np.array([1.5, 0.5])),
    "one triangle": (
        lambda x: stats.wishart.logpdf(SCALE, 3.5, x),
        SCALE + [[0.0, 0.5], [0.0, 0.0]],
    ),
    "one column of shares": (
        lambda x: stats.dirichlet.logpdf(x, [1.5, 2.0]),
        np.array([[0.2], [0.8]]),
    ),
}
try:
    student.logpdf(X, CENTER, np.eye(3), np.inf)
except TypeError:  # SciPy's own error, in versions before 1.16
    pass
else:
    SHAPES["Student of infinite degrees"] = (
        lambda x: student.logpdf(x, CENTER, 2.0 * np.eye(3), np.inf),
        X,
    )


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_are_scipys(name: str) -> None:
    f, x = SHAPES[name]
    found = calque.jit(f)(x)
    np.testing.assert_allclose(found, f(x), rtol=1e-11)
    assert np.shape(found) == np.shape(f(x))


WRONG: dict[str, tuple[Any, Any]] = {
    "'df' must be greater": (lambda df: student.logpdf(X, CENTER, ROOT @ ROOT.T, df), -1.0),
    "Degrees of freedom": (lambda df: stats.wishart.logpdf(SCALE, df, SCALE), 1.0),
    "not positive definite": (lambda x: stats.wishart.logpdf(x, 3.5, SCALE), -SCALE),
    "positive definite": (lambda s: stats.wishart.logpdf(SCALE, 3.5, s), -SCALE),
    "must be a vector of length 3": (lambda m: normal.logpdf(X, m, np.eye(3)), CENTER[np.newaxis]),
    "alpha is less than one": (
        lambda x: stats.dirichlet.logpdf(x, [0.5, 1.5]),
        np.array([0.0, 1.0]),
    ),
    "must be one dimensional": (lambda a: stats.dirichlet.logpdf([0.5, 0.5], a), np.ones((1, 2))),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_arguments_raise(message: str) -> None:
    f, wrong = WRONG[message]
    with pytest.raises((ValueError, np.linalg.LinAlgError)):
        f(wrong)
    with pytest.raises((ValueError, np.linalg.LinAlgError), match=message):
        calque.jit(f)(wrong)


def test_batches_of_degrees_of_freedom() -> None:
    for f in (
        lambda df: student.logpdf(X[0], CENTER, ROOT @ ROOT.T, df),
        lambda df: stats.wishart.logpdf(SCALE, df, SCALE),
    ):
        df = np.array([2.5, 4.0])
        np.testing.assert_allclose(calque.vmap(f)(df), [f(d) for d in df], rtol=1e-11)


def test_singular_covariances() -> None:
    random = np.random.default_rng(3)
    span, mean = random.normal(size=(4, 2)), random.normal(size=4)
    on, off = mean + span @ random.normal(size=2), random.normal(size=4)
    full = np.eye(4) + np.ones((4, 4))

    def singular(x, mean, cov):
        return stats.multivariate_normal.logpdf(x, mean, cov, allow_singular=True)

    for x, cov in ((on, span @ span.T), (off, span @ span.T), (np.stack([on, off]), full)):
        ours = calque.jit(singular)(x, mean, cov)
        np.testing.assert_allclose(ours, singular(x, mean, cov), rtol=1e-10)

    def along(place, span):
        return singular(mean + span @ place, mean, span @ span.T)

    calque.check_grads(along, (random.normal(size=2), span), order=1)
    calque.check_grads(lambda x: singular(x, mean, full), (off,), order=2)
    np.testing.assert_array_equal(
        calque.vmap(lambda x: singular(x, mean, span @ span.T))(np.stack([on, off])) == -np.inf,
        [False, True],
    )
    student = stats.multivariate_t.pdf
    ours = calque.jit(lambda x: student(x, mean, span @ span.T, 3.0, allow_singular=True))(on)
    expected = student(on, mean, span @ span.T, 3.0, allow_singular=True)
    np.testing.assert_allclose(ours, expected, rtol=1e-10)


def test_a_covariance_that_is_not_positive_raises() -> None:
    def density(x):
        return stats.multivariate_normal.logpdf(x, np.zeros(2), -np.eye(2), allow_singular=True)

    with pytest.raises(ValueError, match="must be symmetric positive semidefinite"):
        calque.grad(density)(np.ones(2))
