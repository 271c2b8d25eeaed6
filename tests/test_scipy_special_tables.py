"""Functions of scipy.special whose slopes are one line: SciPy's values, slopes of differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special

import calque

X = np.array([0.35, 0.8, 1.7, 4.1])
SMOOTH: dict[str, Callable[..., Any]] = {
    "jvp": lambda x: special.jvp(1.5, x) + special.jvp(2, x, 3) + special.jvp(2, x, 0),
    "yvp": lambda x: special.yvp(1.5, x, 2),
    "ivp": lambda x: special.ivp(1.5, x, 2) + special.ivp(0, x, 1),
    "kvp": lambda x: special.kvp(1.5, x, 3) + special.kvp(1.5, x),
    "h1vp": lambda x: special.h1vp(1.5, x, 2).real + special.h2vp(1, x).imag,
    "ber": special.ber,
    "bei": special.bei,
    "ker": special.ker,
    "kei": special.kei,
    "berp": special.berp,
    "beip": special.beip,
    "kerp": special.kerp,
    "keip": special.keip,
    "itj0y0": lambda x: np.stack(special.itj0y0(x)),
    "iti0k0": lambda x: np.stack(special.iti0k0(x)),
    "it2j0y0": lambda x: np.stack(special.it2j0y0(x)),
    "it2i0k0": lambda x: np.stack(special.it2i0k0(x)),
    "itstruve0": special.itstruve0,
    "itmodstruve0": special.itmodstruve0,
    "elliprf": lambda x: special.elliprf(x, 1.5, x * x),
    "elliprc": lambda x: special.elliprc(x, 1.5 + x * x),
    "wright_bessel": lambda x: special.wright_bessel(0.7, 1.4, x),
    "log_wright_bessel": lambda x: special.log_wright_bessel(0.7, 1.4, x),
    "lpmv": lambda x: special.lpmv(2, 3.0, x / 5.0),
    "eval_sh_jacobi": lambda x: special.eval_sh_jacobi(3, 2.5, 1.5, x / 5.0),
    "eval_sh_jacobi of degree 0": lambda x: special.eval_sh_jacobi(0, 2.5, 1.5, x / 5.0) * x,
    "assoc_laguerre": lambda x: special.assoc_laguerre(x, 3, 1.5),
    "gdtria": lambda x: special.gdtria(x / 5.0, 1.5, 2.0),
    "gdtrix": lambda x: special.gdtrix(x, 1.5, 0.3),
    "perm": lambda x: special.perm(x + 3.0, 2.0),
}


def slope(f: Any, x: Any, step: float = 1e-5) -> Any:
    ends = [f(x + s) for s in (step, -step)]
    return (ends[0] - ends[1]) / (2.0 * step)


@pytest.mark.parametrize("name", SMOOTH)
def test_slopes(name: str) -> None:
    f = SMOOTH[name]
    with np.errstate(all="ignore"):
        value, tangent = calque.jvp(f, (X,), (np.ones_like(X),))
        rough = name.startswith("it")  # integrals, of which SciPy gives seven digits
        want = slope(f, X, 1e-2) if rough else slope(f, X)
        near = 1e-3 if rough else 1e-6
        np.testing.assert_allclose(value, f(X), rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(tangent, want, rtol=near, atol=1e-6)
        reverse = calque.grad(lambda x: np.sum(f(x)))(X)
        np.testing.assert_allclose(reverse, tangent.reshape(-1, 4).sum(axis=0), rtol=1e-10)
        compiled = calque.jit(f)(X)
    np.testing.assert_allclose(compiled, f(X), rtol=1e-12, atol=1e-14)


SECOND = ("ber", "kei", "berp", "jvp", "itj0y0", "wright_bessel", "lpmv", "eval_sh_jacobi")


@pytest.mark.parametrize("name", SECOND)
def test_second_derivatives(name: str) -> None:
    g = calque.grad(lambda x: np.sum(SMOOTH[name](x)))
    found = calque.grad(lambda x: np.sum(g(x)))(X)
    np.testing.assert_allclose(found, slope(g, X), rtol=1e-6, atol=1e-6)


def quadrature(a):
    nodes, weights = special.roots_legendre(12)
    return np.sum(weights * np.exp(a * nodes)) + special.jn_zeros(0, 2)[1] * a


def test_numbers_that_are_known() -> None:
    np.testing.assert_allclose(calque.jit(quadrature)(0.7), quadrature(0.7), rtol=1e-14)
    want = 2.0 * (np.cosh(0.7) / 0.7 - np.sinh(0.7) / 0.49) + special.jn_zeros(0, 2)[1]
    np.testing.assert_allclose(calque.grad(quadrature)(0.7), want, rtol=1e-12)
    with pytest.raises(ValueError, match="n must be a non-negative integer"):
        calque.jit(lambda x: special.jvp(1.5, x, -1))(X)
