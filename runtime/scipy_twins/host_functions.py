"""Calls of hosts from twins: SciPy's own iteration, which calls back functions of the program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.transpiler.frontend.library.python_builtins import builtin
from calque.transpiler.frontend.machine import Args, Kwargs, Machine
from calque.transpiler.ir.builder import Array, type_of
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.transformations.recorded_hosts import host_call

_NUMBER = ArrayType(np.dtype(float), (), True)


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


def number_type() -> ArrayType:
    """The type of a number of Python."""
    return _NUMBER


def is_run_time(value: Any) -> bool:
    """True for a value that only the run knows."""
    return isinstance(value, Array)
