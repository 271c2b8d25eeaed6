"""Structured systems, equations and functions of matrices of ``scipy.linalg``, row by row.

Each row is a function of matrices, and what makes them. Values are SciPy's; derivatives are those
of differences, in both directions and of the second order; a batch is a loop, a stack SciPy's own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy
from scipy import linalg

import calque
from calque.transpiler import errors

VERSION = tuple(map(int, scipy.__version__.split(".")[:2]))
STACKS, TOEPLITZ_STACKS = VERSION >= (1, 16), VERSION >= (1, 17)
TOEPLITZ = {"solve_toeplitz", "solve_toeplitz of many", "matmul_toeplitz"}
Made = Callable[[np.random.Generator, np.dtype], tuple[np.ndarray, ...]]
ROWS: dict[str, tuple[Callable[..., Any], Made]] = {}


def drawn(rng: np.random.Generator, dtype: Any, *shape: int) -> np.ndarray:
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def general(*shapes: tuple[int, ...], shift: float = 0.0, scale: float = 1.0) -> Made:
    """Matrices and vectors; the first has a large diagonal, or first element."""

    def make(rng: np.random.Generator, dtype: Any) -> tuple[np.ndarray, ...]:
        found = [scale * drawn(rng, dtype, *shape) for shape in shapes]
        first = found[0]
        found[0] = first + shift * (
            np.eye(*first.shape) if first.ndim == 2 else np.arange(len(first)) == 0
        )
        return tuple(x.astype(dtype) for x in found)

    return make


def banded(row: int, *shapes: tuple[int, ...]) -> Made:
    def make(rng: np.random.Generator, dtype: Any) -> tuple[np.ndarray, ...]:
        ab, *rest = (drawn(rng, dtype, *shape) for shape in shapes)
        return (ab + (8.0 * (np.arange(len(ab)) == row)[:, None]).astype(dtype), *rest)

    return make


def of_control(discrete: bool) -> Made:
    def make(rng: np.random.Generator, dtype: Any) -> tuple[np.ndarray, ...]:
        a, b = drawn(rng, dtype, 3, 3) * (0.4 if discrete else 1.0), drawn(rng, dtype, 3, 2)
        return a, b, drawn(rng, dtype, 3, 3), drawn(rng, dtype, 2, 2)

    return make


def definite(x: Any) -> Any:
    return x @ np.conj(np.swapaxes(x, -1, -2)) + 2.0 * np.eye(x.shape[-1])


ROWS |= {
    "solve_banded": (lambda ab, b: linalg.solve_banded((2, 1), ab, b), banded(1, (4, 5), (5,))),
    "solve_banded of many": (lambda ab, b: linalg.solve_banded((0, 1), ab, b), banded(1, (2, 4), (4, 2))),
    "solveh_banded": (linalg.solveh_banded, banded(2, (3, 5), (5,))),
    "solveh_banded, lower": (lambda ab, b: linalg.solveh_banded(ab, b, lower=True), banded(0, (2, 4), (4, 2))),
    "solve_toeplitz": (lambda c, b: linalg.solve_toeplitz(c, b), general((5,), (5,), shift=6.0)),
    "solve_toeplitz of many": (
        lambda c, r, b: linalg.solve_toeplitz((c, r), b), general((4,), (4,), (4, 2), shift=6.0)),
    "matmul_toeplitz": (lambda c, r, x: linalg.matmul_toeplitz((c, r), x), general((5,), (3,), (3, 2))),
    "solve_circulant": (linalg.solve_circulant, general((5,), (5,), shift=6.0)),
    "solve_circulant of many": (linalg.solve_circulant, general((4,), (4, 2), shift=6.0)),
    "solve_sylvester": (linalg.solve_sylvester, general((3, 3), (2, 2), (3, 2), shift=6.0)),
    "solve_continuous_lyapunov": (linalg.solve_continuous_lyapunov, general((3, 3), (3, 3), shift=6.0)),
    "solve_discrete_lyapunov": (linalg.solve_discrete_lyapunov, general((3, 3), (3, 3), scale=0.3)),
    "solve_discrete_lyapunov, bilinear": (
        lambda a, q: linalg.solve_discrete_lyapunov(a, q, method="bilinear"), general((3, 3), (3, 3), scale=0.3)),
    "solve_continuous_are": (
        lambda a, b, q, r: linalg.solve_continuous_are(a, b, definite(q), definite(r)), of_control(False)),
    "solve_continuous_are, s": (
        lambda a, b, q, r: linalg.solve_continuous_are(a, b, definite(q), definite(r), s=0.1 * b), of_control(False)),
    "solve_discrete_are": (
        lambda a, b, q, r: linalg.solve_discrete_are(a, b, definite(q), definite(r)), of_control(True)),
}  # fmt: skip


def apart(rng: np.random.Generator, dtype: Any) -> tuple[np.ndarray, ...]:
    """A matrix with eigenvalues to the right of the imaginary axis."""
    return ((drawn(rng, dtype, 3, 3) + 5.0 * np.eye(3)).astype(dtype),)


def both_signs(rng: np.random.Generator, dtype: Any) -> tuple[np.ndarray, ...]:
    return ((drawn(rng, dtype, 3, 3) + 6.0 * np.diag([1.0, -1.0, 1.0])).astype(dtype),)


def factors(a: Any, b: Any) -> Any:
    whole = definite(a)
    low = linalg.cholesky(whole, lower=True)
    return (
        low,
        linalg.cholesky(whole),
        linalg.cho_solve(linalg.cho_factor(whole), b),
        linalg.qr(b, mode="economic")[1],
    )


def values_of(a: Any, b: Any) -> Any:
    w, v = linalg.eigh(definite(a))
    pair, u = linalg.eigh(definite(a), definite(b))
    left, s, right = linalg.svd(b)
    return (
        w,
        np.abs(v),
        pair,
        np.abs(u),
        left @ np.diag(np.sin(s) + 0 * b[0, 0]) @ right,
        linalg.eigvalsh(definite(b)),
    )


ROWS |= {
    "sqrtm": (linalg.sqrtm, apart),
    "logm": (linalg.logm, apart),
    "fractional_matrix_power": (lambda a: linalg.fractional_matrix_power(a, 0.3), apart),
    "signm": (linalg.signm, both_signs),
    **{name: (getattr(linalg, name), general((3, 3))) for name in ("expm", "cosm", "sinm", "coshm", "sinhm")},
    "tanm": (linalg.tanm, general((3, 3), scale=0.4)),
    "tanhm": (linalg.tanhm, general((3, 3), scale=0.4)),
    "polar": (linalg.polar, general((3, 3), shift=1.0)),
    "polar, tall": (linalg.polar, general((4, 2), shift=1.0)),
    "polar, wide": (linalg.polar, general((2, 4), shift=1.0)),
    "polar, left": (lambda a: linalg.polar(a, side="left"), general((4, 2), shift=1.0)),
    "polar, wide and left": (lambda a: linalg.polar(a, side="left"), general((2, 4), shift=1.0)),
    "polar at a rotation": (linalg.polar, lambda rng, dtype: (np.eye(3, dtype=dtype)[[1, 2, 0]] + 1e-3 * drawn(rng, dtype, 3, 3),)),
    "factors": (factors, general((3, 3), (3, 3), shift=2.0)),
    "values": (values_of, general((3, 3), (3, 3), shift=2.0)),
    "solve, her": (lambda a, b: linalg.solve(definite(a), b, assume_a="her"), general((3, 3), (3, 2))),
    "solve, pos": (lambda a, b: linalg.solve(definite(a), b, assume_a="pos"), general((3, 3), (3,))),
    "solve, sym": (lambda a, b: linalg.solve(a + a.T, b, assume_a="sym"), general((3, 3), (3,), shift=4.0)),
    "pinv": (linalg.pinv, general((4, 2))),
    "circulant": (linalg.circulant, general((4,))),
    "hankel": (linalg.hankel, general((4,), (3,))),
    "hankel of one": (linalg.hankel, general((4,))),
    "companion": (linalg.companion, general((4,), shift=2.0)),
    "leslie": (linalg.leslie, general((4,), (3,))),
    "fiedler": (linalg.fiedler, general((4,))),
    **{f"convolution_matrix, {mode}": (lambda a, mode=mode: linalg.convolution_matrix(a, 4, mode), general((3,)))
       for mode in ("full", "valid", "same")},
    "khatri_rao": (linalg.khatri_rao, general((2, 3), (4, 3))),
}  # fmt: skip


def tridiagonal(d: Any, e: Any) -> Any:
    w, v = linalg.eigh_tridiagonal(d, e)
    return (
        w,
        v @ np.diag(np.sin(w)) @ v.T,
        linalg.eigvalsh_tridiagonal(d, e, select="i", select_range=(0, 1)),
    )


def rising(rng: np.random.Generator, dtype: Any) -> tuple[np.ndarray, ...]:
    return (
        (np.array([1.0, 4.0, 8.0, 13.0]) + drawn(rng, dtype, 4)).astype(dtype),
        drawn(rng, dtype, 3),
    )


def eigen(a: Any) -> Any:
    w, v = linalg.eig(a)
    return (
        v @ np.diag(np.sin(w)) @ np.linalg.inv(v),
        np.sum(np.abs(v), axis=0),
        linalg.eigvals(a) ** 2,
    )


ROWS |= {
    **{f"lu{name}": (lambda a: linalg.lu(a), general(shape)) for name, shape in (
        ("", (3, 3)), (", tall", (4, 2)), (", wide", (2, 4)))},
    "lu, permuted": (lambda a: linalg.lu(a, permute_l=True), general((3, 3))),
    "eigh_tridiagonal": (tridiagonal, rising),
    "eig": (eigen, lambda rng, dtype: ((drawn(rng, dtype, 3, 3) + np.diag([0.0, 6.0, 12.0])).astype(dtype),)),
    "lstsq": (lambda a, b: [x for k, x in enumerate(linalg.lstsq(a, b)) if k != 2], general((4, 2), (4, 3))),
    "lstsq of a vector": (lambda a, b: linalg.lstsq(a, b)[:2], general((4, 2), (4,))),
    "pinvh": (lambda a: linalg.pinvh(definite(a)), general((3, 3))),
    "subspace_angles": (linalg.subspace_angles, general((5, 2), (5, 2))),
    "subspace_angles of others": (linalg.subspace_angles, general((5, 3), (5, 2))),
}  # fmt: skip
# of real matrices; SciPy's may be complex, with imaginary parts that are rounding errors
ALWAYS_REAL = {"fractional_matrix_power", "logm", "eig"} | (set() if STACKS else {"sqrtm"})
REAL = {"solve_circulant of many", "eigh_tridiagonal"}  # what is not of complex matrices
STACKED = {
    *("solve_banded", "solve_banded of many", "solveh_banded", "solve_toeplitz of many"),
    *("sqrtm", "logm", "signm", "expm", "cosm", "tanm", "polar", "polar, wide", "pinv"),
    *(
        "circulant",
        "lu",
        "lu, tall",
        "pinvh",
        "solve_sylvester",
        "solve_continuous_lyapunov",
        "solve_discrete_lyapunov",
    ),
}


def generator(name: str) -> np.random.Generator:
    return np.random.default_rng(sum(map(ord, name)))


def parts(found: Any) -> list[Any]:
    return list(found) if isinstance(found, (tuple, list)) else [found]


def summed(function: Callable[..., Any]) -> Callable[..., Any]:
    """A number that depends on every part of the results."""

    def total(*args: Any) -> Any:
        found = 0.0
        for part in parts(function(*args)):
            weights = np.cos(np.arange(1.0, part.size + 1)).reshape(part.shape)
            found = found + np.sum(np.real(part) * weights) + np.sum(np.abs(part) ** 2)
        return found

    return total


def moved(args: Any, along: Any, step: float) -> list[np.ndarray]:
    return [a + step * e for a, e in zip(args, along, strict=True)]


@pytest.mark.filterwarnings("ignore::calque.runtime.call.fallback.JitFallback")
@pytest.mark.parametrize("kind", ["f8", "c16"])
@pytest.mark.parametrize("name", ROWS)
def test_values_and_derivatives(name: str, kind: str) -> None:
    if kind == "c16" and name in REAL:
        pytest.skip("real only")
    function, make = ROWS[name]
    args, along = (
        make(generator(name), np.dtype(kind)),
        make(np.random.default_rng(1), np.dtype(kind)),
    )
    along = [
        e - a for e, a in zip(along, make(np.random.default_rng(2), np.dtype(kind)), strict=True)
    ]
    for got, want in zip(parts(calque.jit(function)(*args)), parts(function(*args)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)
        assert got.dtype == np.asarray(want).dtype or name in ALWAYS_REAL
    total, order = summed(function), tuple(range(len(args)))
    pushed = calque.jvp(total, tuple(args), tuple(along))[1]
    change = (total(*moved(args, along, 1e-5)) - total(*moved(args, along, -1e-5))) / 2e-5
    np.testing.assert_allclose(pushed, change, rtol=1e-6, atol=1e-8)
    gradient = calque.grad(total, argnums=order)
    found = gradient(*args)
    pulled = sum(np.sum(g * e) for g, e in zip(found, along, strict=True))
    np.testing.assert_allclose(np.real(pulled), pushed, rtol=1e-9)
    if kind == "c16":  # the rules are the same
        return
    high, low = gradient(*moved(args, along, 1e-5)), gradient(*moved(args, along, -1e-5))
    second = calque.jvp(gradient, tuple(args), tuple(along))[1]
    for got, up, down in zip(second, high, low, strict=True):
        np.testing.assert_allclose(got, (up - down) / 2e-5, rtol=2e-5, atol=2e-5)
    batch = [np.stack([a, b]) for a, b in zip(args, moved(args, along, 0.01), strict=True)]
    many = calque.vmap(gradient)(*batch)
    for got, one in zip(many, found, strict=True):
        np.testing.assert_allclose(got[0], one, rtol=1e-9, atol=1e-10)


@pytest.mark.skipif(not STACKS, reason="SciPy stacks since 1.16")
@pytest.mark.filterwarnings("ignore::calque.runtime.call.fallback.JitFallback")
@pytest.mark.parametrize("name", sorted(STACKED - (set() if TOEPLITZ_STACKS else TOEPLITZ)))
def test_stacks(name: str) -> None:
    function, make = ROWS[name]
    rng = generator(name)
    each = [make(rng, np.dtype("f8")) for _ in range(6)]
    stacks = [np.stack(part).reshape(2, 3, *part[0].shape) for part in zip(*each, strict=True)]
    if stacks[-1].ndim == 3:  # a vector is one only by itself
        stacks[-1] = stacks[-1][0, 0]
    want, found = parts(function(*stacks)), parts(calque.jit(function)(*stacks))
    for got, expected in zip(found, want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-11)
    along = [0.1 * np.cos(x) for x in stacks]
    total = summed(function)
    change = (total(*moved(stacks, along, 1e-5)) - total(*moved(stacks, along, -1e-5))) / 2e-5
    gradient = calque.grad(total, argnums=tuple(range(len(stacks))))(*stacks)
    pulled = sum(np.sum(g * e) for g, e in zip(gradient, along, strict=True))
    np.testing.assert_allclose(pulled, change, rtol=1e-5)
    np.testing.assert_allclose(calque.jvp(total, tuple(stacks), tuple(along))[1], pulled, rtol=1e-9)


@pytest.mark.parametrize("name", ROWS)
def test_single_precision(name: str) -> None:
    function, make = ROWS[name]
    args = make(generator(name), np.dtype("f4"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for got, want in zip(
            parts(calque.jit(function)(*args)), parts(function(*args)), strict=True
        ):
            assert got.dtype == np.asarray(want).dtype or name in ALWAYS_REAL, name
            np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["sqrtm", "logm"])
def test_real_matrices_whose_function_is_complex_raise(name: str) -> None:
    function = getattr(linalg, name)
    negative = np.diag([-1.0, 2.0])
    with pytest.raises(TypeError, match="complex128") as raised:
        calque.jit(lambda a: function(a))(negative)
    assert "give a complex array (`A.astype(complex)`)" in raised.value.__notes__[0]
    found = calque.jit(lambda a: function(a.astype(complex)))(negative)
    np.testing.assert_allclose(found, function(negative), atol=1e-15)


@pytest.mark.parametrize("name", ["schur", "hessenberg"])
def test_forms_without_a_derivative(name: str) -> None:
    function = getattr(linalg, name)
    for got, want in zip(
        parts(calque.jit(lambda a: function(a))(np.diag([1.0, 2.0]) + 1.0)),
        parts(function(np.diag([1.0, 2.0]) + 1.0)),
        strict=True,
    ):
        np.testing.assert_allclose(got, want, atol=1e-14)
    with pytest.raises(errors.NotDifferentiable, match=name):
        calque.grad(lambda a: np.sum(parts(function(a))[0]))(np.eye(2))


NOT_A_NUMBER = np.full((3, 3), np.nan)
RAISED: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...], type[Exception]]] = {
    "product of other sizes": (
        lambda c, r, x: linalg.matmul_toeplitz((c, r), x),
        (np.ones(4), np.ones(3), np.ones(4)),
        ValueError,
    ),
    "product of what is not finite": (
        lambda c, x: linalg.matmul_toeplitz(c, x, check_finite=True),
        (np.ones(3), NOT_A_NUMBER[0]),
        ValueError,
    ),
    "the triangle that is not read": (
        linalg.pinvh,
        (np.eye(3) + np.triu(NOT_A_NUMBER, 1),),
        ValueError,
    ),
    "eigenvalues beyond the last": (
        lambda d, e: linalg.eigh_tridiagonal(d, e, True, "i", (1, 3)),
        (np.ones(3), np.ones(2)),
        ValueError,
    ),
    "eigenvalues from the end": (
        lambda d, e: linalg.eigh_tridiagonal(d, e, True, "i", (-1, 2)),
        (np.ones(3), np.ones(2)),
        ValueError,
    ),
    "no such driver": (
        lambda a, b: linalg.lstsq(a, b, lapack_driver="gels"),
        (np.eye(3), np.ones(3)),
        ValueError,
    ),
    "spaces of other lengths": (
        linalg.subspace_angles,
        (np.eye(3), np.eye(4)),
        ValueError,
    ),
    "spaces of what is not finite": (
        linalg.subspace_angles,
        (np.eye(3), NOT_A_NUMBER),
        ValueError,
    ),
}


@pytest.mark.parametrize("name", RAISED)
def test_wrong_arguments_raise_as_in_scipy(name: str) -> None:
    function, args, error = RAISED[name]
    with pytest.raises(error):
        function(*args)
    with pytest.raises(error):
        calque.jit(lambda *given: function(*given))(*args)


def test_angles_between_spaces_of_columns_that_depend_on_others_are_refused() -> None:
    a = np.ones((4, 2))
    with pytest.raises(ValueError, match="depend on others"):
        calque.jit(lambda x: linalg.subspace_angles(x, np.eye(4)[:, :1]))(a)
    with pytest.raises(ValueError, match="depend on others"):
        calque.grad(lambda x: np.sum(linalg.subspace_angles(np.eye(4)[:, :2], x)))(a)
    found = calque.jit(lambda x: linalg.subspace_angles(x, x[:, :2]))(np.eye(4)[:, 1:])
    np.testing.assert_allclose(found, np.zeros(2), atol=1e-15)


def test_rows_of_lu_as_indices() -> None:
    a = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]])
    found, want = calque.jit(lambda x: linalg.lu(x, p_indices=True))(a), linalg.lu(a, p_indices=True)
    for got, expected in zip(found, want, strict=True):
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, atol=1e-15)


def test_ranks_of_a_batch_of_least_squares_have_the_tolerance() -> None:
    a = np.stack([np.diag([3.0, 1.0, 0.01])[:, :3], np.ones((3, 3)), np.eye(3)])
    b = np.arange(9.0).reshape(3, 3)
    for cut in (None, -1, 0.1, 0.5):
        found = calque.vmap(lambda x, y, c=cut: np.linalg.lstsq(x, y, rcond=c)[::2])(a, b)
        for k in range(3):
            x, _, rank, _ = np.linalg.lstsq(a[k], b[k], rcond=cut)
            assert found[1][k] == rank
            np.testing.assert_allclose(found[0][k], x, atol=1e-12)
