"""The stores that fill an array created empty, above all one in which a loop saves values."""

from __future__ import annotations

from calque.transpiler.ir import core
from calque.transpiler.ir.core import Apply, Atom, For, Function, If, Slot, Statement, Var, While
from calque.transpiler.primitives.creation import empty, space
from calque.transpiler.primitives.indexing import update

_EMPTY = (space, empty)


class Stored:
    """Finds the stores that may have written the elements of an array of a function."""

    def __init__(self, function: Function):
        self.made: dict[Var, Statement] = {}
        self.carries: dict[Var, For | While] = {}  # the loop of each phi
        for s in core.walk(function.body):
            self.made.update(dict.fromkeys(s.outs, s))
            if isinstance(s, (For, While)):
                self.carries.update(dict.fromkeys(s.phis, s))

    def apply(self, atom: Atom) -> Apply | None:
        """The operation that an atom is the result of."""
        s = self.made.get(atom) if isinstance(atom, Var) else None
        return s if isinstance(s, Apply) else None

    def stores(self, array: Atom) -> list[Apply] | None:
        """All stores into an array that was created empty; None if it may have other elements."""
        found: list[Apply] = []
        pending, seen = [array], set()
        while pending:
            now = pending.pop()
            if not isinstance(now, Var):
                return None
            if now in seen:
                continue
            seen.add(now)
            s = self.carries.get(now) or self.made.get(now)
            if isinstance(s, (For, While)):
                k = (s.phis if now in self.carries else s.outs).index(now)
                pending += [s.inits[k], s.body.results[k]]
            elif isinstance(s, If):
                k = s.outs.index(now)
                pending += [s.then.results[k], s.orelse.results[k]]
            elif isinstance(s, Apply) and s.primitive is update:
                found.append(s)
                pending.append(s.args[0])
            elif not isinstance(s, Apply) or s.primitive not in _EMPTY:
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
