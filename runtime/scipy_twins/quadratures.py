"""Integrals of functions: QUADPACK's values, and derivatives by its intervals.

In each interval that QUADPACK ended with, Gauss and Legendre's rule gives the integral as a sum
over nodes, which depends on the limits and on what the integrand captures; its derivative is taken.
Where that sum is not the integral (at a singularity, which QUADPACK extrapolates to), there is an
error instead of a derivative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calque.runtime.custom_root import custom_root
from calque.runtime.scipy_twins.host_functions import integral_with_nodes, kind_of_range
from calque.runtime.scipy_twins.solver_results import arguments
from calque.transpiler.frontend.library.scipy_twins import twin


@twin("scipy.integrate", "quad")
def quad(
    func: Callable[..., Any],
    a: Any,
    b: Any,
    args: Any = (),
    full_output: Any = 0,
    epsabs: float = 1.49e-08,
    epsrel: float = 1.49e-08,
    limit: int = 50,
    points: Any = None,
    weight: Any = None,
    wvar: Any = None,
    wopts: Any = None,
    maxp1: Any = 50,
    limlst: Any = 50,
    complex_func: bool = False,
) -> Any:
    """The integral of a function of one number, and an estimate of its error."""
    if full_output or weight is not None or complex_func:
        raise NotImplementedError(
            "integrate.quad takes no full_output, weight or complex_func here"
        )
    given = arguments(args)
    kind = kind_of_range(a, b)

    def integrand(x: Any) -> Any:
        return func(x, *given)

    options = {"epsabs": epsabs, "epsrel": epsrel, "limit": limit, "points": points}
    value, error, count, places, weights = integral_with_nodes(integrand, a, b, **options)

    def at_place(u: Any) -> Any:
        if kind == "finite":
            return (b - a) * integrand(a + (b - a) * u)
        if kind == "everywhere":
            return integrand(u) + integrand(-u)
        return integrand(a + u) if kind == "to infinity" else integrand(b - u)

    def sum_over_nodes() -> Any:
        total = 0.0
        for k in range(count):
            total += weights[k] * at_place(places[k])
        if abs(total - value) > 10.0 * error + 1e-6 * abs(value):
            raise ValueError(
                "integrate.quad has no derivative here: the sum over its nodes is not the "
                "integral. Substitute the variable so that the integrand is smooth"
            )
        return total

    def equation(integral: Any) -> Any:
        return integral - sum_over_nodes()

    return custom_root(equation, value, _given, _given), error


def _given(function: Any, value: Any) -> Any:
    return value


@twin("scipy.integrate", "fixed_quad")
def fixed_quad(func: Callable[..., Any], a: Any, b: Any, args: Any = (), n: int = 5) -> Any:
    """The integral by Gauss and Legendre's rule with n nodes, and None."""
    nodes, weights = np.polynomial.legendre.leggauss(n)
    y = (b - a) * (nodes + 1) / 2.0 + a
    return (b - a) / 2.0 * np.sum(weights * func(y, *arguments(args)), axis=-1), None


@twin("scipy.integrate", "dblquad")
def dblquad(
    func: Callable[..., Any],
    a: Any,
    b: Any,
    gfun: Any,
    hfun: Any,
    args: Any = (),
    epsabs: float = 1.49e-08,
    epsrel: float = 1.49e-08,
) -> Any:
    """The integral of ``func(y, x)`` over an area, and an estimate of its error."""
    given = arguments(args)
    options: dict[str, Any] = {"epsabs": epsabs, "epsrel": epsrel}

    def inner(x: Any) -> Any:
        low = gfun(x) if callable(gfun) else gfun
        high = hfun(x) if callable(hfun) else hfun
        return quad(lambda y: func(y, x, *given), low, high, **options)[0]

    return quad(inner, a, b, **options)
