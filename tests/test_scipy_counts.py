"""Discrete distributions of ``scipy.stats``, and moments, medians and entropies of distributions."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
from calque.transpiler.errors import CalqueError

stats = pytest.importorskip("scipy.stats")

METHODS = ("pmf", "logpmf", "cdf", "logcdf", "sf", "logsf", "ppf", "isf")
# whole parameters are not differentiated by
DISCRETE: dict[str, tuple[float, ...]] = {
    "poisson": (2.7,),
    "binom": (9, 0.37),
    "bernoulli": (0.3,),
    "geom": (0.35,),
    "nbinom": (4.3, 0.4),
    "hypergeom": (30, 12, 9),
    "planck": (0.5,),
    "randint": (2, 9),
}
COUNTS = np.array([-np.inf, -1, 0, 1, 2, 2.5, 3, 4, 6, 9, 10, 30, np.nan])
PROBABILITIES = np.array([-0.1, 0.0, 0.01, 0.2, 0.5, 0.77, 0.999, 1.0, 2.0])
CONTINUOUS: dict[str, tuple[float, ...]] = {
    "norm": (),
    "t": (4.3,),
    "chi2": (3.4,),
    "f": (5.2, 7.1),
    "gamma": (2.3,),
    "invgamma": (3.1,),
    "beta": (2.3, 1.6),
    "expon": (),
    "uniform": (),
    "lognorm": (0.8,),
    "weibull_min": (1.7,),
    "gumbel_r": (),
    "pareto": (2.6,),
    "truncnorm": (-1.2, 1.9),
}


def called(dist: Any, method: str, given: str, frozen: bool = False) -> Callable[..., Any]:
    """A function with the call in its text, as a user writes it."""
    call = f"dist({given}).{method}()" if frozen else f"dist.{method}({given})"
    text, file = f"def f({given}):\n    return {call}\n", f"<{dist.name}.{method}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    namespace: dict[str, Any] = {"dist": dist}
    exec(compile(text, file, "exec"), namespace)
    made: Callable[..., Any] = namespace["f"]
    return made


def names(shapes: tuple[float, ...], *more: str) -> str:
    return ", ".join([*(f"a{k}" for k in range(len(shapes))), *more])


def slope(f: Callable[..., Any], args: tuple[Any, ...], k: int) -> Any:
    ends = [f(*args[:k], args[k] + s, *args[k + 1 :]) for s in (1e-6, -1e-6)]
    with np.errstate(all="ignore"):
        found = (ends[0] - ends[1]) / 2e-6
    return np.where(np.isfinite(found), found, 0.0)


@pytest.mark.filterwarnings("ignore:.*is generated anew")
@pytest.mark.parametrize("name", DISCRETE)
def test_probabilities_of_counts(name: str) -> None:
    dist, shapes = getattr(stats, name), DISCRETE[name]
    for method in METHODS:
        f = called(dist, method, "x, " + names(shapes, "loc"))
        x = PROBABILITIES if method in ("ppf", "isf") else COUNTS
        for loc in (0, 1):
            args = (x, *shapes, loc)
            with np.errstate(all="ignore"):
                found, want = calque.vmap(f, in_axes=None, axis_size=1)(*args)[0], f(*args)
            np.testing.assert_allclose(found, want, rtol=1e-11, atol=0)
        inner = (x[1:-1], *shapes, 0)
        assert not np.any(calque.grad(lambda x: np.sum(f(x, *inner[1:])))(inner[0][3:4]))  # noqa: B023
        for k, a in enumerate(shapes, 1):
            if isinstance(a, float):
                before, after = inner[:k], inner[k + 1 :]
                by = lambda a, x, y: f(*x, a, *y)  # noqa: B023
                got = calque.jacfwd(by)(a, before, after)
                want = slope(f, inner, k)
                np.testing.assert_allclose(np.nan_to_num(got), want, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", [*CONTINUOUS, "poisson", "bernoulli", "geom", "nbinom"])
def test_moments(name: str) -> None:
    dist = getattr(stats, name)
    shapes = (CONTINUOUS | DISCRETE)[name]
    tail = (0.3, 1.7) if name in CONTINUOUS else (1.0,)
    given = names(shapes, *("loc", "scale")[: len(tail)])
    for method in ("mean", "var", "std", "median", "entropy"):
        if method == "entropy" and name in ("poisson", "nbinom"):
            continue  # SciPy sums
        args = (*shapes, *tail)
        for frozen in (False, True):
            f = called(dist, method, given, frozen)
            found, slopes = calque.value_and_grad(f, argnums=tuple(range(len(args))))(*args)
            np.testing.assert_allclose(found, f(*args), rtol=1e-11)
        for k, got in enumerate(slopes):
            np.testing.assert_allclose(got, slope(f, args, k), rtol=1e-5, atol=1e-7)


def test_intervals_and_supports() -> None:
    def ends(a: Any, loc: Any) -> Any:
        return stats.gamma.interval(0.9, a, loc=loc), stats.gamma(a, loc).support()

    for got, want in zip(calque.jit(ends)(2.3, 0.4), ends(2.3, 0.4), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)


def test_frozen_counts_of_outside() -> None:
    waiting = stats.poisson(3.5)
    f = lambda x, p: np.sum(waiting.pmf(x) * p) + stats.binom(5, p).logpmf(2)
    x = np.arange(5)
    want = np.sum(waiting.pmf(x)) + 2 / 0.3 - 3 / 0.7
    np.testing.assert_allclose(calque.grad(f, 1)(x, 0.3), want, rtol=1e-12)


class Wald(stats.rv_continuous):
    """A distribution of a user's."""

    def _pdf(self, x: Any, mu: Any) -> Any:
        return np.exp(-((x - mu) ** 2) / (2.0 * x * mu**2)) / np.sqrt(2.0 * np.pi * x**3)


wald = Wald(a=0.0, name="wald of mine", shapes="mu")


def test_a_users_own_distribution() -> None:
    f = lambda x, mu, scale: np.sum(wald.logpdf(x, mu, scale=scale))
    x = np.array([0.3, 1.2, 4.0])
    for k, got in enumerate(calque.grad(f, (1, 2))(x, 1.3, 0.7), 1):
        np.testing.assert_allclose(got, slope(f, (x, 1.3, 0.7), k), rtol=1e-7)
    with pytest.raises(CalqueError, match="has no formula"):
        calque.grad(lambda x: wald.cdf(x, 1.3))(1.0)


def test_frozen_ones_have_the_methods_of_their_kind() -> None:
    def density(s: Any, dist: Any) -> Any:
        frozen = dist(s)
        return frozen.pmf(2) if hasattr(frozen, "pmf") else frozen.pdf(2)

    for dist in (stats.norm, stats.poisson):
        f = lambda s: density(s, dist)  # noqa: B023
        np.testing.assert_allclose(calque.jit(f)(1.5), f(1.5), rtol=1e-13)
    with pytest.raises(AttributeError, match="'rv_continuous_frozen' object has no attribute"):
        calque.grad(lambda s: stats.norm(s).pmf(2))(1.5)
    with pytest.raises(NotImplementedError, match="moment has no rule"):
        calque.grad(lambda s: stats.norm(s).moment(2))(1.5)


def test_known_wrong_parameters_keep_the_shape() -> None:
    x = np.array([0.1, 0.4, 2.0])
    for f in (
        lambda x: stats.norm.pdf(x, scale=-1),
        lambda x: stats.gamma.logcdf(x, -2.0),
        lambda x: stats.norm.ppf(x, 0.0, -1.0),
        lambda x: stats.poisson.pmf(np.floor(x), -1.0),
        lambda x: stats.binom.cdf(np.floor(x), 5, 1.5),
        lambda x: stats.norm.mean(x, -1.0),
    ):
        np.testing.assert_array_equal(calque.jit(f)(x), f(x))
