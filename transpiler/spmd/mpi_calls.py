"""Collectives over devices, written out as calls of mpi4py: for programs that run by themselves.

Before::

    W_bar = psum(a.T @ b, axis)

After::

    W_bar = a.T @ b
    comm.Allreduce(MPI.IN_PLACE, W_bar)

Arrays go from buffer to buffer, numbers by ``comm.allreduce``. A sum that is not needed at once is
started where its terms are known (``comm.Iallreduce``), and waited for where the user's collective
stands, if nobody reads the terms in between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import FUNCTIONS, Array, Builder, current, type_of, wrap
from calque.transpiler.ir.core import Apply, Block, Effect, For, Function, Statement, Var, While
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.primitives import axis_collectives
from calque.transpiler.primitives.base import Primitive, apply
from calque.transpiler.primitives.called import copied

ADDED = frozenset("fdFDbhilqBHILQ")  # dtypes that MPI adds
_ROOMS = ("received", "gathered", "part")  # for what arrives and has no name of the user's
_SUMS = (axis_collectives.psum, axis_collectives.psum_invariant, axis_collectives.pmean)


def to_mpi_calls(function: Function, builder: Builder) -> Function:
    """A copy of a device's program, in which collectives are calls of mpi4py."""
    body = copied(builder, function.body, {})
    names = {v.name for v in core.defined_vars(body)} | {p.name for p in function.signature}
    requests = next(n for n in ("requests", "sums", "sums_on_their_way") if n not in names)
    made = replace(function, body=body, imports={**function.imports, "MPI": "mpi4py"})
    writing = _Writing(builder, requests)
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

    def __init__(self, builder: Builder, requests: str):
        self.builder, self.requests = builder, requests
        self.started = False

    def block(self, block: Block) -> None:
        """Every collective of a block, and of those within it."""
        early = self._started_early(block)
        waiting = False
        kept: list[Statement] = []
        for s in block.statements:
            for inner in core.blocks_of(s):
                self.block(inner)
            calls = _CALLS.get(s.primitive) if isinstance(s, Apply) else None
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
        core.label(written.statements, s.phase)

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
            if term.type.dtype.char not in ADDED:
                continue
            between = block.statements[places.get(term, place) + 1 : place]
            fresh = term in places and term in self.builder.contiguous
            if fresh and any(map(_takes_time, between)) and _read_once(block, term):
                found[term] = s
        return found

    def _start(self, s: Apply) -> Statement:
        """``requests.append(comm.Iallreduce(MPI.IN_PLACE, terms))``."""
        self.started = True
        term = s.args[0]
        out = Var(term.type, term.name, s.origin)
        name = s.params["axis"].communicator
        text = f"{self.requests}.append({name}.Iallreduce(MPI.IN_PLACE, {{0}}))"
        made = Apply((out,), _in_place("Iallreduce", text), (term, 0), {}, None)
        self.builder.definitions[out] = made
        self.builder.contiguous.add(out)
        s.args = (out,)
        return made

    def _awaited(self, s: Apply, waiting: bool) -> Any:
        """What was started: complete, if it is waited for with the others."""
        found = wrap(s.args[0])
        if waiting:
            text = f"MPI.Request.Waitall({self.requests})"
            found = _store(_in_place("Waitall", text), found, 0)
        return found / s.params["axis"].size if s.primitive is axis_collectives.pmean else found


def _takes_time(s: Statement) -> bool:
    return isinstance(s, (For, While)) or (isinstance(s, Apply) and s.primitive.kind == "bilinear")


def _read_once(block: Block, var: Var) -> bool:
    """Whether nothing but one statement of the block itself reads a value."""
    count = sum(a is var for s in block.statements for a in core.operands(s))
    inner = [b for s in block.statements for b in core.blocks_of(s)]
    within = any(var in core.free_vars(b) for b in inner)
    return count == 1 and not within and not any(a is var for a in block.results)


def _replace(block: Block, written: Block, s: Apply, found: Any) -> None:
    """Let what a collective gave be what was written for it, under the user's name."""
    for out in (o for t in written.statements for o in t.outs if o.name in _ROOMS):
        out.name = s.out.name or out.name
    found.atom.name = found.atom.name or s.out.name
    core.substitute(block, {s.out: found.atom})


# calls that fill an array


def _in_place(name: str, text: str) -> Primitive:
    """A statement that changes its first argument."""
    infer = lambda base, *_: type_of(base)
    return Primitive(name, _never, infer, text, kind="store", first_index=2)


def _never(*args: Any, **params: Any) -> Any:
    raise AssertionError("a call of mpi4py is written, never computed here")


def _store(primitive: Primitive, base: Array, value: Any) -> Array:
    made: Array = apply(primitive, base, value)
    made.atom.name = base.atom.name
    _note_contiguous(made)
    return made


def _note_contiguous(made: Array) -> None:
    """Note that an array's memory is in one piece."""
    current().contiguous.add(made.atom)


def _of_numbers(text: str, dims: Callable[[ArrayType, dict[str, Any]], Sequence[Any]]) -> Any:
    def make(x: Any, params: dict[str, Any]) -> Any:
        def infer(x: Any) -> ArrayType:
            return ArrayType(type_of(x).dtype, tuple(dims(type_of(x), params)))

        spelling = text.format(comm=params["axis"].communicator)
        return apply(Primitive("mpi number", _never, infer, spelling, aliases=True), x)

    return make


def _plain(text: str) -> Primitive:
    return Primitive(text, _never, lambda x: ArrayType(x.dtype, x.type.dims), text, fresh=True)


_AS_BUFFER, _COPY = _plain("np.ascontiguousarray({0})"), _plain('np.array({0}, order="C")')


def _contiguous(x: Array, made: Primitive = _AS_BUFFER) -> Array:
    """The array as a buffer; by ``_COPY`` if it is to be written into."""
    if x.atom in current().contiguous:
        return x
    found: Array = apply(made, x)
    found.atom.name = x.atom.name
    return found


def _room(shape: Sequence[Any], like: Array, name: str | None, zeros: bool = False) -> Array:
    made: Array = FUNCTIONS[np.zeros if zeros else np.empty](tuple(shape), like.dtype)
    made.atom.name = name
    return made


def _moved(x: Array, axis: int, place: int) -> Array:
    found: Array = FUNCTIONS[np.moveaxis](x, axis, place) if axis != place else x
    return found


def _sum(x: Any, params: dict[str, Any]) -> Any:
    if type_of(x).dtype.char not in ADDED:
        return _extreme(np.sum)(x, params)
    if not type_of(x).ndim:
        return _of_numbers("{comm}.allreduce({{0}})", lambda t, _: ())(x, params)
    name = params["axis"].communicator
    primitive = _in_place("Allreduce", f"{name}.Allreduce(MPI.IN_PLACE, {{0}})")
    return _store(primitive, _contiguous(x, _COPY), 0)


def _mean(x: Any, params: dict[str, Any]) -> Any:
    return _sum(x, params) / params["axis"].size


def _gathered(x: Any, params: dict[str, Any]) -> Array:
    """All ranks' values along a new leading axis."""
    axis = params["axis"]
    if not type_of(x).ndim:
        text = "np.array({comm}.allgather({{0}}))"
        found: Array = _of_numbers(text, lambda t, _: (axis.size,))(x, params)
        _note_contiguous(found)
        return found
    room = _room((axis.size, *x.shape), x, "gathered")
    text = f"{axis.communicator}.Allgather({{1}}, {{0}})"
    return _store(_in_place("Allgather", text), room, _contiguous(x))


def _gather(x: Any, params: dict[str, Any]) -> Any:
    return _moved(_gathered(x, params), 0, params["place"])


def _extreme(reduced: Callable[..., Any]) -> Callable[..., Any]:
    """Of gathered values: MPI's own does not know what to do with NaN."""
    return lambda x, params: reduced(_gathered(x, params), axis=0)


def _scatter(x: Any, params: dict[str, Any]) -> Any:
    axis, place = params["axis"], params["place"]
    moved = _contiguous(_moved(x, place, 0))
    shape = [size for k, size in enumerate(x.shape) if k != place]
    room = _room(shape or (1,), x, "part")
    text = f"{axis.communicator}.Reduce_scatter_block({{1}}, {{0}})"
    found = _store(_in_place("Reduce_scatter_block", text), room, moved)
    return found if shape else found[0]


def _exchange(x: Any, params: dict[str, Any]) -> Any:
    axis, split, concat = params["axis"], params["split"], params["concat"]
    moved = _contiguous(_moved(x, split, 0))
    room = _room(moved.shape, x, "received")
    text = f"{axis.communicator}.Alltoall({{1}}, {{0}})"
    found = _store(_in_place("Alltoall", text), room, moved)
    return _moved(found, 0, concat)


def _permute(x: Any, params: dict[str, Any]) -> Any:
    axis, number = params["axis"], not type_of(x).ndim
    sent = _contiguous(FUNCTIONS[np.reshape](x, (1,)) if number else x)
    room = _room(sent.shape, sent, "received", zeros=True)
    comm, pairs = axis.communicator, params["perm"]
    there = rank_text(comm, dict(pairs), axis.size)
    here = rank_text(comm, {b: a for a, b in pairs}, axis.size)
    text = f"{comm}.Sendrecv({{1}}, {there}, recvbuf={{0}}, source={here})"
    found = _store(_in_place("Sendrecv", text), room, sent)
    return found[0] if number else found


def rank_text(comm: str, found: dict[int, int], size: Any) -> str:
    """A rank's partner, as an expression.

    >>> rank_text("comm", {0: 1, 1: 2, 2: 3, 3: 0}, 4), rank_text("comm", {1: 0, 2: 1}, 3)
    ('(comm.rank + 1) % 4', 'comm.rank - 1 if comm.rank > 0 else MPI.PROC_NULL')
    >>> rank_text("comm", {0: 2}, 3)
    '{0: 2}.get(comm.rank, MPI.PROC_NULL)'
    """
    count, step = len(found), 0
    if count > 1 and isinstance(size, int):
        step = min((b - a for a, b in found.items()), key=abs)
        shown = f"{comm}.rank {'+' if step > 0 else '-'} {abs(step)}"
        if found == {k: (k + step) % size for k in range(size)} and step:
            return f"({shown}) % {size}"
        if step > 0 and found == {k: k + step for k in range(size - step)}:
            return f"{shown} if {comm}.rank < {size - step} else MPI.PROC_NULL"
        if step < 0 and found == {k: k + step for k in range(-step, size)}:
            return f"{shown} if {comm}.rank > {-step - 1} else MPI.PROC_NULL"
    return f"{dict(sorted(found.items()))}.get({comm}.rank, MPI.PROC_NULL)"


_CALLS: dict[Primitive, Callable[[Any, dict[str, Any]], Any]] = {
    axis_collectives.psum: _sum,
    axis_collectives.psum_invariant: _sum,
    axis_collectives.pmean: _mean,
    axis_collectives.pmax: _extreme(np.max),
    axis_collectives.pmin: _extreme(np.min),
    axis_collectives.all_gather: _gather,
    axis_collectives.psum_scatter: _scatter,
    axis_collectives.all_to_all: _exchange,
    axis_collectives.ppermute: _permute,
}
