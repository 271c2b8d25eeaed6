"""Adjoints that a selection left zero stay zero, also where the slope behind it is infinite.

The adjoint of an operand that ``np.where`` does not select is zero, and so is its contribution,
whatever operations lie between the selection and a slope. The definition of an adjoint tells where
it can differ from zero::

    y_bar = np.where(c, out_bar, 0.0)         # c
    s_bar = y_bar[:, None]                    # c[:, None]
    x_bar = s_bar / norm_x[:, None] * x       # the same: np.where(c[:, None], ..., 0.0)

A condition is written where a slope may be infinite, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from calque.transpiler.ir.builder import FUNCTIONS, Array, current, type_of, wrap
from calque.transpiler.ir.core import Apply, Block, If, Var, defined_vars
from calque.transpiler.primitives.selections import (
    NEVER,
    Selection,
    both,
    chosen,
    either,
    holds,
    is_zero,
    outside,
    same_condition,
    written,
)
from calque.transpiler.primitives.smooth import is_smooth, may_be_infinite

_DEPTH = 60  # how far back a selection is looked for


def note_branch(test: Any, outs: Iterable[Var], *arms: Block) -> None:
    """Note the adjoints, or tangents, that are zero on one side of a branch."""
    known = current().selections
    within = set().union(*map(defined_vars, arms))
    for out, *results in zip(outs, *(arm.results for arm in arms), strict=True):
        known.inside[out] = within
        if out.type.is_float and isinstance(test, Var) and NEVER in map(guard_of, results):
            known.noted.add(out)


def note_selected(adjoint: Any) -> None:
    """Note an adjoint that a rule made zero where the primal was not selected."""
    known = current().selections
    if known is not None and isinstance(adjoint, Array):
        known.noted.add(adjoint.atom)


def note_guard(adjoint: Var, guard: Selection | None) -> None:
    """Note the selection of an adjoint, which is zero elsewhere."""
    known = current().selections
    known.guards[adjoint] = guard
    if guard is not None:
        known.noted.add(adjoint)


def kept_where(
    condition: Callable[[], Any], key: Any, product: Any, cotangent: Any, kept: Any = None
) -> Any:
    """The product of a cotangent and a slope that is zero where the condition does not hold.

    The slope selects: where it is zero the product is, also if the cotangent is infinite there.
    ``key`` tells conditions apart that are made of different values; ``kept`` is what the product
    is where the condition holds, if that is simpler.
    """
    known = current().selections
    if known is None or not isinstance(product, Array):
        return product
    infinite = isinstance(cotangent, Array) and may_be_infinite(
        cotangent.atom, (), known.anywhere, by_element=True
    )
    if infinite:
        return selected(condition(), product if kept is None else kept, 0.0)
    needs = frozenset(a for a in key if isinstance(a, Var))
    here = Selection(condition, key, not type_of(product).ndim, needs)
    note_guard(product.atom, both(here, guard_of(product)))
    return product


def guarded(adjoint: Any) -> Any:
    """The adjoint; ``np.where(condition, adjoint, 0.0)`` where it may be no number instead of 0."""
    known = current().selections
    if known is None or not known.noted or not isinstance(adjoint, Array):
        return adjoint
    if adjoint.atom in known.noted:
        return adjoint
    guard = guard_of(adjoint)
    if guard is None or not may_be_infinite(adjoint.atom, known.noted, known.infinite):
        return adjoint
    if not guard.tested and adjoint.ndim and not _has_finite_value(known.reversing):
        return adjoint
    return 0.0 if guard is NEVER else selected(written(guard), adjoint, 0.0)


def _has_finite_value(s: Apply | None) -> bool:
    """True if a statement's value may be finite where its slope is not: a root's, no quotient's.

    Where a quotient of arrays is not finite and no test protects it, that it goes into a loop
    without iterations is not worth a condition.
    """
    return s is not None and s.primitive.arithmetic != "divide" and not is_smooth(s)


def selected(condition: Any, first: Any, second: Any) -> Any:
    """``np.where`` of an adjoint, noted as a selection."""
    inner = current().definitions.get(first.atom) if isinstance(first, Array) else None
    if isinstance(inner, Apply) and inner.primitive.arithmetic == "where" and is_zero(second):
        if same_condition(inner.args[0], condition.atom) and is_zero(inner.args[2]):
            return first
    made = FUNCTIONS["where of adjoints"](condition, first, second)
    known = current().selections
    if known is not None and isinstance(made, Array):
        known.noted.add(made.atom)
    return made


# where an adjoint can differ from zero


def guard_of(value: Any, depth: int = _DEPTH) -> Selection | None:
    """The selection of a value's elements that can differ from zero; None if nothing is known."""
    var = value.atom if isinstance(value, Array) else value
    builder = current()
    if is_zero(var):
        return NEVER
    if not isinstance(var, Var) or not depth:
        return None
    guards: dict[Var, Selection | None] = builder.selections.guards
    if var not in guards:
        guards[var] = _found(builder.definitions.get(var), var, depth - 1)
    return guards[var]


def _found(s: Any, var: Var, depth: int) -> Selection | None:
    if isinstance(s, If):
        return _of_branch(s, var, depth)
    if not isinstance(s, Apply):
        return None
    if s.primitive.filled_with == 0:
        return NEVER
    rule = s.primitive.guard or (_of_moved if s.primitive.moves else None)
    if rule is not None:
        return rule(s, depth)
    # what is linear in a value that is zero as a whole is zero
    guards = [guard_of(s.args[k], depth) for k in s.primitive.linear_in if k < len(s.args)]
    if s.primitive.kind in ("bilinear", "multilinear"):
        return next((g for g in guards if g is not None and g.number), None)
    alone = guards and guards[0] is not None and guards[0].number and len(guards) == 1
    return guards[0] if alone else None


def _of_branch(s: If, var: Var, depth: int) -> Selection | None:
    """The selection of the arm taken, expressed by values outside of the arms."""
    place, inside = s.outs.index(var), current().selections.inside.get(var)
    if inside is None or not isinstance(s.test, Var):
        return None
    arms = (guard_of(arm.results[place], depth) for arm in (s.then, s.orelse))
    then, orelse = (None if g is None else outside(g, inside) for g in arms)
    return chosen(s.test, then, orelse)


def of_where(s: Apply, depth: int) -> Selection | None:
    condition, first, second = s.args
    kept, other = guard_of(first, depth), guard_of(second, depth)
    if kept is not None and other is not None and kept.key == other.key:
        return kept
    if s.out not in current().selections.noted or not isinstance(condition, Var):
        return None
    if other is NEVER:
        return both(holds(condition), kept)
    if kept is NEVER:
        return both(holds(condition, negated=True), other)
    return None


def of_first(s: Apply, depth: int) -> Selection | None:
    return guard_of(s.args[0], depth)


def of_product(s: Apply, depth: int) -> Selection | None:
    return guard_of(s.args[0], depth) or guard_of(s.args[1], depth)


def of_sum(s: Apply, depth: int) -> Selection | None:
    left, right = s.args
    return either(guard_of(left, depth), guard_of(right, depth))


def _of_moved(s: Apply, depth: int) -> Selection | None:
    """The selection of a reshape, a transpose or an index: its operand's, rearranged likewise."""
    guard = guard_of(s.args[0], depth)
    if guard is None or guard.number:
        return guard
    base, rest = s.args[0], tuple(map(wrap, s.args[1:]))

    def write() -> Any:
        return s.primitive(whole(written(guard), base), *rest, **s.params)

    key = (s.primitive.name, guard.key, s.args[1:], repr(s.params))
    return derived(guard, write, key, needs=guard.needs | vars_of(s.args))


def derived(guard: Selection, write: Callable[[], Any], key: Any, **changes: Any) -> Selection:
    """A selection that is written of another one."""
    return replace(guard, **{"write": write, "key": key, "places": False, **changes})


def vars_of(atoms: Iterable[Any]) -> frozenset[Var]:
    return frozenset(a for a in atoms if isinstance(a, Var))


def whole(condition: Array, value: Var) -> Array:
    """A condition with all of a value's elements."""
    dims, same = value.type.dims, current().dims.same
    equal = condition.ndim == len(dims) and all(map(same, condition.dims, dims))
    return condition if equal else FUNCTIONS[np.broadcast_to](condition, Array(value).shape)


def ranked(condition: Array, rank: int) -> Array:
    """A condition with axes of size 1 in front."""
    missing = rank - condition.ndim
    return condition[(None,) * missing + (...,)] if missing else condition


def of_reduction(s: Apply, depth: int) -> Selection | None:
    """The selection of a sum: true where any of the summands can differ from zero."""
    guard = guard_of(s.args[0], depth)
    if guard is None or guard.number:
        return guard
    rank = type_of(s.args[0]).ndim
    axes = tuple(range(rank)) if s.params["axis"] is None else s.params["axis"]
    keepdims = s.params["keepdims"]

    def write() -> Any:
        return any_along(ranked(written(guard), rank), axes, keepdims)

    key = ("any", guard.key, rank, axes, keepdims)
    return derived(guard, write, key, number=len(axes) == rank and not keepdims)


def any_along(condition: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
    if all(current().dims.resolve(condition.dims[a]) == 1 for a in axes):
        return condition if keepdims else _squeezed(condition, axes)
    if len(axes) == condition.ndim and not keepdims:
        return FUNCTIONS[np.any](condition)
    return FUNCTIONS[np.any](condition, axis=axes if len(axes) > 1 else axes[0], keepdims=keepdims)


def _squeezed(condition: Array, axes: tuple[int, ...]) -> Any:
    """Without axes of size 1: what they were added to, if they were."""
    made = current().definitions.get(condition.atom)
    if isinstance(made, Apply) and made.primitive.kind == "indexing":
        index = made.params["index"]
        added = tuple(a for a, item in enumerate(index) if item is None)
        if added == axes and all(item in (None, slice(None)) for item in index):
            return wrap(made.args[0])
    return FUNCTIONS[np.squeeze](condition, axis=axes)


def of_running_sum(s: Apply, depth: int) -> Selection | None:
    """The selection of a running sum: from the first element that can differ from zero on."""
    guard = guard_of(s.args[0], depth)
    if guard is None or guard.number:
        return guard

    def write() -> Any:
        counts = whole(written(guard), s.args[0]).astype(int)
        return s.primitive(counts, **s.params) > 0

    key = (s.primitive.name, guard.key, repr(s.params))
    return derived(guard, write, key, needs=guard.needs | vars_of(s.args))


def of_matmul(s: Apply, depth: int) -> Selection | None:
    """The selection of a product of matrices: rows, or columns, with any element not zero."""
    ranks = [type_of(a).ndim for a in s.args]
    for side, (operand, rank) in enumerate(zip(s.args, ranks, strict=True)):
        guard = guard_of(operand, depth)
        if guard is None:
            continue
        if guard.number:
            return guard
        axis = -1 if side == 0 or rank == 1 else -2
        return _of_side(guard, rank, ranks[1 - side], axis, side)
    return None


def _of_side(guard: Selection, rank: int, other: int, axis: int, side: int) -> Selection:
    place = axis % rank

    def write() -> Any:
        found = any_along(ranked(written(guard), rank), (place,), other > 1 and rank > 1)
        return found

    return derived(guard, write, ("matmul", guard.key, rank, other, side), number=rank == 1)
