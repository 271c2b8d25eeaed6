"""``scipy.interpolate``: B-splines, interp1d and interpolation on grids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from test_scipy_spatial import check

import calque

interpolate = pytest.importorskip("scipy.interpolate")

RNG = np.random.default_rng(8)
X = np.cumsum(RNG.uniform(0.5, 1.5, 8))
Y = RNG.normal(size=8)
PLACES = np.array([X[0] + 0.1, 1.7, 2.05, 5.5, X[-1] - 0.1])
GRID = X[:4], X[:5], X[:3]
VALUES = RNG.normal(size=(4, 5, 3))
XI = np.stack([RNG.uniform(p[0], p[-1], 6) for p in GRID], axis=-1)
SPLINE = interpolate.make_interp_spline(X, Y)
TCK = interpolate.splrep(X, Y)
KINDS = "linear nearest previous next zero cubic".split()

MADE: dict[str, Callable[..., Any]] = {
    **{
        f"interp1d {kind}": lambda y, p, kind=kind: interpolate.interp1d(X, y, kind)(p) + 0.1 * p
        for kind in KINDS
    },
    "extrapolation": lambda y, p: interpolate.interp1d(X, y, fill_value="extrapolate")(3 * p - 4),
    "fill": lambda y, p: interpolate.interp1d(X, y, bounds_error=False, fill_value=(1.0, 2.0))(
        3 * p - 4
    ),
    "unsorted": lambda y, p: interpolate.interp1d(X[::-1], y[::-1])(p),
    "axis": lambda y, p: interpolate.interp1d(X, np.outer(y[:3], y), axis=1)(p),
    **{
        f"make_interp_spline {k}": lambda y, p, k=k: interpolate.make_interp_spline(X, y, k)(p)
        for k in (1, 2, 3)
    },
    "make_interp_spline on knots": lambda y, p: interpolate.make_interp_spline(
        X, y, 1, t=np.concatenate([X[:1], X[:1], X[1:-1] + 0.05, X[-1:], X[-1:]])
    )(p),
    "slope": lambda y, p: interpolate.make_interp_spline(X, y).derivative()(p),
    "BSpline": lambda c, p: interpolate.BSpline(SPLINE.t, c, 3)(p, 1),
    "BSpline along the last axis": lambda c, p: interpolate.BSpline(
        SPLINE.t, np.stack([c, c * c]), 3, axis=-1
    )(p),
    "interp1d of one value": lambda y, p: interpolate.interp1d(X[:1], y[:1])(X[0] + 0.0 * p),
    "splev of a curve": lambda c, p: np.stack(
        interpolate.splev(p, (SPLINE.t, [c, c * c], 3), der=1)
    ),
    "splev": lambda c, p: interpolate.splev(p, (SPLINE.t, c, 3), der=1),
    "RegularGridInterpolator": lambda v, p: interpolate.RegularGridInterpolator(
        (X,), v * v[0], bounds_error=False, fill_value=None
    )(p[:, None]),
}
ALONG = interpolate.interp1d(X, np.outer(Y, Y), "cubic", axis=0)
LINEAR = interpolate.interp1d(X, Y, bounds_error=False, fill_value=0.5)
ON_GRID = interpolate.RegularGridInterpolator(GRID, VALUES)
KNOWN: dict[str, tuple[Callable[..., Any], np.ndarray]] = {
    "BSpline": (lambda p: SPLINE(p) + SPLINE(p, 2), PLACES),
    "splev": (lambda p: interpolate.splev(p, TCK), PLACES),
    "interp1d": (lambda p: ALONG(p), PLACES),
    "linear": (lambda p: LINEAR(2 * p), PLACES),
    "grid": (lambda p: ON_GRID(p), XI),
    "interpn": (lambda p: interpolate.interpn(GRID, VALUES, p), XI),
    "values": (lambda v: interpolate.interpn(GRID, v, XI), VALUES),
    "nearest": (lambda v: interpolate.interpn(GRID, v, XI, method="nearest"), VALUES),
}


@pytest.mark.parametrize("name", MADE)
def test_interpolants_of_values(name: str) -> None:
    check(MADE[name], Y, PLACES, reverse=False)


@pytest.mark.parametrize("name", KNOWN)
def test_interpolants_made_outside(name: str) -> None:
    f, x = KNOWN[name]
    check(f, x, reverse=False)


def test_places_on_a_grid_may_be_one_after_another() -> None:
    grid, places = (X[:4], X[:2]), np.array([X[0], X[1], X[2], X[0]])

    def between(values: Any) -> Any:
        return interpolate.interpn(grid, values, places)

    values = VALUES[:, :2, 0]
    np.testing.assert_allclose(calque.jit(between)(values), between(values), rtol=1e-12)


@pytest.mark.filterwarnings("error::calque.runtime.call.fallback.JitFallback")
def test_interpolants_in_compiled_loops() -> None:
    @calque.jit
    def total(y: np.ndarray, p: np.ndarray) -> Any:
        made, found = interpolate.interp1d(X, y), 0.0
        for i in range(p.shape[0]):
            found += made(p[i]) * SPLINE(p[i])
        return found

    expected = np.sum(np.interp(PLACES, X, Y) * SPLINE(PLACES))
    np.testing.assert_allclose(total(Y, PLACES), expected)


@pytest.mark.parametrize(
    ("f", "error", "words"),
    [
        (lambda y: interpolate.interp1d(X, y)(99.0), ValueError, "above the interpolation range"),
        (lambda y: interpolate.interp1d(X, y, "fifth")(2.0), NotImplementedError, "unsupported"),
        (lambda y: interpolate.interp1d(X[1:], y)(2.0), ValueError, "equal in length"),
        (lambda y: interpolate.interpn((X,), y, 99.0 * y[:, None])[0], ValueError, "out of bounds"),
        (lambda y: interpolate.BSpline(SPLINE.t[::-1], y, 3)(2.0), ValueError, "non-decreasing"),
        (lambda y: interpolate.BSpline(SPLINE.t, y[:5], 3)(2.0), ValueError, "inconsistent"),
        (lambda y: interpolate.BSpline(X[:5], y, 3)(2.0), ValueError, "at least 8 knots"),
        (lambda y: interpolate.splev(2.0, (SPLINE.t, y, 3), der=4), ValueError, "0<=der=4"),
        (lambda y: interpolate.splev(2.0, (SPLINE.t, y, 3), ext=4), ValueError, "ext = 4"),
        (lambda y: interpolate.make_interp_spline(X[:3], y[:3])(2.0), ValueError, "more than 3"),
        (lambda y: interpolate.interpn((X[::-1],), y, X[:3, None])[0], ValueError, "ascending"),
        (lambda y: interpolate.interpn((X[:5],), y, X[:3, None])[0], ValueError, "8 values"),
        (lambda y: interpolate.interpn((X,), y, np.outer(X, X))[0], ValueError, "dimension 8"),
        (
            lambda y: interpolate.interpn((X,), y, y[:, None], "cubic")[0],
            NotImplementedError,
            "linear and nearest",
        ),
    ],
)
def test_wrong_arguments_raise(f: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        calque.grad(f)(Y)
