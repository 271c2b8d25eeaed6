"""Compute recorded values that depend only on known numbers, such as those of a loop.

``[(k, (k + 1) % 3) for k in range(3)]`` is recorded as a loop; where its numbers must be known,
they are computed from what was recorded.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Array, Builder, atom
from calque.transpiler.ir.core import Apply, Atom, Block, For, If, Var


class NotConstant(Exception):
    """The value depends on run-time data."""


class Evaluation:
    """Computes recorded values that depend on nothing but known numbers."""

    def __init__(self, builder: Builder):
        self.builder = builder
        self.known: dict[Var, Any] = {}

    def value(self, found: Atom) -> Any:
        """The value of an atom; raises NotConstant."""
        if not isinstance(found, Var):
            return found
        if found not in self.known:
            dim = self.builder.dim_values.get(found)
            if dim is not None and isinstance(self.builder.dims.resolve(dim), int):
                return self.builder.dims.resolve(dim)
            made = self.builder.definitions.get(found)
            if made is None:
                raise NotConstant
            self.run(made)
        return self.known[found]

    def run(self, s: core.Statement) -> None:
        """Compute a statement's results."""
        match s:
            case Apply(primitive=primitive, args=args, params=params, outs=outs):
                if primitive.kind == "collective":
                    raise NotConstant
                with np.errstate(all="ignore"):
                    found = primitive.function(*map(self.value, args), **params)
                many = found if len(outs) > 1 else (found,)
                self.known.update(zip(outs, many, strict=True))
            case For():
                carried = list(map(self.value, s.inits))
                for index in range(*map(self.value, (s.start, s.stop, s.step))):
                    self.known[s.index] = index
                    self.known.update(zip(s.phis, carried, strict=True))
                    carried = self._block(s.body)
                self.known.update(zip(s.outs, carried, strict=True))
            case If(then=then, orelse=orelse, outs=outs):
                arm = then if self.value(s.test) else orelse
                self.known.update(zip(outs, self._block(arm), strict=True))
            case _:
                raise NotConstant

    def _block(self, block: Block) -> list[Any]:
        for s in block.statements:
            self.run(s)
        return list(map(self.value, block.results))


def known_tree(value: Any, builder: Builder) -> Any:
    """A tree of lists and tuples with its recorded numbers computed; raises NotConstant."""
    if isinstance(value, (list, tuple)):
        return [known_tree(v, builder) for v in value]
    if isinstance(value, Array):
        return Evaluation(builder).value(atom(value))
    return value
