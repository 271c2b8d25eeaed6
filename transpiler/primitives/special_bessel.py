"""Bessel functions, orthogonal polynomials and hypergeometric functions of ``scipy.special``.

Each by its slopes in functions of its own family (Abramowitz and Stegun, 9.1.27, 9.6.26, 12.1.13,
13.4.8, 15.2.1, 22.8). A derivative by an order or a parameter is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from calque.transpiler.ir.builder import Array
from calque.transpiler.primitives.special import declare, special, unknown

_POSITIVE, _ORDER = (0.5, 3.0), (1.0, 1.0)


def _neighbours(name: str, v: Any, x: Any, sign: float) -> Any:
    """Half the sum, or the difference, of the functions of the orders beside ``v``."""
    return 0.5 * (special(name, v - 1.0, x) + sign * special(name, v + 1.0, x))


def _real(name: str, x: Any, slope: Any) -> Any:
    """The slope of a function scaled by a size: of a complex number it has none."""
    is_complex = isinstance(x, complex) or np.dtype(getattr(x, "dtype", float)).kind == "c"
    return unknown(f"special.{name} of complex numbers") if is_complex else slope()


def _of_order(name: str, slope: Callable[[Any, Any, Any], Any]) -> None:
    def partials(v: Any, x: Any, y: Any) -> tuple[Any, Any]:
        return unknown(f"special.{name}", "order"), slope(v, x, y)

    declare(name, partials, 2, [_ORDER, _POSITIVE], known=(0,))


_of_order("jv", lambda v, x, y: _neighbours("jv", v, x, -1.0))
_of_order("yv", lambda v, x, y: _neighbours("yv", v, x, -1.0))
_of_order("iv", lambda v, x, y: _neighbours("iv", v, x, 1.0))
_of_order("kv", lambda v, x, y: -_neighbours("kv", v, x, 1.0))
# these take the whole part of an order
_of_order("yn", lambda v, x, y: _neighbours("yv", np.trunc(v), x, -1.0))
_of_order("kn", lambda v, x, y: -_neighbours("kv", np.trunc(v), x, 1.0))
_of_order("jve", lambda v, x, y: _real("jve", x, lambda: _neighbours("jve", v, x, -1.0)))
_of_order("yve", lambda v, x, y: _real("yve", x, lambda: _neighbours("yve", v, x, -1.0)))
_of_order(
    "ive", lambda v, x, y: _real("ive", x, lambda: _neighbours("ive", v, x, 1.0) - np.sign(x) * y)
)
_of_order("kve", lambda v, x, y: y - _neighbours("kve", v, x, 1.0))
_of_order("hankel1", lambda v, x, y: _neighbours("hankel1", v, x, -1.0))
_of_order("hankel2", lambda v, x, y: _neighbours("hankel2", v, x, -1.0))
_of_order("hankel1e", lambda v, x, y: _neighbours("hankel1e", v, x, -1.0) - 1j * y)
_of_order("hankel2e", lambda v, x, y: _neighbours("hankel2e", v, x, -1.0) + 1j * y)


def _struve_rest(v: Any, x: Any) -> Any:
    return (0.5 * x) ** v * special("rgamma", v + 1.5) / (2.0 * math.sqrt(math.pi))


_of_order("struve", lambda v, x, y: _neighbours("struve", v, x, -1.0) + _struve_rest(v, x))
_of_order("modstruve", lambda v, x, y: _neighbours("modstruve", v, x, 1.0) + _struve_rest(v, x))

declare("i0", lambda x, y: special("i1", x))
declare("i1", lambda x, y: 0.5 * (special("i0", x) + special("iv", 2.0, x)))
declare("j0", lambda x, y: -special("j1", x))
declare("j1", lambda x, y: 0.5 * (special("j0", x) - special("jv", 2.0, x)))
declare("y0", lambda x, y: -special("y1", x), domain=[_POSITIVE])
declare("y1", lambda x, y: special("y0", x) - y / x, domain=[_POSITIVE])
declare("k0", lambda x, y: -special("k1", x), domain=[_POSITIVE])
declare("k1", lambda x, y: -special("k0", x) - y / x, domain=[_POSITIVE])
declare("k0e", lambda x, y: y - special("k1e", x), domain=[_POSITIVE])
declare("k1e", lambda x, y: y - special("k0e", x) - y / x, domain=[_POSITIVE])
declare("i0e", lambda x, y: special("i1e", x) - np.sign(x) * y, domain=[_POSITIVE])
declare(
    "i1e",
    lambda x, y: 0.5 * (special("i0e", x) + special("ive", 2.0, x)) - np.sign(x) * y,
    domain=[_POSITIVE],
)


# hypergeometric functions


def _hypergeometric(name: str, factor: Callable[..., Any]) -> None:
    def partials(*given: Any) -> tuple[Any, ...]:
        *numbers, x, _ = given
        shifted = [n + 1.0 for n in numbers]
        slope = factor(*numbers) * special(name, *shifted, x)
        return *(unknown(f"special.{name}", "parameters") for _ in numbers), slope

    count = {"hyp0f1": 1, "hyp2f1": 3}.get(name, 2)
    bounds = [(1.25, 1.25)] * count + [(0.1, 0.6)]
    declare(name, partials, count + 1, bounds, known=tuple(range(count)))


_hypergeometric("hyp0f1", lambda v: 1.0 / v)
_hypergeometric("hyp1f1", lambda a, b: a / b)
_hypergeometric("hyp2f1", lambda a, b, c: a * b / c)
_hypergeometric("hyperu", lambda a, b: -a)


# orthogonal polynomials


def _lower(name: str, n: Any, *rest: Any) -> Any:
    """The polynomial of the degree below ``n``; zero below the degree 0."""
    if not isinstance(n, (Array, np.ndarray)):
        return special(name, n - 1, *rest) if n != 0 else 0.0
    constant = n == 0
    return np.where(constant, 0.0, special(name, np.where(constant, 0, n - 1), *rest))


def _polynomial(name: str, slope: Callable[..., Any], parameters: int = 0) -> None:
    def partials(*given: Any) -> tuple[Any, ...]:
        refused = [unknown(f"special.{name}", "degree and parameters")] * (1 + parameters)
        return *refused, slope(*given[:-1])

    bounds = [(3.0, 3.0), *[(1.25, 1.25)] * parameters, (0.1, 0.9)]
    declare(name, partials, 2 + parameters, bounds, known=tuple(range(1 + parameters)))


_polynomial("eval_legendre", lambda n, x: _lower("eval_gegenbauer", n, 1.5, x))
_polynomial("eval_chebyt", lambda n, x: n * _lower("eval_chebyu", n, x))
_polynomial("eval_chebyu", lambda n, x: 2.0 * _lower("eval_gegenbauer", n, 2.0, x))
_polynomial("eval_chebyc", lambda n, x: n * _lower("eval_chebyu", n, 0.5 * x))
_polynomial("eval_chebys", lambda n, x: _lower("eval_gegenbauer", n, 2.0, 0.5 * x))
_polynomial("eval_sh_legendre", lambda n, x: 2.0 * _lower("eval_gegenbauer", n, 1.5, 2.0 * x - 1.0))
_polynomial("eval_sh_chebyt", lambda n, x: 2.0 * n * _lower("eval_chebyu", n, 2.0 * x - 1.0))
_polynomial("eval_sh_chebyu", lambda n, x: 4.0 * _lower("eval_gegenbauer", n, 2.0, 2.0 * x - 1.0))
_polynomial("eval_laguerre", lambda n, x: -_lower("eval_genlaguerre", n, 1.0, x))
_polynomial("eval_genlaguerre", lambda n, a, x: -_lower("eval_genlaguerre", n, a + 1.0, x), 1)
_polynomial(
    "eval_gegenbauer", lambda n, a, x: 2.0 * a * _lower("eval_gegenbauer", n, a + 1.0, x), 1
)
_polynomial(
    "eval_jacobi",
    lambda n, a, b, x: 0.5 * (n + a + b + 1.0) * _lower("eval_jacobi", n, a + 1.0, b + 1.0, x),
    2,
)
_polynomial("eval_hermite", lambda n, x: 2.0 * n * _lower("eval_hermite", n, x))
_polynomial("eval_hermitenorm", lambda n, x: n * _lower("eval_hermitenorm", n, x))
