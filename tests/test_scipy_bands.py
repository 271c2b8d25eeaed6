"""``scipy.linalg``: bands, bases of spaces, functions of matrices: value, derivatives, batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from signal_checks import check, check_derivatives, check_value, data

import calque
from calque.transpiler.errors import NotDifferentiable

linalg = pytest.importorskip("scipy.linalg")

X = data(6, 7)
SQUARE = data(4, 4)


def _bands(x: np.ndarray, lower: bool = False, scale: Any = 1.0) -> np.ndarray:
    """The bands of a positive definite matrix with eigenvalues that are apart."""
    rows = [0.3 * scale * x[0], 0.3 * scale * x[1], 4.0 + np.abs(x[2]) * np.arange(1, 8)]
    return np.stack(rows[::-1] if lower else rows)


CASES: dict[str, tuple[Callable[..., Any], np.ndarray]] = {
    "eig_banded": (lambda x: linalg.eig_banded(_bands(x))[0], X),
    "its vectors": (lambda x: linalg.eig_banded(_bands(x))[1] ** 2, X),
    "eig_banded below": (
        lambda x: linalg.eig_banded(_bands(x, True), lower=True, eigvals_only=True),
        X,
    ),
    "eig_banded of some": (
        lambda x: linalg.eig_banded(_bands(x), select="i", select_range=(1, 3))[0],
        X,
    ),
    "eig_banded of complex": (
        lambda x: linalg.eig_banded(_bands(x, False, 1.0 + 0.5j), eigvals_only=True),
        X,
    ),
    "eigvals_banded": (lambda x: linalg.eigvals_banded(_bands(x)), X),
    "cholesky_banded": (lambda x: linalg.cholesky_banded(_bands(x)), X),
    "cholesky_banded below": (lambda x: linalg.cholesky_banded(_bands(x, True), lower=True), X),
    "cholesky_banded of complex": (
        lambda x: np.abs(linalg.cholesky_banded(_bands(x, False, 1.0 + 0.5j))),
        X,
    ),
    "cho_solve_banded": (
        lambda x: linalg.cho_solve_banded((linalg.cholesky_banded(_bands(x)), False), x[3]),
        X,
    ),
    "cho_solve_banded below": (
        lambda x: linalg.cho_solve_banded((_bands(x, True), True), x[3:5].T),
        X,
    ),
    "funm": (lambda a: linalg.funm(a, lambda z: np.exp(z) + z**2), SQUARE),
    "funm of symmetric": (lambda a: linalg.funm(a @ a.T, np.sqrt), SQUARE),
    "companion": (lambda a: linalg.companion(a[0]), SQUARE),
    "orthogonal_procrustes": (
        lambda x: linalg.orthogonal_procrustes(x[:3, :3], x[3:, :3])[0],
        X,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_functions(name: str) -> None:
    check(*CASES[name], second=name in ("cholesky_banded", "eig_banded", "funm"), atol=1e-9)


SPACES: dict[str, Callable[..., Any]] = {
    "orth": lambda x: linalg.orth(x[:5, :3]),
    "of dependent columns": lambda x: linalg.orth(x[:5, :2] @ x[:2, :4]) ** 2,
    "of few": lambda x: linalg.orth(x[:3, :5], rcond=1e-3) ** 2,
}


@pytest.mark.parametrize("name", SPACES)
def test_bases(name: str) -> None:
    f = SPACES[name]
    check_value(f, X, atol=1e-9)
    if name == "orth":
        check_derivatives(f, X)


def test_bases_of_what_is_made_zero() -> None:
    wanted = linalg.null_space(X[:3, :5])
    found = calque.jit(lambda x: linalg.null_space(x[:3, :5]))(X)
    np.testing.assert_allclose(found, wanted, atol=1e-12)
    with pytest.raises(NotDifferentiable):
        calque.grad(lambda x: np.sum(linalg.null_space(x[:3, :5]) ** 2))(X)


def test_forms_without_derivative() -> None:
    def f(a: np.ndarray) -> Any:
        return linalg.rsf2csf(*linalg.schur(a))

    for found, wanted in zip(calque.jit(f)(SQUARE), f(SQUARE), strict=True):
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, atol=1e-12)
    with pytest.raises(NotDifferentiable, match="rsf2csf"):
        calque.grad(lambda a: np.sum(np.abs(linalg.rsf2csf(a, np.eye(4))[0])))(SQUARE)


def test_symmetry() -> None:
    for name in ("issymmetric", "ishermitian"):
        for a in (SQUARE, SQUARE + SQUARE.T, 1j * (SQUARE + SQUARE.T)):
            for options in ({}, {"atol": 1e-3}):
                f = getattr(linalg, name)
                assert calque.jit(lambda x, f=f, o=options: f(x, **o))(a) == f(a, **options)


def test_wrong_arguments_raise_as_in_scipy() -> None:
    for f, given, error in (
        (linalg.cholesky_banded, np.array([[0.0, 2.0], [1.0, 1.0]]), np.linalg.LinAlgError),
        (linalg.cholesky_banded, np.full((2, 2), np.nan), ValueError),
        (linalg.companion, np.array([0.0, 1.0, 2.0]), ValueError),
        (linalg.companion, np.ones(1), ValueError),
        (
            lambda x: linalg.eig_banded(x, select="i", select_range=(1, 5)),
            _bands(X)[:, :4],
            ValueError,
        ),
        (lambda x: linalg.funm(x, np.log), np.ones((2, 3)), ValueError),
        (linalg.issymmetric, np.ones((2, 3)), ValueError),
    ):
        with pytest.raises(error):
            f(given)
        with pytest.raises(error):
            calque.jit(lambda x, f=f: f(x))(given)


def test_functions_of_matrices_that_are_not_determined() -> None:
    f = calque.jit(lambda a: linalg.funm(a, np.sqrt))
    with pytest.raises(np.linalg.LinAlgError, match="coincide"):
        f(np.eye(3))
    with pytest.raises(TypeError, match="complex"):
        f(np.diag([-1.0, 2.0]))


@pytest.mark.skipif(not hasattr(linalg.eig_banded, "__wrapped__"), reason="SciPy stacks since 1.16")
def test_stacks_of_bands() -> None:
    stack = np.stack([_bands(X), _bands(X**2)])
    found = calque.jit(lambda a: linalg.eig_banded(a)[0])(stack)
    np.testing.assert_allclose(found, linalg.eig_banded(stack)[0], rtol=1e-12)
