"""``sorted``, with known orders and with orders known only at run time."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from calque.transpiler.errors import NeedsKnownValue
from calque.transpiler.frontend.calls import builtin
from calque.transpiler.frontend.machine import Args, Kwargs, Machine
from calque.transpiler.frontend.values.containers.list_kinds import RecordedList, rows_of
from calque.transpiler.ir.builder import FUNCTIONS, Array, known, type_of


class RunTimeOrder(Exception):
    """An order that hangs on a run-time value."""


class _Unordered:
    """A run-time value among the keys of ``sorted``: keys that differ before it need not ask it."""

    def _refuse(self, other: Any) -> bool:
        raise RunTimeOrder

    __eq__ = __lt__ = __gt__ = _refuse


def _comparable(key: Any) -> Any:
    if isinstance(key, (tuple, list)):
        return type(key)(map(_comparable, key))
    return key if known(key) else _Unordered()


@builtin(sorted)
def _sorted(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    key, reverse = kwargs.get("key"), bool(kwargs.get("reverse", False))
    if isinstance(args[0], Array) and key is None:
        result = np.sort(args[0])
        return result[::-1] if reverse else result
    if rows_of(args[0]) is not None:
        return machine.ordered(args[0], kwargs, node)
    items = machine.known_items(args[0], node)
    keys = [i if key is None else machine.call_value(key, [i], {}, node) for i in items]
    with contextlib.suppress(RunTimeOrder):
        order = sorted(range(len(items)), key=lambda i: _comparable(keys[i]), reverse=reverse)
        return machine.own(RecordedList(items[i] for i in order))
    if key is None and all(isinstance(i, Array) or np.isscalar(i) for i in items):
        ordered = np.sort(FUNCTIONS[np.array](items))
        ordered = ordered[::-1] if reverse else ordered
        return machine.own(RecordedList(ordered[i] for i in range(len(items))))
    columns = _columns(keys)
    if columns is None or not _columns(items):
        origin = machine.origin(node)
        message = "The order of sorted depends on run-time values, and not all items are numbers."
        raise NeedsKnownValue(message, origin, "sort an array of numbers (np.argsort)")
    order = machine.order_of(columns, reverse, node)
    return machine.own(RecordedList(_taken(items, order[i]) for i in range(len(items))))


def _columns(items: list[Any]) -> list[Any] | None:
    """The parts of items of one structure, each as an array over the items; else None."""
    first = items[0]
    if isinstance(first, (tuple, list)):
        if not all(type(i) is type(first) and len(i) == len(first) for i in items):
            return None
        parts = [_columns([i[k] for i in items]) for k in range(len(first))]
        return None if None in parts else [c for part in parts if part for c in part]
    if not all(isinstance(i, (Array, np.generic, bool, int, float)) for i in items):
        return None
    types = [type_of(i) for i in items]
    if any(t.ndim != types[0].ndim for t in types):
        return None
    return [FUNCTIONS[np.stack if types[0].ndim else np.array](items)]


def _taken(items: list[Any], place: Any) -> Any:
    """The item at a run-time place; of an array of each part."""
    first = items[0]
    if isinstance(first, (tuple, list)):
        parts = [_taken([i[k] for i in items], place) for k in range(len(first))]
        return type(first)(*parts) if hasattr(first, "_fields") else type(first)(parts)
    return _columns(items)[0][place]  # type: ignore[index]
