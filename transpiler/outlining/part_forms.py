"""Equality of parts of a program up to the names of values, of sizes, and up to some numbers.

Layers of other widths are equal parts, too, and so are iterations with another float at the same
place: the width is a size of an argument of the function, and the float an argument.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder
from calque.transpiler.ir.core import Apply, Atom, Block, Effect, For, Statement, Var, While
from calque.transpiler.ir.dims import Dims
from calque.transpiler.ir.statement_forms import Former
from calque.transpiler.ir.types import Dim, DimLike, dim_symbols, substitute_dim, symbol

Renaming = dict[str, DimLike]  # of the symbols of one part, by those of an equal one


class PartForm(NamedTuple):
    """A key that is equal for equal parts; their values, symbols of sizes, and floats, in order.

    ``inner`` are the symbols of what is made within: counters of loops, sizes of masks.
    """

    text: tuple[Any, ...]
    values: tuple[Var, ...]
    symbols: tuple[str, ...]
    floats: tuple[float, ...]
    inner: frozenset[str]

    def renaming_of(self, model: PartForm) -> Renaming:
        """The sizes of arguments here that stand for symbols of an equal form."""
        pairs = zip(model.symbols, self.symbols, strict=True)
        differing = ((a, b) for a, b in pairs if a != b)
        return {a: symbol(b) for a, b in differing if not (a in model.inner and b in self.inner)}


class PartFormer(Former):
    """Makes keys of statements of one program."""

    def __init__(self, builder: Builder):
        super().__init__(place_of, self._type_of)
        self.builder = builder
        self._symbols: dict[str, int] = {}
        self._floats: list[float] = []

    def part(self, statements: Sequence[Statement]) -> PartForm:
        """The form of statements."""
        self._symbols, self._floats = {}, []
        text, values = self.form(statements)
        symbols, floats = tuple(self._symbols), tuple(self._floats)
        made = core.defined_vars(Block([*statements]))
        self._symbols = {}
        for v in values:
            if v not in made:
                self._type_of(v)
        return PartForm(text, values, symbols, floats, frozenset(symbols) - self._symbols.keys())

    def _type_of(self, var: Var) -> Any:
        """The type of a value, and what is known of its memory or of the size that it is."""
        t = var.type
        size = None if t.ndim else self.builder.dim_values.get(var)
        known = None if size is None else self._size(size)
        contiguous = var in self.builder.contiguous
        return t.dtype.str, t.weak, tuple(map(self._size, t.dims)), contiguous, known

    def _size(self, dim: DimLike) -> Any:
        """A dimension, in which symbols are told by their first occurrence."""
        dim = self.builder.dims.resolve(dim)
        return (dim.const, *map(self._term, dim.terms)) if isinstance(dim, Dim) else dim

    def _term(self, term: tuple[str, int]) -> Any:
        name, coefficient = term
        return self._symbols.setdefault(name, len(self._symbols)), coefficient

    def _atom(self, atom: Atom) -> Any:
        if type(atom) is float:
            self._floats.append(atom)
            return "float"
        return super()._atom(atom)


def place_of(s: Statement, generated: bool) -> Any:
    """The line of the user's that a statement comes from."""
    o = s.origin
    return None if o is None else (o.file, o.statement_line or o.line, o.function, o.note, o.rule)


@dataclass(eq=False)
class Occurrence:
    """Statements that repeat, the place of the first one in its block, and their form."""

    start: int
    statements: list[Statement]
    form: PartForm

    @property
    def places(self) -> range:
        """The places of the statements in their block."""
        return range(self.start, self.start + len(self.statements))

    @cached_property
    def numbers(self) -> dict[Var, int]:
        """The number of each value: equal for what is the same value in all occurrences."""
        return {v: k for k, v in enumerate(self.form.values)}


def may_be_renamed(builder: Builder, names: Renaming) -> bool:
    """True if what is known of sizes is known of those that stand in their place, too.

    Of what is made outside of the parts, only sizes of arguments are told by nothing else.
    """
    dims = builder.dims
    theirs = {s for d in names.values() for s in dim_symbols(d)}
    if not dims.arguments.issuperset(names.keys() | theirs):
        return False
    pairs = [*builder.compared, *builder.spread, *map(frozenset, builder.doubted)]
    tangled = {s for pair in pairs for d in pair for s in dim_symbols(d)} | dims.exact.keys()
    if not tangled.isdisjoint(names):
        return False
    asked = [a for a in dims.assumptions if not names.keys().isdisjoint(dim_symbols(a))]
    return all(dims.nonnegative(substitute_dim(a, names)) for a in asked)


def put_in(floats: Mapping[int, Var], statements: Sequence[Statement]) -> None:
    """Put values in the place of floats, in place; these are counted as in the statements' form."""
    count = itertools.count()

    def instead(atom: Atom) -> Atom:
        return floats.get(next(count), atom) if type(atom) is float else atom

    def visit(block: Block) -> None:
        for s in block.statements:
            match s:
                case Apply() | Effect():
                    s.args = tuple(map(instead, s.args))
                case For():
                    s.start, s.stop, s.step = map(instead, (s.start, s.stop, s.step))
                    s.inits = tuple(map(instead, s.inits))
                case While():
                    s.inits = tuple(map(instead, s.inits))
            for inner in core.blocks_of(s):
                visit(inner)
        block.results = [instead(a) for a in block.results]

    visit(Block([*statements]))


def assume_alike(dims: Dims, renamings: Sequence[Renaming]) -> None:
    """Assume of the sizes of all equal parts what is assumed of those of one."""
    for names in renamings:
        for asked in [*dims.assumptions]:
            dims.assumptions.setdefault(substitute_dim(asked, names))
