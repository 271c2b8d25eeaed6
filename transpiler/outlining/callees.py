"""The function that equal parts of a program become: its parameters, its body, its results."""

from __future__ import annotations

import copy
import keyword
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Array, Builder
from calque.transpiler.ir.core import Apply, Atom, Block, Function, Parameter, Slot, Statement, Var
from calque.transpiler.ir.effects import is_size
from calque.transpiler.ir.naming import apart
from calque.transpiler.ir.phases import answers
from calque.transpiler.ir.rewrite import inlined
from calque.transpiler.ir.types import type_of_constant
from calque.transpiler.memory.alias import viewed
from calque.transpiler.outlining.part_forms import Occurrence, put_in
from calque.transpiler.primitives.function_calls import FunctionCall
from calque.transpiler.primitives.reductions import max_, min_
from calque.transpiler.primitives.shapes import read_only


@dataclass(eq=False)
class BlockUses:
    """The readers of the values of a block, and what the functions made so far give."""

    builder: Builder
    params: Sequence[Var]  # of the program
    readers: Mapping[Var, Sequence[int]]  # by value: the places that read it
    group_at: Mapping[int, int]  # by place: the group of equal parts that it belongs to
    taken: set[str]  # names of functions
    main: str  # the name of the user's function that the program is of
    begins: Callable[[int], bool]  # whether the user's function begins at a place
    given_by: dict[Var, tuple[int, int]] = field(default_factory=dict)  # a group, and its result

    def read_outside(self, part: Occurrence, value: Var) -> list[int]:
        """The places outside of a part that read a value of it."""
        return [k for k in self.readers.get(value, ()) if k not in part.places]


class Callee:
    """One function, and the calls of it."""

    def __init__(self, uses: BlockUses, group: int, parts: Sequence[Occurrence]):
        self.uses, self.builder, self.group, self.parts = uses, uses.builder, group, parts
        self.model = parts[0]
        self.definitions = {o: s for s in self.model.statements for o in s.outs}
        wanted = self._wanted()
        self.again = _views(wanted, self.definitions)
        again = {o for s in self.again for o in s.outs}
        needed = {v for s in self.again for v in core.free_vars(Block([s]))} - again
        found = [v for v in self.definitions if v not in again and v in wanted | needed]
        self.results = sorted(found, key=self._rank_of_result)
        outside = sorted(core.free_vars(Block(self.model.statements)), key=self._rank_of_parameter)
        self.sizes = [v for v in outside if _axis(self.builder, v, outside) is not None]
        self.given = [v for v in outside if v not in self.sizes]
        self.floats = _differing([p.form.floats for p in parts])
        self.renamings = [p.form.renaming_of(self.model.form) for p in parts[1:]]
        self.function = self._function()
        arrays = [self.definitions[r] for r in self.results if r.type.ndim]
        self.primitive = FunctionCall(self.function, any(map(_may_share_memory, arrays)))
        for part in parts:
            for k, v in enumerate(self.results):
                uses.given_by[self._in(part, v)] = group, k

    def _in(self, part: Occurrence, value: Var) -> Var:
        """The value of another occurrence that a value of the first one corresponds to."""
        return part.form.values[self.model.numbers[value]]

    # what goes in and out

    def _wanted(self) -> set[Var]:
        """The values of the first occurrence that some occurrence's surroundings read."""
        return {
            v
            for v in self.definitions
            for part in self.parts
            if self.uses.read_outside(part, self._in(part, v))
        }

    def _rank_of_result(self, v: Var) -> tuple[int, int]:
        """A key: what the next occurrence reads, then what others read, then what is saved."""
        groups = [
            {self.uses.group_at.get(k, -1) for k in self.uses.read_outside(p, self._in(p, v))}
            for p in self.parts
        ]
        carried = any(self.group in found for found in groups)
        saved = any(len(found) == 1 and found.isdisjoint({-1, self.group}) for found in groups)
        return 0 if carried else 2 if saved else 1, self.model.numbers[v]

    def _rank_of_parameter(self, v: Var) -> tuple[int, int, int]:
        """A key: what is made on the way, then what another function saved, then arguments."""
        if all(self._in(p, v) in self.uses.params for p in self.parts):
            return 2, 0, self.uses.params.index(v)
        group, result = self.uses.given_by.get(v, (self.group, 0))
        return (1, group, result) if group != self.group else (0, 0, self.model.numbers[v])

    # the function

    def _function(self) -> Function:
        builder, params, floats = self.builder, *self._parameters()
        own_params = list(dict.fromkeys([*params.values(), *floats.values()]))
        function = Function(
            self._title(),
            own_params,
            Block(),
            Slot(0) if len(self.results) == 1 else tuple(map(Slot, range(len(self.results)))),
            [Parameter(p.name or "", p) for p in own_params],
            origin=self.model.statements[0].origin,
            dim_values=builder.dim_values,
            phase=self.model.statements[0].phase or "forward",
        )
        self._keep_extrema(params)
        names = {v: self._name(v) for v in self.results}
        mapping: dict[Var, Atom] = {**params}
        own = within(builder, function)
        with own.active(), own.block() as block:
            for v in self.sizes:
                array, axis = _axis(own, v, self.given) or (v, 0)
                mapping[v] = own.size_of(own.dim_values[v], Array(params[array]), axis).atom
            made = inlined(own, Block(self.model.statements, list(self.results)), mapping)
            put_in(floats, made.statements)
        function.body = Block([*block.statements, *made.statements], made.results)
        for v, inner in mapping.items():
            if isinstance(inner, Var) and v.name and v in self.model.numbers and v not in params:
                inner.name = self._name(v)
        for v, out in zip(self.results, made.results, strict=True):
            out.name = names[v]
        return function

    def _parameters(self) -> tuple[dict[Var, Var], dict[int, Var]]:
        """The parameters by what they stand for: values, and the numbers of floats that differ."""
        wishes = [*map(self._name, self.given), *["coefficient"] * len(self.floats)]
        names = iter(apart(set(), wishes))
        values = {v: Var(v.type, next(names), v.origin) for v in self.given}
        floats = [(Var(type_of_constant(0.0), next(names)), places) for places in self.floats]
        return values, {k: var for var, places in floats for k in places}

    def _name(self, v: Var) -> str:
        """A name for a value: what its names in all occurrences have in common."""
        return _common([_word(self.builder, self._in(p, v)) for p in self.parts])

    def _title(self) -> str:
        """The name of the user's function, of its steps, or of the loop's iteration."""
        found = [s.origin.function for s in self.model.statements if s.origin is not None]
        named = bool(found) and found[0].isidentifier() and not keyword.iskeyword(found[0])
        name = found[0] if named else "unnamed"
        if not all(map(self.uses.begins, (self.model.start, self.model.places.stop))):
            name = f"{name}_steps"
        elif name == self.uses.main:
            name = f"{name}_iteration"
        if answers(self.model.statements[0].phase):
            name = f"{name}_reverse"
        (made,) = apart(self.uses.taken, [name])
        self.uses.taken.add(made)
        return made

    def _keep_extrema(self, params: Mapping[Var, Var]) -> None:
        """Let an argument be known as the extremum of another one, which all parts have so."""
        for v in self.given:
            made = [self.builder.definitions.get(self._in(p, v)) for p in self.parts]
            first = made[0]
            if not isinstance(first, Apply) or first.primitive not in (max_, min_):
                continue
            array = first.args[0]
            if array in params and all(
                isinstance(s, Apply)
                and (s.primitive, s.params) == (first.primitive, first.params)
                and s.args == (self._in(p, array),)
                for s, p in zip(made, self.parts, strict=True)
            ):
                said = replace(first, outs=(params[v],), args=(params[array],))
                self.builder.definitions[params[v]] = said

    # calls

    def call(self, part: Occurrence) -> list[Statement]:
        """The call for an occurrence, and what is written again behind it."""
        outs = tuple(self._in(part, v) for v in self.results)
        for out in outs:
            out.word = out.word or out.name or _word(self.builder, out)
        args: list[Atom] = [self._in(part, v) for v in self.given]
        args += [part.form.floats[places[0]] for places in self.floats]
        first = part.statements[0]
        made = Apply(outs, self.primitive, tuple(args), {}, first.origin, phase=first.phase)
        known = {o: self.builder.definitions.get(o) for o in outs}
        self.builder.note(made)
        for out, s in known.items():  # what attains an extremum is asked of its definition
            if isinstance(s, Apply) and s.primitive in (max_, min_):
                self.builder.definitions[out] = s
        return [made, *self._again(part)]

    def _again(self, part: Occurrence) -> list[Statement]:
        """The views that are written behind the call: of a part that has all statements."""
        if len(part.statements) < len(self.model.statements):
            own = {self._in(part, o) for s in self.again for o in s.outs}
            return [s for s in part.statements if own.intersection(s.outs)]
        again = [k for k, s in enumerate(self.model.statements) if s in self.again]
        return [part.statements[k] for k in again]


def within(builder: Builder, function: Function) -> Builder:
    """The builder for a function of the program: what it can ask for a size are its parameters."""
    made = copy.copy(builder)
    made.leaf_of_param = {p: k for k, p in enumerate(function.params)}
    made.blocks, made._sizes = [], []
    return made


def _views(wanted: Iterable[Var], definitions: Mapping[Var, Statement]) -> list[Statement]:
    """The statements whose results are read outside and are views: written outside, too."""
    pending, found = [*wanted], list[Statement]()
    while pending:
        s = definitions.get(pending.pop())
        if isinstance(s, Apply) and s not in found and (is_size(s) or _is_view(s)):
            found.append(s)
            pending += [a for a in s.args if isinstance(a, Var)]
    return found


def _differing(floats: Sequence[Sequence[float]]) -> list[list[int]]:
    """The places of numbers that differ between parts; those that are equal in each together.

    >>> _differing([(0.5, 1.0, 2.0, 1.0), (0.5, 3.0, 2.5, 3.0)])
    [[1, 3], [2]]
    """
    places: dict[tuple[str, ...], list[int]] = {}
    for k, found in enumerate(zip(*floats, strict=True)):
        places.setdefault(tuple(map(repr, found)), []).append(k)
    return [ks for found, ks in places.items() if len({*found}) > 1]


def _is_view(s: Apply) -> bool:
    """True for a view: another one costs nothing, as another call of the user's may."""
    if len(s.outs) > 1 or not s.out.type.ndim or s.primitive.aliases:
        return False
    return s.primitive.view_back is read_only or bool(viewed(s))


def _may_share_memory(s: Statement) -> bool:
    """True if an array that a statement makes may lie in the memory of another one."""
    return not isinstance(s, Apply) or bool(viewed(s))


def _axis(builder: Builder, v: Var, arrays: Iterable[Var]) -> tuple[Var, int] | None:
    """The array, and its axis, that has an integer for its size; None if there is none."""
    size = builder.dim_values.get(v)
    if v.type.ndim or size is None or not v.type.weak:
        return None
    found = builder.dims.resolve(size)
    axes = ((a, k) for a in arrays for k, d in enumerate(a.type.dims))
    return next(((a, k) for a, k in axes if builder.dims.resolve(a.type.dims[k]) == found), None)


def _word(builder: Builder, v: Var) -> str:
    return v.name or v.word or builder.described(v) or "value"


def _common(names: Sequence[str]) -> str:
    """The name that most have but for a number; the first one if all are alike, or none.

    >>> _common(["w_3_bar", "w_2_bar"]), _common(["x_2", "x_2"]), _common(["w", "p_w_1", "p_w_2"])
    ('w_bar', 'x_2', 'p_w')
    """
    if len({*names}) == 1:
        return names[0]
    stems = Counter("_".join(w for w in n.split("_") if not w.isdigit()) for n in names)
    stem, count = stems.most_common(1)[0]
    return stem if stem and count > 1 else names[0]
