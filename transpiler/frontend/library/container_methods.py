"""The methods of lists, dicts and sets: those that change them, and those that read them."""

from __future__ import annotations

from typing import Any

from calque.transpiler.frontend.control.chosen_elements import ELEMENT, value_or
from calque.transpiler.frontend.library.polyfills import counted, place_in
from calque.transpiler.frontend.machine import Args, Kwargs, Machine
from calque.transpiler.frontend.values.containers.list_kinds import RecordedList, rows_of
from calque.transpiler.frontend.values.key_presence import check_dict, check_key, check_keys
from calque.transpiler.ir.builder import known

_MUTATING = frozenset(
    "extend insert pop remove clear sort reverse update setdefault popitem add discard move_to_end "
    "difference_update intersection_update symmetric_difference_update subtract".split()
)
_ASKING = {"index": place_in, "count": counted}
_MAKING = frozenset("copy fromkeys union difference intersection symmetric_difference".split())
_OF_A_KEY = frozenset(("get", "pop", "setdefault", "move_to_end"))
_OF_AN_ELEMENT = frozenset(("add", "discard", "remove"))
_OF_NO_KEY = frozenset(("clear", "update"))


def container_method(
    machine: Machine, function: Any, owner: Any, args: Args, kwargs: Kwargs, node: Any
) -> Any:
    """Call a method of a list, a dict, a set, a tuple or a text; new containers are not owned."""
    name = function.__name__
    if isinstance(owner, list) and name == "append":
        if isinstance(owner, RecordedList):
            return machine.append(owner, args[0], node)
        machine.check_writable(owner, node, "append")
        return owner.append(args[0])
    if isinstance(owner, RecordedList) and name == "extend":
        return machine.extend(owner, args[0], node)
    if isinstance(owner, RecordedList) and name == "pop":
        return machine.pop(owner, args[0] if args else -1, node)
    if rows_of(owner) is not None:
        return machine.list_method(name, owner, args, kwargs, node)
    if name in _MUTATING:
        machine.check_writable(owner, node, f"`{name}`")
        if isinstance(owner, list):
            machine.check_not_walked(owner, node, f"`{name}`")
    if isinstance(owner, list) and name == "sort":
        owner[:] = machine.call_value(sorted, [list(owner)], kwargs, node)
        return None
    if name == "join" and isinstance(owner, (str, bytes)):
        args = [machine.known_items(args[0], node)]
    if name in _ASKING and isinstance(owner, (list, tuple)) and len(args) == 1:
        if not known((*owner, *args)):
            return machine.call_value(_ASKING[name], [owner, *args], {}, node)
    if isinstance(owner, dict) and name == "get" and args:
        found = machine.looked_up(owner, args[0], node)
        if found is not None:
            return value_or(machine, found, args[1] if args[1:] else None, node)
    if isinstance(owner, dict):
        args = _of_dict(machine, name, owner, args, node)
    if isinstance(owner, (set, frozenset)):
        args = [_as_elements(machine, name, value, node) for value in args]
    result = function(*args, **kwargs)
    if name in _MAKING and isinstance(result, (dict, set)):
        machine.own(result)
    return result


def _of_dict(machine: Machine, name: str, owner: Any, args: list[Any], node: Any) -> list[Any]:
    """The arguments of a dict's method; refuses keys that differ between paths."""
    for value in args:
        check_dict(value, node)
    if args and name == "update":
        args = [machine.call_value(dict, args, {}, node)]
    elif args:
        args = [machine.hashable(args[0], node), *args[1:]]
    if name in _OF_A_KEY and args:
        check_key(machine, owner, args[0], node)
    elif name not in _OF_NO_KEY:
        check_keys(machine, owner, node)
    return args


def _as_elements(machine: Machine, name: str, value: Any, node: Any) -> Any:
    """The argument of a set's method: an element, or an iterable of elements."""
    if name in _OF_AN_ELEMENT:
        return machine.hashable(value, node, ELEMENT)
    if isinstance(value, (dict, set, frozenset)):
        return value
    items = machine.known_items(value, node)
    return [machine.hashable(item, node, ELEMENT) for item in items]
