"""Functions of SciPy by module and name: SciPy is imported only where a program uses it.

A function is declared under the name of its module and its path there, ``"scipy.stats"`` and
``"norm.pdf"``; ``register_scipy`` enters those of the modules that the program has imported.
"""

from __future__ import annotations

import importlib
import inspect
import operator
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

from calque.transpiler.ir.builder import FUNCTIONS
from calque.transpiler.primitives.record import load_all

# module -> path of a function in it -> what a call of it means
HANDLERS: dict[str, dict[str, Callable[..., Any]]] = {}


class Lazy:
    """A function of a module of SciPy, imported when it is first called."""

    def __init__(self, module: str, name: str):
        self.module, self.__name__ = module, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return getattr(importlib.import_module(self.module), self.__name__)(*args, **kwargs)


def means(module: str, *paths: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let functions of a module of SciPy mean the decorated function."""

    def declare(handler: Callable[..., Any]) -> Callable[..., Any]:
        for path in paths:
            HANDLERS.setdefault(module, {})[path] = handler
            if isinstance(handler, FunctionType):  # Python's words for arguments that do not fit
                handler.__qualname__ = f"{module}.{path}"
        return handler

    return declare


def register_scipy(function: Any = None) -> Callable[..., Any] | None:
    """Enter the functions of SciPy in the table, where the program has imported their modules.

    The frontend calls this when it meets a function of SciPy that it does not know, and gets what
    a call of it means, or None.
    """
    if "scipy" not in sys.modules:
        return None
    load_all()
    for name, handlers in HANDLERS.items():
        module = sys.modules.get(name)
        if module is None:
            continue
        for path, handler in handlers.items():
            try:
                found = operator.attrgetter(path)(module)
            except AttributeError:  # this version of SciPy does not have it
                continue
            FUNCTIONS[found] = FUNCTIONS[inspect.unwrap(found)] = handler
    return FUNCTIONS.get(_canonical(function))


def _canonical(function: Any) -> Any:
    """A method of a copy of a distribution of ``scipy.stats`` as that of the distribution."""
    owner: Any = getattr(function, "__self__", None)
    name = getattr(owner, "name", None)
    given = getattr(sys.modules.get("scipy.stats"), name, None) if isinstance(name, str) else None
    if given is None or type(given) is not type(owner):
        return function
    alike = (given.a, given.b) == (owner.a, owner.b)
    return getattr(given, function.__name__) if alike else function


FUNCTIONS["register scipy"] = register_scipy
