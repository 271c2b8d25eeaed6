"""Splines through points under FITPACK's names: by values, by places, integrals, refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from signal_checks import check_batch, check_derivatives, check_value, data

import calque
from calque.transpiler.errors import CalqueError

interpolate = pytest.importorskip("scipy.interpolate")

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*is generated anew"),
    pytest.mark.filterwarnings("ignore::calque.runtime.call.fallback.JitFallback"),
]
X = np.cumsum(np.abs(data(8)) + 0.3)
Y, PLACES = data(8) ** 2, np.array([X[0] - 0.2, 1.9, 2.6, X[-1] - 0.1, X[-1] + 0.3])
CASES: dict[str, Callable[..., Any]] = {
    "splrep": lambda y, p: interpolate.splev(p, interpolate.splrep(X, y)),
    "of degree 5": lambda y, p: interpolate.splev(p, interpolate.splrep(X, y, k=5, s=0), 1),
    "splint": lambda y, p: (
        1.0 * np.asarray(interpolate.splint(p[1], p[2], interpolate.splrep(X, y)))
    ),
    "spline": lambda y, p: interpolate.InterpolatedUnivariateSpline(X, y)(p),
    "of degree 2": lambda y, p: interpolate.InterpolatedUnivariateSpline(X, y, k=2)(p),
    "its slope": lambda y, p: interpolate.InterpolatedUnivariateSpline(X, y).derivative()(p),
    "its ends": lambda y, p: interpolate.InterpolatedUnivariateSpline(X, y, ext="const")(p),
    "zeros beyond": lambda y, p: interpolate.UnivariateSpline(X, y, s=0)(p, ext=1),
    "integral": lambda y, p: (
        1.0 * np.asarray(interpolate.InterpolatedUnivariateSpline(X, y).integral(p[1] - 9.0, p[2]))
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_splines(name: str) -> None:
    check_value(CASES[name], Y, PLACES, atol=1e-11)
    check_batch(CASES[name], Y, PLACES, atol=1e-11, each=name == "spline")
    check_derivatives(CASES[name], Y, PLACES, second=False)


def test_what_smooths_is_refused() -> None:
    for f in (
        lambda y: interpolate.splrep(X, y, s=1.0)[1],
        lambda y: interpolate.UnivariateSpline(X, y)(2.0),
    ):
        with pytest.raises(CalqueError, match="s=0"):
            calque.jit(f)(Y)
    with pytest.raises(ValueError, match="increasing"):
        calque.jit(lambda x: interpolate.InterpolatedUnivariateSpline(x, Y)(2.0))(X[::-1].copy())
