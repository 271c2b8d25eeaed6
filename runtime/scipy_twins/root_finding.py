"""Roots of equations: SciPy's iteration on the values, the implicit function theorem beyond."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calque.runtime.custom_root import custom_root
from calque.runtime.scipy_twins import solver_hosts
from calque.runtime.scipy_twins.bracketing import bisection, brent
from calque.runtime.scipy_twins.host_functions import like_first, number_of
from calque.runtime.scipy_twins.solver_results import (
    OptimizeResult,
    RootResults,
    arguments,
    refuse_options,
)
from calque.transpiler.frontend.library.scipy_twins import twin

_WRITTEN_OUT = {"brentq": brent, "bisect": bisection}
_OF_BRACKETS = ("bisect", "brentq", "brenth", "ridder", "toms748")


@twin("scipy.optimize", "root")
def root(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: str = "hybr",
    jac: Any = None,
    tol: Any = None,
    callback: Any = None,
    options: Any = None,
) -> Any:
    """A root of a function of a vector."""
    refuse_options("optimize.root", "leave it out", callback=callback)
    given = arguments(args)

    def equation(x: Any) -> Any:
        value = fun(x, *given)
        return np.ravel(np.asarray(value[0] if jac is True else value))

    def jacobian(x: Any) -> Any:
        return fun(x, *given)[1] if jac is True else jac(x, *given)

    def solve(f: Any, x: Any) -> Any:
        named = {"method": method, "tol": tol, "options": options}
        if jac is None or jac is False:
            return like_first(solver_hosts.root_of, [equation], x, **named)
        return like_first(solver_hosts.root_by_jacobian, [equation, jacobian], x, **named)

    x = custom_root(equation, np.ravel(np.asarray(x0, dtype=float)), solve)
    return OptimizeResult(x=x, fun=equation(x))


@twin("scipy.optimize", "fsolve")
def fsolve(
    func: Callable[..., Any],
    x0: Any,
    args: Any = (),
    fprime: Any = None,
    full_output: bool = False,
    col_deriv: bool = False,
    xtol: float = 1.49012e-08,
    maxfev: int = 0,
    band: Any = None,
    epsfcn: Any = None,
    factor: float = 100,
    diag: Any = None,
) -> Any:
    """A root of a function of a vector, by MINPACK's ``hybrd`` and ``hybrj``."""
    unused = {"full_output": full_output, "col_deriv": col_deriv, "diag": diag}
    refuse_options("optimize.fsolve", "write optimize.root", **unused)
    options = {"xtol": xtol, "maxfev": maxfev, "band": band, "eps": epsfcn, "factor": factor}
    options = {name: value for name, value in options.items() if value is not None}
    if fprime is not None:
        options = {"xtol": xtol, "maxfev": maxfev, "factor": factor}
    return root(func, x0, args, jac=fprime, options=options).x


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value


def _of_number(
    f: Callable[..., Any], args: Any, method: str, low: Any, high: Any, **options: Any
) -> Any:
    """The root of a function of one number between two numbers."""
    given = arguments(args)
    more = options.pop("options", None)
    options = {**options, **({} if more is None else more)}

    def equation(x: Any) -> Any:
        return f(x, *given)

    def solve(f: Any, bracket: Any) -> Any:
        if method in _WRITTEN_OUT:
            xtol = _or(options.get("xtol"), 2e-12)
            rtol = _or(options.get("rtol"), 4.0 * np.finfo(float).eps)
            maxiter = _or(options.get("maxiter"), 100)
            return _WRITTEN_OUT[method](equation, bracket[0], bracket[1], xtol, rtol, maxiter)
        host = getattr(solver_hosts, method)
        return number_of(host, [equation], bracket[0], bracket[1], **options)

    return custom_root(equation, (low, high), solve)


def _bracketing(method: str) -> None:
    @twin("scipy.optimize", method)
    def bracketed(
        f: Callable[..., Any],
        a: Any,
        b: Any,
        args: Any = (),
        xtol: Any = None,
        rtol: Any = None,
        maxiter: Any = None,
        full_output: bool = False,
        disp: bool = True,
    ) -> Any:
        found = _of_number(f, args, method, a, b, xtol=xtol, rtol=rtol, maxiter=maxiter)
        return (found, RootResults(root=found, converged=True)) if full_output else found

    bracketed.__name__ = method


for _method in _OF_BRACKETS[:-1]:
    _bracketing(_method)


@twin("scipy.optimize", "toms748")
def toms748(
    f: Callable[..., Any],
    a: Any,
    b: Any,
    args: Any = (),
    k: int = 1,
    xtol: Any = None,
    rtol: Any = None,
    maxiter: Any = None,
    full_output: bool = False,
    disp: bool = True,
) -> Any:
    """A root between two numbers by Alefeld, Potra and Shi's method."""
    options = {"xtol": xtol, "rtol": rtol, "maxiter": maxiter, "k": k}
    found = _of_number(f, args, "toms748", a, b, **options)
    return (found, RootResults(root=found, converged=True)) if full_output else found


@twin("scipy.optimize", "newton")
def newton(
    func: Callable[..., Any],
    x0: Any,
    fprime: Any = None,
    args: Any = (),
    tol: float = 1.48e-08,
    maxiter: int = 50,
    fprime2: Any = None,
    x1: Any = None,
    rtol: float = 0.0,
    full_output: bool = False,
    disp: bool = True,
) -> Any:
    """A root near a guess by secants, Newton's or Halley's method; of each element of an array."""
    given = arguments(args)
    many = np.ndim(x0) > 0
    if many:
        refuse_options("optimize.newton of an array", "leave it out", full_output=full_output)
    options = {"tol": tol, "maxiter": maxiter, "rtol": rtol}

    def equation(x: Any) -> Any:
        return func(x, *given)

    def slope(x: Any) -> Any:
        return fprime(x, *given)

    def curvature(x: Any) -> Any:
        return fprime2(x, *given)

    def called(host: Any, functions: Any, guess: Any) -> Any:
        if many:
            return like_first(host, functions, *guess, **options)
        return number_of(host, functions, *guess, **options)

    def solve(f: Any, x: Any) -> Any:
        if fprime is None:
            if x1 is None:
                return called(solver_hosts.root_from, [equation], [x])
            return called(solver_hosts.root_from_two, [equation], [x, x1])
        if fprime2 is None:
            return called(solver_hosts.root_by_slope, [equation, slope], [x])
        return called(solver_hosts.root_by_curvature, [equation, slope, curvature], [x])

    def tangent(linear: Any, right: Any) -> Any:
        return right / linear(np.ones_like(right))  # each element has an equation of its own

    start = np.asarray(x0, dtype=float) if many else x0 * 1.0
    found = custom_root(equation, start, solve, tangent if many else None)
    return (found, RootResults(root=found, converged=True)) if full_output else found


@twin("scipy.optimize", "root_scalar")
def root_scalar(
    f: Callable[..., Any],
    args: Any = (),
    method: Any = None,
    bracket: Any = None,
    fprime: Any = None,
    fprime2: Any = None,
    x0: Any = None,
    x1: Any = None,
    xtol: Any = None,
    rtol: Any = None,
    maxiter: Any = None,
    options: Any = None,
) -> Any:
    """A root of a function of one number, by a method that its arguments choose."""
    given = arguments(args)
    chosen = None if method is None else method.lower()
    if chosen is None:
        chosen = "secant" if fprime is None else "newton" if fprime2 is None else "halley"
        chosen = "brentq" if bracket is not None else chosen
    if chosen in _OF_BRACKETS:
        named = {"xtol": xtol, "rtol": rtol, "maxiter": maxiter, "options": options}
        found = _of_number(f, given, chosen, bracket[0], bracket[1], **named)
        return RootResults(root=found, converged=True)

    def value(x: Any) -> Any:
        found = f(x, *given)
        return found[0] if fprime is True else found

    def slope(x: Any) -> Any:
        return f(x, *given)[1] if fprime is True else fprime(x, *given)

    def curvature(x: Any) -> Any:
        return fprime2(x, *given)

    found = newton(
        value,
        x0,
        None if chosen == "secant" else slope,
        tol=1.48e-08 if xtol is None else xtol,
        maxiter=50 if maxiter is None else maxiter,
        fprime2=curvature if chosen == "halley" else None,
        x1=x1,
        rtol=0.0 if rtol is None else rtol,
    )
    return RootResults(root=found, converged=True)


@twin("scipy.optimize", "fixed_point")
def fixed_point(
    func: Callable[..., Any],
    x0: Any,
    args: Any = (),
    xtol: float = 1e-08,
    maxiter: int = 500,
    method: str = "del2",
) -> Any:
    """The x with ``x = func(x, *args)``."""
    given = arguments(args)
    options = {"xtol": xtol, "maxiter": maxiter, "method": method}

    def function(x: Any) -> Any:
        return func(x, *given)

    def equation(x: Any) -> Any:
        return function(x) - x

    def solve(f: Any, x: Any) -> Any:
        return like_first(solver_hosts.steady_point, [function], x, **options)

    return custom_root(equation, np.asarray(x0, dtype=float), solve)
