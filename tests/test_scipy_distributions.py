"""Distributions of ``scipy.stats``: values are SciPy's, derivatives agree with differences."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque

stats = pytest.importorskip("scipy.stats")
from support_stats import CONTINUOUS, METHODS  # noqa: E402

# of these the density, the distribution function and the quantile are differentiated
OTHERS: dict[str, tuple[float, ...]] = {
    "weibull_max": (1.7,),
    "halfnorm": (),
    "rayleigh": (),
    "maxwell": (),
    "invgauss": (0.8,),
    "skewnorm": (1.5,),
    "foldnorm": (1.9,),
    "triang": (0.4,),
    "burr12": (10.5, 4.3),
    "johnsonsu": (2.6, 2.3),
    "loguniform": (0.01, 1.25),
    "powerlaw": (1.7,),
}
# every number is a parameter of theirs
NO_WRONG = ("johnsonsu", "skewnorm", "truncnorm")
ALL = CONTINUOUS | OTHERS
PROBABILITIES = np.array([0.013, 0.21, 0.47, 0.78, 0.985])


def method_of(dist: Any, name: str, count: int) -> Callable[..., Any]:
    """A function with the call in its text, as a user writes it."""
    given = ", ".join(["x", *(f"a{k}" for k in range(count)), "loc", "scale"])
    text, file = f"def f({given}):\n    return dist.{name}({given})\n", f"<{dist.name}.{name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    namespace: dict[str, Any] = {"dist": dist}
    exec(compile(text, file, "exec"), namespace)
    made: Callable[..., Any] = namespace["f"]
    return made


def computed(f: Callable[..., Any], *args: Any) -> Any:
    """The result of the translated function."""
    return calque.vmap(f, in_axes=None, axis_size=1)(*args)[0]


def places(dist: Any, method: str, args: tuple[float, ...]) -> np.ndarray:
    return PROBABILITIES if method in ("ppf", "isf") else dist.ppf(PROBABILITIES, *args)


@pytest.mark.parametrize("name", ALL)
def test_values_are_scipys_also_where_there_is_no_density(name: str) -> None:
    dist, shapes = getattr(stats, name), ALL[name]
    rng = np.random.default_rng(1)
    for method in METHODS:
        f = method_of(dist, method, len(shapes))
        args = (*(np.exp(rng.normal(0.0, 0.1, 40)) * a for a in shapes), 0.3, 1.7)
        if method in ("ppf", "isf"):
            x = np.concatenate([[-0.1, 0.0, 1.0, 1.1, np.nan], rng.uniform(size=35)])
        else:
            low, high = dist.support(*args)
            edges = [np.broadcast_to(e, 40)[:5] for e in (low, high)]
            x = np.concatenate([[-np.inf, np.inf, np.nan, -3.0, 9.0], *edges, np.ones(25)])
            x[15:] = dist.rvs(*(a[15:] for a in args[:-2]), *args[-2:], size=25, random_state=rng)
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(computed(f, x, *args), f(x, *args), rtol=2e-11, atol=1e-300)
            single = x.astype("f4")
            assert computed(f, single, *args).dtype == f(single, *args).dtype


@pytest.mark.parametrize("name", ALL)
def test_wrong_parameters_give_nan(name: str) -> None:
    dist, shapes = getattr(stats, name), ALL[name]
    for method in METHODS:
        f = method_of(dist, method, len(shapes))
        for wrong in [*range(len(shapes)), -1]:
            args = [*shapes, 0.3, 1.7]
            args[wrong] = np.nan if name in NO_WRONG and wrong >= 0 else -2.0
            x = places(dist, method, shapes)[:2]
            with np.errstate(all="ignore"):
                np.testing.assert_array_equal(computed(f, x, *args), f(x, *args))


@pytest.mark.parametrize("name", ALL)
def test_derivatives(name: str) -> None:
    """By place, parameters, location and scale, in both modes, and a second one."""
    dist, shapes = getattr(stats, name), ALL[name]
    for method in METHODS if name in CONTINUOUS else ("pdf", "cdf", "ppf"):
        f = method_of(dist, method, len(shapes))
        args = (places(dist, method, (*shapes, 0.3, 1.7)), *shapes, 0.3, 1.7)
        found = calque.jacfwd(f, argnums=tuple(range(len(args))))(*args)
        for k, slopes in enumerate(found):
            step = 1e-6 * max(1.0, abs(args[k])) if k else 1e-6 * np.minimum(args[0], 1.0)
            ends = [f(*args[:k], args[k] + s, *args[k + 1 :]) for s in (step, -step)]
            want = (ends[0] - ends[1]) / (2.0 * step)
            slopes = np.diag(slopes) if k == 0 else slopes
            scale = np.max(np.abs(want))
            np.testing.assert_allclose(slopes, want, rtol=1e-5, atol=1e-7 * scale + 1e-9)
        total = lambda *a: np.sum(f(*a))  # noqa: B023
        reverse = calque.grad(total, argnums=tuple(range(len(args))))(*args)
        np.testing.assert_allclose(reverse[0], np.diag(found[0]), rtol=1e-11, atol=1e-300)
        for got, slopes in zip(reverse[1:], found[1:], strict=True):
            np.testing.assert_allclose(got, np.sum(slopes), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", ["chi2", "gamma", "lognorm", "pareto", "uniform", "weibull_min"])
def test_outside_of_the_support_no_gradient_is_nan(name: str) -> None:
    dist = getattr(stats, name)
    shapes = (1.5,) if dist.shapes else ()
    for method in ("pdf", "logpdf"):
        f = method_of(dist, method, len(shapes))
        finite = lambda x, *a: np.sum(np.where(x > 1.2, f(x, *a), 0.0))  # noqa: B023
        args = (np.array([-1.0, 1.0, 1.3]), *shapes, 0.2, 1.0)
        for slopes in calque.grad(finite, argnums=tuple(range(len(args))))(*args):
            assert np.all(np.isfinite(slopes))
        x = np.array([-1.0, -0.5])
        np.testing.assert_array_equal(calque.grad(lambda x: np.sum(f(x, *args[1:])))(x), 0.0)  # noqa: B023
