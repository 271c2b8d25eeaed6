"""Factorizations, norms and systems of complex matrices: derivatives are those of ``jax.numpy``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import calque

jax.config.update("jax_enable_x64", True)
RNG = np.random.default_rng(0)


def _complex(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape) + 1j * RNG.normal(size=shape)


SQUARE = _complex(3, 3) + 3 * np.eye(3)
HERMITIAN = SQUARE @ SQUARE.conj().T + np.diag([1.0, 2.0, 4.0])
TALL, WIDE, SIDE, SIDES = _complex(4, 2), _complex(2, 4), _complex(3), _complex(4, 3)


def eigh(np: Any, a: Any) -> Any:
    w, v = np.linalg.eigh(a)
    whole = v @ np.diag(np.cos(w) + 0j) @ np.conj(v).T
    return np.sum(w**3) + np.sum(np.abs(v) ** 2 * np.sin(w)) + np.real(whole[0, 1])


def svd(np: Any, a: Any) -> Any:
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    whole = u @ np.diag(np.cos(s) + 0j) @ vh
    return np.sum(s**3) + np.sum(np.abs(u) ** 2 * np.sin(s)) + np.imag(whole[0, 1])


def phases_of_svd(np: Any, a: Any) -> Any:
    u, _, vh = np.linalg.svd(a, full_matrices=False)
    return np.real(u[0, 1]) + np.imag(vh[1, 1])


def cholesky(np: Any, a: Any) -> Any:
    low = np.linalg.cholesky(a)
    return np.sum(np.abs(low) ** 3) + np.real(low[1, 0])


def qr(np: Any, a: Any) -> Any:
    q, r = np.linalg.qr(a)
    return np.sum(np.real(q * np.sin(a))) + np.sum(np.abs(r) ** 3)


def slogdet(np: Any, a: Any) -> Any:
    sign, logarithm = np.linalg.slogdet(a)
    return np.real(sign) * logarithm + np.imag(sign)


def norms(np: Any, a: Any) -> Any:
    whole = sum(np.linalg.norm(a, order) for order in (None, "fro", "nuc", 2, -2, 1, -1, np.inf))
    return whole + np.sum(np.linalg.norm(a, 3, axis=0)) + np.linalg.norm(a[0])


PROGRAMS: list[tuple[Callable[..., Any], np.ndarray]] = [
    (eigh, HERMITIAN),
    (lambda np, a: np.sum(np.sin(np.linalg.eigvalsh(a))), HERMITIAN),
    *((svd, a) for a in (SQUARE, TALL, WIDE)),
    (phases_of_svd, TALL),
    (lambda np, a: np.sum(np.sin(np.linalg.svd(a, compute_uv=False))), TALL),
    (cholesky, HERMITIAN),
    (qr, TALL),
    *((lambda np, a: np.sum(np.real(np.sin(np.linalg.pinv(a)))), a) for a in (TALL, WIDE)),
    (lambda np, a: np.sum(np.real(np.sin(np.linalg.inv(a)))), SQUARE),
    (lambda np, a: np.abs(np.linalg.det(a)), SQUARE),
    (slogdet, SQUARE),
    (lambda np, a: np.sum(np.abs(np.linalg.solve(a, SIDE)) ** 3), SQUARE),
    (norms, TALL),
]


@pytest.mark.parametrize("program", range(len(PROGRAMS)))
def test_derivatives_are_those_of_jax(program: int) -> None:
    function, a = PROGRAMS[program]
    ours, jaxs = (lambda a: function(np, a)), (lambda a: function(jnp, a))
    value, gradient = calque.value_and_grad(ours)(a)
    np.testing.assert_allclose(value, ours(a), rtol=1e-13)
    np.testing.assert_allclose(gradient, jax.grad(jaxs)(a), rtol=1e-9, atol=1e-12)
    along = _complex(*a.shape)
    along = along + along.conj().T if a is HERMITIAN else along
    pushed = calque.jvp(ours, (a,), (along,))[1]
    np.testing.assert_allclose(pushed, jax.jvp(jaxs, (a,), (along,))[1], rtol=1e-9)
    batch = calque.vmap(calque.grad(ours))(np.stack([a, 1.1 * a]))
    np.testing.assert_allclose(batch[0], gradient, rtol=1e-9, atol=1e-12)
    if function is not phases_of_svd:  # phases are those that LAPACK chose
        change = (calque.grad(ours)(a + 1e-6 * along) - calque.grad(ours)(a - 1e-6 * along)) / 2e-6
        second = calque.jvp(calque.grad(ours), (a,), (along,))[1]
        np.testing.assert_allclose(second, change, rtol=1e-6, atol=1e-6)


def test_one_triangle_is_read() -> None:
    """Entries that NumPy does not read have no derivative; those that it reads have all of it."""
    given = np.tril(HERMITIAN) + np.triu(_complex(3, 3), 1)
    for function in (eigh, cholesky):
        ours = lambda a, function=function: function(np, a)
        gradient = calque.grad(ours)(given)
        np.testing.assert_array_equal(np.triu(gradient, 1), 0.0)
        along = _complex(3, 3)
        change = (ours(given + 1e-6 * along) - ours(given - 1e-6 * along)) / 2e-6
        np.testing.assert_allclose(calque.jvp(ours, (given,), (along,))[1], change, rtol=1e-6)
        np.testing.assert_allclose(np.sum(gradient * along).real, change, rtol=1e-6)


def least_squares(a: np.ndarray, b: np.ndarray) -> Any:
    x, residuals, rank, s = np.linalg.lstsq(a, b)
    return np.sum(np.abs(x) ** 3) + np.sum(residuals) + np.sum(np.sin(s)) + rank


SYSTEMS = {
    "tall": (TALL, SIDES[:, 0]),
    "tall, of many": (TALL, SIDES),
    "wide": (WIDE, SIDES[:2, 0]),
    "real": (TALL.real, SIDES[:, 0].real),
}


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0)])
def test_least_squares_and_a_batch_of_them(name: str, axes: tuple[int | None, ...]) -> None:
    a, b = SYSTEMS[name]
    gradient = calque.grad(least_squares, argnums=(0, 1))
    step = [1e-6 * (_complex(*x.shape) if x.dtype.kind == "c" else np.cos(x)) for x in (a, b)]
    change = least_squares(a + step[0], b + step[1]) - least_squares(a - step[0], b - step[1])
    along = sum(np.sum(g * s) for g, s in zip(gradient(a, b), step, strict=True))
    np.testing.assert_allclose(2 * np.real(along), change, rtol=1e-4, atol=1e-9)
    each = [(a, b), (a if axes[0] is None else 1.5 * a, b if axes[1] is None else b - 0.5)]
    batch = [x if n is None else np.stack([x, y[i]]) for i, (x, n, y) in
             enumerate(zip((a, b), axes, (each[1],) * 2, strict=True))]  # fmt: skip
    values = calque.vmap(least_squares, in_axes=axes)(*batch)
    np.testing.assert_allclose(values, [least_squares(*e) for e in each], rtol=1e-11)
    found = calque.vmap(gradient, in_axes=axes)(*batch)
    for k in range(2):
        np.testing.assert_allclose(found[k], [gradient(*e)[k] for e in each], rtol=1e-9, atol=1e-11)


def test_kernels_factor_small_matrices() -> None:
    def total(many: np.ndarray) -> Any:
        found = 0.0
        for k in range(many.shape[0]):
            sign, logarithm = np.linalg.slogdet(many[k])
            found = found + np.sum(np.abs(np.linalg.cholesky(many[k]))) + logarithm * sign.real
        return found

    many = np.stack([HERMITIAN, HERMITIAN.T, np.eye(3) + 0j])
    np.testing.assert_allclose(calque.jit(total)(many), total(many), rtol=1e-12)
    found = calque.jit(calque.grad(total))(many)
    np.testing.assert_allclose(found, calque.grad(total)(many), rtol=1e-10, atol=1e-12)
    many[1, 0, 0] = -1.0
    with pytest.raises(np.linalg.LinAlgError):
        calque.jit(total)(many)
    many[1] = 0.0
    signs = calque.jit(lambda m: [np.linalg.slogdet(m[k])[1] for k in range(3)])(many)
    assert signs[1] == -np.inf
