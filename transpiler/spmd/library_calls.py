"""Collectives over devices, written out as calls of a library: programs that run by themselves.

Before::

    W_bar = psum(a.T @ b, axis)

After, with mpi4py (see ``mpi_calls``)::

    W_bar = a.T @ b
    comm.Allreduce(MPI.IN_PLACE, W_bar)

Arrays go from buffer to buffer. A sum that is not needed at once is started where its terms are
known (``comm.Iallreduce``), and waited for where the user's collective stands, if no statement
reads the terms in between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import FUNCTIONS, Array, Builder, current, type_of, wrap
from calque.transpiler.ir.core import Apply, Block, Effect, For, Function, Statement, Var, While
from calque.transpiler.ir.phases import label
from calque.transpiler.ir.rewrite import inlined
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.primitives import axis_collectives
from calque.transpiler.primitives.base import Primitive, apply

ROOMS = ("received", "gathered", "part")  # for what arrives and has no name of the user's
_SUMS = (axis_collectives.psum, axis_collectives.psum_invariant, axis_collectives.pmean)


@dataclass(frozen=True)
class CallLibrary:
    """The spelling of collectives in a library; a communicator stands in texts as ``{comm}``."""

    imports: Mapping[str, str]  # name in the text -> module
    calls: Mapping[Primitive, Callable[[Any, dict[str, Any]], Any]]  # of operand and parameters
    adds: frozenset[str]  # the dtypes of sums that can be on their way
    start: str  # what starts a sum, in place, and gives a request
    wait: str  # what waits for a list of requests


def write_calls(library: CallLibrary, function: Function, builder: Builder) -> Function:
    """A copy of a device's program, in which collectives are calls of a library."""
    body = inlined(builder, function.body, {})
    names = {v.name for v in core.defined_vars(body)} | {p.name for p in function.signature}
    requests = next(n for n in ("requests", "sums", "sums_on_their_way") if n not in names)
    made = replace(function, body=body, imports={**function.imports, **library.imports})
    writing = _Writing(builder, library, requests)
    known, builder.contiguous = builder.contiguous, builder.contiguous - set(function.params)
    try:
        with builder.active():
            writing.block(body)
    finally:
        builder.contiguous = known
    if writing.started:
        body.statements.insert(0, Effect(f"{requests} = []", ()))
    return made


class _Writing:
    """Rewrites blocks, in place."""

    def __init__(self, builder: Builder, library: CallLibrary, requests: str):
        self.builder, self.library, self.requests = builder, library, requests
        self.started = False

    def block(self, block: Block) -> None:
        """Every collective of a block, and of those within it."""
        early = self._started_early(block)
        waiting = False
        kept: list[Statement] = []
        for s in block.statements:
            for inner in core.blocks_of(s):
                self.block(inner)
            calls = self.library.calls.get(s.primitive) if isinstance(s, Apply) else None
            if calls is None:
                kept.append(s)
            else:
                assert isinstance(s, Apply)
                with self.builder.at(s.origin), self.builder.block() as written:
                    if s in early.values():
                        found = self._awaited(s, waiting)
                        waiting = False
                    else:
                        found = calls(wrap(s.args[0]), s.params)
                self._keep(kept, written, s)
                _replace(block, written, s, found)
            for term in s.outs:
                if term in early:
                    kept.append(self._start(early[term]))
                    waiting = True
        block.statements[:] = kept

    def _keep(self, kept: list[Statement], written: Block, s: Statement) -> None:
        kept += written.statements
        label(written.statements, s.phase)

    def _started_early(self, block: Block) -> dict[Var, Apply]:
        """The sums of arrays with work between where their terms are made and where they stand."""
        places = {out: k for k, s in enumerate(block.statements) for out in s.outs}
        found: dict[Var, Apply] = {}
        for place, s in enumerate(block.statements):
            if not isinstance(s, Apply) or s.primitive not in _SUMS:
                continue
            term = s.args[0]
            if not isinstance(term, Var) or not term.type.ndim or term in found:
                continue
            if term.type.dtype.char not in self.library.adds:
                continue
            between = block.statements[places.get(term, place) + 1 : place]
            fresh = term in places and term in self.builder.contiguous
            if fresh and any(map(_takes_time, between)) and _read_once(block, term):
                found[term] = s
        return found

    def _start(self, s: Apply) -> Statement:
        """``requests.append(...)`` of what starts a sum, in place."""
        self.started = True
        term = s.args[0]
        out = Var(term.type, term.name, s.origin)
        started = self.library.start.format(comm=s.params["axis"].communicator)
        primitive = in_place("start", f"{self.requests}.append({started})")
        made = Apply((out,), primitive, (term, 0), {}, None)
        self.builder.definitions[out] = made
        self.builder.contiguous.add(out)
        s.args = (out,)
        return made

    def _awaited(self, s: Apply, waiting: bool) -> Any:
        """The result of a collective that was started; its wait is written here if ``waiting``."""
        found = wrap(s.args[0])
        if waiting:
            found = store(in_place("wait", f"{self.library.wait}({self.requests})"), found, 0)
        return found / s.params["axis"].size if s.primitive is axis_collectives.pmean else found


def _takes_time(s: Statement) -> bool:
    return isinstance(s, (For, While)) or (isinstance(s, Apply) and s.primitive.kind == "bilinear")


def _read_once(block: Block, var: Var) -> bool:
    """True if exactly one statement reads a value, and it is in the block itself."""
    count = sum(a is var for s in block.statements for a in core.operands(s))
    inner = [b for s in block.statements for b in core.blocks_of(s)]
    within = any(var in core.free_vars(b) for b in inner)
    return count == 1 and not within and not any(a is var for a in block.results)


def _replace(block: Block, written: Block, s: Apply, found: Any) -> None:
    """Let what a collective gave be what was written for it, under the user's name."""
    for out in (o for t in written.statements for o in t.outs if o.name in ROOMS):
        out.name = s.out.name or out.name
    found.atom.name = found.atom.name or s.out.name
    core.substitute(block, {s.out: found.atom})


# calls that fill an array


def in_place(name: str, text: str) -> Primitive:
    """A statement that changes its first argument."""
    infer = lambda base, *_: type_of(base)
    return Primitive(name, _never, infer, text, kind="store", first_index=2)


def _never(*args: Any, **params: Any) -> Any:
    raise AssertionError("a call of a library is written, never computed here")


def store(primitive: Primitive, base: Array, value: Any) -> Array:
    """The array after a call has written its result into it."""
    made: Array = apply(primitive, base, value)
    made.atom.name = base.atom.name
    note_contiguous(made)
    return made


def note_contiguous(made: Array) -> None:
    """Note that an array's memory is in one piece."""
    current().contiguous.add(made.atom)


def of_numbers(text: str, dims: Callable[[ArrayType, dict[str, Any]], Sequence[Any]]) -> Any:
    """A call that gives a value of these dimensions; ``text`` says how, with ``{comm}``."""

    def make(x: Any, params: dict[str, Any]) -> Any:
        def infer(x: Any) -> ArrayType:
            return ArrayType(type_of(x).dtype, tuple(dims(type_of(x), params)))

        spelling = text.format(comm=params["axis"].communicator)
        return apply(Primitive("library number", _never, infer, spelling, aliases=True), x)

    return make


def _plain(text: str) -> Primitive:
    return Primitive(text, _never, lambda x: ArrayType(x.dtype, x.type.dims), text, fresh=True)


_AS_BUFFER, COPY = _plain("np.ascontiguousarray({0})"), _plain('np.array({0}, order="C")')


def contiguous(x: Array, made: Primitive = _AS_BUFFER) -> Array:
    """The array as a buffer; by ``COPY`` if it is to be written into."""
    if x.atom in current().contiguous:
        return x
    found: Array = apply(made, x)
    found.atom.name = x.atom.name
    return found


def new_room(shape: Sequence[Any], like: Array, name: str | None, zeros: bool = False) -> Array:
    """An array for what arrives."""
    made: Array = FUNCTIONS[np.zeros if zeros else np.empty](tuple(shape), like.dtype)
    made.atom.name = name
    return made


def axis_moved(x: Array, axis: int, place: int) -> Array:
    """The array with an axis at another place."""
    found: Array = FUNCTIONS[np.moveaxis](x, axis, place) if axis != place else x
    return found
