"""``scipy.interpolate``: piecewise polynomials, and the cubic splines that are made of values.

All are evaluated in one place, by coefficients and breakpoints (de Boor, A Practical Guide to
Splines, 1978), so derivatives by places, values and breakpoints follow.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.transpiler.frontend.library.scipy_twins import twin, twin_of_objects
from calque.transpiler.frontend.library.twin_questions import read_by_python

SPACE = "scipy.interpolate"
NO_ROOTS = (
    "The number of a spline's roots depends on run-time values: "
    "optimize.brentq finds one root between two places"
)


def floating(y: Any) -> Any:
    """An array of float64, or of complex128."""
    y = np.asarray(y)
    return y.astype(np.result_type(y.dtype, np.float64))


def along_axis(found: Any, dims: int, axis: int) -> Any:
    """A result whose first ``dims`` axes are those of the places, which go to the values' axis."""
    if not axis or not dims:
        return found
    return np.moveaxis(found, tuple(range(dims)), tuple(range(axis, axis + dims)))


def wide(factor: Any, dims: int) -> Any:
    """A factor with so many more axes."""
    return np.reshape(factor, np.shape(factor) + (1,) * dims)


class PPoly:
    """A piecewise polynomial of coefficients and breakpoints that a program computes."""

    def __init__(self, c: Any, x: Any, extrapolate: Any = None, axis: int = 0):
        c, x = floating(c), np.asarray(x, dtype=np.float64)
        if c.ndim < 2:
            raise ValueError("Coefficients array must be at least 2-dimensional.")
        if not 0 <= axis < c.ndim - 1:
            raise ValueError(f"axis={axis} must be between 0 and {c.ndim - 1}")
        if axis:
            c = np.moveaxis(np.moveaxis(c, axis + 1, 0), axis + 1, 0)
        if x.ndim != 1:
            raise ValueError("x must be 1-dimensional")
        if c.shape[1] != x.shape[0] - 1:
            raise ValueError("number of coefficients != len(x)-1")
        _require_order(x)
        self._of([c[k] for k in range(c.shape[0])], x, extrapolate, axis)

    def _of(self, parts: Any, x: Any, extrapolate: Any, axis: int) -> Any:
        self.parts, self.x, self.axis = parts, x, axis
        self.extrapolate = True if extrapolate is None else extrapolate
        return self

    @property
    def c(self) -> Any:
        """The coefficients, the highest power first."""
        return np.stack(self.parts)

    def __call__(self, x: Any, nu: int = 0, extrapolate: Any = None) -> Any:
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        x = np.asarray(x, dtype=np.float64)
        first, last = self.x[0], self.x[-1]
        if extrapolate == "periodic":
            x = first + (x - first) % (last - first)
        index = np.clip(np.searchsorted(self.x, x, side="right") - 1, 0, self.x.shape[0] - 2)
        dims = self.parts[0].ndim - 1
        place = wide(x - self.x[index], dims)
        found: Any = None
        for part in _derived(self.parts, nu):
            found = part[index] if found is None else found * place + part[index]
        if not extrapolate:
            found = np.where(wide((x < first) | (x > last), dims), np.nan, found)
        return along_axis(found, x.ndim, self.axis)

    def derivative(self, nu: int = 1) -> Any:
        """The derivative as a piecewise polynomial."""
        if nu < 0:
            return self.antiderivative(-nu)
        return _made(_derived(self.parts, nu), self.x, self.extrapolate, self.axis)

    def antiderivative(self, nu: int = 1) -> Any:
        """The integral from the first breakpoint, as a piecewise polynomial."""
        parts, steps = self.parts, self.x[1:] - self.x[:-1]
        for _ in range(nu):
            order = len(parts)
            parts = [part / (order - k) for k, part in enumerate(parts)]
            step = wide(steps, parts[0].ndim - 1)
            whole = parts[0] * step
            for part in parts[1:]:
                whole = (whole + part) * step
            start = np.zeros_like(whole[:1])
            parts = [*parts, np.concatenate([start, np.cumsum(whole, axis=0)[:-1]])]
        extrapolate = False if self.extrapolate == "periodic" else self.extrapolate
        return _made(parts, self.x, extrapolate, self.axis)

    def integrate(self, a: Any, b: Any, extrapolate: Any = None) -> Any:
        """The integral between two places."""
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        whole = self.antiderivative()
        if extrapolate != "periodic":
            return whole(b, 0, extrapolate) - whole(a, 0, extrapolate)
        first, last = self.x[0], self.x[-1]
        period = last - first
        before, after = np.floor((a - first) / period), np.floor((b - first) / period)
        start, end = a - before * period, b - after * period
        return whole(end) - whole(start) + (after - before) * whole(last)

    def roots(self, discontinuity: bool = True, extrapolate: Any = None) -> Any:
        """Refused: their number depends on the values."""
        raise NotImplementedError(NO_ROOTS)

    solve = roots


def _require_order(x: Any) -> None:
    """Refuse breakpoints that decrease, which SciPy takes, and those in no order."""
    if np.any(x[1:] < x[:-1]):
        raise ValueError("`x` must be increasing: reverse it, and write the pieces for it.")


def _made(parts: Any, x: Any, extrapolate: Any, axis: int) -> Any:
    return PPoly(np.zeros((1, 1)), np.zeros(2))._of(parts, x, extrapolate, axis)


def _derived(parts: Any, nu: int) -> Any:
    """The coefficients of a derivative."""
    order = len(parts) - 1
    if nu < 0:
        raise ValueError("Order of derivative cannot be negative")
    if nu > order:
        return [np.zeros_like(parts[0])]
    for _ in [None] * nu:
        order = len(parts) - 1
        parts = [part * float(order - k) for k, part in enumerate(parts[:order])]
    return parts


twin(SPACE, "PPoly")(PPoly)


@read_by_python
def _order(spline: Any) -> int:
    return len(spline.c)


@twin_of_objects(
    SPACE, "PPoly", "CubicSpline", "CubicHermiteSpline", "PchipInterpolator", "Akima1DInterpolator"
)
def _known_spline(spline: Any) -> Any:
    c, x = (spline._c, spline._x) if hasattr(spline, "_c") else (spline.c, spline.x)
    _require_order(x)
    return _made([c[k] for k in range(_order(spline))], x, spline.extrapolate, spline.axis)


# splines that are made of values


def prepared(x: Any, y: Any, axis: int) -> Any:
    """Places, and values with their axis in front; both are checked as SciPy does."""
    x, y = np.asarray(x), floating(y)
    if x.dtype.kind == "c":
        raise ValueError("`x` must contain real values.")
    x = x.astype(np.float64)
    axis = axis % y.ndim
    if x.ndim != 1:
        raise ValueError("`x` must be 1-dimensional.")
    if x.shape[0] < 2:
        raise ValueError("`x` must contain at least 2 elements.")
    if x.shape[0] != y.shape[axis]:
        raise ValueError(f"The length of `y` along `axis`={axis} doesn't match the length of `x`")
    if np.any(x[1:] <= x[:-1]):
        raise ValueError("`x` must be strictly increasing sequence.")
    check_finite(x, "x")
    check_finite(y, "y")
    return x, np.moveaxis(y, axis, 0) if axis else y, axis


def check_finite(x: Any, name: str) -> None:
    """Refuse numbers that are not finite."""
    if not np.all(np.isfinite(x)):
        raise ValueError(f"`{name}` must contain only finite values.")


def _hermite(x: Any, y: Any, slopes: Any, axis: int, extrapolate: Any) -> Any:
    """The cubic pieces with values and slopes at the breakpoints."""
    step = wide(x[1:] - x[:-1], y.ndim - 1)
    slope = (y[1:] - y[:-1]) / step
    bend = (slopes[:-1] + slopes[1:] - 2.0 * slope) / step
    parts = [bend / step, (slope - slopes[:-1]) / step - bend, slopes[:-1], y[:-1]]
    return _made(parts, x, extrapolate, axis)


@twin(SPACE, "CubicHermiteSpline")
def cubic_hermite_spline(x: Any, y: Any, dydx: Any, axis: int = 0, extrapolate: Any = None) -> Any:
    """The piecewise cubic with given values and slopes."""
    slopes = floating(dydx)
    if np.ndim(y) != slopes.ndim:
        raise ValueError("The shapes of `y` and `dydx` must be identical.")
    check_finite(slopes, "dydx")
    x, y, axis = prepared(x, y, axis)
    return _hermite(x, y, np.moveaxis(slopes, axis, 0) if axis else slopes, axis, extrapolate)


def tridiagonal(lower: Any, diagonal: Any, upper: Any, right: Any) -> Any:
    """The solution of a system with three diagonals (Thomas's algorithm, without pivots)."""
    size = diagonal.shape[0]
    pivots, found = diagonal.copy(), right.copy()
    for i in range(1, size):
        factor = lower[i - 1] / pivots[i - 1]
        pivots[i] -= factor * upper[i - 1]
        found[i] -= factor * found[i - 1]
    found[size - 1] /= pivots[size - 1]
    for i in range(size - 2, -1, -1):
        found[i] = (found[i] - upper[i] * found[i + 1]) / pivots[i]
    return found


def _ends(bc_type: Any, y: Any) -> Any:
    """The conditions at both ends: a word, or the order and the value of a derivative."""
    if isinstance(bc_type, str):
        bc_type = (bc_type, bc_type)
    elif len(bc_type) != 2:
        raise ValueError("`bc_type` must contain 2 elements to specify start and end conditions.")
    found = []
    for bc in bc_type:
        if isinstance(bc, str):
            if bc not in ("not-a-knot", "periodic", "clamped", "natural"):
                raise ValueError(f"bc_type={bc} is not allowed.")
            words = {"clamped": (1, np.zeros_like(y[0])), "natural": (2, np.zeros_like(y[0]))}
            found.append(words.get(bc, (0, bc)))
        else:
            order, value = bc
            if order not in (1, 2):
                raise ValueError("The specified derivative order must be 1 or 2.")
            value = np.asarray(value)
            if value.ndim != y.ndim - 1:
                raise ValueError(
                    f"`deriv_value` shape {value.shape} is not the expected one {y.shape[1:]}."
                )
            found.append((order, value + np.zeros_like(y[0])))
    kinds = [value for order, value in found if order == 0]
    if "periodic" in kinds and kinds != ["periodic", "periodic"]:
        raise ValueError(
            "'periodic' `bc_type` is defined for both curve ends and cannot be used with other "
            "boundary conditions."
        )
    return found


def _end(
    condition: Any, near: Any, next_: Any, slope: Any, other: Any, sign: float, alone: Any
) -> Any:
    """The diagonal, the neighbour and the right side of the row of an end's slope.

    A piece that is ``alone`` has the slope of the line at an end that is not a knot.
    """
    order, value = condition
    dims = slope.ndim
    if order == 1:
        return 1.0, 0.0, value
    if order == 2:
        bend = sign * 0.5 * value * wide(near, dims) ** 2
        return 2.0 * near, near, 3.0 * slope * wide(near, dims) - bend
    both = near + next_
    right = (wide(near + 2.0 * both, dims) * wide(next_, dims) * slope) + wide(
        near, dims
    ) ** 2 * other
    right = np.where(alone, slope, right / wide(both, dims))
    return np.where(alone, 1.0, next_), np.where(alone, 0.0, both), right


def _slopes(x: Any, y: Any, ends: Any) -> Any:
    """The slopes at the breakpoints that make the second derivative continuous."""
    dx = x[1:] - x[:-1]
    step = wide(dx, y.ndim - 1)
    slope = (y[1:] - y[:-1]) / step
    middle = 2.0 * (dx[:-1] + dx[1:])
    right = 3.0 * (step[1:] * slope[:-1] + step[:-1] * slope[1:])
    k, j = min(1, x.shape[0] - 2), max(0, x.shape[0] - 3)
    (first, above, b0) = _end(ends[0], dx[0], dx[k], slope[0], slope[k], 1.0, k == 0)
    (last, below, b1) = _end(ends[1], dx[-1], dx[j], slope[-1], slope[j], -1.0, k == 0)
    diagonal = np.concatenate([_one(first), middle, _one(last)])
    upper = np.concatenate([_one(above), dx[:-1]])
    lower = np.concatenate([dx[1:], _one(below)])
    return tridiagonal(lower, diagonal, upper, np.concatenate([b0[None], right, b1[None]]))


def _one(value: Any) -> Any:
    return np.reshape(value, (1,))


def _parabola(x: Any, y: Any) -> Any:
    """The slopes of the parabola through three points, or of the line through two."""
    dx = x[1:] - x[:-1]
    step = wide(dx, y.ndim - 1)
    slope = (y[1:] - y[:-1]) / step
    bend = (slope[-1] - slope[0]) / (step[0] + step[-1])
    middle = (step[1:] * slope[:-1] + step[:-1] * slope[1:]) / (step[1:] + step[:-1])
    ends = slope[0] - step[0] * bend, slope[-1] + step[-1] * bend
    return np.concatenate([ends[0][None], middle, ends[1][None]])


def _periodic_slopes(x: Any, y: Any) -> Any:
    """The slopes of a periodic spline: the last unknown is eliminated."""
    dx = x[1:] - x[:-1]
    step = wide(dx, y.ndim - 1)
    slope = (y[1:] - y[:-1]) / step
    if x.shape[0] < 4:
        return np.sum(slope / step, axis=0) / np.sum(1.0 / step, axis=0) + np.zeros_like(y)
    middle = 2.0 * (dx[:-1] + dx[1:])
    right = 3.0 * (step[1:] * slope[:-1] + step[:-1] * slope[1:])
    first = 3.0 * (step[0] * slope[-1] + step[-1] * slope[0])
    diagonal = np.concatenate([2.0 * (dx[-1:] + dx[:1]), middle[:-1]])
    upper, lower = np.concatenate([dx[-1:], dx[:-3]]), dx[1:-1]
    corner = np.zeros_like(diagonal)
    corner[0] = -dx[0]
    corner[-1] -= dx[-3]
    one = tridiagonal(lower, diagonal, upper, np.concatenate([first[None], right[:-1]]))
    two = tridiagonal(lower, diagonal, upper, corner)
    last = right[-1] - dx[-2] * one[0] - dx[-1] * one[-1]
    last = last / (2.0 * (dx[-1] + dx[-2]) + dx[-2] * two[0] + dx[-1] * two[-1])
    inner = one + wide(two, y.ndim - 1) * last
    return np.concatenate([inner, last[None], inner[:1]])


@twin(SPACE, "CubicSpline")
def cubic_spline(
    x: Any, y: Any, axis: int = 0, bc_type: Any = "not-a-knot", extrapolate: Any = None
) -> Any:
    """The piecewise cubic through values whose second derivative is continuous."""
    x, y, axis = prepared(x, y, axis)
    ends = _ends(bc_type, y)
    kinds = [value if order == 0 else "" for order, value in ends]
    if kinds[0] == "periodic":
        if not np.all(np.abs(y[0] - y[-1]) <= 1e-15 + 1e-15 * np.abs(y[-1])):
            raise ValueError(
                f"The first and last `y` point along axis {axis} must be identical (within "
                "machine precision) when bc_type='periodic'."
            )
        extrapolate = "periodic" if extrapolate is None else extrapolate
        return _hermite(x, y, _periodic_slopes(x, y), axis, extrapolate)
    if kinds == ["not-a-knot", "not-a-knot"] and x.shape[0] < 4:
        slopes = _parabola(x, y)
    else:
        slopes = _slopes(x, y, ends)
    return _hermite(x, y, slopes, axis, extrapolate)


def _one_sided(h0: Any, h1: Any, m0: Any, m1: Any) -> Any:
    """The slope at an end that keeps the shape (Moler, Numerical Computing with MATLAB, 3.6)."""
    found = ((2.0 * h0 + h1) * m0 - h0 * m1) / (h0 + h1)
    steep = (np.sign(m0) != np.sign(m1)) & (np.abs(found) > 3.0 * np.abs(m0))
    found = np.where(steep, 3.0 * m0, found)
    return np.where(np.sign(found) != np.sign(m0), 0.0, found)


@twin(SPACE, "PchipInterpolator")
def pchip_interpolator(x: Any, y: Any, axis: int = 0, extrapolate: Any = None) -> Any:
    """The piecewise cubic that is monotonic where the values are (Fritsch and Butland 1984)."""
    x, y, axis = prepared(x, y, axis)
    h = wide(x[1:] - x[:-1], y.ndim - 1)
    m = (y[1:] - y[:-1]) / h
    h0, h1, m0, m1 = h[:-1], h[1:], m[:-1], m[1:]
    flat = (np.sign(m0) != np.sign(m1)) | (m0 == 0) | (m1 == 0)
    w0, w1 = 2.0 * h1 + h0, h1 + 2.0 * h0
    mean = w0 / np.where(flat, 1.0, m0) + w1 / np.where(flat, 1.0, m1)
    inner = np.where(flat, 0.0, (w0 + w1) / np.where(flat, 1.0, mean))
    k = min(1, x.shape[0] - 2)
    first = _one_sided(h[0], h[k], m[0], m[k])
    last = _one_sided(h[-1], h[x.shape[0] - 2 - k], m[-1], m[x.shape[0] - 2 - k])
    return _hermite(x, y, np.concatenate([first[None], inner, last[None]]), axis, extrapolate)


@twin(SPACE, "Akima1DInterpolator")
def akima_interpolator(
    x: Any, y: Any, axis: int = 0, *, method: str = "akima", extrapolate: Any = None
) -> Any:
    """The piecewise cubic whose slopes are means, weighted by the differences of others."""
    if method not in ("akima", "makima"):
        raise NotImplementedError(f"`method`={method} is unsupported.")
    x, y, axis = prepared(x, y, axis)
    m = (y[1:] - y[:-1]) / wide(x[1:] - x[:-1], y.ndim - 1)
    k = min(1, x.shape[0] - 2)
    left, right = m[0] - m[k], m[-1] - m[x.shape[0] - 2 - k]
    before = [(m[0] + 2.0 * left)[None], (m[0] + left)[None]]
    after = [(m[-1] + right)[None], (m[-1] + 2.0 * right)[None]]
    m = np.concatenate([*before, m, *after])
    change = np.abs(m[1:] - m[:-1])
    if method == "makima":
        change = change + 0.5 * np.abs(m[1:] + m[:-1])
    ahead, behind = change[2:], change[:-2]
    total = ahead + behind
    apart = total > 1e-9 * np.max(total)
    share = behind / np.where(apart, total, 1.0)
    slopes = np.where(apart, m[1:-2] + share * (m[2:-1] - m[1:-2]), 0.5 * (m[3:] + m[:-3]))
    return _hermite(x, y, slopes, axis, False if extrapolate is None else extrapolate)


@twin(SPACE, "pchip_interpolate")
def pchip_interpolate(xi: Any, yi: Any, x: Any, der: int = 0, axis: int = 0) -> Any:
    """Values of a monotonic piecewise cubic."""
    return pchip_interpolator(xi, yi, axis)(x, der)
