"""Calls of hosts from twins: SciPy's own iteration, which calls back functions of the program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.runtime.scipy_twins import solver_hosts
from calque.transpiler.frontend.library.python_builtins import builtin
from calque.transpiler.frontend.machine import Args, Kwargs, Machine
from calque.transpiler.ir.builder import type_of
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.transformations.recorded_hosts import host_call

_NUMBER = ArrayType(np.dtype(float), (), True)
_COUNT = ArrayType(np.dtype(np.int64), (), True)


def like_first(
    host: Callable[..., Any], functions: Sequence[Any], x: Any, *rest: Any, **options: Any
) -> Any:
    """The result of ``host(*functions, x, *rest, **options)``, an array like x.

    The host calls the functions with one argument, which is like x.
    """
    raise TypeError("a twin is interpreted, never called")


def number_of(
    host: Callable[..., Any], functions: Sequence[Any], *operands: Any, **options: Any
) -> Any:
    """The result of ``host(*functions, *operands, **options)``, a number, as are its operands.

    The host calls the functions with one number.
    """
    raise TypeError("a twin is interpreted, never called")


def _options(kwargs: Kwargs) -> dict[str, Any]:
    return {name: value for name, value in kwargs.items() if value is not None}


@builtin(like_first)
def _like_first(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    host, functions, x, *rest = args
    called = [(function, [type_of(x)]) for function in functions]
    given = _options(kwargs)
    with machine.at(node):
        return host_call(
            machine, host, called, [x, *rest], given, lambda x, *_, **__: type_of(x), node
        )


@builtin(number_of)
def _number_of(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    host, functions, *operands = args
    called = [(function, [_NUMBER]) for function in functions]
    given = _options(kwargs)
    with machine.at(node):
        return host_call(machine, host, called, operands, given, lambda *_, **__: _NUMBER, node)


def integral_with_nodes(function: Callable[..., Any], low: Any, high: Any, **options: Any) -> Any:
    """The integral of a function of one number, its error, and nodes.

    Of these, how many count, their places in the range and their weights.
    """
    raise TypeError("a twin is interpreted, never called")


@builtin(integral_with_nodes)
def _integral_with_nodes(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    function, low, high = args
    nodes = ArrayType(np.dtype(float), (20 * kwargs["limit"],))

    def infer(*_: Any, **__: Any) -> tuple[ArrayType, ...]:
        return _NUMBER, _NUMBER, _COUNT, nodes, nodes

    called, given = [(function, [_NUMBER])], _options(kwargs)
    host, modules = solver_hosts.quadrature, ("integrate", "warnings")
    names = ("integral", "error", "nodes", "places", "weights")
    with machine.at(node):
        return host_call(machine, host, called, [low, high], given, infer, node, modules, names)


def kind_of_range(low: Any, high: Any) -> str:
    """The infinite limits of a range in words; what only the run knows is taken for finite."""
    raise TypeError("a twin is interpreted, never called")


@builtin(kind_of_range)
def _kind_of_range(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> str:
    low, high = (x if isinstance(x, (int, float)) else 0.0 for x in args)
    if low == -np.inf:
        return "everywhere" if high == np.inf else "from infinity"
    return "to infinity" if high == np.inf else "finite"


def name_of_method(method: Any) -> str:
    """The name of a method of ``solve_ivp``, which may be given as SciPy's class."""
    raise TypeError("a twin is interpreted, never called")


@builtin(name_of_method)
def _name_of_method(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> str:
    from scipy import integrate

    names = ("RK23", "RK45", "DOP853", "Radau", "BDF", "LSODA")
    for name in names:
        if args[0] is getattr(integrate, name) or args[0] == name:
            return name
    raise ValueError(f"`method` must be one of {', '.join(names)}")


def runge_kutta_tables(method: str) -> dict[str, Any]:
    """The coefficients of an explicit Runge-Kutta method of SciPy."""
    raise TypeError("a twin is interpreted, never called")


@builtin(runge_kutta_tables)
def _runge_kutta_tables(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> dict[str, Any]:
    from scipy import integrate

    found = getattr(integrate, args[0])
    table = {"A": found.A, "B": found.B, "C": found.C, "order": found.error_estimator_order}
    if found is not integrate.DOP853:
        return {**table, "E": found.E, "P": found.P, "eighth": False}
    more = {"A_extra": found.A_EXTRA, "C_extra": found.C_EXTRA, "D": found.D}
    return {**table, "E": found.E5, "E3": found.E3, "eighth": True, **more}


def steps_of(
    host: Callable[..., Any], functions: Sequence[Any], problem: tuple[Any, ...], **options: Any
) -> Any:
    """The steps of a solver of a problem: its limits, first state, and times asked for.

    Of the steps there are the ends, three states in each, and the positions of the times.
    """
    raise TypeError("a twin is interpreted, never called")


@builtin(steps_of)
def _steps_of(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    host, functions, (t0, t1, y0, times) = args
    count, state = machine.builder.dims.fresh(), type_of(y0)
    called = [(function, [_NUMBER, state]) for function in functions]

    def infer(t0: Any, t1: Any, y0: Any, times: Any, *_: Any, **__: Any) -> tuple[ArrayType, ...]:
        size, asked = type_of(y0).dims[0], type_of(times).dims[0]
        return (
            ArrayType(np.dtype(float), (count + 1,)),
            ArrayType(np.dtype(float), (count, 3, size)),
            ArrayType(np.dtype(np.int64), (count + 1 if asked == 0 else asked,)),
        )

    given, names = _options(kwargs), ("ends", "stages", "positions")
    with machine.at(node):
        operands, modules = [t0, t1, y0, times], ("integrate",)
        return host_call(machine, host, called, operands, given, infer, node, modules, names, True)


def is_unbounded(bounds: Any) -> bool:
    """True for a pair of numbers that bound nothing."""
    raise TypeError("a twin is interpreted, never called")


@builtin(is_unbounded)
def _is_unbounded(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> bool:
    low, high = args[0] if isinstance(args[0], (tuple, list)) else (None, None)
    return isinstance(low, float) and isinstance(high, float) and low == -np.inf and high == np.inf
