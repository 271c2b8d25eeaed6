"""Python twins of functions and classes of SciPy: interpreted where a program calls the original.

A twin is plain NumPy Python in ``runtime/scipy_twins``, declared under the name of SciPy's module
and the path in it. What SciPy itself writes in plain NumPy Python is declared by ``read_source``,
and its own text is interpreted. A call whose arguments are all known is left to SciPy.
"""

from __future__ import annotations

import inspect
import operator
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

from calque.transpiler.frontend.calls import builtin
from calque.transpiler.frontend.machine import NEXT, Args, Closure, Kwargs, Machine
from calque.transpiler.frontend.values.strings import has_run_time_values

Twin = TypeVar("Twin", bound=Callable[..., Any])
TWINS: dict[str, dict[str, Any]] = {}  # module of SciPy -> path in it -> twin
CALLED: dict[str, dict[str, Any]] = {}  # module of SciPy -> class in it -> twin of its __call__
_FOUND: dict[Any, Any] = {}  # what SciPy's modules have under these names -> twin


def twin(module: str, *paths: str) -> Callable[[Twin], Twin]:
    """Declare a function or a class as the twin of functions or classes of a module of SciPy."""

    def declare(made: Twin) -> Twin:
        TWINS.setdefault(module, {}).update(dict.fromkeys(paths, made))
        return made

    return declare


def read_source(module: str, *paths: str) -> None:
    """Declare functions of a module of SciPy whose own source is interpreted, helpers included."""
    TWINS.setdefault(module, {}).update(dict.fromkeys(paths))


def twin_of_instances(module: str, *classes: str) -> Callable[[Twin], Twin]:
    """Declare a function ``(instance, *args)`` as the twin of a call of instances of classes."""

    def declare(made: Twin) -> Twin:
        CALLED.setdefault(module, {}).update(dict.fromkeys(classes, made))
        return made

    return declare


def is_known(value: Any) -> bool:
    """True for a value that no argument of the program determines: a twin asks, calque answers."""
    return True


@builtin(is_known)
def _is_known(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> bool:
    return not has_run_time_values(args[0])


def twin_of(function: Any) -> Any:
    """The twin of a function or a class of SciPy; None without one."""
    return _look_up(TWINS, function)


def _look_up(table: dict[str, dict[str, Any]], wanted: Any) -> Any:
    try:
        found = _FOUND.get(wanted)
    except TypeError:  # not hashable
        return None
    if found is not None:
        return found
    for module, twins in table.items():
        if module not in sys.modules:
            continue
        for path, made in twins.items():
            try:
                named = operator.attrgetter(path)(sys.modules[module])
            except AttributeError:  # this version of SciPy does not have it
                continue
            if named == wanted:
                _FOUND[named] = made or inspect.unwrap(named)
                return _FOUND[named]
    return None


def call_twin(machine: Machine, function: Any, args: Args, kwargs: Kwargs, node: Any) -> Any:
    """A call of SciPy's function by its twin, where something is known at run time only."""
    made, owner = _look_up(TWINS, function), []
    if made is None:
        made, owner = _look_up(CALLED, type(function)), [function]
    if made is None:
        return _call_helper(machine, function, args, kwargs, node)
    given = [*args, *kwargs.values()]
    if not any(isinstance(a, Closure) or has_run_time_values(a) for a in given):
        return NEXT
    if not isinstance(made, FunctionType):  # a class, or a function of NumPy
        return machine.call_value(made, args, kwargs, node)
    return machine.call_for_user(made, [*owner, *args], kwargs, node)


def _call_helper(machine: Machine, function: Any, args: Args, kwargs: Kwargs, node: Any) -> Any:
    """A call within a function of SciPy whose source is read: the helper's source is read too."""
    made = inspect.unwrap(function) if callable(function) else None
    if machine.on_behalf is None or not isinstance(made, FunctionType):
        return NEXT
    if machine.rule_of(function) is not None:
        return NEXT
    return machine.call_for_user(made, args, kwargs, node)
