"""Splines through points under FITPACK's names, of ``scipy.interpolate``.

Those that smooth choose their knots by the data: they are refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.runtime.scipy_twins.interpolants import BSpline, make_interp_spline, splev
from calque.runtime.scipy_twins.piecewise import NO_ROOTS
from calque.transpiler.frontend.library.scipy_twins import twin

_SPACE = "scipy.interpolate"
_REFUSED = "a spline that smooths chooses its knots by the data: give s=0, which interpolates"
_KINDS = {"extrapolate": 0, "zeros": 1, "raise": 2, "const": 3}


@twin(_SPACE, "splrep")
def splrep(
    x: Any,
    y: Any,
    w: Any = None,
    xb: Any = None,
    xe: Any = None,
    k: int = 3,
    task: int = 0,
    s: Any = None,
    t: Any = None,
    full_output: int = 0,
    per: int = 0,
    quiet: int = 1,
) -> tuple[Any, Any, int]:
    """The knots and coefficients of the spline through points."""
    if task != 0 or t is not None or full_output or per or xb is not None or xe is not None:
        raise NotImplementedError("scipy.interpolate.splrep takes x, y, k and s=0 here")
    if (s is not None and s != 0) or (s is None and w is not None):
        raise NotImplementedError(f"scipy.interpolate.splrep: {_REFUSED}")
    spline = make_interp_spline(x, y, k)
    knots, c, _ = spline.tck
    return knots, np.concatenate([c, np.zeros(k + 1, c.dtype)]), k


def _integral(t: Any, c: Any, k: int, low: Any, high: Any) -> Any:
    """The integral of a spline, which is zero beyond its ends (de Boor, chapter X)."""
    count = t.shape[0] - k - 1
    steps = c[:count] * (t[k + 1 :] - t[:count]) / (k + 1)
    sums = np.concatenate([np.zeros(1), np.cumsum(steps)])
    whole = BSpline(np.concatenate([t[:1], t, t[-1:]]), sums, k + 1)
    first, last = t[k], t[count]
    return whole(np.clip(high, first, last)) - whole(np.clip(low, first, last))


@twin(_SPACE, "splint")
def splint(a: Any, b: Any, tck: Any, full_output: int = 0) -> Any:
    """The integral of a spline from a to b."""
    if full_output:
        raise NotImplementedError("scipy.interpolate.splint with full_output has no rule")
    t, c, k = tck
    return _integral(np.asarray(t), np.asarray(c), k, a, b)


class SplineThroughPoints:
    """A spline that is called, and derivatives of it."""

    def __init__(self, tck: Any, ext: Any, nu: int):
        self._eval_args, self.ext, self._nu = tck, _KINDS.get(ext, ext), nu

    def __call__(self, x: Any, nu: int = 0, ext: Any = None) -> Any:
        how = self.ext if ext is None else _KINDS.get(ext, ext)
        return splev(x, self._eval_args, self._nu + nu, how)

    def derivative(self, n: int = 1) -> SplineThroughPoints:
        """The n-th derivative."""
        return SplineThroughPoints(self._eval_args, self.ext, self._nu + n)

    def integral(self, a: Any, b: Any) -> Any:
        """The integral from a to b; zero beyond the ends."""
        if self._nu > 0:
            return splev(b, self._eval_args, self._nu - 1) - splev(a, self._eval_args, self._nu - 1)
        t, c, k = self._eval_args
        return _integral(t, c, k, a, b)

    def roots(self) -> Any:
        """Refused: their number depends on the values."""
        raise NotImplementedError(NO_ROOTS)


@twin(_SPACE, "InterpolatedUnivariateSpline")
def through_points(
    x: Any,
    y: Any,
    w: Any = None,
    bbox: Any = (None, None),
    k: int = 3,
    ext: Any = 0,
    check_finite: bool = False,
) -> SplineThroughPoints:
    """The spline through points: its knots leave out those next to the ends."""
    if bbox[0] is not None or bbox[1] is not None:
        raise NotImplementedError(
            "InterpolatedUnivariateSpline with bbox has no rule: leave it out"
        )
    if not np.all(np.diff(x) > 0.0):
        raise ValueError("x must be strictly increasing")
    return SplineThroughPoints(splrep(x, y, k=k, s=0), ext, 0)


@twin(_SPACE, "UnivariateSpline")
def univariate_spline(
    x: Any,
    y: Any,
    w: Any = None,
    bbox: Any = (None, None),
    k: int = 3,
    s: Any = None,
    ext: Any = 0,
    check_finite: bool = False,
) -> SplineThroughPoints:
    """The same, which must be told not to smooth."""
    if s is None or s != 0:
        raise NotImplementedError(f"scipy.interpolate.UnivariateSpline: {_REFUSED}")
    return through_points(x, y, w, bbox, k, ext, check_finite)
