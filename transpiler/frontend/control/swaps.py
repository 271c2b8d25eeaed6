"""Lists that an iteration exchanges between names: their contents change places instead.

``prev, cur = cur, prev`` of lists binds each name to another list in every iteration, so a loop
could not say which list a name stands for. If nothing but these names holds the lists, exchanging
their contents is equivalent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from types import BuiltinMethodType
from typing import Any

from calque.transpiler.frontend.machine import Machine
from calque.transpiler.frontend.values.containers.container_kinds import kind_of
from calque.transpiler.frontend.values.containers.frames import Frame
from calque.transpiler.frontend.values.containers.list_kinds import ExchangedList, RecordedList
from calque.transpiler.frontend.values.heap import Snapshot
from calque.transpiler.frontend.values.iterables import leaves
from calque.transpiler.ir.builder import Array, current
from calque.transpiler.ir.core import map_tree


def undo_exchanges(machine: Machine, base: Snapshot) -> None:
    """Rebind names that have exchanged lists since ``base`` to their own, and swap the contents."""
    moved = _moved(base)
    own, now = [old for _, _, old, _ in moved], [new for _, _, _, new in moved]
    if not moved or Counter(map(id, own)) != Counter(map(id, now)):
        return
    if not _held_once(machine, own) or not all(map(_alike, own, now)):
        return
    if len({v.rows.fixed for v in own if v.rows is not None}) > 1:
        for values in own:
            _free(values)
    contents = [_content(new) for new in now]
    for (frame, name, old, _), content in zip(moved, contents, strict=True):
        frame.locals[name] = old
        _fill(old, content)


def _moved(base: Snapshot) -> list[tuple[Frame, str, RecordedList, RecordedList]]:
    """The names that stand for another list than before."""
    found = []
    for frame, names in base.contents.values():
        if isinstance(frame, Frame):
            for name, old in names.items():
                new = frame.locals.get(name)
                if isinstance(old, RecordedList) and isinstance(new, RecordedList):
                    if new is not old:
                        found.append((frame, name, old, new))
    return found


def _held_once(machine: Machine, lists: list[RecordedList]) -> bool:
    """True if exactly one name, and nothing else, holds each of the lists."""
    held: Counter[int] = Counter()
    for value, content in Snapshot(machine.roots(), machine.owned).contents.values():
        held.update(map(id, _parts(kind_of(value).locations(content).values(), machine.owned)))
    walked = {id(v) for walk in machine.walked for v in walk.held}
    return all(held[id(v)] == 1 and id(v) not in walked for v in lists)


def _parts(values: Iterable[Any], owned: dict[int, Any]) -> Iterator[Any]:
    """Values, and what tuples, partials, bound methods and iterators among them hold."""
    for value in values:
        yield value
        if isinstance(value, BuiltinMethodType):  # `values.append`, say
            yield value.__self__
        elif kind_of(value).content(value, owned) is None:
            yield from _parts(kind_of(value).within(value, None), owned)


def _alike(left: RecordedList, right: RecordedList) -> bool:
    """True if each of two lists can hold the contents of the other."""
    if left.rows is None or right.rows is None:
        return left.rows is right.rows and len(left) == len(right)
    resolve = current().dims.resolve
    kinds = [
        [(b.dtype, tuple(map(resolve, b.dims))) for b in leaves(v.rows.buffers)]
        for v in (left, right)
    ]
    return kinds[0] == kinds[1] and left.rows.full == right.rows.full


def _free(values: RecordedList) -> None:
    """Ask for arrays that can grow for a list of fixed capacity that changes places."""
    rows = values.rows
    if rows is not None and rows.fixed and not rows.full:
        raise ExchangedList(values, map_tree(lambda b: b[0], rows.buffers))


def _content(values: RecordedList) -> Any:
    """The contents of a list, apart from its identity."""
    if values.rows is None:
        return list(values)
    return [b.state() for b in leaves(values.rows.buffers)], values.rows.count, values.rows.first


def _fill(values: RecordedList, content: Any) -> None:
    if values.rows is None:
        values[:] = content
        return
    states, count, first = content
    cells: list[Array] = list(leaves(values.rows.buffers))
    for cell, state in zip(cells, states, strict=True):
        cell.restore(state)
    dim_of = current().dim_of
    if dim_of(count) != dim_of(values.rows.count):
        values.rows.count, values.rows.first = count, first
