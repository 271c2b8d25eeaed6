"""Functions of scipy.special: their values are SciPy's, their slopes those of differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import special

import calque
from calque.transpiler.errors import NotDifferentiable

Function = Callable[[Any], Any]

# a function of one argument, its places, edges included
TABLE: dict[str, tuple[Function, list[float]]] = {
    "jv": (lambda x: special.jv(1.5, x), [0.3, 2.0, 11.0]),
    "jv at zero": (lambda x: special.jv(1, x), [0.0]),
    "yv": (lambda x: special.yv(0.5, x), [0.3, 2.0, 11.0]),
    "iv": (lambda x: special.iv(2.5, x), [0.3, 2.0, 11.0]),
    "kv": (lambda x: special.kv(2.5, x), [0.3, 2.0, 11.0]),
    "ive": (lambda x: special.ive(2.0, x), [-2.0, 0.3, 50.0]),
    "kve": (lambda x: special.kve(1.5, x), [0.3, 2.0, 50.0]),
    "jve": (lambda x: special.jve(1.5, x), [0.3, 2.0]),
    "yn": (lambda x: special.yn(2, x), [0.5, 4.0]),
    "kn": (lambda x: special.kn(2, x), [0.5, 4.0]),
    "rgamma": (special.rgamma, [-3.0, -1.5, -1.0, 0.0, 0.3, 4.0]),
    "log_ndtr": (special.log_ndtr, [-9e4, -40.0, -1.0, 0.0, 2.0, 30.0]),
    "i1": (special.i1, [0.0, -1.0, 3.0]),
    "j1": (special.j1, [0.0, -1.0, 3.0]),
    "i1e": (special.i1e, [-1.0, 3.0, 80.0]),
    "i0e": (special.i0e, [-1.0, 3.0, 80.0]),
    "k1e": (special.k1e, [0.4, 3.0]),
    "struve": (lambda x: special.struve(0.5, x), [0.5, 3.0]),
    "gammainc": (lambda x: special.gammainc(2.5, x), [0.1, 2.0, 9.0]),
    "gammaincc": (lambda x: special.gammaincc(0.5, x), [0.1, 2.0, 9.0]),
    "gammaincinv": (lambda p: special.gammaincinv(2.5, p), [0.01, 0.5, 0.95]),
    "gammainccinv": (lambda p: special.gammainccinv(2.5, p), [0.05, 0.5, 0.95]),
    "betainc": (lambda x: special.betainc(2.5, 0.7, x), [0.01, 0.5, 0.95]),
    "betaincinv": (lambda x: special.betaincinv(2.5, 0.7, x), [0.05, 0.5, 0.9]),
    "stdtr": (lambda x: special.stdtr(3.5, x), [-2.0, 0.0, 2.0]),
    "stdtrit": (lambda p: special.stdtrit(3.5, p), [0.1, 0.5, 0.9]),
    "chdtrc": (lambda x: special.chdtrc(3.0, x), [0.5, 4.0]),
    "fdtr": (lambda x: special.fdtr(3.0, 5.0, x), [0.5, 4.0]),
    "gdtr": (lambda a: special.gdtr(a, 2.5, 1.5), [0.5, 2.0]),
    "pdtr": (lambda m: special.pdtr(2.0, m), [0.5, 2.0]),
    "bdtr": (lambda p: special.bdtr(2, 7, p), [0.1, 0.6]),
    "bdtrc": (lambda p: special.bdtrc(2, 7, p), [0.1, 0.6]),
    "nbdtr": (lambda p: special.nbdtr(2, 4, p), [0.1, 0.6]),
    "nbdtrc": (lambda p: special.nbdtrc(2, 4, p), [0.1, 0.6]),
    "pdtri": (lambda y: special.pdtri(2, y), [0.1, 0.6]),
    "hyp1f1": (lambda x: special.hyp1f1(0.5, 1.5, x), [-3.0, 0.0, 2.0]),
    "hyp2f1": (lambda x: special.hyp2f1(0.5, 1.5, 2.5, x), [-3.0, 0.0, 0.9]),
    "hyperu": (lambda x: special.hyperu(0.5, 1.5, x), [0.5, 3.0]),
    "zeta": (lambda q: special.zeta(2.5, q), [0.5, 1.0, 9.0]),
    "poch": (lambda m: special.poch(1.5, m), [0.5, 2.0]),
    "poch at poles": (lambda z: special.poch(z, 2.5), [-2.0, -1.0, 0.0, 0.7]),
    "poch of whole steps": (lambda z: special.poch(z, 2.0), [-3.0, -2.0, -1.0, 0.0, 0.7]),
    "multigammaln": (lambda a: special.multigammaln(a, 3), [1.5, 4.0]),
    "binom": (lambda n: special.binom(n, 2.0), [3.5, 9.0]),
    "binom at poles": (lambda n: special.binom(n, 5.0), [0.0, 2.0, 4.0, 3.5]),
    "binom by k at poles": (lambda k: special.binom(3.0, k), [-2.0, -1.0, 4.0, 6.0, 1.5]),
    "gammainc by a at 0": (lambda a: special.gammainc(a, 0.0), [0.5, 2.0]),
    "gammaincc by a at infinity": (lambda a: special.gammaincc(a, np.inf), [0.5, 2.0]),
    "comb": (lambda n: special.comb(n, 2), [3.5, 9.0]),
    "factorial": (special.factorial, [0.5, 3.0]),
    "expi": (special.expi, [-1.0, 0.5, 4.0]),
    "exp1": (special.exp1, [0.5, 4.0]),
    "expn": (lambda x: special.expn(0, x) + special.expn(3, x), [0.5, 4.0]),
    "dawsn": (special.dawsn, [-1.0, 0.0, 5.0]),
    "ndtri_exp": (special.ndtri_exp, [-3.0, -0.5]),
    "wofz": (lambda x: special.wofz(x + 0.5j).real, [-1.0, 0.0, 2.0]),
    "voigt by x": (lambda x: special.voigt_profile(x, 0.5, 0.8), [-1.0, 0.0, 3.0]),
    "voigt by sigma": (lambda s: special.voigt_profile(0.4, s, 0.8), [0.3, 1.5]),
    "voigt by gamma": (lambda g: special.voigt_profile(0.4, 0.5, g), [0.3, 1.5]),
    "lorentz": (lambda g: special.voigt_profile(0.4, 0.0, g), [0.3, 1.5]),
    "ellipk": (special.ellipk, [-8.0, -0.3, 0.0, 0.01, 0.3, 0.95]),
    "ellipe": (special.ellipe, [-8.0, -0.3, 0.0, 0.01, 0.3, 0.95]),
    "ellipkm1": (special.ellipkm1, [0.05, 0.7, 1.0, 1.5]),
    "ellipkinc by phi": (lambda p: special.ellipkinc(p, 0.6), [-2.0, 0.0, 1.0, 5.0]),
    "ellipkinc": (lambda m: special.ellipkinc(4.0, m), [-2.0, 0.0, 0.4, 0.9]),
    "ellipeinc": (lambda m: special.ellipeinc(-4.0, m), [-2.0, 0.0, 0.4, 0.9]),
    "lambertw": (lambda x: special.lambertw(x).real, [-0.2, 0.0, 3.0]),
    "lambertw below": (lambda x: special.lambertw(x, -1).real, [-0.3, -0.1]),
    "spence": (special.spence, [0.2, 0.99, 1.0, 1.015, 3.0]),
    "fresnel": (lambda x: special.fresnel(x)[0] * special.fresnel(x)[1], [0.0, 1.2]),
    "sici": (lambda x: special.sici(x)[0] + special.sici(x)[1], [0.5, 4.0]),
    "shichi": (lambda x: special.shichi(x)[0], [-1.0, 0.0, 4.0]),
    "airy": (lambda x: special.airy(x)[0] * special.airy(x)[3], [-2.0, 0.0, 1.0]),
    "exprel": (special.exprel, [-5.0, -0.5, 0.0, 1e-3, 1.5]),
    "boxcox": (lambda p: special.boxcox(2.5, p), [-1.0, 0.0, 0.7]),
    "inv_boxcox": (lambda p: special.inv_boxcox(1.5, p), [0.0, 0.001, 0.7]),
    "powm1": (lambda x: special.powm1(x, 1.5), [0.5, 2.0]),
    "agm": (lambda a: special.agm(a, 1.5), [0.5, 1.5, 4.0]),
    "owens_t": (lambda a: special.owens_t(0.7, a), [-1.0, 0.0, 2.0]),
    "wrightomega": (special.wrightomega, [-1.0, 0.0, 2.0]),
    "huber": (lambda d: special.huber(d, 1.5), [0.5, 2.0]),
    "pseudo_huber": (lambda d: special.pseudo_huber(d, 1.5), [0.5, 2.0]),
    "sindg": (special.sindg, [0.0, 45.0]),
    "eval_legendre": (lambda x: special.eval_legendre(4, x), [-1.0 + 1e-4, 0.0, 0.5]),
    "eval_legendre of degree 0": (lambda x: special.eval_legendre(0, x), [0.5]),
    "eval_chebyt": (lambda x: special.eval_chebyt(3, x), [-0.5, 0.0]),
    "eval_hermite": (lambda x: special.eval_hermite(3, x), [-0.5, 2.0]),
    "eval_jacobi": (lambda x: special.eval_jacobi(3, 0.5, 1.5, x), [-0.5, 0.3]),
    "eval_genlaguerre": (lambda x: special.eval_genlaguerre(3, 0.5, x), [0.5, 3.0]),
    "logsumexp of signs": (
        lambda x: special.logsumexp(
            np.stack([x, 0.5 * x], axis=-1), b=np.array([1.0, -3.0]), axis=-1, return_sign=True
        )[0],
        [0.5, 1.0],
    ),
}


def difference(function: Function, x: float) -> float:
    """The slope by central differences of two steps, extrapolated."""
    h = 5e-4 * max(abs(x), 0.1)
    narrow, wide = ((function(x + k * h) - function(x - k * h)) / (2 * k * h) for k in (1, 2))
    return float((4.0 * narrow - wide) / 3.0)


@pytest.mark.parametrize("name", TABLE)
def test_values_and_slopes(name: str) -> None:
    function, places = TABLE[name]

    def of_array(x: np.ndarray) -> Any:
        return function(np.asarray(x, np.float64))

    x = np.array(places)
    value, slope = calque.jvp(function, (x,), (np.ones_like(x),))
    np.testing.assert_allclose(value, of_array(x), rtol=1e-13)
    wanted = [difference(of_array, p) for p in places]
    np.testing.assert_allclose(slope, wanted, rtol=1e-6, atol=1e-8)
    gradient = calque.grad(lambda x: np.sum(function(x)))(x)
    np.testing.assert_allclose(gradient, slope, rtol=1e-12, atol=1e-300)
    mapped = calque.vmap(calque.grad(lambda x: np.sum(function(x))))(x)
    np.testing.assert_allclose(mapped, slope, rtol=1e-12, atol=1e-300)


SECOND = """jv yv iv kv ive kn i1 j1 k1e gammainc gammaincinv betainc stdtr fdtr gdtr hyp1f1 hyp2f1 zeta
poch expn dawsn ellipk ellipe spence airy exprel agm owens_t wrightomega eval_legendre eval_jacobi
lambertw boxcox rgamma log_ndtr""".split()
SECOND += ["poch at poles", "poch of whole steps", "binom at poles"]


@pytest.mark.parametrize("name", SECOND)
def test_second_derivatives(name: str) -> None:
    function, places = TABLE[name]
    slope = calque.grad(function)
    for x in places:
        wanted = difference(slope, x)
        assert calque.grad(slope)(x) == pytest.approx(wanted, rel=1e-5, abs=1e-7), x


def test_slopes_are_mpmaths() -> None:
    rng = np.random.default_rng(3)
    cases: list[tuple[Function, Function, tuple[float, float]]] = [
        (lambda x: special.jv(1.5, x), lambda x: mpmath.besselj(1.5, x), (0.1, 20.0)),
        (lambda x: special.kv(0.3, x), lambda x: mpmath.besselk(0.3, x), (0.1, 20.0)),
        (special.ellipk, mpmath.ellipk, (-9.0, 0.99)),
        (special.ellipe, mpmath.ellipe, (-9.0, 0.99)),
        (lambda m: special.ellipkinc(1.2, m), lambda m: mpmath.ellipf(1.2, m), (-5.0, 1.0)),
        (lambda x: special.gammainc(2.5, x), lambda x: mpmath.gammainc(2.5, 0, x, True), (0.1, 9)),
        (lambda q: special.zeta(2.5, q), lambda q: mpmath.zeta(2.5, q), (0.1, 9.0)),
        (special.exprel, lambda x: mpmath.expm1(x) / x, (-4.0, 4.0)),
        (special.spence, lambda x: mpmath.polylog(2, 1 - x), (0.1, 1.9)),
    ]
    for function, exact, bounds in cases:
        slope = calque.grad(function)
        for x in rng.uniform(*bounds, 20):
            wanted = float(mpmath.re(mpmath.diff(exact, x)))
            assert slope(x) == pytest.approx(wanted, rel=1e-11)


REFUSED: dict[str, Function] = {
    "special.jv has no derivative by its order": lambda v: special.jv(v, 2.0),
    "special.hyp2f1 has no derivative by its parameters": lambda a: special.hyp2f1(
        a, 1.0, 2.0, 0.5
    ),
    "special.zeta has no derivative by its first": lambda x: special.zeta(x, 2.0),
    "special.zeta has no derivative": special.zeta,
}


@pytest.mark.parametrize("message", REFUSED)
def test_a_parameter_is_refused(message: str) -> None:
    function = REFUSED[message]
    with pytest.raises(NotDifferentiable, match=message):
        calque.grad(function)(1.5)
    with pytest.raises(NotDifferentiable, match=message):
        calque.jvp(function, (1.5,), (1.0,))


def test_edges_are_scipys() -> None:
    x = np.array([-np.inf, -1.0, 0.0, 1.0, np.inf, np.nan])
    for name in ("ellipk", "expi", "spence", "gammasgn", "dawsn", "exprel", "ndtri_exp"):
        function = getattr(special, name)
        for dtype in (np.float64, np.float32):
            got = calque.jit(lambda x, f=function: f(x))(x.astype(dtype))
            want = function(x.astype(dtype))
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, want)
    with pytest.raises(ValueError, match="not met"):
        calque.jit(lambda a: special.multigammaln(a, 3))(0.5)


@pytest.mark.filterwarnings("ignore:floating point number truncated")
def test_whole_parts_of_orders() -> None:
    for function, order in ((special.yn, 2.5), (special.kn, -0.5)):
        f = lambda x: function(order, x)  # noqa: B023
        assert calque.grad(f)(1.3) == pytest.approx(difference(f, 1.3), rel=1e-6)


def test_tail_of_log_ndtr() -> None:
    for x in (-1e6, -1e8, -1e100):
        assert calque.grad(special.log_ndtr)(x) == pytest.approx(-x, rel=1e-11)


COUNTS = np.array([-2.0, -1.0, -0.5, 0.0, 1.0, 2.5, 3.0, 7.0])
SHARES = np.array([-0.1, 0.0, 0.2, 0.9, 1.0, 1.1, np.nan])[:, np.newaxis]


@pytest.mark.parametrize("name", ["bdtr", "bdtrc", "nbdtr", "nbdtrc", "pdtr", "pdtrc", "pdtri"])
@pytest.mark.filterwarnings("ignore")
def test_senseless_counts_are_scipys(name: str) -> None:
    function = getattr(special, name)
    for n in (-1, 0, 3, 4) if "bdtr" in name else (None,):
        f = lambda k, p: function(k, p) if n is None else function(k, n, p)  # noqa: B023
        np.testing.assert_allclose(calque.jit(f)(COUNTS, SHARES), f(COUNTS, SHARES), rtol=1e-12)


def test_comb_with_repetition() -> None:
    f = lambda n, k: special.comb(n, k, repetition=True)
    n, k = np.array([0.0, 1.0, 5.0, 5.0]), np.array([0.0, 0.0, 0.0, 2.0])
    np.testing.assert_allclose(calque.jit(f)(n, k), [1.0, 1.0, 1.0, 15.0], rtol=1e-13)


def test_weights_of_logsumexp_spread() -> None:
    b = np.array([[1.0, 2.0, 0.0], [0.5, 3.0, 1.0]])
    x, z = np.array([0.3, -1.0, 40.0]), np.array([1.0 + 2.0j, 3.0 - 1.0j, 0.5j])
    for axis in (None, 0, -1):
        f = lambda x, b: special.logsumexp(x, axis=axis, b=b)  # noqa: B023
        np.testing.assert_allclose(calque.jit(f)(x, b), f(x, b), rtol=1e-13)
        signed = lambda x: special.logsumexp(x, axis=axis, b=b, return_sign=True)  # noqa: B023
        for got, want in zip(calque.jit(signed)(z), signed(z), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-13)
            assert got.dtype == want.dtype
    single = lambda x: special.logsumexp(x, b=2)
    assert calque.jit(single)(x.astype("f4")).dtype == np.float32
    many = lambda a: special.multigammaln(a, 2)
    assert calque.jit(many)(np.float32([2.0])).dtype == many(np.float32([2.0])).dtype
