"""Collectives as calls of mpi4py.

Arrays go from buffer to buffer, numbers by ``comm.allreduce``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calque.transpiler.ir.builder import FUNCTIONS, Array, type_of
from calque.transpiler.primitives import axis_collectives
from calque.transpiler.spmd.library_calls import (
    COPY,
    CallLibrary,
    axis_moved,
    contiguous,
    in_place,
    new_room,
    note_contiguous,
    of_numbers,
    store,
)

ADDED = frozenset("fdFDbhilqBHILQ")  # dtypes that MPI adds


def _sum(x: Any, params: dict[str, Any]) -> Any:
    if type_of(x).dtype.char not in ADDED:
        return _extreme(np.sum)(x, params)
    if not type_of(x).ndim:
        return of_numbers("{comm}.allreduce({{0}})", lambda t, _: ())(x, params)
    name = params["axis"].communicator
    primitive = in_place("Allreduce", f"{name}.Allreduce(MPI.IN_PLACE, {{0}})")
    return store(primitive, contiguous(x, COPY), 0)


def _mean(x: Any, params: dict[str, Any]) -> Any:
    return _sum(x, params) / params["axis"].size


def _gathered(x: Any, params: dict[str, Any]) -> Array:
    """All ranks' values along a new leading axis."""
    axis = params["axis"]
    if not type_of(x).ndim:
        text = "np.array({comm}.allgather({{0}}))"
        found: Array = of_numbers(text, lambda t, _: (axis.size,))(x, params)
        note_contiguous(found)
        return found
    room = new_room((axis.size, *x.shape), x, "gathered")
    text = f"{axis.communicator}.Allgather({{1}}, {{0}})"
    return store(in_place("Allgather", text), room, contiguous(x))


def _gather(x: Any, params: dict[str, Any]) -> Any:
    return axis_moved(_gathered(x, params), 0, params["place"])


def _extreme(reduced: Callable[..., Any]) -> Callable[..., Any]:
    """An extremum, taken of gathered values: that of MPI does not handle NaN."""
    return lambda x, params: reduced(_gathered(x, params), axis=0)


def _scatter(x: Any, params: dict[str, Any]) -> Any:
    axis, place = params["axis"], params["place"]
    moved = contiguous(axis_moved(x, place, 0))
    shape = [size for k, size in enumerate(x.shape) if k != place]
    room = new_room(shape or (1,), x, "part")
    text = f"{axis.communicator}.Reduce_scatter_block({{1}}, {{0}})"
    found = store(in_place("Reduce_scatter_block", text), room, moved)
    return found if shape else found[0]


def _exchange(x: Any, params: dict[str, Any]) -> Any:
    axis, split, concat = params["axis"], params["split"], params["concat"]
    moved = contiguous(axis_moved(x, split, 0))
    room = new_room(moved.shape, x, "received")
    text = f"{axis.communicator}.Alltoall({{1}}, {{0}})"
    found = store(in_place("Alltoall", text), room, moved)
    return axis_moved(found, 0, concat)


def _permute(x: Any, params: dict[str, Any]) -> Any:
    axis, number = params["axis"], not type_of(x).ndim
    sent = contiguous(FUNCTIONS[np.reshape](x, (1,)) if number else x)
    room = new_room(sent.shape, sent, "received", zeros=True)
    comm, pairs = axis.communicator, params["perm"]
    there = rank_text(comm, dict(pairs), axis.size)
    here = rank_text(comm, {b: a for a, b in pairs}, axis.size)
    text = f"{comm}.Sendrecv({{1}}, {there}, recvbuf={{0}}, source={here})"
    found = store(in_place("Sendrecv", text), room, sent)
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


MPI_CALLS = CallLibrary(
    imports={"MPI": "mpi4py"},
    calls={
        axis_collectives.psum: _sum,
        axis_collectives.psum_invariant: _sum,
        axis_collectives.pmean: _mean,
        axis_collectives.pmax: _extreme(np.max),
        axis_collectives.pmin: _extreme(np.min),
        axis_collectives.all_gather: _gather,
        axis_collectives.psum_scatter: _scatter,
        axis_collectives.all_to_all: _exchange,
        axis_collectives.ppermute: _permute,
    },
    adds=ADDED,
    start="{comm}.Iallreduce(MPI.IN_PLACE, {{0}})",
    wait="MPI.Request.Waitall",
)
