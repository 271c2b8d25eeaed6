"""Prove that integers fit in 64 bits: plain Numba's integer overflow is undefined.

A sum that fits is marked as proven, and so is ``int(x)`` if a number out of range may be replaced
by the largest integer: as an index, or if it is only compared with sizes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder
from calque.transpiler.ir.core import Apply, Atom, Block, For, Statement, Var, While
from calque.transpiler.ir.effects import is_size
from calque.transpiler.ir.spans import ANY
from calque.transpiler.ir.uses import Reader, Uses
from calque.transpiler.primitives.elementwise import astype, to_int
from calque.transpiler.primitives.indexing import checked_index, getitem
from calque.transpiler.primitives.logic import (
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    not_equal,
)

_COMPARISONS = (less, less_equal, greater, greater_equal, equal, not_equal)


@contextmanager
def fitting_noted(block: Block, builder: Builder) -> Iterator[None]:
    """Mark the integers that fit as proven, in place, while a text is written."""
    found = [s for s in _fitting(block, builder) if not s.proven]
    for s in found:
        s.proven = True
    try:
        yield
    finally:
        for s in found:
            s.proven = False


def _fitting(block: Block, builder: Builder) -> list[Apply]:
    statements = list(core.walk(block))
    for s in statements:
        if isinstance(s, (For, While)):
            builder.magnitudes.note(s)
    uses = _Uses(block, statements)
    found = []
    with builder.active():
        for s in statements:
            _take_cast(s, builder)
        for s in statements:
            if not isinstance(s, Apply) or s.outs[0].type.ndim:
                continue
            if s.primitive is to_int:
                fits = uses.as_size(s.out)
            else:
                fits = s.outs[0].type.dtype == np.int64 and builder.magnitudes.fits(s)
            found += [s] if fits else []
    return found


def _take_cast(s: Statement, builder: Builder) -> None:
    """Note that a truth value, or a narrow integer, is as small as an integer of 64 bits."""
    if isinstance(s, Apply) and s.primitive is astype and s.out.type.dtype == np.int64:
        span = builder.magnitudes.of(s.args[0])
        if span != ANY and not s.out.type.ndim:
            builder.magnitudes.take(s.out, span)


class _Uses:
    """The readers of each value; a reader that passes it on or returns it is None."""

    def __init__(self, block: Block, statements: list[Statement]):
        self.readers = Uses(block)
        self.made = {out: s for s in statements for out in s.outs}

    def as_size(self, number: Var) -> bool:
        """True if a number is only compared with sizes or used as an index."""
        return all(self._is_bounded(number, s) for s in self.readers[number])

    def _is_bounded(self, number: Var, s: Reader) -> bool:
        if not isinstance(s, Apply):
            return False
        if s.primitive in _COMPARISONS:
            return all(a is number or self._is_size(a) for a in s.args)
        if s.primitive is checked_index:
            return s.args[1] is not number
        if s.primitive is getitem:
            return s.args[0] is not number
        return s.primitive.arithmetic == "abs" and self.as_size(s.out)

    def _is_size(self, atom: Atom) -> bool:
        if not isinstance(atom, Var):
            return type(atom) is int
        made = self.made.get(atom)
        return is_size(made)
