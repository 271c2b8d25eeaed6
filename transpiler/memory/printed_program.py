"""A private copy of the function to print; Vars are numbered, so that sets are bit masks."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from calque.transpiler.ir import core
from calque.transpiler.ir.core import (
    Apply,
    Atom,
    Block,
    Effect,
    For,
    If,
    Kernel,
    Statement,
    Var,
    While,
)
from calque.transpiler.ir.dims import Dims
from calque.transpiler.ir.effects import has_effects, is_size, is_store
from calque.transpiler.ir.pytrees import attributes, is_object
from calque.transpiler.ir.types import DimLike
from calque.transpiler.primitives.elementwise import add
from calque.transpiler.primitives.indexing import update

Found = TypeVar("Found")

_FEW = 12  # members of a set; of more, its digits are read


def is_basic(statement: Apply) -> bool:
    """True if an access uses basic indexing: integers, slices and None, which name a view."""
    first = statement.primitive.first_index
    return all(not isinstance(a, Var) or a.type.ndim == 0 for a in statement.args[first:])


def continues(program: PrintedProgram, s: Statement | None, use: Statement | None) -> bool:
    """True if ``use`` adds to the adjoint that ``s`` makes, for the same user statement."""
    if not isinstance(s, Apply) or not isinstance(use, Apply) or is_store(s) or is_store(use):
        return False
    if len(use.outs) != 1 or s.out.name != use.out.name:
        return False
    if s.phase != "reverse" and not (s.out.name or "").endswith("_bar"):
        return False
    same = s.origin is not None and use.origin is not None
    return bool(same and _place(s) == _place(use))


def _place(s: Statement) -> tuple[str, int, str]:
    assert s.origin is not None
    return s.origin.file, s.origin.statement_line or s.origin.line, s.origin.statement


def indices(mask: int) -> list[int]:
    """The numbers in a set, in order.

    >>> indices(0b1011)
    [0, 1, 3]
    """
    found = []
    if mask.bit_count() <= _FEW:
        while mask:
            last = mask & -mask
            found.append(last.bit_length() - 1)
            mask ^= last
        return found
    digits = bin(mask)[:1:-1]
    where = digits.find("1")
    while where >= 0:
        found.append(where)
        where = digits.find("1", where + 1)
    return found


@dataclass(eq=False)
class PrintedProgram:
    """The copy of a function, with tables for the printing stages."""

    function: core.Function
    body: Block
    results: list[int] = field(default_factory=list)  # the results that are returned
    called: dict[tuple[str, str], str] = field(default_factory=dict)  # the user's own functions
    hosts: dict[Any, list[str]] = field(default_factory=dict)  # names: of the host, its callees
    kept_arguments: set[int] = field(default_factory=set)  # statements that copy an argument
    own_counters: set[Var] = field(default_factory=set)  # counters named ``_`` that are read
    index: dict[Var, int] = field(default_factory=dict)
    vars: list[Var] = field(default_factory=list)
    definition: dict[Var, Statement] = field(default_factory=dict)
    number: dict[int, int] = field(default_factory=dict)
    depth: dict[int, int] = field(default_factory=dict)
    home: dict[int, tuple[Block, Statement | None]] = field(default_factory=dict)
    block_of: dict[int, Block] = field(default_factory=dict)
    carried: dict[Var, tuple[Atom, Atom]] = field(default_factory=dict)  # initial, next
    dim_values: dict[Atom, DimLike] = field(default_factory=dict)  # integers as dimensions
    known: dict[Callable[..., Any], Any] = field(default_factory=dict)  # of this numbering

    def renumber(self) -> None:
        """Number Vars and statements in program order; to be called after every change."""
        self.index, self.vars, self.definition = {}, [], {}
        self.number, self.depth, self.home, self.block_of = {}, {}, {}, {}
        self.carried, self.known = {}, {}
        self._see(self.function.params)
        self._visit(self.body, None, 0)

    def once(self, analysis: Callable[[PrintedProgram], Found]) -> Found:
        """The result of an analysis, which is computed once until the program is renumbered."""
        if analysis not in self.known:
            self.known[analysis] = analysis(self)
        found: Found = self.known[analysis]
        return found

    def _see(self, vars: Iterable[Var]) -> None:
        for var in vars:
            self.index[var] = len(self.vars)
            self.vars.append(var)

    def _visit(self, block: Block, owner: Statement | None, depth: int) -> None:
        self.home[id(block)] = (block, owner)
        for s in block.statements:
            self.number[id(s)] = len(self.number)
            self.depth[id(s)] = depth
            self.block_of[id(s)] = block
            self._see(core.bound_vars(s))
            if isinstance(s, (For, While)):
                pairs = zip(s.inits, s.body.results, strict=True)
                self.carried.update(zip(s.phis, pairs, strict=True))
            for inner in core.blocks_of(s):
                self._visit(inner, s, depth + isinstance(s, (For, While)))
            if isinstance(s, Kernel):
                continue  # its results are defined within it
            self._see(s.outs)
            for out in s.outs:
                self.definition[out] = s

    def bit(self, atom: Atom) -> int:
        """The set of one Var; empty for constants."""
        return 1 << self.index[atom] if isinstance(atom, Var) else 0

    def mask(self, atoms: Iterable[Atom]) -> int:
        """The set of the Vars among atoms."""
        found = 0
        for atom in atoms:
            found |= self.bit(atom)
        return found

    def members(self, mask: int) -> Iterator[Var]:
        """The Vars of a set, in order."""
        return map(self.vars.__getitem__, indices(mask))

    def defined(self, statement: Statement) -> int:
        """Every Var that a statement defines or binds, also inside its blocks."""
        found = self.mask(statement.outs) | self.mask(core.bound_vars(statement))
        for block in core.blocks_of(statement):
            for inner in block.statements:
                found |= self.defined(inner)
        return found

    def uses(self) -> dict[Var, int]:
        """The number of reads of each Var."""
        return self.once(_uses)


def _uses(program: PrintedProgram) -> dict[Var, int]:
    count: dict[Var, int] = dict.fromkeys(program.vars, 0)

    def visit(block: Block) -> None:
        for s in block.statements:
            if isinstance(s, Kernel):  # its operands and results are read by its statements
                visit(Block(s.body.statements))
                continue
            for atom in core.operands(s):
                if isinstance(atom, Var):
                    count[atom] += 1
            for inner in core.blocks_of(s):
                visit(inner)
        for atom in block.results:
            if isinstance(atom, Var):
                count[atom] += 1

    visit(program.body)
    return count


def prepare(function: core.Function) -> PrintedProgram:
    """Copy a function; stores into 0-d arrays become assignments, dead code is removed."""
    mapping: dict[Var, Atom] = {}
    body = core.clone(function.body, mapping)
    program = PrintedProgram(function, body)
    program.dim_values = {mapping.get(v, v): dim for v, dim in function.dim_values.items()}
    _scalar_stores(body)
    leaves = result_slots(function.result)
    program.results = leaves
    kept = set(leaves) | set(function.written.values())
    body.results = [a if k in kept else None for k, a in enumerate(body.results)]
    _needless_branches(body)
    program.renumber()
    _sizes_of_operands(program)
    _sizes_of_arguments(program)
    remove_dead(body)
    program.renumber()
    uses = program.uses()
    for var in program.vars:
        if var.name == "_" and uses[var]:
            program.own_counters.add(var)
            var.name = None
        elif var.name is not None and not usable(var.name):
            var.name = None
    return program


def _sizes_of_operands(program: PrintedProgram) -> None:
    """Replace ``(x ** 2).size`` by ``x.size``: no array is computed only for its size."""
    dims = Dims()
    for equal in program.function.equal_dims:
        dims.unify(equal.left, equal.right)
    for s in core.walk(program.body):
        while is_size(s) and isinstance(s.args[0], Var):
            array = s.args[0]
            made = program.definition.get(array)
            if array.name is not None or not isinstance(made, Apply):
                break
            operands = made.args if made.primitive.kind == "elementwise" else ()
            arrays = [a for a in operands if isinstance(a, Var) and a.type.ndim == array.type.ndim]
            alike = [a for a in arrays if all(map(dims.same, a.type.dims, array.type.dims))]
            if not alike:
                break
            s.args = (alike[0], *s.args[1:])


def _sizes_of_arguments(program: PrintedProgram) -> None:
    """Ask an argument for a size if an array would otherwise be computed only for its size."""
    asked, read = [], {a for a in program.body.results if isinstance(a, Var)}
    for s in core.walk(program.body):
        for block in core.blocks_of(s):
            read |= {a for a in block.results if isinstance(a, Var)}
        if is_size(s):
            asked.append(s)
        else:
            read |= {a for a in core.operands(s) if isinstance(a, Var)}
    params = program.function.params
    dims = Dims()
    for equal in program.function.equal_dims:
        dims.unify(equal.left, equal.right)
    for s in asked:
        array = s.args[0]
        if not isinstance(array, Var) or array in read or array in params:
            continue
        own = array.type.dims
        alike = [p for p in params if p.type.ndim == len(own)]
        whole = next((p for p in alike if all(map(dims.same, p.type.dims, own))), None)
        if whole is not None:
            s.args = (whole, *s.args[1:])
        elif "axis" in s.params:
            _ask_for_axis(s, own[s.params["axis"]], params, dims)


def _ask_for_axis(s: Apply, size: DimLike, params: Sequence[Var], dims: Dims) -> None:
    """Ask an argument for the size of one of its axes."""
    for other in params:
        for axis, found in enumerate(other.type.dims):
            if dims.same(found, size):
                s.args, s.params = (other, *s.args[1:]), {**s.params, "axis": axis}
                return


def usable(name: str) -> bool:
    """True if a name is a valid Python identifier."""
    return name.isidentifier() and not keyword.iskeyword(name)


def result_slots(tree: Any) -> list[int]:
    """The positions of the results that a result tree mentions."""
    found: list[int] = []

    def visit(item: Any) -> None:
        if isinstance(item, core.Slot):
            found.append(item.position)
        elif isinstance(item, (tuple, list)):
            for inner in item:
                visit(inner)
        elif isinstance(item, dict):
            for inner in item.values():
                visit(inner)
        elif is_object(item):
            for _, inner in attributes(item):
                visit(inner)

    visit(tree)
    return found


def _scalar_stores(body: Block) -> None:
    """Replace stores into 0-d arrays by assignments."""
    mapping: dict[Var, Atom] = {}

    def now(atom: Atom) -> Atom:
        while isinstance(atom, Var) and atom in mapping:
            atom = mapping[atom]
        return atom

    def visit(block: Block) -> None:
        kept: list[Statement] = []
        for s in block.statements:
            for inner in core.blocks_of(s):
                visit(inner)
            if not (isinstance(s, Apply) and is_store(s) and s.out.type.ndim == 0):
                kept.append(s)
                continue
            base, value = now(s.args[0]), now(s.args[1])
            if isinstance(value, Var) and value.type.ndim:
                kept.append(s)
            elif s.primitive is update:
                mapping[s.out] = value if isinstance(value, Var) else s.out.type.dtype.type(value)
                if isinstance(value, Var) and value.name is None:
                    value.name = s.out.name
            else:
                kept.append(Apply(s.outs, add, (base, value), {}, s.origin))
        block.statements[:] = kept

    visit(body)
    core.substitute(body, {var: now(var) for var in mapping})


def _needless_branches(body: Block) -> None:
    """Replace the results of branches that return the same variables on both sides."""
    same: dict[Var, Atom] = {}
    for s in core.walk(body):
        if isinstance(s, If):
            arms = [
                [same.get(a, a) if isinstance(a, Var) else a for a in b.results]
                for b in core.blocks_of(s)
            ]
            if all(a is b and isinstance(a, Var) for a, b in zip(*arms)):
                for out, var in zip(s.outs, arms[0]):
                    same[out], var.name = var, var.name or out.name
    core.substitute(body, same)


def remove_dead(body: Block) -> None:
    """Remove statements that no result and no effect needs, in place."""
    needed: set[Var] = set()
    before = -1
    while len(needed) != before:
        before = len(needed)
        _need(body, needed, [True] * len(body.results))
    _sweep(body, needed)


def _need(block: Block, needed: set[Var], wanted: Iterable[bool]) -> None:
    def read(*atoms: Atom) -> None:
        needed.update(a for a in atoms if isinstance(a, Var))

    for atom, want in zip(block.results, wanted, strict=True):
        if want:
            read(atom)
    for s in reversed(block.statements):
        if not (has_effects(s) or any(out in needed for out in s.outs)):
            continue
        live = [out in needed for out in s.outs]
        match s:
            case Apply(args=args) | Effect(args=args):
                read(*args)
            case If():
                read(s.test)
                _need(s.then, needed, live)
                _need(s.orelse, needed, live)
            case For() | While():
                if isinstance(s, For):
                    read(s.start, s.stop, s.step)
                else:
                    _need(s.test, needed, [True])
                live = [w or p in needed for w, p in zip(live, s.phis, strict=True)]
                _need(s.body, needed, live)
                live = [w or p in needed for w, p in zip(live, s.phis, strict=True)]
                read(*[i for i, w in zip(s.inits, live, strict=True) if w])
                needed.update(p for p, w in zip(s.phis, live, strict=True) if w)


def _sweep(block: Block, needed: set[Var]) -> None:
    kept: list[Statement] = []
    for s in block.statements:
        if not (has_effects(s) or any(out in needed for out in s.outs)):
            continue
        kept.append(s)
        if isinstance(s, If):
            live = [out in needed for out in s.outs]
            for arm in (s.then, s.orelse):
                arm.results = _chosen(arm.results, live)
            s.outs = tuple(_chosen(s.outs, live))
        elif isinstance(s, (For, While)):
            live = [o in needed or p in needed for o, p in zip(s.outs, s.phis, strict=True)]
            s.body.results = _chosen(s.body.results, live)
            s.outs, s.phis = tuple(_chosen(s.outs, live)), tuple(_chosen(s.phis, live))
            s.inits = tuple(_chosen(s.inits, live))
        for inner in core.blocks_of(s):
            _sweep(inner, needed)
    block.statements[:] = kept


def _chosen(items: Iterable[Any], keep: Iterable[bool]) -> list[Any]:
    return [item for item, want in zip(items, keep, strict=True) if want]
