"""The functions of ``itertools``: each makes an iterator that reads elements on demand."""

from __future__ import annotations

import itertools
import operator
from typing import Any

from calque.transpiler.frontend.calls import BUILTINS, builtin
from calque.transpiler.frontend.control.comprehension import Comprehensions
from calque.transpiler.frontend.library.itertools_steps import (
    Accumulate,
    Batched,
    ChainSteps,
    Compress,
    Cycle,
    GroupSteps,
    Pairwise,
    Slice,
    Tee,
    WhileSteps,
    ZipLongest,
)
from calque.transpiler.frontend.machine import Args, Kwargs
from calque.transpiler.frontend.values.containers.list_kinds import RecordedList
from calque.transpiler.frontend.values.iterables import Endless
from calque.transpiler.frontend.values.stepwise import Filter, Map, Over
from calque.transpiler.ir.builder import known_int


def _source(machine: Comprehensions, args: list[Any], node: Any, position: int = 0) -> Any:
    return machine.steps(args[position], node)


@builtin(itertools.chain)
def _chain(machine: Comprehensions, node: Any, args: Args, kwargs: Kwargs) -> Any:
    return ChainSteps(Over(tuple(machine.iterated(a, node) for a in args)), node)


@builtin(itertools.chain.from_iterable)
def _chained(machine: Comprehensions, node: Any, args: Args, kwargs: Kwargs) -> Any:
    return ChainSteps(_source(machine, args, node), node)


@builtin(itertools.islice)
def _islice(machine: Comprehensions, node: Any, args: Args, kwargs: Kwargs) -> Any:
    source, *bounds = args
    bounds = [b if b is None else known_int(b, "A bound of islice") for b in bounds]
    chosen_ones = slice(*bounds)
    start, step = chosen_ones.start or 0, chosen_ones.step or 1
    if min(start, step - 1, 0 if chosen_ones.stop is None else chosen_ones.stop) < 0:
        raise ValueError(
            "Indices for islice() must be None or an integer: 0 <= x <= sys.maxsize."
            if step > 0
            else "Step for islice() must be a positive integer or None."
        )
    return Slice(machine.steps(source, node), start, chosen_ones.stop, step)


@builtin(itertools.accumulate)
def _accumulate(machine: Comprehensions, node: Any, args: Args, kwargs: Kwargs) -> Any:
    def bound(iterable: Any, func: Any = None, *, initial: Any = None) -> Any:
        return Accumulate(machine.steps(iterable, node), func, initial, node)

    return bound(*args, **kwargs)


@builtin(itertools.pairwise)
def _pairwise(machine: Comprehensions, node: Any, args: Args, kwargs: Kwargs) -> Any:
    return Pairwise(_source(machine, args, node))


@builtin(itertools.zip_longest)
def _zip_longest(machine: Comprehensions, node: Any, args: Args, kwargs: Kwargs) -> Any:
    return ZipLongest([machine.steps(a, node) for a in args], kwargs.get("fillvalue"))


@builtin(itertools.starmap)
def _starmap(machine: Comprehensions, node: Any, args: Args, kwargs: Kwargs) -> Any:
    return Map(args[0], [_source(machine, args, node, 1)], node, rows=True)


@builtin(itertools.takewhile)
def _takewhile(machine: Comprehensions, node: Any, args: Args, kwargs: Kwargs) -> Any:
    return WhileSteps(args[0], _source(machine, args, node, 1), node, takes=True)


@builtin(itertools.dropwhile)
def _dropwhile(machine: Comprehensions, node: Any, args: Args, kwargs: Kwargs) -> Any:
    return WhileSteps(args[0], _source(machine, args, node, 1), node, takes=False)


@builtin(itertools.filterfalse)
def _filterfalse(machine: Comprehensions, node: Any, args: Args, kwargs: Kwargs) -> Any:
    return Filter(args[0], _source(machine, args, node, 1), node, keeps=False)


@builtin(itertools.compress)
def _compress(machine: Comprehensions, node: Any, args: Args, kwargs: Kwargs) -> Any:
    def bound(data: Any, selectors: Any) -> Any:
        return Compress(machine.steps(data, node), machine.steps(selectors, node), node)

    return bound(*args, **kwargs)


@builtin(itertools.cycle)
def _cycle(machine: Comprehensions, node: Any, args: Args, kwargs: Kwargs) -> Any:
    return Cycle(_source(machine, args, node))


@builtin(itertools.count)
def _count(machine: Comprehensions, node: Any, args: Args, kwargs: Kwargs) -> Any:
    def bound(start: Any = 0, step: Any = 1) -> Any:
        return Endless("itertools.count", lambda position: start + position * step)

    return machine.own(bound(*args, **kwargs))


@builtin(itertools.repeat)
def _repeat(machine: Comprehensions, node: Any, args: Args, kwargs: Kwargs) -> Any:
    def bound(object: Any, times: Any = None) -> Any:
        if times is not None:
            return Over((object,) * max(known_int(times, "How often a value is repeated"), 0))
        return Endless("itertools.repeat", lambda position: object)

    return machine.own(bound(*args, **kwargs))


@builtin(itertools.tee)
def _tee(machine: Comprehensions, node: Any, args: Args, kwargs: Kwargs) -> Any:
    count = args[1] if len(args) > 1 else kwargs.get("n", 2)
    part, read = _source(machine, args, node), machine.own(RecordedList())
    return tuple(Tee(part, read) for _ in range(known_int(count, "How many iterators tee gives")))


@builtin(itertools.groupby)
def _groupby(machine: Comprehensions, node: Any, args: Args, kwargs: Kwargs) -> Any:
    def bound(iterable: Any, key: Any = None) -> Any:
        return GroupSteps(machine.steps(iterable, node), key, node)

    return bound(*args, **kwargs)


def _batched(machine: Comprehensions, node: Any, args: Args, kwargs: Kwargs) -> Any:
    def bound(iterable: Any, n: Any, *, strict: Any = False) -> Any:
        size = operator.index(known_int(n, "The size of a batch"))
        if size < 1:
            raise ValueError("n must be at least one")
        return Batched(machine.steps(iterable, node), size, bool(strict))

    return bound(*args, **kwargs)


if hasattr(itertools, "batched"):
    BUILTINS[itertools.batched] = _batched


def _of_pools(function: Any) -> Any:
    """Those that read all that they are given when they are called."""

    def call(machine: Comprehensions, node: Any, args: Args, kwargs: Kwargs) -> Any:
        values = [
            a if a is None or isinstance(a, int) else machine.known_items(a, node) for a in args
        ]
        return Over(tuple(function(*values, **kwargs)))

    return call


for _function in (
    itertools.product,
    itertools.combinations,
    itertools.permutations,
    itertools.combinations_with_replacement,
):
    BUILTINS[_function] = _of_pools(_function)
