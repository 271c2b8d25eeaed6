"""functools, itertools and NumPy's iterators, over known structure and run-time values."""

from __future__ import annotations

import functools
import itertools
import operator
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import gast
import numpy as np

from calque.transpiler.errors import UnsupportedSyntax
from calque.transpiler.frontend.calls import BUILTINS, builtin
from calque.transpiler.frontend.control.comprehension import Comprehensions
from calque.transpiler.frontend.control.generator_steps import step
from calque.transpiler.frontend.interpreter import Closure
from calque.transpiler.frontend.values.heap import RecordedList, rows_of
from calque.transpiler.frontend.values.iterables import (
    Cursor,
    Deferred,
    Endless,
    Generator,
    Iterable,
    Taken,
    Walkable,
)
from calque.transpiler.ir.builder import known, known_int


@builtin(iter)
def _iter(machine: Comprehensions, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    (value,) = args
    found = machine.iterated(value, node)
    if found is not value or isinstance(value, (Cursor, Endless, Generator)):
        return found
    if rows_of(value) is not None:
        return machine.own(Walkable(value))
    return machine.own(Cursor(machine.known_items(value, node), [value]))


@builtin(next)
def _next(machine: Comprehensions, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    source = args[0]
    if isinstance(source, Endless):
        return source.following()
    if isinstance(source, Generator):
        return step(machine, source, node, tuple(args[1:]))
    if isinstance(source, Walkable):
        machine.fail(
            UnsupportedSyntax,
            node,
            "`next` of a list of run-time length.",
            "count a position, and read the list there",
        )
    if isinstance(source, Iterable):
        if not hasattr(source, "cursor"):
            made = Cursor(machine.known_items(source, node))
            source.cursor = machine.own(made)  # type: ignore[attr-defined]
        source = source.cursor  # type: ignore[attr-defined]
    if isinstance(source, list):  # a generator expression, evaluated
        source = Cursor(machine.known_items(source, node))
    if not isinstance(source, Cursor):
        machine.check_writable(source, node, "`next`")
        return next(*args)
    if source.walked:
        machine.fail(
            UnsupportedSyntax,
            node,
            "`next` of an iterator that a for statement walks.",
            "loop over positions: for i in range(len(values))",
        )
    source.check()
    position = known_int(source.position, "Where an iterator stands")
    if position >= len(source.items):
        if len(args) > 1:
            return args[1]
        raise StopIteration
    source.position = position + 1
    return source.items[position]


@builtin(functools.reduce)
def _reduce(machine: Comprehensions, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    function, values, *initial = args
    items = machine.known_items(values, node)
    result = initial[0] if initial else items.pop(0)
    for item in items:
        result = machine.call_value(function, [result, item], {}, node)
    return result


class Bound:
    """``functools.partial`` of a function that interpreted code defined."""

    def __init__(self, function: Any, args: list[Any], kwargs: dict[str, Any]):
        self.function, self.args, self.kwargs = function, args, kwargs

    def __calque_trace__(
        self, machine: Any, args: list[Any], kwargs: dict[str, Any], node: Any
    ) -> Any:
        return machine.call_value(
            self.function, [*self.args, *args], {**self.kwargs, **kwargs}, node
        )

    def calque_children(self) -> list[Any]:
        """What a snapshot of the heap must follow."""
        return [self.function, *self.args, *self.kwargs.values()]


@builtin(functools.partial)
def _partial(machine: Comprehensions, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return Bound(args[0], args[1:], kwargs)


@builtin(functools.wraps)
def _wraps(machine: Comprehensions, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return _Named(machine.attribute(args[0], "__name__", node))


class _Named:
    """``functools.wraps(f)`` within interpreted code: the decorated function, by that name."""

    def __init__(self, name: str):
        self.name = name

    def __calque_trace__(
        self, machine: Any, args: list[Any], kwargs: dict[str, Any], node: Any
    ) -> Any:
        if isinstance(args[0], Closure):
            args[0].name = self.name
        return args[0]


def _itertool(function: Any) -> Callable[..., Any]:
    def call(machine: Comprehensions, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        values = [
            a if a is None or isinstance(a, (int, str)) else machine.known_items(a, node)
            for a in args
        ]
        return Taken(function(*values, **kwargs), [a for a in args if isinstance(a, list)], False)

    return call


for _function in (
    itertools.product,
    itertools.combinations,
    itertools.permutations,
    itertools.chain,
    itertools.pairwise,
    itertools.combinations_with_replacement,
    itertools.zip_longest,
):
    BUILTINS[_function] = _itertool(_function)


@builtin(itertools.chain.from_iterable)
def _chained(machine: Comprehensions, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    parts = machine.known_items(args[0], node)
    return machine.call_value(itertools.chain, parts, {}, node)


@builtin(itertools.count)
def _count(machine: Comprehensions, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    def bound(start: Any = 0, step: Any = 1) -> Any:
        return Endless("itertools.count", lambda position: start + position * step)

    return machine.own(bound(*args, **kwargs))


@builtin(itertools.repeat)
def _repeat(machine: Comprehensions, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    def bound(object: Any, times: Any = None) -> Any:
        if times is not None:
            return [object] * max(known_int(times, "How often a value is repeated"), 0)
        return Endless("itertools.repeat", lambda position: object)

    return machine.own(bound(*args, **kwargs))


@builtin(itertools.cycle)
def _cycle(machine: Comprehensions, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    items = machine.known_items(args[0], node)

    def at(position: Any) -> Any:
        return items[known_int(position, "A position in a list") % len(items)]

    return machine.own(Endless("itertools.cycle", at, anywhere=False)) if items else []


@builtin(itertools.islice)
def _islice(machine: Comprehensions, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    source, *bounds = args
    bounds = [b if b is None else known_int(b, "A bound of islice") for b in bounds]
    if isinstance(source, Cursor):
        return Taken(source.taken(lambda rest: list(itertools.islice(rest, *bounds))), [source])
    if not isinstance(source, Endless):
        return Taken(itertools.islice(machine.known_items(source, node), *bounds), [])
    chosen = slice(*bounds)
    source.walk()
    if chosen.stop is None:
        source.length()
    found = range(chosen.start or 0, chosen.stop, chosen.step or 1)
    return Taken([source.at(i) for i in found], [])


@builtin(itertools.starmap)
def _starmap(machine: Comprehensions, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    function, rows = args

    def found() -> list[Any]:
        items = machine.known_items(rows, node)
        return [
            machine.call_value(function, machine.known_items(r, node), {}, node) for r in items
        ]

    return Deferred(found, [function, rows])


@builtin(itertools.groupby)
def _grouped(machine: Comprehensions, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Each group as a list: Python's end where the next one begins."""
    items, key = machine.known_items(args[0], node), (*args, *kwargs.values(), None)[1]
    groups: list[tuple[Any, list[Any]]] = []
    for item in items:
        now = item if key is None else machine.call_value(key, [item], {}, node)
        if not groups or not bool(machine.compare(gast.Eq(), groups[-1][0], now, node)):
            groups.append((now, machine.own(RecordedList())))
        groups[-1][1].append(item)
    return Taken(groups, [])


@builtin(defaultdict)
def _defaultdict(
    machine: Comprehensions, node: Any, args: list[Any], kwargs: dict[str, Any]
) -> Any:
    made = defaultdict(None, *args[1:], **kwargs)
    made.default_factory = args[0] if args else None  # a Closure, too, which Python cannot call
    return machine.own(made)


@builtin(itertools.accumulate)
def _accumulated(
    machine: Comprehensions, node: Any, args: list[Any], kwargs: dict[str, Any]
) -> Any:
    items = machine.known_items(args[0], node)
    function = args[1] if len(args) > 1 else None
    result = Taken(items[:1], [])
    for item in items[1:]:
        if function is None:
            now = machine.binary(gast.Add, result[-1], item, node)
        else:
            now = machine.call_value(function, [result[-1], item], {}, node)
        result.append(now)
    return result


@builtin(np.ndindex)
def _ndindex(machine: Comprehensions, node: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    sizes = list(args[0]) if len(args) == 1 and isinstance(args[0], (tuple, list)) else list(args)
    if known(sizes):
        return list(np.ndindex(*sizes))
    return _Indices(sizes)


@builtin(np.ndenumerate)
def _ndenumerate(
    machine: Comprehensions, node: Any, args: list[Any], kwargs: dict[str, Any]
) -> Any:
    return _Elements(machine.recorded(args[0]))


class _Elements(Iterable):
    """``np.ndenumerate``: indices and elements."""

    def __init__(self, array: Any):
        self.array, self.indices = array, _Indices(list(array.shape))

    def length(self) -> Any:
        """How many elements."""
        return self.indices.length()

    def element(self, position: Any) -> Any:
        """A tuple of indices, and the element there."""
        index = self.indices.element(position)
        return index, self.array[index]


class _Indices(Iterable):
    """``np.ndindex`` with recorded sizes: positions counted in mixed radix."""

    def __init__(self, sizes: list[Any]):
        self.sizes = sizes

    def length(self) -> Any:
        """The product of the sizes."""
        return functools.reduce(operator.mul, self.sizes, 1)

    def element(self, position: Any) -> Any:
        """A tuple of indices."""
        found = []
        for size in reversed(self.sizes[1:]):
            found.append(position % size)
            position = position // size
        return (position, *reversed(found))
