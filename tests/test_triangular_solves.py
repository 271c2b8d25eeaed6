"""Systems whose matrix is known to be triangular are solved by substitution in jitted programs."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calque
from calque.runtime import linear_systems
from calque.runtime.linear_systems import solve_triangular

pytest.importorskip("numba")

RNG = np.random.default_rng(21)
DTYPES = ("f4", "f8", "c8", "c16")


def drawn(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    x = RNG.normal(size=shape)
    return (x + 1j * RNG.normal(size=shape) if dtype[0] == "c" else x).astype(dtype)


def triangle(shape: tuple[int, ...], dtype: str, lower: bool) -> np.ndarray:
    """A matrix, or a stack, whose systems are not too sensitive."""
    n = max(shape[-1], 1)
    a = (drawn(shape, dtype) / n + 2 * np.eye(shape[-1])).astype(dtype)
    return np.tril(a) if lower else np.triu(a)


def laid_out(a: np.ndarray, how: str) -> np.ndarray:
    """The same matrix, differently in memory."""
    if how == "by columns":
        return np.array(a.swapaxes(-1, -2), order="C").swapaxes(-1, -2)
    if how == "with gaps":
        return np.repeat(a, 2, axis=-1)[..., ::2]
    if how == "backwards":
        return np.array(a[..., ::-1, :])[..., ::-1, :]
    if how == "a part":
        return np.pad(a, [(0, 0)] * (a.ndim - 2) + [(0, 2), (1, 3)])[..., : a.shape[-2], 1:-3]
    return a


def substituted(a: np.ndarray, b: np.ndarray, lower: bool) -> np.ndarray:
    """By the definition, a row at a time, in double precision."""
    kind = np.complex128 if "c" in a.dtype.kind + b.dtype.kind else np.float64
    x = np.array(b, kind)
    rows = range(len(a)) if lower else range(len(a) - 1, -1, -1)
    for done, i in enumerate(rows):
        known = slice(0, done) if lower else slice(i + 1, None)
        x[i] = (x[i] - a[i, known].astype(kind) @ x[known]) / a[i, i]
    return x


def code(function: Callable[..., Any], *args: Any) -> str:
    """The compiled source without its comments."""
    return re.sub("#.*", "", calque.source(function, *args, stage="kernels"))


# the function


@pytest.mark.parametrize("n", [0, 1, 2, 5, 30, 100])
@pytest.mark.parametrize("kinds", list(itertools.product(DTYPES, DTYPES)), ids="-".join)
def test_values(n: int, kinds: tuple[str, str], monkeypatch: Any) -> None:
    monkeypatch.setattr(linear_systems, "_LEAST", 0)
    ways = itertools.product((True, False), ("", "by columns", "with gaps", "backwards", "a part"))
    for (lower, how), shape in itertools.product(ways, [(n,), (n, 3), (n, 1), (n, 0)]):
        a, b = triangle((n, n), kinds[0], lower), drawn(shape, kinds[1])
        found = solve_triangular(laid_out(a, how), b[::-1][::-1], lower=lower)
        assert found.dtype == np.result_type(a, b) and found.flags.c_contiguous
        tolerance = 1e-4 if found.dtype.itemsize <= 8 and found.dtype != np.float64 else 1e-11
        want = substituted(a, b, lower)
        np.testing.assert_allclose(found, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("least", [0, 20])
@pytest.mark.parametrize("dtype", DTYPES)
def test_stacks(dtype: str, least: int, monkeypatch: Any) -> None:
    """As broadcast by ``np.linalg.solve``: what is a vector has rank one."""
    monkeypatch.setattr(linear_systems, "_LEAST", least)
    shapes = [((3,), ()), ((), (3,)), ((3,), (3,)), ((2, 1), (3,)), ((2, 1), (1, 4)), ((0,), ())]
    tolerance = 2e-4 if dtype in ("f4", "c8") else 1e-11
    for (mine, its), n, lower in itertools.product(shapes, (1, 2, 25), (True, False)):
        a = triangle((*mine, n, n), dtype, lower)
        for b in (drawn((*its, n, 2), dtype), drawn((n,), dtype)):
            for how in ("", "by columns", "with gaps"):
                found = solve_triangular(laid_out(a, how), b, lower=lower)
                want = np.linalg.solve(a, b)
                assert found.shape == want.shape and found.dtype == want.dtype
                np.testing.assert_allclose(found, want, rtol=tolerance, atol=tolerance)


def test_library_of_numpy_is_found() -> None:
    """NumPy's wheels have the routines; other builds may not, and then this is no failure."""
    config = np.show_config(mode="dicts")["Build Dependencies"]["lapack"]["name"]
    if config != "scipy-openblas":
        pytest.skip(f"NumPy is built with {config}")
    assert all(linear_systems._routines(letter) is not None for letter in "fdFD")


def test_without_routines(monkeypatch: Any) -> None:
    monkeypatch.setattr(linear_systems, "_routines", lambda kind: None)
    a, b = triangle((30, 30), "f8", True), drawn((30,), "f8")
    np.testing.assert_allclose(solve_triangular(a, b, lower=True), substituted(a, b, True), rtol=1e-11)


@pytest.mark.parametrize("n", [3, 40])
def test_refused_as_by_numpy(n: int) -> None:
    a, b = triangle((n, n), "f8", True), np.ones(n)
    a[1, 1] = 0.0
    for matrix in (a, np.array([np.eye(n), a])):
        with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
            solve_triangular(matrix, b, lower=True)
    a[1, 1] = np.nan
    assert np.isnan(solve_triangular(a, b, lower=True)[1])
    with pytest.raises(ValueError):
        solve_triangular(np.eye(n), np.ones(n + 1), lower=True)
    whole = np.arange(n * n).reshape(n, n) + n * n * np.eye(n, dtype=int)
    np.testing.assert_allclose(
        solve_triangular(np.tril(whole), np.arange(n), lower=True),
        np.linalg.solve(np.tril(whole), np.arange(n)),
        rtol=1e-12,
    )


# what is recognized


def by_cholesky(A, b):
    L = np.linalg.cholesky(A @ A.T + np.eye(A.shape[0]))
    return np.linalg.solve(L.T, np.linalg.solve(L, b))


def by_upper_cholesky(A, b):
    U = np.linalg.cholesky(A @ A.T + np.eye(A.shape[0]), upper=True)
    return np.linalg.solve(U, np.linalg.solve(U.T, b))


def by_qr(A, b):
    q, r = np.linalg.qr(A)
    return np.linalg.solve(r, q.T @ b)


def by_parts(A, b):
    low = -2.0 * np.tril(A) / 3.0
    return np.linalg.solve(low, b) + np.linalg.solve(np.triu(A).swapaxes(0, 1), b)


def with_unit_diagonal(A, b):
    return np.linalg.solve(np.tril(A, -1) + np.eye(A.shape[0]), b)


def with_own_diagonal(A, b):
    low = np.tril(A, -1) + np.diag(np.exp(np.diag(A)))
    return np.linalg.solve(low @ np.tril(A), b) + np.linalg.solve(np.conj(low).copy(), b)


def with_inverse(A, b):
    return np.linalg.solve(np.linalg.inv(np.triu(A)), b)


RECOGNIZED = {
    by_cholesky: 2, by_upper_cholesky: 2, by_qr: 1, by_parts: 2,
    with_unit_diagonal: 1, with_own_diagonal: 2, with_inverse: 1,
}  # fmt: skip


def above(A, b):
    return np.linalg.solve(np.tril(A, 1), b)


def mixed(A, b):
    return np.linalg.solve(np.tril(A) + 0.1 * np.triu(A), b) + np.linalg.solve(np.tril(A) @ A, b)


def shifted(A, b):
    return np.linalg.solve(np.tril(A) + 1.0, b)


def scaled_by_rows(A, b):
    return np.linalg.solve(b + np.tril(A), b) + np.linalg.solve(np.linalg.qr(A)[0], b)


def stored_into(A, b):
    L = np.tril(A)
    L[0, -1] = 1.0
    return np.linalg.solve(L, b)


UNKNOWN = [above, mixed, shifted, scaled_by_rows, stored_into]


def regular(n: int) -> np.ndarray:
    return RNG.normal(size=(n, n)) / n + 2 * np.eye(n)


@pytest.mark.parametrize("fn", [*RECOGNIZED, *UNKNOWN], ids=lambda fn: fn.__name__)
def test_programs(fn: Callable[..., Any]) -> None:
    compiled = calque.jit(fn)
    for n in (1, 2, 5, 30, 100):
        A, b = regular(n), RNG.normal(size=n)
        for args in ((A, b), (np.asfortranarray(A), np.repeat(b, 2)[::2]), (A, RNG.normal(size=(n, n)))):
            np.testing.assert_allclose(compiled(*args), fn(*args), rtol=1e-9, atol=1e-11)
    text = code(compiled, A, b)
    assert text.count("solve_triangular(") == RECOGNIZED.get(fn, 0), text
    assert ("np.linalg.solve" in text) == (fn in UNKNOWN)
    assert "solve_triangular" not in calque.source(fn, A, b)


@pytest.mark.parametrize("fn", [*RECOGNIZED, *UNKNOWN], ids=lambda fn: fn.__name__)
def test_gradients(fn: Callable[..., Any]) -> None:
    """The compiled gradient, along a way, is the difference quotient."""

    def loss(A, b):
        return np.sum(np.sin(fn(A, b)))

    gradient = calque.jit(calque.grad(loss, argnums=(0, 1)))
    for n in (4, 30):
        args, way = (regular(n), RNG.normal(size=n)), (RNG.normal(size=(n, n)), RNG.normal(size=n))
        found = gradient(*args)
        step = 1e-4
        at = [loss(*(a + k * step * w for a, w in zip(args, way))) for k in (-2, -1, 1, 2)]
        slope = (at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * step)
        total = sum(np.vdot(g, w) for g, w in zip(found, way, strict=True))
        np.testing.assert_allclose(total, slope, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("n", [4, 30])
def test_lanes(n: int) -> None:
    As, b = np.array([regular(n) for _ in range(3)]), RNG.normal(size=(3, n))
    for axes in ((0, 0), (0, None), (None, 0)):
        args = [x if a == 0 else x[0] for x, a in zip((As, b), axes, strict=True)]
        compiled = calque.jit(calque.vmap(by_cholesky, in_axes=axes))
        want = [by_cholesky(As[k if axes[0] == 0 else 0], b[k if axes[1] == 0 else 0]) for k in range(3)]
        np.testing.assert_allclose(compiled(*args), want, rtol=1e-9)
        assert "np.linalg.solve" not in code(compiled, *args)


# Gaussian processes, and what is like them


def gaussian_process(theta, X, y):
    """The negative logarithm of a likelihood."""
    d = X[:, None, :] - X[None, :, :]
    K = np.exp(theta[0] - 0.5 * np.sum(d**2, axis=-1) * np.exp(theta[1]))
    L = np.linalg.cholesky(K + np.exp(theta[2]) * np.eye(X.shape[0]))
    alpha = np.linalg.solve(L.T, np.linalg.solve(L, y))
    return 0.5 * y @ alpha + np.sum(np.log(np.diag(L)))


def test_gaussian_process_as_by_jax() -> None:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    jnp = jax.numpy

    def same(theta, X, y):
        d = X[:, None, :] - X[None, :, :]
        K = jnp.exp(theta[0] - 0.5 * jnp.sum(d**2, axis=-1) * jnp.exp(theta[1]))
        L = jnp.linalg.cholesky(K + jnp.exp(theta[2]) * jnp.eye(X.shape[0]))
        alpha = jnp.linalg.solve(L.T, jnp.linalg.solve(L, y))
        return 0.5 * y @ alpha + jnp.sum(jnp.log(jnp.diag(L)))

    theta = np.array([0.3, -0.4, -1.0])
    for n in (3, 40):
        X, y = RNG.normal(size=(n, 2)), RNG.normal(size=n)
        for ours, theirs in ((calque.grad, jax.grad), (calque.hessian, jax.hessian)):
            found = calque.jit(ours(gaussian_process))(theta, X, y)
            wanted = jax.jit(theirs(same))(theta, X, y)  # its operations one by one take 3 times as long
            np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-10)
    text = code(calque.jit(calque.grad(gaussian_process)), theta, X, y)
    assert "np.linalg.solve" not in text and "np.linalg.inv" not in text


def filtered(S, Y):
    """Factors of matrices that a loop changes: the sweep back has them from where they are saved."""
    P, loss = S, 0.0
    for t in range(Y.shape[0]):
        L = np.linalg.cholesky(P)
        v = np.linalg.solve(L, Y[t])
        loss += v @ v + np.sum(np.log(np.diag(L)))
        P = P + np.outer(Y[t], Y[t]) + 0.1 * L
        P = 0.5 * (P + P.T)
    return loss


def test_saved_factors() -> None:
    gradient = calque.jit(calque.grad(filtered))
    for n in (3, 40):
        S, Y = 3 * np.eye(n), RNG.normal(size=(4, n)) / n
        way = RNG.normal(size=(n, n))
        way = way + way.T
        slope = (filtered(S + 1e-5 * way, Y) - filtered(S - 1e-5 * way, Y)) / 2e-5
        np.testing.assert_allclose(np.vdot(gradient(S, Y), way), slope, rtol=1e-6, atol=1e-8)
    text = code(gradient, S, Y)
    assert "np.linalg.solve" not in text and text.count("solve_triangular(") >= 4, text


def test_names_of_the_users() -> None:
    def f(solve_triangular, lower):
        total = np.linalg.solve(np.tril(solve_triangular), lower)
        return total + solve_triangular[0]

    A, b = regular(4), RNG.normal(size=4)
    np.testing.assert_allclose(calque.jit(f)(A, b), f(A, b), rtol=1e-12)



def solved(A, b):
    return np.linalg.solve(np.linalg.cholesky(A), b)


def test_saved_module_stands_alone(tmp_path: Path) -> None:
    """It needs NumPy and Numba; here there is no loop, so that it has no kernel either."""
    n = 25
    calque.save(calque.jit(solved), tmp_path / "saved.py", np.eye(n), np.ones(n))
    text = (tmp_path / "saved.py").read_text()
    assert "numba" not in text and "def solve_triangular(a, b, *, lower):" in text
    program = "import sys; sys.modules['scipy'] = sys.modules['calque'] = None\n"
    program += "import numpy as np, saved\n"
    program += f"print(saved.solved_jit(4.0 * np.eye({n}), np.ones({n})).tolist() == [0.5] * {n})"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "True", done.stderr


def test_stepping(monkeypatch: Any) -> None:
    monkeypatch.setenv("CALQUE_JIT", "0")
    A, b = regular(30), RNG.normal(size=30)
    np.testing.assert_allclose(calque.jit(by_cholesky)(A, b), by_cholesky(A, b), rtol=1e-9)


def test_the_gradient_of_cholesky_is_that_of_a_symmetric_matrix() -> None:
    """As JAX has it: an element and its mirror image share what both of them change."""
    rng = np.random.default_rng(8)
    a, c = rng.normal(size=(2, 5, 5))
    K = a @ a.T + 5.0 * np.eye(5)

    def loss(K):
        return np.sum(np.linalg.cholesky(K) * c)

    expected = np.zeros((5, 5))
    for i in range(5):
        for j in range(5):
            step = np.zeros((5, 5))
            step[i, j] += 5e-7
            step[j, i] += 5e-7  # twice on the diagonal
            expected[i, j] = (loss(K + step) - loss(K - step)) / 2e-6
    for gradient in (calque.grad(loss), calque.jit(calque.grad(loss))):
        np.testing.assert_allclose(gradient(K), expected, rtol=1e-6, atol=1e-8)
