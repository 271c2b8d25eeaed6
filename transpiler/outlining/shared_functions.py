"""Functions for statements that repeat, and calls in their place.

Before, where ``layer`` was called twice::

    h = np.dot(x, w_0)
    x_1 = np.tanh(h)
    h_1 = np.dot(x_1, w_1)
    x_2 = np.tanh(h_1)

After::

    x_1 = layer(x, w_0)
    x_2 = layer(x_1, w_1)

Statements are parts of one function if they are equal up to the names of values, and come from the
same lines of the user's. What the caller reads is a result: in a derivative, what is saved, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder
from calque.transpiler.ir.core import Apply, Block, Function, Statement, Var
from calque.transpiler.ir.effects import has_effects, is_size, is_store
from calque.transpiler.ir.statement_forms import Former
from calque.transpiler.outlining.callees import Callee, Occurrence, Surroundings
from calque.transpiler.outlining.repeats import Repeat, repeats
from calque.transpiler.primitives.function_calls import is_call

Pays = Callable[[Sequence[Statement], int], bool]  # statements, and how often they occur


def share_functions(
    function: Function, builder: Builder, pays: Pays, nested: bool = False
) -> list[Function]:
    """Put calls in the place of statements that repeat, in place; the functions that are called.

    ``pays`` says whether statements that occur so often are worth a function; ``nested``: within
    loops and branches, too.
    """
    made: list[Function] = []
    taken = {p.name for p in function.signature} | {function.name}
    for block in core.every_block(function.body) if nested else [function.body]:
        sharing = _Sharing(function, block, builder)
        groups = sharing.groups(pays)
        made += sharing.outlined(groups, taken) if groups else []
    return made


def repeats_itself(function: Function, builder: Builder, pays: Pays) -> bool:
    """True if ``share_functions`` would make a function, of any block."""
    blocks = core.every_block(function.body)
    return any(_Sharing(function, block, builder).groups(pays) for block in blocks)


_LEAST = 6  # statements of a function


class _Sharing:
    """A block of a program, and the sequences of statements in it."""

    def __init__(self, function: Function, block: Block, builder: Builder):
        self.function, self.block, self.builder = function, block, builder
        self.statements = [s for s in block.statements if not self._is_size_of_argument(s)]
        self.former = Former(self._said, self._kind)

    # what repeats

    def groups(self, pays: Pays) -> list[list[Occurrence]]:
        """The groups of equal parts that are worth a function, each in order."""
        items = self._items()
        found: list[list[Occurrence]] = []
        taken: set[int] = set()
        for repeat in sorted(repeats(items, _LEAST), key=self._rank):
            for parts in self._equal(repeat, taken):
                if pays(parts[0].statements, len(parts)) and self._separable(parts):
                    found.append(parts)
                    taken.update(k for p in parts for k in range(p.start, p.start + repeat.length))
        return found

    def _rank(self, repeat: Repeat) -> tuple[Any, ...]:
        """A key by which what saves most comes first, then what begins as the user's function."""
        return -repeat.saved, not self._is_beginning(repeat.starts[0]), repeat.starts

    def _is_beginning(self, k: int) -> bool:
        """True where a sweep comes back to lines that it has been at before."""
        last, s = self.statements[k - 1] if k else None, self.statements[k]
        if last is None or last.phase != s.phase or last.origin is None or s.origin is None:
            return True
        before, now = (o.statement_line or o.line for o in (last.origin, s.origin))
        back = before < now if s.phase == "reverse" else now < before
        return back or last.origin.function != s.origin.function

    def _items(self) -> list[int]:
        """A number for each statement, equal where statements may be; phases do not mix."""
        known: dict[Any, int] = {}
        items: list[int] = []
        for k, s in enumerate(self.statements):
            stays = has_effects(s) or is_call(s)
            key = k if stays else (s.phase, self.former.form([s]).text)
            items.append(known.setdefault(key, len(known)))
        return items

    def _equal(self, repeat: Repeat, taken: set[int]) -> list[list[Occurrence]]:
        """The parts of a repeat that are equal to each other, and that no function has yet."""
        by_form: dict[Any, list[Occurrence]] = {}
        for start in repeat.starts:
            places = range(start, start + repeat.length)
            statements = [self.statements[k] for k in places]
            if taken.isdisjoint(places) and len({s.phase for s in statements}) == 1:
                text, values = self.former.form(statements)
                by_form.setdefault(text, []).append(Occurrence(start, statements, values))
        return [parts for parts in by_form.values() if len(parts) > 1]

    def _said(self, s: Statement, generated: bool) -> Any:
        """The line of the user's that a statement comes from."""
        o = s.origin
        return None if o is None else (o.file, o.statement_line or o.line, o.function, o.note)

    def _kind(self, var: Var) -> Any:
        """The type of a value, and what is known of its memory or of the size that it is."""
        resolve, t = self.builder.dims.resolve, var.type
        size = self.builder.dim_values.get(var) if not t.ndim else None
        known = None if size is None else resolve(size)
        dims = tuple(map(resolve, t.dims))
        return t.dtype.str, dims, t.weak, var in self.builder.contiguous, known

    def _separable(self, parts: list[Occurrence]) -> bool:
        """True if no statement stores into an array that is made elsewhere."""
        inside = core.defined_vars(Block(parts[0].statements))
        for s in core.walk(Block(parts[0].statements)):
            if is_store(s) and s.args[0] not in inside:
                return False
        return True

    # sizes

    def _is_size_of_argument(self, s: Statement) -> bool:
        """True for the size of an axis that an argument has, too: it is at hand everywhere."""
        return is_size(s) and self._argument_of(s) is not None

    def _argument_of(self, s: Apply) -> tuple[Var, int] | None:
        resolve = self.builder.dims.resolve
        size = self.builder.dim_values.get(s.out)
        if size is None:
            return None
        for var in self.function.params:
            for axis, own in enumerate(var.type.dims):
                if resolve(own) == resolve(size):
                    return var, axis
        return None

    def _read_sizes_first(self) -> list[Statement]:
        """The statements that read sizes of arguments, from the arguments themselves."""
        first: list[Statement] = []
        for s in self.block.statements:
            if self._is_size_of_argument(s):
                assert isinstance(s, Apply)
                found = self._argument_of(s)
                assert found is not None
                s.args, s.params = (found[0], *s.args[1:]), {**s.params, "axis": found[1]}
                first.append(s)
        return first

    # functions

    def outlined(self, groups: list[list[Occurrence]], taken: set[str]) -> list[Function]:
        """Make a function of each group, with a name that is not taken, and calls of it."""
        groups = sorted(groups, key=lambda parts: parts[0].start)
        around = Surroundings(
            self.builder,
            self.function.params,
            self._readers(),
            {k: g for g, parts in enumerate(groups) for p in parts for k in p.places},
            taken,
            self.function.name,
        )
        kept = self._read_sizes_first()
        callees = [Callee(around, g, parts) for g, parts in enumerate(groups)]
        calls = {
            part.start: (len(part.statements), callee.call(part))
            for callee in callees
            for part in callee.parts
        }
        k = 0
        while k < len(self.statements):
            length, instead = calls.get(k, (1, [self.statements[k]]))
            kept += instead
            k += length
        self.block.statements = kept
        return [callee.function for callee in callees]

    def _readers(self) -> dict[Var, list[int]]:
        """The places of the statements that read a value; the results are read behind all."""
        found: dict[Var, list[int]] = {}
        for k, s in enumerate(self.statements):
            for var in core.free_vars(Block([s])):
                found.setdefault(var, []).append(k)
        for atom in self.block.results:
            if isinstance(atom, Var):
                found.setdefault(atom, []).append(len(self.statements))
        return found
