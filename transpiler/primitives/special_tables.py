"""Functions of ``scipy.special`` whose slopes are one line, and numbers that depend on integers.

Derivatives of Bessel functions of any order (DLMF 10.6.7, 10.29.5), Kelvin functions by their
equation (10.61.3), integrals, Carlson's elliptic integrals (19.18.1), Wright's function.
"""

from __future__ import annotations

import importlib
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from calque.transpiler.ir.builder import Array
from calque.transpiler.primitives.base import operand
from calque.transpiler.primitives.elementwise import no_derivative
from calque.transpiler.primitives.scipy_modules import means
from calque.transpiler.primitives.special import declare, special, unknown
from calque.transpiler.primitives.special_functions import declare_parts

_POSITIVE, _UNIT, _DEGREE, _HALF = (0.5, 3.0), (0.1, 0.9), (3.0, 3.0), (0.5, 0.5)


# derivatives of Bessel functions, of any number


def _derived(name: str, of: str, signs: tuple[float, float]) -> None:
    """The derivative of a number ``n`` that is known: a sum over orders at its sides."""

    def call(v: Any, z: Any, n: Any = 1) -> Any:
        if isinstance(n, Array):
            no_derivative(f"special.{name} with n that is known only when it runs")()
        count = operator.index(n)
        if count < 0:
            raise ValueError("n must be a non-negative integer.")
        v, z = operand(v), operand(z)
        if count == 0:
            return special(of, v, z)
        total: Any = 0.0
        for k in range(count + 1):
            weight = math.comb(count, k) * signs[0] ** count * signs[1] ** k / 2.0**count
            total = total + weight * special(of, np.add(v, 2.0 * k - count), z)
        return total

    means("scipy.special", name)(call)


for _name, _of, _signs in (
    *(("jvp", "jv", (1.0, -1.0)), ("yvp", "yv", (1.0, -1.0))),
    *(("h1vp", "hankel1", (1.0, -1.0)), ("h2vp", "hankel2", (1.0, -1.0))),
    *(("ivp", "iv", (1.0, 1.0)), ("kvp", "kv", (-1.0, 1.0))),
):
    _derived(_name, _of, _signs)


# Kelvin functions: real and imaginary part of one function, and their derivatives


def _kelvin(real: str, imaginary: str) -> None:
    bounds = [_POSITIVE]
    declare(real, lambda x, y: special(f"{real}p", x), domain=bounds)
    declare(imaginary, lambda x, y: special(f"{imaginary}p", x), domain=bounds)
    declare(f"{real}p", lambda x, y: -y / x - special(imaginary, x), domain=bounds)
    declare(f"{imaginary}p", lambda x, y: special(real, x) - y / x, domain=bounds)


_kelvin("ber", "bei")
_kelvin("ker", "kei")


# integrals; SciPy has no more than six digits of that of Airy functions


def _over(x: Any, y: Any) -> Any:
    return y / x


declare_parts("itj0y0", [lambda x: special("j0", x), lambda x: special("y0", x)], [_POSITIVE])
declare_parts("iti0k0", [lambda x: special("i0", x), lambda x: special("k0", x)], [_POSITIVE])
declare_parts(
    "it2j0y0",
    [lambda x: _over(x, 1.0 - special("j0", x)), lambda x: _over(-x, special("y0", x))],
    [_POSITIVE],
)
declare_parts(
    "it2i0k0",
    [lambda x: _over(x, special("i0", x) - 1.0), lambda x: _over(-x, special("k0", x))],
    [_POSITIVE],
)
declare("itstruve0", lambda x, y: special("struve", 0.0, x), domain=[_POSITIVE])
declare("itmodstruve0", lambda x, y: special("modstruve", 0.0, x), domain=[_POSITIVE])


# Carlson's elliptic integrals


def _carlson(x: Any, y: Any, z: Any) -> Any:
    return special("elliprd", x, y, z)


declare(
    "elliprf",
    lambda x, y, z, f: tuple(-_carlson(*p) / 6.0 for p in ((y, z, x), (x, z, y), (x, y, z))),
    3,
    [_POSITIVE] * 3,
)
declare(
    "elliprc",
    lambda x, y, f: (-_carlson(y, y, x) / 6.0, -_carlson(x, y, y) / 3.0),
    2,
    [_POSITIVE] * 2,
)


# Wright's, Legendre's and Jacobi's


def _of_wright(name: str, slope: Callable[..., Any]) -> None:
    def partials(a: Any, b: Any, x: Any, y: Any) -> tuple[Any, ...]:
        refused = unknown(f"special.{name}", "parameters")
        return refused, refused, slope(a, b, x, y)

    declare(name, partials, 3, [_HALF, _HALF, _POSITIVE], known=(0, 1))


_of_wright("wright_bessel", lambda a, b, x, y: special("wright_bessel", a, a + b, x))
_of_wright(
    "log_wright_bessel",
    lambda a, b, x, y: np.exp(special("log_wright_bessel", a, a + b, x) - y),
)


def _lpmv(m: Any, v: Any, x: Any, y: Any) -> tuple[Any, ...]:
    below = special("lpmv", m, np.subtract(v, 1.0), x)
    refused = unknown("special.lpmv", "order and degree")
    return refused, refused, (np.add(v, m) * below - v * x * y) / (1.0 - x * x)


declare("lpmv", _lpmv, 3, [(1.0, 1.0), _DEGREE, _UNIT], known=(0, 1))


def _shifted_jacobi(n: Any, p: Any, q: Any, x: Any, y: Any) -> tuple[Any, ...]:
    refused = unknown("special.eval_sh_jacobi", "degree and parameters")
    if not isinstance(n, (Array, np.ndarray)) and n == 0:
        return refused, refused, refused, 0.0
    least = np.equal(n, 0)
    below = np.where(least, 0.0, n - 1.0) if isinstance(n, (Array, np.ndarray)) else n - 1
    found = special("eval_jacobi", below, p - q + 1.0, q, 2.0 * x - 1.0)
    slope = (n + p) * found / special("binom", 2.0 * n + p - 1.0, n)
    slope = np.where(least, 0.0, slope) if isinstance(n, (Array, np.ndarray)) else slope
    return refused, refused, refused, slope


declare(
    "eval_sh_jacobi",
    _shifted_jacobi,
    4,
    [_DEGREE, (2.5, 2.5), (1.5, 1.5), _UNIT],
    known=(0, 1, 2),
)

# said in others


@means("scipy.special", "assoc_laguerre")
def _assoc_laguerre(x: Any, n: Any, k: Any = 0.0) -> Any:
    return special("eval_genlaguerre", operand(n), operand(k), operand(x))


@means("scipy.special", "gdtria")
def _gdtria(p: Any, b: Any, x: Any) -> Any:
    return special("gammaincinv", operand(b), operand(p)) / operand(x)


@means("scipy.special", "gdtrix")
def _gdtrix(a: Any, b: Any, p: Any) -> Any:
    return special("gammaincinv", operand(b), operand(p)) / operand(a)


@means("scipy.special", "perm")
def _perm(N: Any, k: Any, exact: bool = False) -> Any:
    N, k = operand(N), operand(k)
    if exact:
        if isinstance(N, Array) or isinstance(k, Array):
            no_derivative("special.perm with exact=True")()
        return importlib.import_module("scipy.special").perm(N, k, exact=True)
    found = special("poch", N - k + 1.0, k)
    return np.where((k <= N) & (N >= 0) & (k >= 0), found, 0.0)


# numbers that depend on integers, which the program knows


def _of_known(name: str) -> None:
    """Let a function of numbers that the program knows give SciPy's value."""

    def call(*args: Any, **options: Any) -> Any:
        if any(isinstance(a, Array) for a in (*args, *options.values())):
            no_derivative(f"special.{name} of what is known only when it runs")()
        return getattr(importlib.import_module("scipy.special"), name)(*args, **options)

    means("scipy.special", name)(call)


_NUMBERS = "bernoulli euler stirling2 factorial2 factorialk"
_ZEROS = """ai bi jn jnp yn ynp y0 y1 y1p jnjnp jnyn erf fresnel fresnelc fresnels ber bei ker kei
berp beip kerp keip kelvin"""
_ROOTS = """legendre chebyt chebyu chebyc chebys jacobi gegenbauer laguerre genlaguerre hermite
hermitenorm sh_legendre sh_chebyt sh_chebyu sh_jacobi"""
for _name in (
    *_NUMBERS.split(),
    *(f"{name}_zeros" for name in _ZEROS.split()),
    *(f"roots_{name}" for name in _ROOTS.split()),
):
    _of_known(_name)
