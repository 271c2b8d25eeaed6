"""What a selection left zero stays zero, also where the slope behind it is infinite.

The adjoint of what ``np.where`` selects away is zero, and so is what it contributes, whatever lies
between the selection and a slope. From what defines an adjoint it is told where it can differ from
zero::

    y_bar = np.where(c, out_bar, 0.0)         # c
    s_bar = y_bar[:, None]                    # c[:, None]
    x_bar = s_bar / norm_x[:, None] * x       # the same: np.where(c[:, None], ..., 0.0)

A condition is written where a slope may be infinite, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calque.transpiler.ir.builder import FUNCTIONS, Array, current, type_of, wrap
from calque.transpiler.ir.core import Apply, Block, If, Slot, Var, defined_vars
from calque.transpiler.primitives.smooth import may_be_infinite

_DEPTH = 60  # how far back a selection is looked for


@dataclass(frozen=True)
class Selection:
    """Where an adjoint can differ from zero: a condition, written when it is wanted."""

    write: Callable[[], Any]  # it broadcasts against the adjoint
    key: Any  # conditions of one key are equal
    number: bool  # one condition for all elements
    needs: frozenset[Var]  # what it is written of


@dataclass(frozen=True)
class _AnyOf:
    """The key of a condition that holds where one of several does."""

    keys: frozenset[Any]


@dataclass
class Selections:
    """What one sweep back knows of selections."""

    noted: set[Var] = field(default_factory=set)  # adjoints that are zero where another is chosen
    guards: dict[Var, Selection | None] = field(default_factory=dict)
    infinite: dict[Var, bool] = field(default_factory=dict)  # whether a value may be
    conditions: dict[Any, tuple[Block, int, Apply]] = field(default_factory=dict)  # those written
    written: dict[Var, Selection] = field(default_factory=dict)  # what conditions say
    inside: dict[Var, set[Var]] = field(default_factory=dict)  # what only a branch's arms see


@contextmanager
def selections() -> Iterator[None]:
    """Selections are noted, and found again, until this is left."""
    builder = current()
    before, builder.selections = builder.selections, Selections()
    try:
        yield
    finally:
        builder.selections = before


def note_selections(s: Apply, found: Any) -> None:
    """Note the adjoints that reversing ``s`` made zero where it selects something else."""
    noted = current().selections.noted
    if s.primitive.arithmetic == "where":
        noted.update(f.atom for f in found[1:] if isinstance(f, Array))
    elif s.primitive.kind == "indexing":
        mask = _mask(s.args[1:], s.params["index"])
        if mask is not None:
            noted.add(mask[0])


def note_branch(forward: If, back: If) -> None:
    """Note the adjoints that are zero on one side of a branch."""
    known = current().selections
    within = defined_vars(forward.then) | defined_vars(forward.orelse)
    within |= defined_vars(back.then) | defined_vars(back.orelse)
    for out, *arms in zip(back.outs, back.then.results, back.orelse.results, strict=True):
        known.inside[out] = within
        zero = any(_is_zero(a) or _made_of_zeros(a) for a in arms)
        if out.type.is_float and zero and isinstance(back.test, Var):
            known.noted.add(out)


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
    return selected(_written(guard), adjoint, 0.0)


def selected(condition: Any, first: Any, second: Any) -> Any:
    """``np.where`` of an adjoint, noted as a selection."""
    inner = current().definitions.get(first.atom) if isinstance(first, Array) else None
    if isinstance(inner, Apply) and inner.primitive.arithmetic == "where" and _is_zero(second):
        if same_condition(inner.args[0], condition.atom) and _is_zero(inner.args[2]):
            return first
    made, known = FUNCTIONS[np.where](condition, first, second), current().selections
    if known is not None and isinstance(made, Array):
        known.noted.add(made.atom)
    return made


# where an adjoint can differ from zero


def guard_of(value: Any, depth: int = _DEPTH) -> Selection | None:
    """Where a value can differ from zero, told from what defines it; None if nothing is known."""
    var = value.atom if isinstance(value, Array) else value
    builder = current()
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
    rule = s.primitive.guard
    if rule is not None:
        return rule(s, depth)
    # what is linear in a value that is zero as a whole is zero
    guards = [guard_of(s.args[k], depth) for k in s.primitive.linear_in if k < len(s.args)]
    if s.primitive.kind in ("bilinear", "multilinear"):
        return next((g for g in guards if g is not None and g.number), None)
    alone = guards and guards[0] is not None and guards[0].number and len(guards) == 1
    return guards[0] if alone else None


def _written(guard: Selection) -> Any:
    """The condition, written once for all statements that see it."""
    builder, conditions = current(), current().selections.conditions
    block, place, made = conditions.get(guard.key, (None, 0, None))
    if any(b is block for b in builder.blocks) and block.statements[place : place + 1] == [made]:
        return Array(made.out)
    condition = guard.write()
    builder.selections.written.setdefault(condition.atom, guard)
    block = builder.blocks[-1]
    if block.statements and block.statements[-1].outs == (condition.atom,):
        place = len(block.statements) - 1
        conditions[guard.key] = block, place, block.statements[place]
    return condition


def _key_of(value: Any, depth: int = 8) -> Any:
    """What two values share that are made in the same way of the same."""
    made = current().definitions.get(value) if depth and isinstance(value, Var) else None
    if not isinstance(made, Apply):
        return value
    of = (_key_of(a, depth - 1) for a in made.args)
    return made.primitive.name, made.outs.index(value), repr(made.params), *of


def same_condition(left: Any, right: Any) -> bool:
    """Whether two conditions are known to be equal."""
    return left is right or _key_of(left) == _key_of(right)


def _of_branch(s: If, var: Var, depth: int) -> Selection | None:
    """Of a branch: what holds in both arms, said without what is made in them."""
    place, inside = s.outs.index(var), current().selections.inside.get(var)
    if inside is None or not isinstance(s.test, Var):
        return None
    found = []
    for arm in (s.then, s.orelse):
        result = arm.results[place]
        guard = guard_of(result, depth)
        if guard is not None and not guard.needs.isdisjoint(inside):
            guard = None  # said in words that nobody sees out here
        found.append((_is_zero(result) or _made_of_zeros(result), guard))
    match found:
        case [(True, _), (False, guard)]:
            return _both(_condition(s.test, negated=True), guard)
        case [(False, guard), (True, _)]:
            return _both(_condition(s.test), guard)
        case [(False, None), (False, guard)] if guard is not None:
            return _either(_condition(s.test), guard)
        case [(False, guard), (False, None)] if guard is not None:
            return _either(guard, _condition(s.test, negated=True))
        case [(False, left), (False, right)]:
            return _either(left, right)
    return None


def _condition(test: Var, negated: bool = False) -> Selection:
    known = current().selections.written.get(test)
    if known is not None and not negated:
        return known
    key, number, needs = _key_of(test), not test.type.ndim, frozenset([test])
    if negated:
        opposite = lambda: FUNCTIONS[np.logical_not](Array(test))
        return Selection(opposite, ("not", key), number, needs)
    return Selection(lambda: Array(test), key, number, needs)


def of_where(s: Apply, depth: int) -> Selection | None:
    condition, first, second = s.args
    if s.out not in current().selections.noted or not isinstance(condition, Var):
        return None
    if _is_zero(second):
        return _both(_condition(condition), guard_of(first, depth))
    if _is_zero(first):
        return _both(_condition(condition, negated=True), guard_of(second, depth))
    return None


def _is_zero(value: Any) -> bool:
    return not isinstance(value, (Var, Array)) and value == 0


def _both(left: Selection, right: Selection | None) -> Selection:
    if right is None or _implies(left.key, right.key):
        return left
    if _implies(right.key, left.key):
        return right
    key = _parts(left.key) | _parts(right.key)
    return Selection(lambda: _written(left) & _written(right), key, *_joined(left, right))


def _either(left: Selection | None, right: Selection | None) -> Selection | None:
    if left is None or right is None:
        return None
    for one, other in ((left, right), (right, left)):
        if _implies(other.key, one.key):
            return one
    key = _AnyOf(_arms(left.key) | _arms(right.key))
    return Selection(lambda: _written(left) | _written(right), key, *_joined(left, right))


def _joined(left: Selection, right: Selection) -> tuple[bool, frozenset[Var]]:
    return left.number and right.number, left.needs | right.needs


def _parts(key: Any) -> frozenset[Any]:
    """The keys of the conditions that hold together."""
    return key if isinstance(key, frozenset) else frozenset([key])


def _arms(key: Any) -> frozenset[Any]:
    """The keys of the conditions of which one must hold."""
    return key.keys if isinstance(key, _AnyOf) else frozenset([key])


def _implies(key: Any, other: Any) -> bool:
    """Whether where a condition holds another does, by what they are put together of."""
    if isinstance(key, _AnyOf):
        return all(_implies(arm, other) for arm in _arms(key))
    parts = _parts(key)
    return all(
        part in parts or (isinstance(part, _AnyOf) and any(_implies(key, k) for k in part.keys))
        for part in _parts(other)
    )


def of_first(s: Apply, depth: int) -> Selection | None:
    return guard_of(s.args[0], depth)


def of_product(s: Apply, depth: int) -> Selection | None:
    return guard_of(s.args[0], depth) or guard_of(s.args[1], depth)


def of_sum(s: Apply, depth: int) -> Selection | None:
    left, right = s.args
    if _is_zero(left) or _is_zero(right):
        return guard_of(right if _is_zero(left) else left, depth)
    return _either(guard_of(left, depth), guard_of(right, depth))


def of_rearranged(s: Apply, depth: int) -> Selection | None:
    """Of a reshape, a transpose, an index: the condition is rearranged in the same way."""
    guard = guard_of(s.args[0], depth)
    if guard is None or guard.number:
        return guard
    base, rest = s.args[0], tuple(map(wrap, s.args[1:]))

    def write() -> Any:
        return s.primitive(_whole(_written(guard), base), *rest, **s.params)

    key = (s.primitive.name, guard.key, s.args[1:], repr(s.params))
    return Selection(write, key, False, guard.needs | _vars(s.args))


def _vars(atoms: Iterable[Any]) -> frozenset[Var]:
    return frozenset(a for a in atoms if isinstance(a, Var))


def _whole(condition: Array, value: Var) -> Array:
    """A condition with all of a value's elements."""
    dims, same = value.type.dims, current().dims.same
    equal = condition.ndim == len(dims) and all(map(same, condition.dims, dims))
    return condition if equal else FUNCTIONS[np.broadcast_to](condition, Array(value).shape)


def _ranked(condition: Array, rank: int) -> Array:
    """A condition with axes of size 1 in front."""
    missing = rank - condition.ndim
    return condition[(None,) * missing + (...,)] if missing else condition


def of_reduction(s: Apply, depth: int) -> Selection | None:
    """Of a sum: where any of what is added can differ from zero."""
    guard = guard_of(s.args[0], depth)
    if guard is None or guard.number:
        return guard
    rank = type_of(s.args[0]).ndim
    axes = tuple(range(rank)) if s.params["axis"] is None else s.params["axis"]
    keepdims = s.params["keepdims"]

    def write() -> Any:
        return _any(_ranked(_written(guard), rank), axes, keepdims)

    key = ("any", guard.key, rank, axes, keepdims)
    return Selection(write, key, len(axes) == rank and not keepdims, guard.needs)


def _any(condition: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
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


def of_matmul(s: Apply, depth: int) -> Selection | None:
    """Of a product of matrices: the rows, or the columns, of which anything is not zero."""
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
        found = _any(_ranked(_written(guard), rank), (place,), other > 1 and rank > 1)
        return found

    return Selection(write, ("matmul", guard.key, rank, other, side), rank == 1, guard.needs)


def _mask(places: tuple[Any, ...], index: tuple[Any, ...]) -> tuple[Var, int] | None:
    """The mask that an index consists of, and how many axes follow it."""
    slots = [item for item in index if isinstance(item, Slot)]
    if len(slots) != 1 or any(item not in (slots[0], slice(None)) for item in index):
        return None
    place = places[slots[0].position]
    made = current().definitions.get(place)
    if isinstance(made, Apply) and made.primitive.name == "np.flatnonzero":
        place = made.args[0]
        if type_of(place).ndim != 1:
            return None
    is_mask = isinstance(place, Var) and place.type.ndim and place.type.dtype.kind == "b"
    return (place, len(index) - 1 - index.index(slots[0])) if is_mask else None


def of_store(s: Apply, depth: int) -> Selection | None:
    """Of an adjoint that is added to at an index: there, and where it differed from zero before."""
    base, value = s.args[:2]
    if not s.primitive.adds:
        return guard_of(base, depth) if _is_zero(value) else None
    there = _there(s, guard_of(value, depth))
    return there if _made_of_zeros(base) else _either(there, guard_of(base, depth))


def _there(s: Apply, guard: Selection | None) -> Selection | None:
    base, _, *places = s.args
    index = s.params["index"]
    at_mask = _at_mask(base, _mask(tuple(places), index), index)
    if at_mask is not None or guard is None:
        return at_mask
    if guard.number:
        return guard
    added = tuple(a for a, item in enumerate(index) if item is None)
    if all(item in (None, slice(None)) for item in index):  # the whole array, with axes added

        def without_axes() -> Any:
            return _any(_ranked(_written(guard), type_of(s.args[1]).ndim), added, False)

        return Selection(without_axes, ("without", guard.key, added), False, guard.needs)

    def write() -> Any:
        counts = FUNCTIONS[np.zeros](Array(base).shape, dtype=int)
        added = _whole_of(_written(guard), s.args[1]).astype(int)
        return s.primitive(counts, added, *map(wrap, places), index=index) > 0

    key = ("at", guard.key, base, tuple(places), repr(index))
    return Selection(write, key, False, guard.needs | _vars(s.args))


def _at_mask(base: Var, found: tuple[Var, int] | None, index: tuple[Any, ...]) -> Selection | None:
    if found is None or found[0] not in current().selections.noted:
        return None
    mask, behind = found
    named = len(index) - 1 + mask.type.ndim
    rest = (None,) * (base.type.ndim - named + behind)

    def write() -> Any:
        return Array(mask)[(..., *rest)] if rest else Array(mask)

    return Selection(write, ("mask", mask, len(rest)), False, frozenset([mask]))


def _whole_of(condition: Array, value: Any) -> Array:
    return _whole(condition, value) if isinstance(value, Var) else condition


def _made_of_zeros(base: Any) -> bool:
    made = current().definitions.get(base)
    return isinstance(made, Apply) and made.primitive.filled_with == 0
