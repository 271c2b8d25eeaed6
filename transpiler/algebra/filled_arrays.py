"""The stores that fill an array created empty, above all one in which a loop saves values."""

from __future__ import annotations

from calque.transpiler.ir.core import Apply, Atom, Function, Slot, Var
from calque.transpiler.ir.versions import Versions
from calque.transpiler.primitives.creation import empty, space
from calque.transpiler.primitives.indexing import update

_EMPTY = (space, empty)


def _updated(s: Apply) -> tuple[Atom, ...]:
    """The array that ``x[index] = v`` goes on with: a sum has elements of other stores."""
    return s.args[:1] if s.primitive is update else ()


class Stored:
    """Finds the stores that may have written the elements of an array of a function."""

    def __init__(self, function: Function):
        self.versions = Versions.within(function.body, taken=_updated)

    def apply(self, atom: Atom) -> Apply | None:
        """The operation that an atom is the result of."""
        s = self.versions.made.get(atom) if isinstance(atom, Var) else None
        return s if isinstance(s, Apply) else None

    def stores(self, array: Atom) -> list[Apply] | None:
        """All stores into an array that was created empty; None if it may have other elements."""
        found: list[Apply] = []
        for version in self.versions.earlier(array):
            made = self.apply(version)
            if made is not None and made.primitive is update:
                found.append(made)
            elif made.primitive not in _EMPTY if made else not self.versions.sources(version):
                return None
        return found

    def saved(self, read: Apply) -> list[Apply] | None:
        """The stores one of which wrote the whole value that ``read`` returns; None if unknown."""
        if not _is_at_place(read, 1, read.out):
            return None
        stores = self.stores(read.args[0])
        if not stores or not all(_is_at_place(s, 2, s.args[1]) for s in stores):
            return None
        return stores if all(s.args[1].type.ndim == read.out.type.ndim for s in stores) else None


def _is_at_place(s: Apply, first: int, value: Atom) -> bool:
    """True if all axes before those of ``value`` have one scalar index each, and the rest none."""
    index = s.params["index"]
    places = all(type(i) is int or isinstance(i, Slot) for i in index)
    numbers = not any(isinstance(a, Var) and a.type.ndim for a in s.args[first:])
    rest = s.args[0].type.ndim - len(index)
    return places and numbers and isinstance(value, Var) and value.type.ndim == rest
