"""The polynomials of runtime/vecmath, computed by Remez exchange in 60 digits.

    python benchmarks/minimax.py [name ...]

Each entry of POLYNOMIALS is the function that a polynomial stands for, its interval, its degree and
the weight of its error. Printed are the coefficients as they stand in runtime/vecmath, highest
first, and the largest weighted error of the polynomial before they are rounded.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import mpmath as mp

mp.mp.dps = 60


class Target(NamedTuple):
    """A function to approximate on [low, high], the polynomial's degree and the error's weight."""

    function: Callable[[Any], Any]
    low: float
    high: float
    degree: int
    weight: Callable[[Any], Any]


def remez(target: Target) -> tuple[list[Any], Any]:
    """Coefficients, lowest first, of the polynomial with the least largest weighted error.

    The points of the exchange are the extremes of the error on a grid of Chebyshev points.
    """
    f, low, high, degree, weight = target
    count = 30 * (degree + 2)
    middle, half = (mp.mpf(low) + high) / 2, (mp.mpf(high) - low) / 2
    grid = [middle - half * mp.cos(mp.pi * (i + 0.5) / count) for i in range(count)]
    values, weights = [f(x) for x in grid], [mp.mpf(weight(x)) for x in grid]
    chosen = [round(count * (i + 0.5) / (degree + 2)) for i in range(degree + 2)]
    for _ in range(12):
        rows = [
            [grid[k] ** j for j in range(degree + 1)] + [(-1) ** i / weights[k]]
            for i, k in enumerate(chosen)
        ]
        found = mp.lu_solve(mp.matrix(rows), mp.matrix([values[k] for k in chosen]))
        coefficients, level = list(found)[:-1], abs(found[degree + 1])
        errors = [w * (_value(coefficients, x) - v) for x, v, w in zip(grid, values, weights)]
        largest = max(map(abs, errors))
        if largest < level * mp.mpf("1.01"):
            break
        chosen = _extremes(errors, degree + 2)
    return coefficients, largest


def _value(coefficients: list[Any], x: Any) -> Any:
    """The polynomial at x, by Horner's rule."""
    value = mp.mpf(0)
    for c in reversed(coefficients):
        value = value * x + c
    return value


def _extremes(errors: list[Any], count: int) -> list[int]:
    """Return the indices of ``count`` extrema of the error, one between every two sign changes."""
    runs: list[int] = []
    for k, e in enumerate(errors):
        if runs and (errors[runs[-1]] > 0) == (e > 0):
            runs[-1] = k if abs(e) > abs(errors[runs[-1]]) else runs[-1]
        else:
            runs.append(k)
    while len(runs) > count:
        runs.pop(0 if abs(errors[runs[0]]) < abs(errors[runs[-1]]) else -1)
    if len(runs) < count:
        raise ArithmeticError("the error does not alternate: lower the degree")
    return runs


def _expm1_rest(r: Any) -> Any:
    """(exp(r) - 1 - r - r**2 / 2) / r**3, by its series."""
    return mp.nsum(lambda k: r**k / mp.factorial(k + 3), [0, 40])


def _log_rest(z: Any) -> Any:
    """(log((1 + s) / (1 - s)) - 2 * s) / s**3 at z = s**2."""
    return mp.nsum(lambda k: 2 * z**k / (2 * k + 3), [0, 40])


def _log_rest_5(z: Any) -> Any:
    """(log((1 + s) / (1 - s)) - 2 * s - 2 * s**3 / 3) / s**5 at z = s**2."""
    return mp.nsum(lambda k: 2 * z**k / (2 * k + 5), [0, 40])


def _sin_rest(z: Any) -> Any:
    """(sin(r) - r) / r**3 at z = r**2."""
    return mp.nsum(lambda k: (-1) ** (k + 1) * z**k / mp.factorial(2 * k + 3), [0, 30])


def _cos_rest(z: Any) -> Any:
    """(cos(r) - 1 + r**2 / 2) / r**4 at z = r**2."""
    return mp.nsum(lambda k: (-1) ** k * z**k / mp.factorial(2 * k + 4), [0, 30])


def _atan_rest(z: Any) -> Any:
    """(atan(t) - t) / t**3 at z = t**2."""
    t = mp.sqrt(z)
    return (mp.atan(t) - t) / t**3 if z > 1e-12 else -mp.mpf(1) / 3 + z / 5 - z**2 / 7


def _asin_rest(z: Any) -> Any:
    """(asin(t) - t) / t**3 at z = t**2."""
    t = mp.sqrt(z)
    return (mp.asin(t) - t) / t**3 if z > 1e-12 else mp.mpf(1) / 6 + 3 * z / 40 + 15 * z**2 / 336


def _erf_rest(z: Any) -> Any:
    """erf(x) / x - 1 at z = x**2."""
    x = mp.sqrt(z)
    return mp.erf(x) / x - 1


def _erfcx_scaled(t: Any) -> Any:
    """(1 + 2 x) exp(x**2) erfc(x) at t = (x - 4) / (x + 4)."""
    x = 4 * (1 + t) / (1 - t)
    return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)


_R = 0.3475  # a little over log(2) / 2
_Z = 0.02945  # a little over ((sqrt(2) - 1) / (sqrt(2) + 1))**2
_Q = 0.6220  # a little over (pi / 4)**2
_T = 0.1717  # a little over tan(pi / 8)**2


def _one(x: Any) -> Any:
    return 1


POLYNOMIALS = {
    "expm1": Target(_expm1_rest, -_R, _R, 8, lambda r: r * r),
    "log": Target(_log_rest, 0.0, _Z, 6, _one),
    "log1p_unit": Target(_log_rest, 0.0, 0.1112, 10, _one),
    "log_5": Target(_log_rest_5, 0.0, _Z, 7, _one),
    "sin": Target(_sin_rest, 0.0, _Q, 5, lambda z: z),
    "cos": Target(_cos_rest, 0.0, _Q, 5, lambda z: z * z),
    "atan": Target(_atan_rest, 0.0, _T, 10, lambda z: z),
    "asin": Target(_asin_rest, 0.0, 0.2501, 11, lambda z: z),
    "erf": Target(_erf_rest, 0.0, 1.0, 11, _one),
    "erfcx": Target(_erfcx_scaled, -1.0, 1.0, 23, _one),
    "cbrt": Target(mp.cbrt, 0.35, 2.9, 4, _one),
}
for _name, _degree in (("expm1", 4), ("log", 2), ("sin", 2), ("cos", 2)):
    POLYNOMIALS[_name + "f"] = POLYNOMIALS[_name]._replace(degree=_degree)
POLYNOMIALS["log1p_unitf"] = POLYNOMIALS["log1p_unit"]._replace(degree=5)
POLYNOMIALS["powf"] = POLYNOMIALS["log"]._replace(degree=4)


def printed(coefficients: list[Any]) -> list[str]:
    """The coefficients as they are written, highest first."""
    return [mp.nstr(c, 17) for c in reversed(coefficients)]


def main() -> None:
    for name in sys.argv[1:] or POLYNOMIALS:
        coefficients, error = remez(POLYNOMIALS[name])
        print(f"{name}: degree {len(coefficients) - 1}, error 2**{mp.nstr(mp.log(error, 2), 4)}")
        print(*printed(coefficients), sep="\n", end="\n\n")


if __name__ == "__main__":
    main()
