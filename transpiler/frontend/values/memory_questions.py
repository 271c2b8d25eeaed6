"""Memory of arguments: the answers to ``x.base is None`` and ``x.flags``.

The answers are part of the key of the programs that ask; other programs do not depend on them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from calque.transpiler.errors import SpecializationNeeded
from calque.transpiler.frontend.values.kinds import Unread, kinds_of
from calque.transpiler.ir.builder import ATTRIBUTES, Array, current
from calque.transpiler.primitives.base import implements

_KEPT = ("owndata", "c_contiguous", "f_contiguous", "writeable", "aligned")
_FLAGS = {
    **{name.upper(): name for name in ("owndata", "c_contiguous", "f_contiguous")},
    "O": "owndata", "C": "c_contiguous", "F": "f_contiguous",
    "CONTIGUOUS": "c_contiguous", "FORTRAN": "f_contiguous", "FNC": "fnc", "FORC": "forc",
    "WRITEABLE": "writeable", "W": "writeable", "ALIGNED": "aligned", "A": "aligned",
}


@dataclass(frozen=True)
class KnownFlags:
    """The values of ``x.flags`` for an argument."""

    owndata: bool
    c_contiguous: bool
    f_contiguous: bool
    writeable: bool
    aligned: bool

    @property
    def contiguous(self) -> bool:
        """C-contiguous."""
        return self.c_contiguous

    @property
    def forc(self) -> bool:
        """Contiguous in one way or the other."""
        return self.c_contiguous or self.f_contiguous

    @property
    def fnc(self) -> bool:
        """F-contiguous, and not C-contiguous."""
        return self.f_contiguous and not self.c_contiguous

    def by_name(self, name: str) -> bool:
        """``x.flags["OWNDATA"]``; a class with items would be iterated."""
        if name not in _FLAGS:
            raise KeyError("Unknown flag")
        return bool(getattr(self, _FLAGS[name]))


@dataclass(frozen=True)
class ArgumentMemory:
    """The facts about an argument's memory, for programs that ask."""

    is_base: bool
    flags: KnownFlags


def memory_of(leaf: Any) -> ArgumentMemory | None:
    """The facts about an array's memory; None for other leaves.

    >>> memory_of(np.ones(4)[::2]).flags.c_contiguous, memory_of(np.ones(4)).is_base
    (False, True)
    """
    if not isinstance(leaf, np.ndarray):
        return None
    found = leaf.flags
    flags = KnownFlags(*(getattr(found, name) for name in _KEPT))
    return ArgumentMemory(leaf.base is None, flags)


def _attribute(name: str) -> Callable[[Array], Any]:
    """``x.base`` or ``x.flags``: known for arguments, refused for computed values."""
    refuse = ATTRIBUTES[name]

    def attribute(value: Array) -> Any:
        kinds = kinds_of(value)
        if name == "base" and kinds and all(issubclass(k, np.generic) for k in kinds):
            return None
        if value.leaf is None or kinds != {np.ndarray}:
            return refuse(value)
        builder = current()
        found = builder.machine.settings.memory.get(value.leaf)
        if found is None:
            why = f"Where an argument lies in memory (.{name})"
            leaves, none = frozenset([value.leaf]), frozenset[Any]()
            raise SpecializationNeeded(none, none, builder.origin, why, memory=leaves)
        if name == "flags":
            return found.flags
        return None if found.is_base else Unread(name)

    return attribute


for _name in ("base", "flags"):
    ATTRIBUTES[_name] = _attribute(_name)


@implements(method="setflags")
def set_flags(x: Array, write: Any = None, align: Any = None, uic: Any = None) -> None:
    """``x.setflags(write=...)``: from now on a store is an error, or none."""
    cell = x.root()
    if write is not None:
        current().read_only.pop(id(cell), None)
        if not write:
            current().read_only[id(cell)] = cell
