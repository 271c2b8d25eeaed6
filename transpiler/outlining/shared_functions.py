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

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Array, Builder
from calque.transpiler.ir.core import (
    Apply,
    Block,
    Function,
    Parameter,
    Slot,
    Statement,
    Var,
)
from calque.transpiler.ir.effects import has_effects, is_size, is_store
from calque.transpiler.ir.rewrite import inlined
from calque.transpiler.ir.statement_forms import Former
from calque.transpiler.memory.alias import viewed
from calque.transpiler.outlining.repeats import Repeat, repeats
from calque.transpiler.primitives.function_calls import FunctionCall
from calque.transpiler.primitives.reductions import max_, min_

Pays = Callable[[Sequence[Statement], int], bool]  # statements, and how often they occur


def share_functions(function: Function, builder: Builder, pays: Pays) -> list[Function]:
    """Put calls in the place of statements that repeat, in place; the functions that are called.

    ``pays`` says whether statements that occur so often are worth a function.
    """
    sharing = _Sharing(function, builder)
    groups = sharing.groups(pays)
    return sharing.outlined(groups) if groups else []


@dataclass
class _Occurrence:
    """Statements that repeat: where they stand, and their values in the order of the form."""

    start: int
    statements: list[Statement]
    values: tuple[Var, ...]


class _Sharing:
    """The top level of a program, and the sequences of statements in it."""

    def __init__(self, function: Function, builder: Builder):
        self.function, self.builder = function, builder
        body = function.body.statements
        self.statements = [s for s in body if not self._is_size_of_argument(s)]
        self.former = Former(self._said, self._kind)

    # what repeats

    def groups(self, pays: Pays) -> list[list[_Occurrence]]:
        """The groups of equal parts that are worth a function, each in order."""
        items = self._items()
        found: list[list[_Occurrence]] = []
        taken: set[int] = set()
        for repeat in sorted(repeats(items, _LEAST), key=self._rank):
            for parts in self._equal(repeat, taken):
                if pays(parts[0].statements, len(parts)) and self._separable(parts):
                    found.append(parts)
                    taken.update(k for p in parts for k in range(p.start, p.start + repeat.length))
        return found

    def _rank(self, repeat: Repeat) -> tuple[Any, ...]:
        """A key by which what saves most comes first, then what begins as a user's function does."""
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
            stays = has_effects(s) or isinstance(getattr(s, "primitive", None), FunctionCall)
            key = k if stays else (s.phase, self.former.form([s]).text)
            items.append(known.setdefault(key, len(known)))
        return items

    def _equal(self, repeat: Repeat, taken: set[int]) -> list[list[_Occurrence]]:
        """The parts of a repeat that are equal to each other, and that no function has yet."""
        by_form: dict[Any, list[_Occurrence]] = {}
        for start in repeat.starts:
            places = range(start, start + repeat.length)
            statements = [self.statements[k] for k in places]
            if taken.isdisjoint(places) and len({s.phase for s in statements}) == 1:
                text, values = self.former.form(statements)
                by_form.setdefault(text, []).append(_Occurrence(start, statements, values))
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

    def _separable(self, parts: list[_Occurrence]) -> bool:
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
        for s in self.function.body.statements:
            if self._is_size_of_argument(s):
                assert isinstance(s, Apply)
                found = self._argument_of(s)
                assert found is not None
                s.args, s.params = (found[0], *s.args[1:]), {**s.params, "axis": found[1]}
                first.append(s)
        return first

    # functions

    def outlined(self, groups: list[list[_Occurrence]]) -> list[Function]:
        """Make a function of each group, and let the program call it."""
        read = self._readers()
        first = self._read_sizes_first()
        places: dict[int, tuple[int, list[Statement]]] = {}  # by start: the length, what it becomes
        taken = {p.name for p in self.function.signature} | {self.function.name}
        groups = sorted(groups, key=lambda parts: parts[0].start)
        callees = [_Callee(self.builder, parts, read, taken) for parts in groups]
        for callee, parts in zip(callees, groups, strict=True):
            for part in parts:
                places[part.start] = len(part.statements), callee.call(part)
        kept, k = first, 0
        while k < len(self.statements):
            length, instead = places.get(k, (1, [self.statements[k]]))
            kept += instead
            k += length
        self.function.body.statements = kept
        return [callee.function for callee in callees]

    def _readers(self) -> dict[Var, list[int]]:
        """The places of the statements that read a value; the results are read behind all."""
        found: dict[Var, list[int]] = {}
        for k, s in enumerate(self.statements):
            for var in core.free_vars(Block([s])):
                found.setdefault(var, []).append(k)
        for atom in self.function.body.results:
            if isinstance(atom, Var):
                found.setdefault(atom, []).append(len(self.statements))
        return found


_LEAST = 6  # statements of a function


class _Callee:
    """The function that several parts of a program become."""

    def __init__(
        self,
        builder: Builder,
        parts: list[_Occurrence],
        read: dict[Var, list[int]],
        taken: set[str],
    ):
        self.builder = builder
        model = parts[0]
        block = Block(model.statements)
        self.outside = list(core.free_vars(block))
        own = [o for s in model.statements for o in s.outs]
        self.places = {v: k for k, v in enumerate(model.values)}
        wanted = {
            self.places[v]
            for part in parts
            for v in self._read_outside(part, read)
            for v in [model.values[part.values.index(v)]]
        }
        definitions = {o: s for s in model.statements for o in s.outs}
        self.again = _views(wanted, model.values, definitions)
        kept = {id(s) for s in self.again}
        again = {o for s in self.again for o in s.outs}
        needed = {v for s in self.again for v in core.free_vars(Block([s]))} - again
        self.results = [
            v for v in own if v not in again and (self.places[v] in wanted or v in needed)
        ]
        self.again_at = [k for k, s in enumerate(model.statements) if id(s) in kept]
        self.function = self._function(parts, taken)
        shares = any(not isinstance(definitions[r], Apply) for r in self.results if r.type.ndim)
        self.primitive = FunctionCall(self.function, shares)

    @staticmethod
    def _read_outside(part: _Occurrence, read: dict[Var, list[int]]) -> Iterable[Var]:
        end = part.start + len(part.statements)
        for s in part.statements:
            for out in s.outs:
                if any(not part.start <= k < end for k in read.get(out, ())):
                    yield out

    def _function(self, parts: list[_Occurrence], taken: set[str]) -> Function:
        builder, model = self.builder, parts[0]
        words = {v: _word(builder, v) for v in [*self.outside, *self.results]}
        names = _apart_from(set(), [words[v] for v in self.outside])
        sizes = [v for v in self.outside if self._is_at_hand(v)]
        self.given = [v for v in self.outside if v not in sizes]
        params: dict[Var, Any] = {}
        for v, name in zip(self.outside, names, strict=True):
            if v in self.given:
                params[v] = Var(v.type, name, v.origin)
        function = Function(
            _apart_from(taken, [_title(model.statements)])[0],
            list(params.values()),
            Block(),
            (),
            [Parameter(p.name or "", p) for p in params.values()],
            origin=model.statements[0].origin,
            dim_values=builder.dim_values,
        )
        taken.add(function.name)
        own = within(builder, function)
        self._keep_extrema(parts, params)
        with own.active(), own.block() as block:
            mapping = dict(params)
            for v in sizes:
                mapping[v] = self._size(own, v, params).atom
            made = inlined(own, Block(model.statements, list(self.results)), mapping)
        function.body = Block([*block.statements, *made.statements], made.results)
        function.result = tuple(map(Slot, range(len(self.results))))
        if len(self.results) == 1:
            function.result = Slot(0)
        for v in self.results:
            mapping[v].word = mapping[v].word or words[v]
        return function

    def _keep_extrema(self, parts: list[_Occurrence], params: dict[Var, Any]) -> None:
        """Let an argument be known as the extremum of another one, which all parts have so."""
        for v in self.given:
            made = [self.builder.definitions.get(p.values[self.places[v]]) for p in parts]
            first = made[0]
            if not isinstance(first, Apply) or first.primitive not in (max_, min_):
                continue
            array = first.args[0]
            if array in params and all(
                isinstance(s, Apply)
                and s.primitive is first.primitive
                and s.params == first.params
                and s.args == (p.values[self.places[array]],)
                for s, p in zip(made, parts, strict=True)
            ):
                said = replace(first, outs=(params[v],), args=(params[array],))
                self.builder.definitions[params[v]] = said

    def _is_at_hand(self, v: Var) -> bool:
        """True for an integer that is the size of an axis of another argument."""
        return self._axis(v, self.outside) is not None

    def _axis(self, v: Var, arrays: Iterable[Var]) -> tuple[Var, int] | None:
        size = self.builder.dim_values.get(v)
        if v.type.ndim or size is None or not v.type.weak:
            return None
        resolve = self.builder.dims.resolve
        for array in arrays:
            for axis, own in enumerate(array.type.dims):
                if resolve(own) == resolve(size):
                    return array, axis
        return None

    def _size(self, builder: Builder, v: Var, params: dict[Var, Any]) -> Any:
        found = self._axis(v, params)
        assert found is not None
        array, axis = found
        return builder.size_of(builder.dim_values[v], Array(params[array]), axis)

    # calls

    def call(self, part: _Occurrence) -> list[Statement]:
        """The call for a part, and what is written again behind it."""

        def here(v: Var) -> Var:
            return part.values[self.places[v]]

        outs = tuple(map(here, self.results))
        for out in outs:
            out.word = out.word or out.name or _word(self.builder, out)
        args = tuple(map(here, self.given))
        origin, phase = part.statements[0].origin, part.statements[0].phase
        made = Apply(outs, self.primitive, args, {}, origin, phase=phase)
        known = {o: self.builder.definitions.get(o) for o in outs}
        self.builder.note(made)
        for out, s in known.items():  # what attains an extremum is asked of its definition
            if isinstance(s, Apply) and s.primitive in (max_, min_):
                self.builder.definitions[out] = s
        return [made, *(part.statements[k] for k in self.again_at)]


def within(builder: Builder, function: Function) -> Builder:
    """The builder for a function of the program: what it can ask for a size are its parameters."""
    made = copy.copy(builder)
    made.leaf_of_param = {p: k for k, p in enumerate(function.params)}
    made.blocks, made._sizes = [], []
    return made


def _views(
    wanted: set[int], values: tuple[Var, ...], definitions: dict[Var, Statement]
) -> list[Statement]:
    """The statements whose results are read outside and are views: written outside, too."""
    pending = [values[k] for k in sorted(wanted)]
    found: dict[int, Statement] = {}
    while pending:
        s = definitions.get(pending.pop())
        if isinstance(s, Apply) and s.out.type.ndim and (viewed(s) or is_size(s)):
            if id(s) not in found:
                found[id(s)] = s
                pending += [a for a in s.args if isinstance(a, Var)]
    return [s for s in definitions.values() if id(s) in found]


def _title(statements: Sequence[Statement]) -> str:
    """The name of a function: the user's, for its statements, or of the loop's iteration."""
    functions = [s.origin.function for s in statements if s.origin is not None]
    name = functions[0] if functions else "function"
    phase = statements[0].phase
    return f"{name}_{phase}" if phase else name


def _word(builder: Builder, v: Var) -> str:
    return v.name or v.word or builder.described(v) or "value"


def _apart_from(taken: set[str], wishes: Sequence[str]) -> list[str]:
    """Names that are all different: the wishes, or like them."""
    used, made = set(taken), []
    for wish in wishes:
        wish = wish if wish.isidentifier() else "value"
        name, k = wish, 2
        while name in used:
            name, k = f"{wish}_{k}", k + 1
        used.add(name)
        made.append(name)
    return made
