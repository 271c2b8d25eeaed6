"""``scipy.interpolate``: B-splines, interpolation along an axis, and on regular grids."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from calque.runtime.scipy_twins.piecewise import SPACE, along_axis, floating, prepared, wide
from calque.transpiler.frontend.library.scipy_twins import twin, twin_of_objects


class BSpline:
    """A spline of knots and coefficients that a program computes."""

    def __init__(self, t: Any, c: Any, k: int, extrapolate: Any = True, axis: int = 0):
        self.t, self.c, self.k = np.asarray(t, dtype=np.float64), floating(c), k
        axis = axis % self.c.ndim
        if axis:
            self.c = np.moveaxis(self.c, axis, 0)
        self.extrapolate, self.axis = extrapolate, axis
        if self.t.ndim != 1:
            raise ValueError("Knot vector must be one-dimensional.")
        size = self.t.shape[0] - k - 1
        if size < k + 1:
            raise ValueError(f"Need at least {2 * k + 2} knots for degree {k}")
        if np.any(self.t[1:] < self.t[:-1]):
            raise ValueError("Knots must be in a non-decreasing order.")
        if self.c.shape[0] < size:
            raise ValueError("Knots, coefficients and degree are inconsistent.")

    @property
    def tck(self) -> Any:
        """The knots, the coefficients and the degree."""
        return self.t, self.c, self.k

    def __call__(self, x: Any, nu: int = 0, extrapolate: Any = None) -> Any:
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        x = np.asarray(x, dtype=np.float64)
        t, c, k = self.t, self.c, self.k
        last = t.shape[0] - k - 1
        low, high = t[k], t[last]
        if extrapolate == "periodic":
            x = low + (x - low) % (high - low)
        for _ in [None] * nu:
            t, c, k = _slope(t, c, k)
            last = t.shape[0] - k - 1
        index = np.clip(np.searchsorted(t, x, side="right") - 1, k, last - 1)
        dims = c.ndim - 1
        found = [c[index - k + j] for j in range(k + 1)]
        for r in range(1, k + 1):
            for j in range(k, r - 1, -1):
                left, right = t[index - k + j], t[index + 1 + j - r]
                share = wide((x - left) / (right - left), dims)
                found[j] = (1.0 - share) * found[j - 1] + share * found[j]
        value = found[k]
        if not extrapolate:
            value = np.where(wide((x < low) | (x > high), dims), np.nan, value)
        return along_axis(value, x.ndim, self.axis)

    def derivative(self, nu: int = 1) -> Any:
        """The derivative as a spline."""
        t, c, k = self.t, self.c, self.k
        for _ in [None] * nu:
            t, c, k = _slope(t, c, k)
        made = BSpline(t, c, k, self.extrapolate)
        made.axis = self.axis
        return made


def _slope(t: Any, c: Any, k: int) -> Any:
    """The derivative's knots, coefficients and degree (de Boor 1978, chapter X)."""
    if k == 0:
        return t, np.zeros_like(c), 0
    size = t.shape[0] - k - 1
    width = t[k + 1 : k + size] - t[1:size]
    zero = width == 0
    factor = np.where(zero, 0.0, k / np.where(zero, 1.0, width))
    return t[1:-1], wide(factor, c.ndim - 1) * (c[1:size] - c[: size - 1]), k - 1


twin(SPACE, "BSpline")(BSpline)


@twin_of_objects(SPACE, "BSpline")
def _known_b_spline(spline: Any) -> Any:
    t, c = (spline._t, spline._c) if hasattr(spline, "_c") else (spline.t, spline.c)
    made = BSpline(t, c, spline.k, spline.extrapolate)
    made.axis = spline.axis
    return made


@twin(SPACE, "splev")
def splev(x: Any, tck: Any, der: int = 0, ext: int = 0) -> Any:
    """Values of a spline of knots, coefficients and a degree."""
    t, c, k = tck
    if not 0 <= der <= k:
        raise ValueError(f"0<=der={der}<=k={k} must hold")
    if ext not in (0, 1, 2, 3):
        raise ValueError(f"ext = {ext} not in (0, 1, 2, 3)")
    if isinstance(c, (list, tuple)) and np.ndim(c[0]):  # of a curve: each of its coordinates
        return [splev(x, (t, part, k), der, ext) for part in c]
    t, x = np.asarray(t, dtype=np.float64), np.asarray(x, dtype=np.float64)
    size = t.shape[0] - k - 1
    low, high = t[k], t[size]
    outside = (x < low) | (x > high)
    if ext == 2:
        if np.any(outside):
            raise ValueError("Error code returned by splev: 1")
    if ext == 3:
        x = np.clip(x, low, high)
    found = BSpline(t, c[:size], k)(x, der)
    return np.where(outside, 0.0, found) if ext == 1 else found


@twin(SPACE, "make_interp_spline")
def make_interp_spline(
    x: Any,
    y: Any,
    k: int = 3,
    t: Any = None,
    bc_type: Any = None,
    axis: int = 0,
    check_finite: bool = True,
) -> Any:
    """The spline through values, whose knots are those of SciPy: not a knot at the ends."""
    if bc_type not in (None, "not-a-knot", (None, None)):
        raise NotImplementedError("Of run-time values calque takes bc_type=None: see CubicSpline.")
    x, y, axis = prepared(x, y, axis)
    if t is None:
        if x.shape[0] <= k:
            raise ValueError(f"A spline of degree {k} needs more than {k} points.")
        t = _knots(x, k)
        found = _coefficients(x, y, t, k)
    else:
        t = np.asarray(t, dtype=np.float64)
        found = _solved(x, y, t, k)
    spline = BSpline(t, found, k)
    spline.axis = axis
    return spline


def _knots(x: Any, k: int) -> Any:
    if k == 0:
        return np.concatenate([x, x[-1:]])
    if k == 1:
        return np.concatenate([x[:1], x, x[-1:]])
    if k % 2:
        half = (k + 1) // 2
        inner = x[half : x.shape[0] - half]
    else:
        middle = 0.5 * (x[1:] + x[:-1])
        inner = middle[k // 2 : middle.shape[0] - k // 2]
    ends = np.ones(k + 1)
    return np.concatenate([x[0] * ends, inner, x[-1] * ends])


def _coefficients(x: Any, y: Any, t: Any, k: int) -> Any:
    return y if k < 2 else _solved(x, y, t, k)


def _solved(x: Any, y: Any, t: Any, k: int) -> Any:
    """The coefficients with which a spline of given knots goes through the values."""
    matrix = BSpline(t, np.eye(x.shape[0]), k)(x)
    found = np.linalg.solve(matrix, y.reshape(y.shape[0], -1))
    return found.reshape(y.shape)


_DEGREES = {"zero": 0, "slinear": 1, "quadratic": 2, "cubic": 3}


@twin(SPACE, "interp1d")
class AlongAxis:
    """Values between given ones along an axis (``interp1d``)."""

    def __init__(
        self,
        x: Any,
        y: Any,
        kind: Any = "linear",
        axis: int = -1,
        copy: bool = True,
        bounds_error: Any = None,
        fill_value: Any = np.nan,
        assume_sorted: bool = False,
    ):
        x, y = np.asarray(x), floating(y)
        if x.ndim != 1:
            raise ValueError("the x array must have exactly one dimension.")
        if y.ndim == 0:
            raise ValueError("the y array must have at least one dimension.")
        self.axis = axis % y.ndim
        y = np.moveaxis(y, self.axis, 0) if self.axis else y
        if x.shape[0] != y.shape[0]:
            raise ValueError("x and y arrays must be equal in length along interpolation axis.")
        if not assume_sorted:
            order = np.argsort(x, kind="mergesort")
            x, y = x[order], y[order]
        kind = _DEGREES.get(kind, kind)
        if kind not in ("linear", "nearest", "nearest-up", "previous", "next", 0, 1, 2, 3, 4, 5):
            raise NotImplementedError(
                f"{kind} is unsupported: Use fitpack routines for other types."
            )
        self.x, self.y, self.kind = x.astype(np.float64), y, kind
        self.extrapolates = isinstance(fill_value, str) and fill_value == "extrapolate"
        if self.extrapolates and bounds_error:
            raise ValueError("Cannot extrapolate and raise at the same time.")
        unfilled = isinstance(fill_value, float) and fill_value != fill_value
        self.raises = (unfilled and bounds_error is None) or bool(bounds_error)
        pair = isinstance(fill_value, tuple) and len(fill_value) == 2
        self.below, self.above = fill_value if pair else (fill_value, fill_value)

    def _inside(self, x: Any) -> Any:
        places, y, kind = self.x, self.y, self.kind
        last = places.shape[0] - 1
        if isinstance(kind, int):
            return BSpline(
                _knots(places, kind), _coefficients(places, y, _knots(places, kind), kind), kind
            )(x)
        if kind == "linear" and places.shape[0] < 2:
            return y[np.zeros(x.shape, dtype=int)]
        if kind == "linear":
            index = np.clip(np.searchsorted(places, x), 1, last)
            low, high = index - 1, index
            slope = (y[high] - y[low]) / wide(places[high] - places[low], y.ndim - 1)
            return slope * wide(x - places[low], y.ndim - 1) + y[low]
        if kind == "previous":
            return y[np.clip(np.searchsorted(places, x, side="right") - 1, 0, last)]
        if kind == "next":
            return y[np.clip(np.searchsorted(places, x, side="left"), 0, last)]
        middle = 0.5 * places[1:] + 0.5 * places[:-1]
        side: Any = "left" if kind == "nearest" else "right"
        return y[np.clip(np.searchsorted(middle, x, side=side), 0, last)]

    def __call__(self, x: Any) -> Any:
        x = np.asarray(x, dtype=np.float64)
        below, above = x < self.x[0], x > self.x[-1]
        found, dims = self._inside(x), self.y.ndim - 1
        if self.raises:
            if np.any(below):
                raise ValueError("A value in x_new is below the interpolation range.")
            if np.any(above):
                raise ValueError("A value in x_new is above the interpolation range.")
        elif self.extrapolates:
            if self.kind == "previous":
                found = np.where(wide(below, dims), np.nan, found)
            if self.kind == "next":
                found = np.where(wide(above, dims), np.nan, found)
        else:
            found = np.where(wide(below, dims), self.below, found)
            found = np.where(wide(above, dims), self.above, found)
        return along_axis(found, x.ndim, self.axis)


@twin(SPACE, "RegularGridInterpolator")
class OnGrid:
    """Values between those on a regular grid (``RegularGridInterpolator``)."""

    def __init__(
        self,
        points: Any,
        values: Any,
        method: str = "linear",
        bounds_error: bool = True,
        fill_value: Any = np.nan,
    ):
        if method not in ("linear", "nearest"):
            raise NotImplementedError(f"method={method!r}: calque takes linear and nearest.")
        self.grid = [np.asarray(p, dtype=np.float64) for p in points]
        self.values, self.method = floating(values), method
        self.bounds_error, self.fill_value = bounds_error, fill_value
        if len(self.grid) > self.values.ndim:
            raise ValueError(
                f"There are {len(self.grid)} point arrays, but values has {self.values.ndim} "
                "dimensions"
            )
        for k, places in enumerate(self.grid):
            if places.shape[0] != self.values.shape[k]:
                raise ValueError(
                    f"There are {places.shape[0]} points and {self.values.shape[k]} values in "
                    f"dimension {k}"
                )
            if np.any(places[1:] <= places[:-1]):
                raise ValueError(f"The points in dimension {k} must be strictly ascending.")

    def __call__(self, xi: Any) -> Any:
        if isinstance(xi, tuple):
            xi = np.stack(np.broadcast_arrays(*xi), axis=-1)
        xi = np.asarray(xi, dtype=np.float64)
        if xi.ndim == 1:
            xi = np.reshape(xi, (-1, len(self.grid)))
        if xi.shape[-1] != len(self.grid):
            raise ValueError(
                f"The requested sample points xi have dimension {xi.shape[-1]} but this "
                f"RegularGridInterpolator has dimension {len(self.grid)}"
            )
        places = [xi[..., k] for k in range(len(self.grid))]
        outside = places[0] != places[0]
        for x, p in zip(places, self.grid, strict=True):
            outside = outside | (x < p[0]) | (x > p[-1])
        if self.bounds_error and np.any(outside):
            raise ValueError("One of the requested xi is out of bounds")
        found = self._between(places)
        if self.bounds_error or self.fill_value is None:
            return found
        return np.where(wide(outside, self.values.ndim - len(self.grid)), self.fill_value, found)

    def _between(self, places: Any) -> Any:
        dims, sides = self.values.ndim - len(self.grid), []
        for x, p in zip(places, self.grid, strict=True):
            index = np.clip(np.searchsorted(p, x, side="right") - 1, 0, p.shape[0] - 2)
            sides.append((index, (x - p[index]) / (p[index + 1] - p[index])))
        if self.method == "nearest":
            return self.values[tuple(np.where(share <= 0.5, i, i + 1) for i, share in sides)]
        total: Any = 0.0
        for corner in itertools.product((0, 1), repeat=len(sides)):
            weight: Any = 1.0
            for (_, share), end in zip(sides, corner, strict=True):
                weight = weight * (share if end else 1.0 - share)
            where = tuple(i + end for (i, _), end in zip(sides, corner, strict=True))
            total = total + self.values[where] * wide(weight, dims)
        return total


@twin(SPACE, "interpn")
def interpn(
    points: Any,
    values: Any,
    xi: Any,
    method: str = "linear",
    bounds_error: bool = True,
    fill_value: Any = np.nan,
) -> Any:
    """Values between those on a regular grid."""
    return OnGrid(points, values, method, bounds_error, fill_value)(xi)


@twin_of_objects(SPACE, "RegularGridInterpolator")
def _known_grid(known: Any) -> Any:
    private = hasattr(known, "_grid")
    grid, values = (known._grid, known._values) if private else (known.grid, known.values)
    return OnGrid(grid, values, known.method, known.bounds_error, known.fill_value)


@twin_of_objects(SPACE, "interp1d")
def _known_along_axis(known: Any) -> Any:
    values = np.moveaxis(known.y, known.axis, 0)
    kind = known._spline.k if known._kind == "spline" else known._kind
    made = AlongAxis(known.x, values, kind, 0, True, False, known._fill_value_orig, True)
    made.axis, made.raises = known.axis, bool(known.bounds_error)
    return made
