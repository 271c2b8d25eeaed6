"""Loops around factorizations of small matrices are compiled with them: filters, Newton's method."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sampling import sampled

import calque

pytest.importorskip("numba")

RNG = np.random.default_rng(11)


def launcher(function: Any, *args: Any) -> str:
    """The part of the compiled source that is no kernel."""
    text = calque.source(calque.jit(function), *args, stage="kernels")
    return text[text.index("_jit(") :]


def slopes_agree(function: Callable[..., Any], args: tuple[Any, ...], rtol: float = 1e-6) -> Any:
    """The compiled gradient by all arguments, which along a way is the difference quotient."""
    ways = [np.cos(1.0 + np.arange(np.size(a))).reshape(np.shape(a)) for a in args]
    step = 1e-4
    at = [
        function(*(a + k * step * w for a, w in zip(args, ways, strict=True))) for k in (-2, -1, 1, 2)
    ]
    slope = (at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * step)
    gradient = calque.jit(calque.value_and_grad(function, argnums=tuple(range(len(args)))))
    value, found = gradient(*args)
    np.testing.assert_allclose(value, function(*args), rtol=1e-11)
    total = sum(np.vdot(g, w) for g, w in zip(found, ways, strict=True))
    np.testing.assert_allclose(total, slope, rtol=rtol)
    return found


def kalman(A, C, Q, R, y):
    """The negative logarithm of the likelihood of observations."""
    m = np.zeros(A.shape[0])
    P = np.eye(A.shape[0])
    loss = 0.0
    for t in range(y.shape[0]):
        m = A @ m
        P = A @ P @ A.T + Q
        v = y[t] - C @ m
        S = C @ P @ C.T + R
        K = np.linalg.solve(S, C @ P).T
        m = m + K @ v
        P = P - K @ C @ P
        loss += np.log(np.linalg.det(S)) + v @ np.linalg.solve(S, v)
    return 0.5 * loss


def kalman_args(steps: int = 6) -> tuple[Any, ...]:
    A = 0.9 * np.linalg.qr(RNG.normal(size=(4, 4)))[0]
    return A, RNG.normal(size=(2, 4)), 0.1 * np.eye(4), 0.5 * np.eye(2), RNG.normal(size=(steps, 2))


def likelihood(S, x):
    """By the factor, the inverse and the logarithm of the determinant, of matrices that change."""
    S = 0.5 * (S + S.T)
    total = 0.0
    for k in range(x.shape[0]):
        T = S * (k + 2.0) + np.outer(x[k], x[k])
        L = np.linalg.cholesky(T)
        total += np.sum(np.linalg.solve(L, x[k]) ** 2) + np.linalg.slogdet(T)[1]
        total += np.linalg.norm(L) * np.trace(np.linalg.inv(T))
    return total


def gauss_newton(p, x, y):
    """The parameters of a decaying wave, from where it starts; until the step is short."""
    step = 1.0
    iterations = 0
    while step > 1e-8 and iterations < 30:
        wave = np.exp(-p[1] * x)
        r = p[0] * wave * np.cos(p[2] * x) - y
        J = np.empty((x.size, 3))
        J[:, 0] = wave * np.cos(p[2] * x)
        J[:, 1] = -x * p[0] * wave * np.cos(p[2] * x)
        J[:, 2] = -x * p[0] * wave * np.sin(p[2] * x)
        change = np.linalg.solve(J.T @ J, J.T @ r)
        p = p - change
        step = np.sqrt(np.sum(change**2))
        iterations += 1
    return p


def gradient_by_jax(*args: Any) -> Any:
    """The gradient of ``kalman``."""
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    jnp = jax.numpy

    def same(A, C, Q, R, y):
        m, P, loss = jnp.zeros(4), jnp.eye(4), 0.0
        for t in range(y.shape[0]):
            m, P = A @ m, A @ P @ A.T + Q
            v, S = y[t] - C @ m, C @ P @ C.T + R
            K = jnp.linalg.solve(S, C @ P).T
            m, P = m + K @ v, P - K @ C @ P
            loss += jnp.log(jnp.linalg.det(S)) + v @ jnp.linalg.solve(S, v)
        return 0.5 * loss

    return jax.jit(jax.grad(same, argnums=(2, 3)))(*args)


def test_kalman_filter() -> None:
    args = kalman_args()
    text = launcher(kalman, *args)
    assert "for " not in text and "linalg" not in text, text
    np.testing.assert_allclose(calque.jit(kalman)(*args), kalman(*args), rtol=1e-12)
    A, C, Q, R, y = args

    def of_noise(Q, R):
        return kalman(A, C, Q, R, y)

    assert "for " not in launcher(calque.value_and_grad(of_noise, argnums=(0, 1)), Q, R)
    found = slopes_agree(of_noise, (Q, R))
    for mine, theirs in zip(found, gradient_by_jax(*args), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-11)


def test_all_functions_and_their_gradients() -> None:
    S = np.eye(3) + 0.3 * np.ones((3, 3))
    args = S, RNG.normal(size=(5, 3))
    assert "for " not in launcher(likelihood, *args)
    slopes_agree(likelihood, args)


def test_newton_in_lanes() -> None:
    x = np.linspace(0.0, 3.0, 20)
    wanted = np.array([1.5, 0.4, 2.0])
    y = wanted[0] * np.exp(-wanted[1] * x) * np.cos(wanted[2] * x)
    starts = wanted + 0.1 * RNG.normal(size=(4, 3))
    many = calque.jit(calque.vmap(gauss_newton, in_axes=(0, None, None)))
    assert "np.linalg" not in launcher(calque.vmap(gauss_newton, in_axes=(0, None, None)), starts, x, y)
    single = np.array([gauss_newton(p, x, y) for p in starts])
    np.testing.assert_allclose(many(starts, x, y), single, rtol=1e-9)


def settled(S, x):
    """A fixed number of steps towards where the slope is zero."""
    for _ in range(3):
        x = x - np.linalg.solve(S + x[0] * np.eye(2), S @ x - 1.0)
    return np.sum(x**2)


def test_gradient_in_lanes_of_matrices() -> None:
    """Each lane has a matrix of its own: stacks of them are factored, and multiplied, in the kernel."""
    gradient = calque.value_and_grad(settled)
    lanes = calque.vmap(gradient, in_axes=(0, None))
    S, x = RNG.normal(size=(3, 2, 2)) + 3 * np.eye(2), np.array([1.0, 2.0])
    assert "for " not in launcher(lanes, S, x)
    values, slopes = calque.jit(lanes)(S, x)
    for k in range(3):
        value, slope = gradient(S[k], x)
        np.testing.assert_allclose(values[k], value, rtol=1e-12)
        np.testing.assert_allclose(slopes[k], slope, rtol=1e-11, atol=1e-12)


# the functions themselves


def of_stacks(A, b, B):
    """All of them, of stacks and of what each matrix of a stack has in common."""
    total = np.zeros(A.shape[0])
    for k in range(2):
        M = A * (k + 1.0)
        S = M @ M.swapaxes(1, 2) + np.eye(3)
        total += np.linalg.det(M) + np.linalg.slogdet(S)[1] + np.linalg.cholesky(S)[:, 2, 1]
        total += np.linalg.inv(M)[:, 0, 2] + np.linalg.solve(S, B)[:, 1, 1]
        total += np.linalg.solve(A[0] + k, B)[:, 2, 0] + (M @ b)[:, 1]
    return total


def test_stacks() -> None:
    A, b, B = RNG.normal(size=(4, 3, 3)), RNG.normal(size=3), RNG.normal(size=(4, 3, 2))
    assert "for " not in launcher(of_stacks, A, b, B)
    compiled = calque.jit(of_stacks)
    np.testing.assert_allclose(compiled(A, b, B), of_stacks(A, b, B), rtol=1e-11)
    np.testing.assert_allclose(compiled(A[:1], b, B[:1]), of_stacks(A[:1], b, B[:1]), rtol=1e-11)


def all_five(A, b, B, out, inverses, vectors, matrices, lows):
    """The five functions of each matrix, and of its transpose."""
    for k in range(A.shape[0]):
        M = A[k].T
        vectors[k] = np.linalg.solve(M, b[::-1])
        matrices[k] = np.linalg.solve(A[k, ::-1], B)
        inverses[k] = np.linalg.inv(M)
        out[k, 0] = np.linalg.det(M)
        sign, logarithm = np.linalg.slogdet(A[k])
        out[k, 1] = sign
        out[k, 2] = logarithm
        lows[k] = np.linalg.cholesky(A[k] @ A[k].T + np.eye(A.shape[1], dtype=A.dtype))


def factors(A, b, B, out, inverses, vectors, matrices):
    """The same of complex matrices, of which there is no derivative of the others."""
    for k in range(A.shape[0]):
        M = A[k].T
        vectors[k] = np.linalg.solve(M, b[::-1])
        matrices[k] = np.linalg.solve(A[k, ::-1], B)
        inverses[k] = np.linalg.inv(M)
        out[k, 0] = np.linalg.det(M)


@pytest.mark.parametrize("dtype", sampled(["c16", "f4", "f8"], 2))
def test_values(dtype: str) -> None:
    function = factors if dtype == "c16" else all_five
    compiled = calque.jit(function)
    tolerance = 2e-4 if dtype == "f4" else 1e-11
    for n, count in ((4, 3), (1, 2), (7, 2), (0, 2)):
        A = RNG.normal(size=(count, n, n)).astype(dtype)
        b, B = RNG.normal(size=n).astype(dtype), RNG.normal(size=(n, 2)).astype(dtype)
        if dtype == "c16":
            A += 1j * RNG.normal(size=A.shape)
            B += 1j * RNG.normal(size=B.shape)
        shapes = [(count, 3), (count, n, n), (count, n), (count, n, 2), (count, n, n)]
        shapes = shapes[:-1] if function is factors else shapes
        assert "np.linalg" not in launcher(function, A, b, B, *(np.zeros(s, dtype) for s in shapes))
        found, wanted = ([np.zeros(s, dtype) for s in shapes] for _ in range(2))
        compiled(A, b, B, *found)
        function(A, b, B, *wanted)
        for mine, theirs in zip(found, wanted, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance)


def test_result_dtypes() -> None:
    def both(A, b):
        out = np.zeros(2)
        for k in range(2):
            x = np.linalg.solve(A + k * np.eye(2, dtype=A.dtype), b)
            out[k] = x[0] / 3
        return out, x, np.linalg.det(A)

    for A, b in ((np.array([[2, 1], [1, 3]]), np.array([1, 2])), (np.eye(2, dtype="f4"), np.ones(2, "f4"))):
        for mine, theirs in zip(calque.jit(both)(A, b), both(A, b), strict=True):
            assert mine.dtype == theirs.dtype
            np.testing.assert_allclose(mine, theirs, rtol=1e-6 if A.dtype == "f4" else 1e-14)


def determinants(A):
    out = np.empty(A.shape[0])
    for k in range(A.shape[0]):
        out[k] = np.linalg.det(A[k]) + np.linalg.slogdet(A[k])[0]
    return out


def test_determinants_of_odd_matrices() -> None:
    wide = np.diag([1e-200, 1e-200, 1e200, 1e200])
    nan, inf = np.full((4, 4), np.nan), np.diag([1.0, np.inf, 2.0, 3.0])
    A = np.array([wide, wide[::-1] * 2.0, np.zeros((4, 4)), np.ones((4, 4)), nan, inf, -inf])
    with np.errstate(all="ignore"):
        wanted = determinants(A)
    np.testing.assert_allclose(calque.jit(determinants)(A), wanted, rtol=1e-12)


def solved_until(A, b, out):
    for k in range(A.shape[0]):
        out[k] = np.linalg.solve(A[k], b)
    return out


def factored(A, b, out):
    for k in range(A.shape[0]):
        out[k] = np.linalg.cholesky(A[k])[0]
    return out


@pytest.mark.parametrize("function", [solved_until, factored])
def test_refused_as_by_numpy(function: Callable[..., Any]) -> None:
    """Stores made before the refused matrix stay; NaN is not refused."""
    A = np.array([np.eye(2), 2.0 * np.eye(2), np.zeros((2, 2)), np.eye(2)])
    b = np.array([1.0, 3.0])
    found, wanted = np.zeros((4, 2)), np.zeros((4, 2))
    with pytest.raises(np.linalg.LinAlgError) as theirs:
        function(A, b, wanted)
    with pytest.raises(np.linalg.LinAlgError) as mine:
        calque.jit(function)(A, b, found)
    assert str(mine.value) == str(theirs.value)
    np.testing.assert_array_equal(found, wanted)
    A[2] = np.nan
    assert np.isnan(calque.jit(function)(A, b, found)[2]).any()
    np.testing.assert_array_equal(found[3], function(A, b, wanted)[3])


def newton_step(A, b):
    for _ in range(3):
        b = np.linalg.solve(A, b)
    return b


def test_large_matrices_stay_with_lapack() -> None:
    assert "solve(A, b)" in calque.source(calque.jit(newton_step), np.eye(3), np.ones(3), stage="kernels")
    large = launcher(newton_step, np.eye(50), np.ones(50))
    assert "np.linalg.solve(A, b)" in large, large
    compiled = calque.jit(newton_step)
    for n in (3, 50, 5, 60):
        A, b = RNG.normal(size=(n, n)) + 3 * np.eye(n), RNG.normal(size=n)
        np.testing.assert_allclose(compiled(A, b), newton_step(A, b), rtol=1e-8)
    assert compiled.cache_info().programs == 2


def test_names_of_the_users() -> None:
    def f(solve, determinant):
        inverse = 0.0
        for k in range(3):
            inverse = inverse * determinant + np.linalg.solve(solve, solve[k])[0] + np.linalg.det(solve)
        return inverse

    A = RNG.normal(size=(3, 3)) + 3 * np.eye(3)
    np.testing.assert_allclose(calque.jit(f)(A, 0.5), f(A, 0.5), rtol=1e-12)


def test_saved_without_scipy(tmp_path: Path) -> None:
    """A saved module needs NumPy and Numba, and nothing of LAPACK's bindings for Numba."""
    calque.save(calque.jit(newton_step), tmp_path / "saved.py", np.eye(3), np.ones(3))
    program = "import sys; sys.modules['scipy'] = sys.modules['calque'] = None\n"
    program += "import numpy as np, saved\nprint(saved.newton_step_jit(2 * np.eye(3), np.ones(3)))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "[0.125 0.125 0.125]", done.stderr
