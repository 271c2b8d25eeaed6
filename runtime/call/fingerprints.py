"""A digest of all that the text of a program depends on, the same in all processes that write it.

The program is visited object by object. An object that is visited again is described by its first
visit, so that no address is part of the digest. An object with no text that is the same in all
processes (a function, a class or a primitive of the user's) has no digest, and neither has the
program.
"""

from __future__ import annotations

import functools
import sys
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from calque.transpiler.frontend.trace import Traced
from calque.transpiler.ir.core import UNDEFINED, Var
from calque.transpiler.ir.dims import Dims
from calque.transpiler.late import Late
from calque.transpiler.primitives.record import PRIMITIVES, Primitive

if TYPE_CHECKING:
    import hashlib
else:
    hashlib = Late("hashlib")

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented))
_BUILDER = (
    *("pinned", "dims", "dim_values", "contiguous", "leaf_of_param", "numbers", "words"),
    *("equal_dims", "doubted", "spread", "compared", "_reads", "imports", "kinds", "celled"),
    *("quiet", "axes", "vmaps", "symmetries", "definitions", "magnitudes", "stored"),
)
_ABSENT = ("varying", "lanes", "selections", "fold")  # once a program is read
_MAGNITUDES = ("loops", "owners", "relied")
_UNTOLD = {"span", "actual", "machine"}  # follows from the rest; asks for choices, which are kept


class NoFingerprint(Exception):
    """The program holds something of which nothing says what it is."""


def fingerprint(traced: Traced, *others: Any) -> str:
    """The digest of a program as it was read, and of what is wished of its text.

    Raises ``NoFingerprint`` where there is none.
    """
    return _Digest().of(traced, others)


class _Digest:
    def __init__(self) -> None:
        self.hash = hashlib.sha256()
        self.told: list[str] = []  # of it, what is yet to be taken in
        self.places: dict[int, int] = {}
        self.alive: list[Any] = []  # no address is used again

    def of(self, traced: Traced, others: Any) -> str:
        builder = traced.builder
        if any(getattr(builder, name) is not None for name in _ABSENT) or builder.imports:
            raise NoFingerprint
        self.take(traced.function)
        self.take([(c.name, c.var) for c in traced.captures])
        self.take([getattr(builder, name) for name in _BUILDER])
        self.take(others)
        self._take_in()
        return self.hash.hexdigest()

    def take(self, root: Any) -> None:
        """Go through an object and what it holds, without recursion: programs are deep."""
        pending: list[Iterator[Any]] = [iter((root,))]
        while pending:
            try:
                value = next(pending[-1])
            except StopIteration:
                pending.pop()
                self.told.append(")")
                continue
            inner = self._told(value)
            if inner is not None:
                pending.append(iter(inner))

    def _told(self, value: Any) -> Any:
        """Take in what an object is; give what it holds, None for nothing."""
        kind = type(value)
        if kind in _PLAIN:
            self._write(kind.__name__, repr(value))
            return None
        if kind in (tuple, list):
            self._write(kind.__name__, str(len(value)))
            return value
        if id(value) in self.places:
            self._write("again", str(self.places[id(value)]))
            return None
        self.places[id(value)] = len(self.places)
        self.alive.append(value)
        if kind in (dict, OrderedDict):
            self._write("dict", str(len(value)))
            return [part for key in self._in_order(value) for part in (key, value[key])]
        if kind in (set, frozenset):
            return self._of_set(value)
        return self._of_object(kind, value)

    def _in_order(self, table: dict[Any, Any]) -> list[Any]:
        """The keys of a table; of one by Vars, in the order in which these were met."""
        if not all(isinstance(key, Var) for key in table):
            return list(table)
        last = len(self.places)
        return sorted(table, key=lambda v: self.places.get(id(v), last))

    def _of_set(self, value: Any) -> Any:
        """A set has no order: plain members are sorted, Vars told by where they were met."""
        if all(isinstance(v, Var) for v in value):
            met = sorted(self.places[id(v)] for v in value if id(v) in self.places)
            self._write("set", repr(met))
            return None
        try:
            members = sorted(value, key=_sortable)
        except TypeError:
            raise NoFingerprint from None
        self._write("set", str(len(members)))
        return members

    def _of_object(self, kind: Any, value: Any) -> Any:
        if isinstance(value, Primitive):
            if PRIMITIVES.get(value.name) is not value:  # one of the user's
                raise NoFingerprint
            self._write("primitive", value.name)
            return None
        if kind is np.ndarray and value.dtype.kind in "biufc":
            self._write("array", f"{value.dtype.str}{value.shape}")
            self._take_in()
            self.hash.update(np.ascontiguousarray(value).tobytes())
            return None
        if isinstance(value, np.generic) and value.dtype.kind in "biufc":
            self._write(kind.__name__, value.tobytes().hex())
            return None
        if isinstance(value, np.dtype):
            self._write("dtype", value.str)
            return None
        if isinstance(value, (slice, range)):
            self._write(kind.__name__, "")
            return (value.start, value.stop, value.step)
        if value is UNDEFINED:
            self._write("undefined", "")
            return None
        if isinstance(value, (type, np.ufunc, FunctionType)):
            self._write("named", _name_of(value))
            return None
        if kind.__module__.startswith("calque.transpiler."):
            return self._of_own(kind, value)
        raise NoFingerprint

    def _of_own(self, kind: Any, value: Any) -> Any:
        self._write("object", f"{kind.__module__}.{kind.__qualname__}")
        if isinstance(value, Enum):
            return (value.name,)
        if isinstance(value, Var):
            return (value.type, value.name, value.word, value.origin)
        if kind.__name__ == "Magnitudes":
            return [getattr(value, name) for name in _MAGNITUDES]
        if is_dataclass(value):
            return [getattr(value, name) for name in _parts(kind)]
        raise NoFingerprint

    def _write(self, kind: str, text: str) -> None:
        self.told.append(f"{kind}:{len(text)}:{text}")

    def _take_in(self) -> None:
        self.hash.update("".join(self.told).encode("utf-8", "surrogatepass"))
        self.told.clear()


@functools.cache
def _parts(kind: Any) -> list[str]:
    """The names of a class's fields that enter the fingerprint of an object."""
    return [f.name for f in fields(kind) if f.name not in _UNTOLD or kind is not Dims]


def _sortable(value: Any) -> Any:
    if isinstance(value, frozenset):
        return sorted(map(_sortable, value))
    return (type(value).__name__, repr(value)) if not hasattr(value, "terms") else ("", str(value))


def _name_of(value: Any) -> str:
    """The full name of a class or function of Python's, NumPy's or calque's; else NoFingerprint."""
    name = getattr(value, "__qualname__", value.__name__)
    module = getattr(value, "__module__", "numpy") or "builtins"
    home = module.partition(".")[0]
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is not value or home not in ("builtins", "numpy", "calque"):
        raise NoFingerprint
    return f"{module}.{name}"
