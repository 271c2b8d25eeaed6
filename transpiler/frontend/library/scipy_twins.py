"""Python twins of functions and classes of SciPy: interpreted where a program calls the original.

A twin is plain NumPy Python in ``runtime/scipy_twins``, declared under the name of SciPy's module
and the path in it. What SciPy itself writes in plain NumPy Python is declared by ``read_source``,
and its own text is interpreted. A call whose arguments are all known is left to SciPy.
"""

from __future__ import annotations

import importlib
import inspect
import operator
import sys
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any, TypeVar

from calque.transpiler.errors import UnsupportedFunction
from calque.transpiler.frontend.library.scipy_objects import instead_of, is_scipys, missing
from calque.transpiler.frontend.machine import NEXT, Args, Closure, Kwargs, Machine
from calque.transpiler.frontend.values.strings import has_run_time_values
from calque.transpiler.ir.builder import Array, current, function_name

Twin = TypeVar("Twin", bound=Callable[..., Any])
TWINS: dict[str, dict[str, Any]] = {}  # module of SciPy -> path in it -> twin
CALLED: dict[str, dict[str, Any]] = {}  # module of SciPy -> class in it -> twin of its __call__
ALWAYS: list[Any] = []  # twins that stand in for SciPy's also where all is known
OF_OBJECTS: dict[str, dict[str, Any]] = {}  # module of SciPy -> class in it -> twin of an instance
SIZED: dict[str, dict[str, Any]] = {}  # module of SciPy -> paths of functions of known sizes
HOMES: list[str] = []  # modules that declare twins
_FOUND: dict[Any, Any] = {}  # a table and what SciPy has under a name -> twin


def twin(
    module: str, *paths: str, always: bool = False, sized: bool = False
) -> Callable[[Twin], Twin]:
    """Declare a function or a class as the twin of functions or classes of a module of SciPy.

    With ``always`` it stands in for them also in calls whose arguments are all known, with
    ``sized`` it needs to know the sizes of arrays (see ``read_source``).
    """

    def declare(made: Twin) -> Twin:
        if sized:
            SIZED.setdefault(module, {}).update(dict.fromkeys(paths, True))
        if always:
            ALWAYS.append(made)
        TWINS.setdefault(module, {}).update(dict.fromkeys(paths, made))
        return made

    return declare


def read_source(module: str, *paths: str, sized: bool = False) -> None:
    """Declare functions of a module of SciPy whose own source is interpreted, helpers included.

    With ``sized`` the sizes of the arrays that they are given must be known, as where SciPy counts
    the parts of a signal.
    """
    TWINS.setdefault(module, {}).update(dict.fromkeys(paths))
    if sized:
        SIZED.setdefault(module, {}).update(dict.fromkeys(paths, True))


def twin_of_instances(module: str, *classes: str) -> Callable[[Twin], Twin]:
    """Declare a function ``(instance, *args)`` as the twin of a call of instances of classes."""

    def declare(made: Twin) -> Twin:
        CALLED.setdefault(module, {}).update(dict.fromkeys(classes, made))
        return made

    return declare


def twin_of_objects(module: str, *classes: str) -> Callable[[Twin], Twin]:
    """Declare a function that makes a twin of an instance made outside, which all is asked of."""

    def declare(made: Twin) -> Twin:
        OF_OBJECTS.setdefault(module, {}).update(dict.fromkeys(classes, made))
        return made

    return declare


def as_twin(machine: Machine, value: Any, node: Any) -> Any:
    """The twin of an object of SciPy; any other value as it is."""
    made = _look_up(OF_OBJECTS, type(value)) if is_scipys(value) else None
    return value if made is None else machine.call_for_user(made, [value], {}, node)


def twin_of(function: Any) -> Any:
    """The twin of a function or a class of SciPy; None without one."""
    return _look_up(TWINS, function)


def _look_up(table: dict[str, dict[str, Any]], wanted: Any) -> Any:
    for module in HOMES:  # the tables are empty until SciPy is met
        importlib.import_module(module)
    try:
        found = _FOUND.get((id(table), wanted))
    except TypeError:  # not hashable
        return None
    if found is not None:
        return found
    for module, twins in table.items():
        if module not in sys.modules:
            continue
        for path, made in twins.items():
            try:
                named = _own_attribute(sys.modules[module], path)
            except (AttributeError, KeyError):  # this version of SciPy does not have it
                continue
            if wanted in (named, inspect.unwrap(named)):
                found = _FOUND[id(table), wanted] = made or inspect.unwrap(named)
                return found
    return None


def _twin_of_instance(instance: Any) -> Any:
    """The twin of a call of an instance of a class, or of a class derived of it."""
    for cls in type(instance).__mro__:
        found = _look_up(CALLED, cls)
        if found is not None:
            return found
    return None


def _own_attribute(module: Any, path: str) -> Any:
    """The value at a path; of a class what it defines itself, not what it inherits."""
    owner, _, name = path.rpartition(".")
    place = operator.attrgetter(owner)(module) if owner else module
    return vars(place)[name] if isinstance(place, type) else getattr(place, name)


def call_twin(machine: Machine, function: Any, args: Args, kwargs: Kwargs, node: Any) -> Any:
    """A call of SciPy's function by its twin, where something is known at run time only."""
    made, before = _look_up(TWINS, function), []
    if made is None and isinstance(function, MethodType):
        made, before = _look_up(TWINS, function.__func__), [function.__self__]
        if made is not None and isinstance(function.__self__, type):
            before = []  # a method of the class, which its twin needs not
        if made is not None and machine.rule_of(function) is not None:
            return NEXT  # one that the user declared
    if made is None:
        made, before = _twin_of_instance(function), [function]
    given = [*args, *kwargs.values()]
    if made is None:
        owner, name = _method_of(function)
        if name and any(map(has_run_time_values, given)):
            method = machine.attribute(as_twin(machine, owner, node), name, node)
            return machine.call_value(method, args, kwargs, node)
        if machine.on_behalf is None and any(map(_is_twins, given)):
            name = function_name(function)
            machine.fail(
                UnsupportedFunction, node, missing(function, name), instead_of(function, name)
            )
        return _call_helper(machine, function, args, kwargs, node)
    within = before and machine.on_behalf is not None  # a method, in SciPy's own text or a twin
    asked = any(isinstance(a, Closure) or has_run_time_values(a) for a in given)
    if not within and not asked and made not in ALWAYS:
        return NEXT
    if _look_up(SIZED, function):
        _need_sizes(given)
    if not isinstance(made, FunctionType):  # a class, or a function of NumPy
        return machine.call_value(made, args, kwargs, node)
    return machine.call_for_user(made, [*before, *args], kwargs, node)


def _need_sizes(given: list[Any]) -> None:
    """Ask for the sizes of arrays that are not known yet."""
    dims = [d for a in given if isinstance(a, Array) for d in map(current().dims.resolve, a.dims)]
    if not all(isinstance(d, int) for d in dims):
        raise current().needs_dims(dims, "The size of the data")


def _is_twins(value: Any) -> bool:
    """True for an object of a twin's class."""
    return type(value).__module__.startswith("calque.runtime.scipy_twins.")


def _method_of(function: Any) -> tuple[Any, str]:
    """The object and the name of a method of one that has a twin; no name otherwise."""
    owner = getattr(function, "__self__", None)
    if _look_up(OF_OBJECTS, type(owner)) is not None:
        return owner, function.__name__
    return function, "__call__" if _look_up(OF_OBJECTS, type(function)) is not None else ""


def _call_helper(machine: Machine, function: Any, args: Args, kwargs: Kwargs, node: Any) -> Any:
    """A call within a function of SciPy whose source is read: the helper's source is read too.

    What is known goes to the helper itself.
    """
    if machine.on_behalf is None:
        return NEXT
    if not any(isinstance(a, Closure) or has_run_time_values(a) for a in [*args, *kwargs.values()]):
        return NEXT
    owner = [function.__self__] if isinstance(function, MethodType) else []
    if owner and _look_up(OF_OBJECTS, type(owner[0])) is not None:
        return NEXT  # all of it is known
    made = inspect.unwrap(function.__func__ if owner else function)
    if not isinstance(made, FunctionType) or machine.rule_of(function) is not None:
        return NEXT
    return machine.call_for_user(made, [*owner, *args], kwargs, node)
