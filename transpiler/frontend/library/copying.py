"""``copy.copy`` and ``copy.deepcopy`` of objects that a program made."""

from __future__ import annotations

import copy
from types import FunctionType
from typing import Any

import numpy as np

from calque.transpiler.errors import UnsupportedSyntax
from calque.transpiler.frontend.calls import builtin
from calque.transpiler.frontend.machine import Args, Kwargs, Machine
from calque.transpiler.frontend.values.containers.list_kinds import RecordedList, rows_of
from calque.transpiler.frontend.values.list_arrays import GrowingRows
from calque.transpiler.ir import pytrees
from calque.transpiler.ir.builder import FUNCTIONS, Array
from calque.transpiler.ir.core import map_tree


@builtin(copy.copy)
def _copy(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    (value,) = args
    if rows_of(value) is not None:
        return machine.list_copy(value)
    return _renewed(machine, value, "__copy__", [], lambda part: part, node)


@builtin(copy.deepcopy)
def _deepcopy(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    made: dict[int, Any] = {}

    def renewed(value: Any) -> Any:
        if id(value) not in made:
            made[id(value)] = _deep(machine, value, renewed, node)
        return made[id(value)]

    return renewed(args[0])


def _replaced(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    (value,) = args
    own = getattr(type(value), "__replace__", None)
    if own is None:
        machine.fail(UnsupportedSyntax, node, f"A {type(value).__name__} has no __replace__.")
    return machine.call_value(own, [value], kwargs, node)


if hasattr(copy, "replace"):  # since 3.13
    builtin(copy.replace)(_replaced)


def _deep(machine: Machine, value: Any, renewed: Any, node: Any) -> Any:
    rows = rows_of(value)
    if rows is not None:
        buffers = map_tree(lambda b: FUNCTIONS[np.copy](b[: rows.count]), rows.buffers)
        made: Any = machine.own(RecordedList())
        made.rows = machine.own(GrowingRows(buffers, rows.count, False, rows.how))
        return made
    if isinstance(value, tuple):
        parts = [renewed(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return _renewed(machine, value, "__deepcopy__", [{}], renewed, node)


def _renewed(
    machine: Machine, value: Any, method: str, given: list[Any], part: Any, node: Any
) -> Any:
    """A new array, container or instance of the renewed parts; what never changes is itself."""
    if isinstance(value, Array):
        return FUNCTIONS[np.copy](value) if value.ndim or value.is_buffer else value
    if isinstance(value, list):
        return machine.own(RecordedList(map(part, value)))
    if isinstance(value, dict):
        parts = {k: part(v) for k, v in value.items()}
        new: Any = machine.own(copy.copy(value))
        new.update(parts)
        return new
    own = getattr(type(value), method, None)
    if isinstance(own, FunctionType):
        return machine.call_value(own, [value, *given], {}, node)
    if id(value) in machine.owned and pytrees.has_attributes(value):
        new = object.__new__(type(value))
        pytrees.set_contents(new, {k: part(v) for k, v in pytrees.contents(value).items()})
        return machine.own(new)
    return machine.native(getattr(copy, method.strip("_")), [value], {}, node)
