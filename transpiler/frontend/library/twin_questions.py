"""Functions that twins call: Python itself answers, while a program is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from calque.transpiler.frontend.calls import builtin
from calque.transpiler.frontend.machine import Args, Kwargs, Machine
from calque.transpiler.frontend.values.strings import has_run_time_values
from calque.transpiler.ir.builder import Array, current, known_int
from calque.transpiler.ir.core import Apply, Var

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


def known_numbers(x: Any) -> Any:
    """An array that no argument of the program determines, as Python sees it; None for another."""
    return x


@builtin(known_numbers)
def _known_numbers(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    if isinstance(args[0], Array):
        return _evaluated(args[0].atom)
    return None if has_run_time_values(args[0]) else args[0]


def _evaluated(atom: Any) -> Any:
    """The value of an atom that is made of constants; None for another."""
    if not isinstance(atom, Var):
        return atom
    made = current().definitions.get(atom)
    if not isinstance(made, Apply) or made.primitive.kind not in ("creation", "elementwise"):
        return None
    args = [_evaluated(a) for a in made.args]
    if any(a is None for a in args) or len(made.outs) != 1:
        return None
    return made.primitive.function(*args, **made.params)
