"""Guards: the conditions outside a program under which it is valid, checked at each call."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from calque.transpiler.errors import ImpureFunction
from calque.transpiler.frontend.library.scipy_objects import is_distribution
from calque.transpiler.frontend.machine import Machine
from calque.transpiler.frontend.paths import Path, of_object, step
from calque.transpiler.frontend.values.function_states import function_state
from calque.transpiler.frontend.values.mutable_objects import (
    Unguarded,
    is_mutable,
    is_read_by_python,
    state,
)


@dataclass(frozen=True)
class Guard:
    """A captured constant the generated code depends on."""

    path: Path
    value: Any
    name: str = ""  # of the user's, for a value that was lifted


def contents(container: Any) -> Any:
    """The type and keys, or length, of a captured container; its items have guards of their own."""
    if isinstance(container, (set, frozenset)):
        return (type(container), frozenset(container))
    if isinstance(container, dict):
        return (type(container), tuple(container))
    return (type(container), len(container))


def guard_state(machine: Machine, value: Any, read: Path) -> None:
    """Guard the identity and the state of an object that Python reads."""
    if not is_read_by_python(value) or is_distribution(value):
        return
    try:
        held = state(value)
    except Unguarded:
        return  # it is refused where Python reads it
    machine.compared[id(value)] = value
    machine.guards.append(Guard(step(id, read), id(value)))
    machine.guards.append(Guard(step(state, read), held))


def guard_known(machine: Machine, value: Any) -> None:
    """Guard the state of an argument with a known value: its identity selects the program."""
    guard_state(machine, value, of_object(value))


def guard_native(machine: Machine, values: Iterable[Any], node: Any) -> None:
    """Guard the whole state of objects from outside the function that Python code reads."""
    for value in values:
        if any(written.owner is value for written in machine.outside.written.values()):
            _refuse_unseen(machine, f"something with a {type(value).__name__}", node)
        if (
            not is_mutable(value)
            or is_distribution(value)
            or any(
                id(value) in table
                for table in (machine.owned, machine.compared, machine.made, machine.foreign)
            )
        ):
            continue  # made here, guarded, or a copy of a container whose items are guarded
        machine.compared[id(value)] = value
        try:
            machine.guards.append(Guard(step(state, machine.path_of(value)), state(value)))
        except Unguarded:
            machine.fail(
                ImpureFunction,
                node,
                f"What this reads of a {type(value).__name__} may change between calls, and "
                "cannot be compared.",
                "read it outside, and pass the values in",
            )


def guard_function(machine: Machine, function: Any, node: Any) -> None:
    """Guard all that a user's function, called by Python, reads outside of itself."""
    if machine.outside.written:
        _refuse_unseen(machine, getattr(function, "__name__", "a function"), node)
    try:
        read = step(function_state, machine.path_of(function))
        machine.guards.append(Guard(read, function_state(function)))
    except Unguarded:
        name = getattr(function, "__name__", "a function")
        machine.fail(
            ImpureFunction,
            node,
            f"What {name} reads outside of itself may change, and cannot be compared.",
            "call it outside, and pass the value in",
        )


def is_guarded(machine: Machine, function: Any, node: Any) -> bool:
    """True if all that a function reads outside is guarded; False where that cannot be."""
    try:
        guard_function(machine, function, node)
    except ImpureFunction:
        return False
    return True


def _refuse_unseen(machine: Machine, what: str, node: Any) -> None:
    machine.fail(
        ImpureFunction,
        node,
        f"Python calls {what} here, and would not see what this program has written outside.",
        "set that back before the call, or call it outside, and pass the value in",
    )


def guard_builtin(machine: Machine, name: str, scope: dict[str, Any]) -> None:
    """Guard that no global has the name of a builtin that was read."""
    names = machine.builtins_read.get(id(scope))
    if names is None:
        names = machine.builtins_read[id(scope)] = set()
        machine.guards.append(Guard(step(is_unshadowed, of_object(scope), names), True))
    names.add(name)


def is_unshadowed(scope: dict[str, Any], names: set[str]) -> bool:
    """True if no global has the name of one of these builtins."""
    return scope.keys().isdisjoint(names)
