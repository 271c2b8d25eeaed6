"""Captured numbers that change from call to call: an annealed temperature, a learning rate.

A captured number is a constant of the generated code. From its third change on it is an input of
it, read again at each call. Where a size or a list's index hangs on it, it stays a constant, and
one warning says which name to pass as an argument.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

from calque.runtime.tracebacks import level_of_user

_OFTEN = 3  # changes of a captured number, until it is an input


class VaryingNumbers:
    """The captured numbers of a function that change, by their places."""

    def __init__(self, name: Callable[[], str]):
        self.name = name  # of the generated function
        self.clear()

    def clear(self) -> None:
        """Forget all changes."""
        self.names: dict[Any, str] = {}
        self.changes: dict[Any, int] = {}
        self.inputs: frozenset[Any] = frozenset()
        self.fixed: frozenset[Any] = frozenset()  # that cannot be inputs

    def note(self, changed: dict[Any, str]) -> None:
        """Count changes; what has changed often becomes an input, if it can be one."""
        for place, name in changed.items():
            self.names[place] = name
            self.changes[place] = self.changes.get(place, 0) + 1
            if self.changes[place] >= _OFTEN and place not in self.fixed:
                self.inputs |= {place}

    def fix(self, places: Iterable[Any]) -> None:
        """Generate a program for each value of these, which cannot be inputs, and warn once."""
        places = frozenset(places) & self.inputs
        self.inputs -= places
        self.fixed |= places
        for name in sorted({self.names[place] for place in places}):
            warnings.warn(
                f"{self.name()} is generated anew for each value of {name}, a captured number that "
                f"has changed {_OFTEN} times, and on which the code depends: pass {name} as an "
                "argument",
                RuntimeWarning,
                stacklevel=level_of_user(),
            )
