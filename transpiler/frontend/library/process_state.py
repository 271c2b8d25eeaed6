"""State of the process that a program reads while it is translated, and every call compares.

The limit of recursion, log levels, names of the environment, modules that are loaded.
"""

from __future__ import annotations

import copy
import logging
import os
import sys
from collections.abc import Callable
from typing import Any

from calque.transpiler.errors import ImpureFunction
from calque.transpiler.frontend.calls import BUILTINS
from calque.transpiler.frontend.guarding import Guard
from calque.transpiler.frontend.library.surroundings import ASKED, ProcessTable
from calque.transpiler.frontend.machine import Args, Kwargs, Machine
from calque.transpiler.frontend.paths import of_object, step
from calque.transpiler.ir.builder import current, known
from calque.transpiler.ir.stages import recursion_limit

_LEVELS = ("isEnabledFor", "getEffectiveLevel", "hasHandlers")


def _now(function: Callable[..., Any], args: Args, kwargs: Kwargs) -> Any:
    if function is sys.getrecursionlimit:
        return recursion_limit()
    return function(*args, **kwargs)


def _asking(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
        if not known((args, list(kwargs.values()))):
            return machine.native(function, args, kwargs, node)
        found = _now(function, args, kwargs)
        kept = copy.copy(found)
        machine.guards.append(Guard(step(_now, of_object(function), args, kwargs), kept))
        return machine.own(found) if isinstance(found, (dict, list)) else found

    return call


for _function in (*ASKED, *(getattr(logging.Logger, name) for name in _LEVELS)):
    BUILTINS[_function] = _asking(_function)


def _value_in(table: Any, name: Any) -> Any:
    return table.get(name)


class NamesOfProcess(ProcessTable):
    """The environment, or the table of modules: what is asked of it by name is guarded."""

    def __init__(self, table: Any):
        self.table, self.what = table, "sys.modules" if table is sys.modules else "os.environ"

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a name, or the default."""
        found = self.table.get(name)
        current().machine.guards.append(Guard(step(_value_in, of_object(self.table), name), found))
        return default if found is None else found

    def __getitem__(self, name: str) -> Any:
        found = self.get(name)
        if found is None:
            raise KeyError(name)
        return found

    def __contains__(self, name: str) -> bool:
        return self.get(name) is not None

    def _whole(self) -> Any:
        raise ImpureFunction(
            f"{self.what} is read as a whole, and changes between calls.",
            current().origin,
            f"ask for one name: {self.what}.get(name)",
        )

    __iter__ = __len__ = _whole

    def __getattr__(self, name: str) -> Any:
        return self._whole()


ProcessTable.views = {id(os.environ): NamesOfProcess(os.environ)}
ProcessTable.views[id(sys.modules)] = NamesOfProcess(sys.modules)
