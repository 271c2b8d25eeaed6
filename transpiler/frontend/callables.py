"""Predicates on the functions, classes and values of calls; construction of dataclasses."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import os
import sys
import sysconfig
from types import FunctionType
from typing import Any

import gast
import numpy as np

from calque.transpiler.errors import Origin
from calque.transpiler.frontend.machine import Args, Closure, Kwargs, Machine
from calque.transpiler.frontend.values.containers.list_kinds import rows_of
from calque.transpiler.frontend.values.iterables import Iterable
from calque.transpiler.ir import pytrees
from calque.transpiler.ir.builder import Array

_LIBRARIES = {"numpy", "scipy", "numba", "jax", "math", "functools", "itertools", "operator"}
_LIBRARIES |= {"collections", "typing", "enum", "copy", "abc", "warnings"}
_STDLIB = sysconfig.get_path("stdlib") + os.sep


def is_in(function: Any, table: Any) -> bool:
    """True if a table holds a function; False for an unhashable one."""
    try:
        return function in table
    except TypeError:
        return False


def code_of(function: Any) -> Any:
    """The code object of a function, which a guard reads: a user may replace it."""
    return function.__code__


def default_of(function: Any, key: Any) -> Any:
    """A default: of a positional parameter by its number, of a keyword-only one by its name."""
    return (function.__defaults__ if isinstance(key, int) else function.__kwdefaults__)[key]


def with_defaults(function: FunctionType) -> list[tuple[int, Any, str]]:
    """The defaults of positional parameters, each with its place and the parameter's name.

    A decorator may give its ``wrapper(*args)`` the defaults of the function, which has more.

    >>> with_defaults(lambda x, y=2.0: x)
    [(0, 2.0, 'y')]
    """
    defaults, code = function.__defaults__ or (), function.__code__
    names = code.co_varnames[: code.co_argcount]
    places = range(max(len(defaults) - len(names), 0), len(defaults))
    own = names[len(names) - len(places) :]
    return [(k, defaults[k], name) for k, name in zip(places, own, strict=True)]


def is_generator(node: Any) -> bool:
    """True for a generator expression."""
    return isinstance(node, gast.GeneratorExp)


def plain_known(value: Any) -> bool:
    """True for a known value without arrays, with which Python can compute."""
    if isinstance(value, (tuple, list)):
        return rows_of(value) is None and all(map(plain_known, value))
    leaves = pytrees.flatten(value)[0]
    if len(leaves) != 1 or leaves[0] is not value:  # a dict, or another node of a tree
        return all(map(plain_known, leaves))
    return not isinstance(value, (Array, np.ndarray, Iterable, FunctionType))


def is_interpreted(value: Any) -> bool:
    """True for a function of the user's, which is interpreted when it is called."""
    own = isinstance(value, FunctionType) and not is_library(value)
    return own or isinstance(value, Closure)


def given_to(function: functools.partial[Any], key: int | str) -> Any:
    """An argument that a partial carries."""
    return function.args[key] if isinstance(key, int) else function.keywords[key]


def is_library(function: FunctionType) -> bool:
    """True for a function of NumPy, SciPy, the standard library or calque: never interpreted."""
    module = function.__module__ or ""
    top = module.split(".")[0]
    return top in _LIBRARIES or is_own(function)


def is_own(function: Any) -> bool:
    """True for a function of calque itself (a rule, an Array's method): never interpreted."""
    parts = (getattr(function, "__module__", None) or "").split(".")
    return parts[:2] == ["calque", "transpiler"] and ".".join(parts) not in _TWINS


_LIBRARY = "calque.transpiler.frontend.library"
_TWINS = (f"{_LIBRARY}.polyfills", f"{_LIBRARY}.number_polyfills", f"{_LIBRARY}.numpy_polyfills")


def is_twin(function: FunctionType) -> bool:
    """True for a function interpreted in place of NumPy's or SciPy's: not the user's text."""
    module = function.__module__ or ""
    return module in _TWINS or module.startswith("calque.runtime.scipy_twins.")


def is_plain_class(cls: type) -> bool:
    """True for a dataclass, a namedtuple, or a user's class without its own ``__init__``."""
    own = cls.__init__ is object.__init__  # type: ignore[misc]
    return (
        hasattr(cls, "__dataclass_fields__")
        or hasattr(cls, "_fields")
        or (own and cls.__module__.split(".")[0] not in _LIBRARIES | sys.stdlib_module_names)
    )


def made_dataclass(machine: Machine, cls: Any, args: Args, kwargs: Kwargs, node: Any) -> Any:
    """An instance of a dataclass, its default factories and ``__post_init__`` interpreted."""
    given = inspect.signature(cls).bind(*args, **kwargs).arguments
    instance = machine.own(cls.__new__(cls))
    passed_on = []
    for name, field in cls.__dataclass_fields__.items():
        if field.init and name in given:
            value = given[name]
        elif field.default is not dataclasses.MISSING:
            value = field.default
        elif field.default_factory is not dataclasses.MISSING:
            value = machine.call_value(field.default_factory, [], {}, node)
        else:
            continue
        if field._field_type is dataclasses._FIELD_INITVAR:  # type: ignore[attr-defined]
            passed_on.append(value)
        elif field._field_type is dataclasses._FIELD:  # type: ignore[attr-defined]
            object.__setattr__(instance, name, value)
    if hasattr(cls, "__post_init__"):
        machine.call_value(cls.__post_init__, [instance, *passed_on], {}, node)
    return instance


def stands_in_pythons(origin: Origin | None) -> bool:
    """True if an origin is in the standard library, not in the user's code."""
    return origin is not None and origin.file.startswith(_STDLIB) and "-packages" not in origin.file
