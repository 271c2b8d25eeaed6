"""Legendre functions, spherical harmonics and Bessel functions, Jacobi's: SciPy's values, slopes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from mpmath import ellipfun, mp
from scipy import special

import calque
from calque.transpiler.errors import CalqueError

X = np.array([0.15, 0.4, -0.3, 0.85])
N = np.array([0, 1, 2, 5])
LEGENDRE: dict[str, Callable[..., Any]] = {
    "legendre_p": lambda x: special.legendre_p(4, x)[0],
    "legendre_p of degree 1": lambda x: special.legendre_p(1, x, diff_n=2),
    "legendre_p of degrees": lambda x: special.legendre_p(N, x, diff_n=2),
    "sph_legendre_p": lambda x: special.sph_legendre_p(4, 2, x)[0],
    "assoc_legendre_p": lambda x: special.assoc_legendre_p(5, 3, x, diff_n=1)[0],
    "assoc_legendre_p of degrees": lambda x: special.assoc_legendre_p(N, 1, x)[0],
    "assoc_legendre_p normed": lambda x: special.assoc_legendre_p(5, -3, x, norm=True)[0],
}
PHASES: dict[str, Callable[..., Any]] = {
    "sph_harm_y by theta": lambda x: special.sph_harm_y(3, 2, x, 0.7),
    "sph_harm_y by phi": lambda x: special.sph_harm_y(3, -2, 0.7, x),
    "sph_harm_y of the highest order": lambda x: special.sph_harm_y(2, 2, x, x * x),
    "sph_harm_y of order 0": lambda x: special.sph_harm_y(3, 0, x, 0.2),
    "sph_harm_y of orders": lambda x: special.sph_harm_y(5, N, x, 0.2),
}
OTHERS: dict[str, Callable[..., Any]] = {
    "ellipj by u": lambda x: np.stack(special.ellipj(x * 4.0, 0.6)),
    "ellipj by m": lambda x: np.stack(special.ellipj(1.7, np.abs(x))),
    **{
        name: lambda x, name=name: getattr(special, name)(2, x + 2.0)
        for name in ("spherical_jn", "spherical_yn", "spherical_in", "spherical_kn")
    },
    **{
        f"{name} derived": lambda x, name=name: getattr(special, name)(3, x + 2.0, derivative=True)
        for name in ("spherical_jn", "spherical_in")
    },
}
SMOOTH = LEGENDRE | PHASES | OTHERS


@pytest.mark.parametrize("name", SMOOTH)
def test_slopes(name: str) -> None:
    f = SMOOTH[name]
    found = calque.jvp(f, (X,), (np.ones_like(X),))
    np.testing.assert_allclose(found[0], f(X), rtol=1e-13, atol=1e-15)
    ends = [f(X + s) for s in (1e-5, -1e-5)]
    want = (ends[0] - ends[1]) / 2e-5
    np.testing.assert_allclose(found[1], want, rtol=1e-7, atol=1e-8)

    def total(x):
        y = f(x)
        return np.sum(np.real(y) * 1.3 + np.imag(y) * 0.4)

    weighted = np.real(want) * 1.3 + np.imag(want) * 0.4
    weighted = weighted.sum(axis=0) if weighted.ndim == 2 else weighted
    np.testing.assert_allclose(calque.grad(total)(X), weighted, rtol=1e-7, atol=1e-8)
    mapped = calque.vmap(f)(X.reshape(4, 1)[..., 0]) if "degrees" not in name else f(X)
    if "degrees" not in name and "orders" not in name:
        axis = -1 if np.ndim(f(X)) == 1 else 0
        want = f(X) if axis == -1 else np.moveaxis(f(X), -1, 0)
        np.testing.assert_allclose(mapped, want, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    "name", [*LEGENDRE, "sph_harm_y by theta", *sorted(OTHERS.keys() - {"ellipj by m"})]
)
def test_second_derivatives(name: str) -> None:
    f = SMOOTH[name]

    def slope(x):
        return calque.grad(lambda x: np.sum(np.real(f(x))))(x)

    ends = [slope(X + s) for s in (1e-5, -1e-5)]
    found = calque.grad(lambda x: np.sum(slope(x)))(X)
    np.testing.assert_allclose(found, (ends[0] - ends[1]) / 2e-5, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_derivatives_of_harmonics(count: int) -> None:
    theta, phi = np.array([0.0, 0.4, 2.0]), np.array([0.3, 4.0, -1.0])
    for n, m in (3, 1), (2, -2), (4, 0), (1, 1):

        def f(theta, phi):
            return special.sph_harm_y(n, m, theta, phi, diff_n=count)

        found, want = calque.jit(f)(theta, phi), f(theta, phi)
        found, want = ((v,) if count == 0 else v for v in (found, want))
        for one, other in zip(found, want, strict=True):
            # at the pole SciPy's own second derivatives are not finite
            finite = np.isfinite(other)
            np.testing.assert_allclose(one[finite], other[finite], rtol=1e-12, atol=1e-13)


def test_at_the_pole() -> None:
    theta = np.array([0.0])
    for m in -1, 0, 1, 2:
        got = calque.jvp(lambda t: special.sph_harm_y(3, m, t, 0.2), (theta,), (np.ones(1),))[1]
        near = special.sph_harm_y(3, m, theta + 1e-6, 0.2) - special.sph_harm_y(3, m, theta, 0.2)
        np.testing.assert_allclose(got, near / 1e-6, atol=1e-5)


def test_numbers_that_are_known() -> None:
    def f(x):
        return x * special.bernoulli(6)[2] + special.euler(4)[4] + special.comb(7, 3, exact=True)

    np.testing.assert_allclose(calque.grad(lambda x: np.sum(f(x)))(X), np.full(4, 1.0 / 6.0))
    np.testing.assert_allclose(calque.jit(f)(X), f(X))


def of_run_time(n, x):
    return special.bernoulli(n)[1] * x


def test_what_is_not_known_is_refused() -> None:
    with pytest.raises(CalqueError, match="no derivative"):
        calque.jit(of_run_time)(3, X)
    with pytest.raises(ValueError, match="diff_n is currently only implemented"):
        calque.jit(lambda x: special.legendre_p(2, x, diff_n=3))(X)


def test_by_mpmath() -> None:
    mp.dps = 30
    for m in 0.05, 0.6, 0.97:
        for u in 0.3, 2.2, 5.0:

            def sn(m):
                return special.ellipj(u, m)[0]

            want = float(mp.diff(lambda m: ellipfun("sn", u, m=m), m))
            np.testing.assert_allclose(calque.grad(sn)(m), want, rtol=1e-9, atol=1e-11)
