"""Objects of libraries that change in place without the interpreter's knowledge.

A ``bytearray`` or an ``array.array`` is changed by Python itself while the function is read; under
a run-time test or in a run-time loop that would happen once, on whatever path.
"""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

import numpy as np

from calque.transpiler.errors import ImpureFunction, UnsupportedSyntax
from calque.transpiler.frontend.machine import Machine
from calque.transpiler.frontend.values.containers.frames import Frame
from calque.transpiler.frontend.values.key_presence import VIEWS
from calque.transpiler.ir import pytrees
from calque.transpiler.ir.builder import Array

_NUMBERS = (bool, int, float, complex, np.generic, np.dtype, np.ufunc)
_OTHERS = (str, bytes, type(None), type(Ellipsis), type, range, slice, frozenset, property)
_READ = (MappingProxyType, inspect.Signature, inspect.Parameter)
_CALLED = (FunctionType, BuiltinFunctionType, MethodType, ModuleType, functools.partial)
_KEPT = (list, dict, set, tuple, Array, Frame, np.ndarray, *VIEWS)  # a snapshot has what they hold


def is_opaque(value: Any) -> bool:
    """True if Python can change a value without the interpreter's knowledge."""
    plain = isinstance(value, _NUMBERS + _OTHERS + _READ + _CALLED + _KEPT)
    if plain or pytrees.has_attributes(value):
        return False
    own = (type(value).__module__ or "").split(".")[0] == "calque"
    return not own and not isinstance(value, BaseException)


class Watch:
    """The opaque objects that a call can reach, as they were before it."""

    def __init__(self, machine: Machine, values: list[Any]):
        self.machine = machine
        self.before = [(v, _copied(v)) for v in values if is_opaque(v)]

    def check(self, node: Any) -> None:
        """Refuse the changes that a call made, unless they happen once per call of the function."""
        machine = self.machine
        for value, before in self.before:
            if _same(value, before):
                continue
            name = type(value).__name__
            if id(value) not in machine.owned:
                machine.fail(
                    ImpureFunction,
                    node,
                    f"This changes a {name} that lives outside the function.",
                    "work on a copy made inside the function",
                )
            if machine.tests or machine.loop_depth:
                machine.fail(
                    UnsupportedSyntax,
                    node,
                    f"This changes a {name} under a run-time test, or in a run-time loop.",
                    "use a list or an array",
                )


def _copied(value: Any) -> Any:
    """A copy; of objects that compare by identity alone, what pickle keeps of them."""
    try:
        return pickle.dumps(value) if _has_no_equality(value) else copy.copy(value)
    except Exception:  # what has no copy is compared with nothing: it counts as changed
        return None


def _has_no_equality(value: Any) -> bool:
    return type(value).__eq__ is object.__eq__


def _same(value: Any, before: Any) -> bool:
    if value is before:
        return True
    try:
        if isinstance(before, bytes) and _has_no_equality(value):
            return pickle.dumps(value) == before
        return type(value) is type(before) and bool(value == before)
    except Exception:
        return False
