"""Presence of keys in dicts and of attributes in instances, which some paths may lack.

A branch or a loop that gives a key a value on one path only leaves the container with the key; a
read of it, or of the number of keys, is refused: the answer is known only at run time.
"""

from __future__ import annotations

from typing import Any

from calque.transpiler.errors import BranchMismatch
from calque.transpiler.frontend.machine import Machine
from calque.transpiler.frontend.values.containers.container_kinds import MISSING, kind_of
from calque.transpiler.frontend.values.heap import Snapshot
from calque.transpiler.frontend.values.optional import Mismatch
from calque.transpiler.frontend.values.tagged import TaggedValue
from calque.transpiler.ir.builder import current

VALUES: type = type({}.values())
ITEMS: type = type({}.items())
VIEWS: tuple[Any, ...] = (type({}.keys()), VALUES, ITEMS)


def unsure_key(machine: Machine, container: Any, key: Any, value: Any) -> bool:
    """True if the container has this value under this key on some paths only."""
    if not kind_of(container).keyed:
        return False
    if value is MISSING or (isinstance(value, Mismatch) and value.absent):
        return True
    if isinstance(value, TaggedValue) and value.may_be_missing():
        return True
    if machine.is_unsure(value):
        return True
    found = machine.perhaps.get((id(container), key))
    return found is not None and found[1] is value


def held_at(moment: Snapshot, key: int, place: Any) -> Any:
    """The result of reading a place at a moment; MISSING if it held nothing."""
    found = moment.locations(key).get(place, MISSING)
    container = moment.contents[key][0]
    return kind_of(container).lacking(container) if found is MISSING else found


def place_lacks(moment: Snapshot, key: tuple[int, Any]) -> bool:
    """True if a container held nothing at a place."""
    return key[1] not in moment.locations(key[0])


def note_unsure(machine: Machine, container: Any, key: Any, value: Any) -> None:
    """Remember that the container may lack this place while it holds this value."""
    machine.perhaps[id(container), key] = (container, value)


def check_key(machine: Machine, container: Any, key: Any, node: Any) -> None:
    """Refuse a read of a key that a container has on some paths only."""
    changed = machine.outside.containers.get(id(container))
    if changed is not None:
        changed.asked.add(key)
    value = kind_of(container).read(container, key)
    if value is MISSING or not unsure_key(machine, container, key, value):
        return
    test, origin = (value.test, value.origin) if isinstance(value, Mismatch) else (None, None)
    machine.ask_for(test)
    what = "the key" if isinstance(container, dict) else "the attribute"
    raise BranchMismatch(
        f"Only some paths to here, or some iterations of a loop, give {what} {key!r} a value.",
        origin or machine.origin(node),
        f"give {key!r} a value before the branch or the loop",
    )


def check_keys(machine: Machine, container: Any, node: Any) -> None:
    """Refuse to go through, count or compare keys that differ, or come in another order."""
    for key in kind_of(container).now(container):
        check_key(machine, container, key, node)
    if id(container) in machine.disordered:
        raise BranchMismatch(
            "The keys of this dict come in one order on one path, and in another on another.",
            machine.origin(node),
            "give the keys values in one order",
        )


def check_dict(value: Any, node: Any = None) -> None:
    """``check_keys`` of a dict, or of a view of one; any other value is accepted."""
    if isinstance(value, dict):
        check_keys(current().machine, value, node)
    elif isinstance(value, VIEWS):
        machine: Machine = current().machine
        noted = {id(v) for _, v in machine.perhaps.values()}
        for key, held in value.mapping.items():
            if id(held) in noted or (isinstance(held, Mismatch) and held.absent):
                check_keys(machine, {key: Mismatch("", None, None, True, True)}, node)


def mark_absent(plan: Any, base: Snapshot, origin: Any) -> None:
    """Mark keys as absent that, at the start of an iteration, may not have been set yet."""
    for key, place in plan.absent:
        if key in base.contents and (key, place) not in plan.locations:
            container = base.contents[key][0]
            missing = Mismatch("it has no value in the first iteration", origin, None, True, True)
            kind_of(container).store(container, place, missing)
