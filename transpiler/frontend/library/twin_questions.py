"""Functions that twins call: Python itself answers, while a program is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from calque.transpiler.frontend.calls import builtin
from calque.transpiler.frontend.machine import Args, Kwargs, Machine
from calque.transpiler.frontend.values.strings import has_run_time_values
from calque.transpiler.ir.builder import known_int

Asked = TypeVar("Asked", bound=Callable[..., Any])


def read_by_python(function: Asked) -> Asked:
    """Let Python itself call a function of a twin, which no run-time value is given to."""

    @builtin(function)
    def call(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
        return function(*args, **kwargs)

    return function


def is_known(value: Any) -> bool:
    """True for a value that no argument of the program determines: a twin asks, calque answers."""
    return True


@builtin(is_known)
def _is_known(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> bool:
    return not has_run_time_values(args[0])


def known_count(size: Any, what: str) -> int:
    """A size that must be known while a program is read, and what it is in words."""
    return int(size)


@builtin(known_count)
def _known_count(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> int:
    return known_int(*args)
