"""Lists and dicts that are elements of a list kept in arrays: what is read of them are copies.

Python's list holds the container itself, so what changes one must be seen through the other. The
first such change starts the interpretation again, with the loops unrolled that fill the list.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from calque.transpiler.builder import current


def hold(value: Any, rows: Any) -> Any:
    """Note that the containers within a value are elements of a list kept in arrays."""
    if rows is not None:
        held = current().machine.held
        for container in _containers(value):
            held[id(container)] = (container, rows)
    return value


def holder(value: Any) -> Any:
    """The list kept in arrays that holds a container within a value; None if there is none."""
    held = current().machine.held
    found = (held[id(c)][1] for c in _containers(value) if id(c) in held)
    return next(found, None)


def _containers(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, dict)):
        yield value
    if isinstance(value, (list, tuple, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _containers(item)
