"""``scipy.interpolate``: splines that a program makes, and such made outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from test_scipy_spatial import check

import calque

interpolate = pytest.importorskip("scipy.interpolate")

RNG = np.random.default_rng(8)
X = np.cumsum(RNG.uniform(0.5, 1.5, 7))
Y, SLOPES = RNG.normal(size=(2, 7))
PLACES = np.array([0.3, 1.7, 2.05, 5.5, X[-1] - 0.1])
MATRIX = RNG.normal(size=(7, 3))
C = RNG.normal(size=(4, 6))
MAKERS: dict[str, Callable[..., Any]] = {
    "not-a-knot": interpolate.CubicSpline,
    "natural": lambda x, y: interpolate.CubicSpline(x, y, bc_type="natural"),
    "clamped": lambda x, y: interpolate.CubicSpline(x, y, bc_type=("clamped", "natural")),
    "mixed": lambda x, y: interpolate.CubicSpline(x, y, bc_type=("not-a-knot", (2, 0.4))),
    "given": lambda x, y: interpolate.CubicSpline(x, y, bc_type=((1, y[0]), (2, 0.3))),
    "periodic": lambda x, y: interpolate.CubicSpline(
        x, np.concatenate([y[:-1], y[:1]]), bc_type="periodic"
    ),
    "three": lambda x, y: interpolate.CubicSpline(x[:3], y[:3]),
    "three natural": lambda x, y: interpolate.CubicSpline(x[:3], y[:3], bc_type="natural"),
    "two": lambda x, y: interpolate.CubicSpline(x[:2], y[:2], bc_type="clamped"),
    "two, one not a knot": lambda x, y: interpolate.CubicSpline(
        x[:2], y[:2], bc_type=("not-a-knot", "clamped")
    ),
    "pchip": interpolate.PchipInterpolator,
    "pchip of two": lambda x, y: interpolate.PchipInterpolator(x[:2], y[:2]),
    "akima": lambda x, y: interpolate.Akima1DInterpolator(x, y, extrapolate=True),
    "makima": lambda x, y: interpolate.Akima1DInterpolator(x, y, method="makima", extrapolate=True),
    "hermite": lambda x, y: interpolate.CubicHermiteSpline(x, y, np.sin(y)),
    "polynomial": lambda x, y: interpolate.PPoly(C * y[0], x),
}


@pytest.mark.parametrize("name", MAKERS)
def test_splines_of_values(name: str) -> None:
    make = MAKERS[name]
    check(lambda x, y, p: make(x, y)(p), X, Y, PLACES, reverse=False)


@pytest.mark.parametrize("name", ["not-a-knot", "periodic", "akima", "polynomial"])
def test_splines_made_outside(name: str) -> None:
    spline = MAKERS[name](X, Y)
    check(spline, PLACES)
    check(
        lambda p: spline(p, 1) + spline.derivative(2)(p) + spline.integrate(p[0], p[3]),
        PLACES,
        second=False,
    )


MORE: dict[str, Callable[..., Any]] = {
    "derivatives": lambda y, p: interpolate.CubicSpline(X, y)(p, 2),
    "derivative": lambda y, p: interpolate.CubicSpline(X, y).derivative()(p),
    "beyond order": lambda y, p: interpolate.CubicSpline(X, y)(p, 4) + p + y[0],
    "antiderivative": lambda y, p: interpolate.CubicSpline(X, y).antiderivative(2)(p),
    "integral": lambda y, p: interpolate.PchipInterpolator(X, y).integrate(p[0], p[-1] + 4.0),
    "periodic integral": lambda y, p: interpolate.CubicSpline(
        X, np.concatenate([y[:-1], y[:1]]), bc_type="periodic"
    ).integrate(p[0] - 9.0, p[-1] + 7.0),
    "scalar": lambda y, p: interpolate.CubicSpline(X, y)(p[0]),
    "matrix of places": lambda y, p: interpolate.CubicSpline(X, y)(np.outer(p, p)),
    "columns": lambda y, p: interpolate.CubicSpline(X, np.outer(y, MATRIX[0]))(p),
    "rows": lambda y, p: interpolate.CubicSpline(X, np.outer(MATRIX[0], y), axis=1)(p),
    "rows of pchip": lambda y, p: interpolate.PchipInterpolator(X, np.outer(MATRIX[0], y), 1)(
        np.outer(p, p)
    ),
    "no extrapolation": lambda y, p: np.nan_to_num(
        interpolate.CubicSpline(X, y, extrapolate=False)(p)
    ),
    "derivative of a polynomial": lambda y, p: interpolate.PPoly(C * y[0], X)(p, 2),
    "coefficients": lambda y, p: interpolate.CubicSpline(X, y).c + p[0],
    "pchip_interpolate": lambda y, p: interpolate.pchip_interpolate(X, y, p),
}


@pytest.mark.parametrize("name", MORE)
def test_uses_of_splines(name: str) -> None:
    check(MORE[name], Y, PLACES, reverse=False)


@pytest.mark.filterwarnings("error::calque.runtime.call.fallback.JitFallback")
def test_splines_in_compiled_loops() -> None:
    spline = interpolate.CubicSpline(X, Y)

    @calque.jit
    def outside(p: np.ndarray) -> Any:
        total = 0.0
        for i in range(p.shape[0]):
            total += spline(p[i]) * spline(p[i], 1)
        return total

    @calque.jit
    def inside(y: np.ndarray, p: np.ndarray) -> Any:
        made, total = interpolate.PchipInterpolator(X, y), 0.0
        for i in range(p.shape[0]):
            total += made(p[i])
        return total

    np.testing.assert_allclose(outside(PLACES), np.sum(spline(PLACES) * spline(PLACES, 1)))
    assert calque.jit(calque.grad(outside))(PLACES).shape == PLACES.shape
    expected = np.sum(interpolate.PchipInterpolator(X, Y)(PLACES))
    np.testing.assert_allclose(inside(Y, PLACES), expected)


def test_a_spline_outside_may_change() -> None:
    spline = interpolate.CubicSpline(X, Y)
    f = calque.grad(lambda p: spline(p))
    np.testing.assert_allclose(f(2.0), spline(2.0, 1))
    spline.c[:] *= 2.0
    np.testing.assert_allclose(f(2.0), spline(2.0, 1))


@pytest.mark.parametrize(
    ("f", "error", "words"),
    [
        (lambda y: interpolate.CubicSpline(X[::-1], y)(0.5), ValueError, "strictly increasing"),
        (lambda y: interpolate.CubicSpline(X, y / 0.0)(0.5), ValueError, "only finite"),
        (lambda y: interpolate.CubicSpline(X[:5], y)(0.5), ValueError, "length of `y`"),
        (lambda y: interpolate.CubicSpline(X, y, bc_type="free")(0.5), ValueError, "not allowed"),
        (lambda y: interpolate.CubicSpline(X, y, bc_type="periodic")(0.5), ValueError, "identical"),
        (lambda y: interpolate.CubicSpline(X, y).roots()[0], NotImplementedError, "roots.*brentq"),
        (lambda y: interpolate.InterpolatedUnivariateSpline(X, y).roots()[0], NotImplementedError, "roots.*brentq"),
        (lambda y: interpolate.PPoly(y, X)(0.5), ValueError, "at least 2-dim"),
        (lambda y: interpolate.PPoly(C * y[0], X)(0.5, -1), ValueError, "cannot be negative"),
        (lambda y: interpolate.PPoly(C * y[0], X[::-1])(0.5), ValueError, "increasing"),
        (lambda y: interpolate.PPoly(C, X[::-1])(y[0]), ValueError, "increasing"),
    ],
)
def test_wrong_arguments_raise_as_in_scipy(f: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words), np.errstate(all="ignore"):
        calque.grad(f)(Y)
