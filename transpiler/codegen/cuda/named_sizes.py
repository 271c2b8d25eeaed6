"""Name the sizes of a launcher's arguments by the symbols of the signature.

A launcher begins with the sizes that it uses, and passes only these to kernels::

    n, m = x.shape                          not   inner.shape[1], x.shape[1], y.shape[0]
    inner = cp.empty((n - 2, m - 2))

An argument's size without a name in the signature stays ``x.shape[0]``.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Collection
from contextlib import suppress
from typing import Any

import gast

from calque.transpiler.codegen.text.layout import to_text
from calque.transpiler.codegen.text.spelling import attribute, constant, name, target
from calque.transpiler.errors import ShapeError
from calque.transpiler.ir.core import Function, Var
from calque.transpiler.ir.dims import Dims
from calque.transpiler.ir.types import Dim, DimLike, dim_symbols

_MADE_UP = re.compile(r"_|d\d+_\d+$")  # symbols of sizes that the user has not named


class NamedSizes:
    """The sizes of a function's arguments, and others as sums of these."""

    def __init__(self, function: Function, kept: Collection[Var]):
        """``kept``: the arguments whose names are never assigned again."""
        symbols = {s for p in function.params for d in p.type.dims for s in dim_symbols(d)}
        self._dims = Dims(symbols)
        for equal in function.equal_dims:
            with suppress(ShapeError):
                self._dims.unify(equal.left, equal.right)
        self.places: dict[str, tuple[Var, int]] = {}
        for var in function.params:
            for axis, dim in enumerate(var.type.dims if var in kept else ()):
                own = self._dims.resolve(dim)
                if isinstance(own, Dim) and own.terms == ((str(own), 1),):
                    self.places.setdefault(str(own), (var, axis))

    def of(self, dim: DimLike) -> DimLike | None:
        """A size as a sum of arguments' sizes; None if it is no such sum."""
        own = self._dims.resolve(dim)
        return own if all(s in self.places for s in dim_symbols(own)) else None

    def resolved(self, dim: DimLike) -> DimLike:
        """A size with known equalities of symbols substituted."""
        return self._dims.resolve(dim)

    def order(self, symbol: str) -> int:
        """The position of a symbol in the signature, to sort sizes by."""
        return list(self.places).index(symbol)


def is_named(symbol: str) -> bool:
    """True if a size has a name from the user.

    >>> is_named("n"), is_named("d0_1")
    (True, False)
    """
    return symbol.isidentifier() and not _MADE_UP.match(symbol)


def sum_text(dim: Dim, word: Any) -> str:
    """``n - 2``: a size with ``word(symbol)`` for each symbol.

    >>> from calque.transpiler.ir.types import symbol
    >>> sum_text(2 * symbol("n") - symbol("k") + 1, str.upper)
    '2 * N - K + 1'
    """
    text = ""
    for s, c in sorted(dim.terms, key=lambda term: term[1] < 0):
        one = word(s) if abs(c) == 1 else f"{abs(c)} * {word(s)}"
        text += ("-" if c < 0 else "") + one if not text else f" {'-' if c < 0 else '+'} {one}"
    return text + (f" {'-' if dim.const < 0 else '+'} {abs(dim.const)}" if dim.const else "")


def shifted(text: str, number: int) -> str:
    """The text of a size plus a number.

    >>> shifted("n", -1), shifted("n - 2", 2), shifted("n - 2", -1), shifted("7", -2)
    ('n - 1', 'n', 'n - 3', '5')
    """
    found = re.fullmatch(r"(?:(.*) ([+-]) )?(\d+)", text)
    if found is not None:
        text, number = found[1] or "", number + int(f"{found[2] or '+'}{found[3]}")
    if not text or not number:
        return text or str(number)
    return f"{text} {'-' if number < 0 else '+'} {abs(number)}"


class _SizeWords(gast.NodeTransformer):
    """Replaces ``x.shape[0]`` by ``n``; in lines that check sizes, only where ``n`` is defined."""

    def __init__(self, sizes: NamedSizes, words: frozenset[str], arguments: dict[str, Var]):
        self.sizes, self.words, self.arguments = sizes, words, arguments
        self.used: set[str] = set()
        self.checks = False

    def visit_Subscript(self, node: Any) -> Any:
        """Replace ``x.shape[0]``."""
        match node:
            case gast.Subscript(
                value=gast.Attribute(value=array, attr="shape"),
                slice=gast.Constant(value=int() as axis),
            ) if isinstance(node.ctx, gast.Load):
                return self._named(array, axis) or node
        return self.generic_visit(node)

    def visit_BinOp(self, node: Any) -> Any:
        """Replace ``(n - 2) + 2`` by ``n``."""
        node = self.generic_visit(node)
        match node:
            case gast.BinOp(left=left, right=gast.Constant(value=int() as number)) if (
                getattr(left, "is_size", False) and isinstance(node.op, gast.Add | gast.Sub)
            ):
                number = -number if isinstance(node.op, gast.Sub) else number
                return _tree(shifted(to_text(left).strip().strip("()"), number))
        return node

    def visit_Attribute(self, node: Any) -> Any:
        """Replace ``x.size`` of an array with one axis."""
        if node.attr == "size":
            var = self._array(node.value)
            if var is not None and var.type.ndim == 1:
                return self._named(node.value, 0) or node
        return self.generic_visit(node)

    def _array(self, tree: Any) -> Var | None:
        return self.arguments.get(to_text(tree)) if self.checks else getattr(tree, "shows", None)

    def _named(self, tree: Any, axis: int) -> Any:
        var = self._array(tree)
        dim = self.sizes.of(var.type.dims[axis]) if var is not None and var.type.ndim else None
        if not isinstance(dim, Dim) or not dim_symbols(dim) <= self.words:
            return None
        if self.checks and self.sizes.places[str(dim)] != (var, axis):
            return None
        self.used |= dim_symbols(dim)
        return _tree(sum_text(dim, str))


def _tree(text: str) -> Any:
    made = gast.parse(text, mode="eval").body
    made.is_size = True
    return made


def with_named_sizes(
    body: list[Any], sizes: NamedSizes, paths: dict[Var, Any], taken: Collection[str]
) -> list[Any]:
    """The launcher's statements after the lines that name the sizes they use."""
    said = {n.id for t in body for n in gast.walk(t) if isinstance(n, gast.Name)}
    words = frozenset(s for s in sizes.places if is_named(s) and s not in said | set(taken))
    texts = {to_text(path): var for var, path in paths.items()}
    made: list[Any] = []
    renamer = _SizeWords(sizes, words, texts)
    renamer.checks = True
    for line in body:
        renamer.checks &= isinstance(line, gast.If) and isinstance(line.body[0], gast.Raise)
        own = copy.deepcopy(line) if renamer.checks else line  # other texts share these trees
        made.append(renamer.visit(own))
    return [*_unpacked(renamer.used, sizes, paths), *made]


def _unpacked(used: set[str], sizes: NamedSizes, paths: dict[Var, Any]) -> list[Any]:
    """The lines ``n, m = x.shape``, or ``m = x.shape[1]`` if only one size is used."""
    found: dict[Var, dict[int, str]] = {}
    for symbol in sorted(used, key=sizes.order):
        var, axis = sizes.places[symbol]
        found.setdefault(var, {})[axis] = symbol
    made = []
    for var, axes in found.items():
        shape = attribute(paths[var], "shape")
        if len(axes) == var.type.ndim > 1:
            left = gast.Tuple([target(name(axes[k])) for k in range(len(axes))], gast.Store())
            made.append(gast.Assign([left], shape, None))
            continue
        for axis, symbol in axes.items():
            one = gast.Subscript(shape, constant(axis), gast.Load())
            size = attribute(paths[var], "size") if var.type.ndim == 1 else one
            made.append(gast.Assign([target(name(symbol))], size, None))
    return made
