"""The inputs that the elements of an operation's results reach, given those of its operands.

``reached(question)`` answers for every operation: by a rule of its own, where one is declared
(here, in ``place_rules`` and ``product_rules``); else by what its record says: elementwise
functions keep places, reductions join what they go over, functions of matrices join a matrix's
elements. What no rule covers depends on all that its operands depend on; ``Coarse`` says where that
happened.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from calque.transpiler.errors import Origin
from calque.transpiler.ir.core import Apply
from calque.transpiler.primitives import (
    diagonals,
    elementwise,
    fourier,
    logic,
    pythons_extrema,
    ranges,
    scans,
    signals,
)
from calque.transpiler.primitives.matrix_signatures import present
from calque.transpiler.primitives.record import Primitive, rule_of
from calque.transpiler.sparsity.reached_inputs import ReachedInputs, none, together, union

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Coarse:
    """An operation whose results are said to depend on more than they may do, and why."""

    origin: Origin | None
    why: str


@dataclass
class Question:
    """An operation with its operands: known values, or the inputs that unknown ones reach."""

    apply: Apply
    operands: list[Any]
    shapes: tuple[Shape, ...]  # of the results
    inputs: int
    coarse: list[Coarse]

    @property
    def params(self) -> dict[str, Any]:
        """The parameters of the operation, which are known."""
        return self.apply.params

    def unknown(self) -> list[ReachedInputs]:
        """The operands that are not known."""
        return [a for a in self.operands if isinstance(a, ReachedInputs)]

    def unknown_floats(self) -> list[ReachedInputs]:
        """The operands that reach inputs."""
        return [a for a in self.unknown() if not a.is_empty]

    def reach(self, k: int) -> ReachedInputs:
        """The sets of operand k: empty, where it is known."""
        operand = self.operands[k]
        known = not isinstance(operand, ReachedInputs)
        return none(np.shape(operand), self.inputs) if known else operand

    def note(self, why: str) -> None:
        """Remember that the answer is coarse here."""
        self.coarse.append(Coarse(self.apply.origin, why))


Rule = Callable[[Question], ReachedInputs | tuple[ReachedInputs, ...]]
reaches = rule_of("reached")


def reached(question: Question) -> tuple[ReachedInputs, ...]:
    """For each result of an operation, what its elements reach."""
    primitive, outs = question.apply.primitive, question.apply.outs
    if primitive.nondifferentiable or all(v.type.dtype.kind in "biu" for v in outs):
        return tuple(none(shape, question.inputs) for shape in question.shapes)
    found = (primitive.reached or _derived(primitive, question))(question)
    found = found if isinstance(found, tuple) else (found,)
    return tuple(
        none(shape, question.inputs) if v.type.dtype.kind in "biu" else f.broadcast(shape)
        for f, v, shape in zip(found, outs, question.shapes, strict=True)
    )


def _derived(primitive: Primitive, question: Question) -> Rule:
    """The rule that follows from the record of a primitive."""
    params, shapes = question.params, question.shapes
    if primitive.kind == "elementwise" or primitive.aliases:
        return _elementwise
    if primitive.kind == "collective":
        return of_all
    if "keepdims" in params:
        return _over_axes
    if primitive.moves:
        return moving
    if "axis" in params and question.operands and shapes[0] == np.shape(like(question.operands[0])):
        return _along_axis
    if primitive.signature:
        return _of_matrices
    return of_all


def like(operand: Any) -> Any:
    return np.broadcast_to(0, operand.shape) if isinstance(operand, ReachedInputs) else operand


def _elementwise(q: Question) -> tuple[ReachedInputs, ...]:
    return tuple(union(q.unknown(), shape) for shape in q.shapes)


def of_all(q: Question) -> tuple[ReachedInputs, ...]:
    """Every element of every result reaches all that an operand reaches."""
    q.note(f"each element that {q.apply.primitive.name} gives is taken to depend on all operands")
    return _everything(q)


def _everything(q: Question) -> tuple[ReachedInputs, ...]:
    every = [ReachedInputs((), q.inputs, (), None, a.all_of_them()) for a in q.unknown()]
    return tuple(union(every, shape) for shape in q.shapes)


@reaches(logic.modf, logic.frexp)
def _parts_of_numbers(q: Question) -> tuple[ReachedInputs, ...]:
    return _elementwise(q)


@reaches(pythons_extrema.largest, pythons_extrema.smallest, ranges.linspace, ranges.geomspace)
def _of_whole_operands(q: Question) -> tuple[ReachedInputs, ...]:
    """All elements of the operands make each of the result."""
    return _everything(q)


@reaches(fourier.rfft, fourier.irfft)
def _spectrum(q: Question) -> ReachedInputs:
    x = q.reach(0)
    return x.over([q.params["axis"]], keepdims=True).broadcast(q.shapes[0])


@reaches(signals.interp)
def _interp(q: Question) -> tuple[ReachedInputs, ...]:
    """An element is made of its place; which values of the table it is between is not known."""
    if any(not q.reach(k).is_empty for k in (1, 2)):
        q.note("the place in the table depends on values: it is taken to be any")
    table = [ReachedInputs((), q.inputs, (), None, q.reach(k).all_of_them()) for k in (1, 2)]
    return (union([q.reach(0), *table], q.shapes[0]),)


@reaches(diagonals.vander)
def _vander(q: Question) -> ReachedInputs:
    return q.reach(0).moved(lambda plane: plane[:, None]).broadcast(q.shapes[0])


@reaches(elementwise.multiply)
def _multiply(q: Question) -> ReachedInputs:
    """Elements times a known zero depend on nothing."""
    a, b = q.operands
    shape = q.shapes[0]
    if not isinstance(a, ReachedInputs):
        a, b = b, a
    found = union(q.unknown(), shape)
    if isinstance(b, ReachedInputs) or np.all(b):
        return found
    return found.masked(np.broadcast_to(np.asarray(b) != 0, shape))


@reaches(elementwise.where)
def _where(q: Question) -> ReachedInputs:
    test, shape = q.operands[0], q.shapes[0]
    arms = [q.reach(1).broadcast(shape), q.reach(2).broadcast(shape)]
    if isinstance(test, ReachedInputs):
        return union(arms, shape)
    return together(arms, lambda parts: np.where(test, *parts))


def moving(q: Question) -> ReachedInputs:
    """Elements that move as the other operands, which are known, say; else to any place."""
    function, params, rest = q.apply.primitive.function, q.params, q.operands[1:]
    if any(isinstance(operand, ReachedInputs) for operand in rest):
        q.note("the places of elements depend on values: they are taken to be any")
        return _everything(q)[0]
    return q.reach(0).moved(lambda plane: function(plane, *rest, **params))


# along axes


def axes_of(axis: Any, ndim: int) -> list[int]:
    """The axes that a parameter means, counted from 0."""
    if axis is None:
        return [*range(ndim)]
    return [a % ndim for a in (axis if isinstance(axis, tuple) else (axis,))]


def _over_axes(q: Question) -> tuple[ReachedInputs, ...]:
    x = q.reach(0)
    found = x.over(axes_of(q.params["axis"], x.ndim), q.params["keepdims"])
    further = [a for a in q.operands[1:] if isinstance(a, ReachedInputs) and not a.is_empty]
    if further:
        return of_all(q)
    return tuple(
        found if shape == found.shape else found.everywhere().broadcast(shape) for shape in q.shapes
    )


def _along_axis(q: Question) -> tuple[ReachedInputs, ...]:
    x = q.reach(0)
    if any(isinstance(a, ReachedInputs) and not a.is_empty for a in q.operands[1:]):
        return of_all(q)
    found = x.over(axes_of(q.params["axis"], x.ndim), keepdims=True)
    return tuple(found.broadcast(shape) for shape in q.shapes)


@reaches(scans.cumsum, scans.cumprod, scans.cummax, scans.cummin)
def _accumulate(q: Question) -> ReachedInputs:
    (axis,) = axes_of(q.params["axis"], q.reach(0).ndim)
    return accumulated(q.reach(0), axis)


def accumulated(x: ReachedInputs, axis: int) -> ReachedInputs:
    """For each element the union of the sets of all up to it, along an axis."""
    rows = x.as_rows()
    if rows.rows is None:
        return rows
    return ReachedInputs(
        x.shape, x.inputs, (), np.bitwise_or.accumulate(rows.rows, axis=axis), x.common
    )


@reaches(scans.diff)
def _diff(q: Question) -> ReachedInputs:
    found, (axis,) = q.reach(0), axes_of(q.params["axis"], q.reach(0).ndim)
    for _ in range(q.params["n"]):
        parts = [found.moved(_part(axis, at)) for at in (slice(1, None), slice(-1))]
        found = union(parts, parts[0].shape)
    return found


def _part(axis: int, part: slice) -> Callable[[Any], Any]:
    """Return the function that takes a part of an axis."""
    return lambda plane: plane[(*(slice(None),) * axis, part)]


@reaches(diagonals.trace)
def _trace(q: Question) -> ReachedInputs:
    offset, axes = q.params["offset"], q.params["axes"]
    return q.reach(0).moved(lambda plane: np.diagonal(plane, offset, *axes)).over([-1])


# functions of matrices


def _of_matrices(q: Question) -> tuple[ReachedInputs, ...]:
    """Each element of a result reaches all elements of the operands' matrices it is made of."""
    ranks = tuple(np.ndim(like(a)) for a in q.operands)
    operands, results = present(q.apply.primitive.signature, ranks)
    every = [(q.reach(k), names) for k, names in enumerate(operands)]
    return tuple(
        union([*(_in_matrix(x, n, names, shape) for x, n in every), none((), q.inputs)], shape)
        for names, shape in zip(results, q.shapes, strict=True)
    )


def _in_matrix(
    x: ReachedInputs, names: tuple[str, ...], result: tuple[str, ...], shape: Shape
) -> ReachedInputs:
    """An operand's sets, joined over its matrix; columns of a right-hand side stay apart."""
    columns = names[-1:] == result[-1:] and names[-1:] != () and names[-1].endswith("?")
    joined = x.over(range(x.ndim - len(names), x.ndim - columns))
    batch = shape[: len(shape) - len(result)]
    index = (..., *(None,) * (len(result) - columns), *(slice(None),) * columns)
    return joined.broadcast(batch + shape[len(shape) - columns :]).moved(lambda a: a[index])
