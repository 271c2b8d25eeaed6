"""``functools.partial`` and its kin, ``defaultdict``, and NumPy's iterators over indices."""

from __future__ import annotations

import functools
import operator
from collections import defaultdict
from typing import Any

import numpy as np

from calque.transpiler.frontend.calls import builtin
from calque.transpiler.frontend.control.comprehension import Comprehensions
from calque.transpiler.frontend.machine import Args, Closure, Kwargs, Machine
from calque.transpiler.frontend.values.iterables import Iterable
from calque.transpiler.frontend.values.stepwise import Over
from calque.transpiler.ir.builder import known


class Bound:
    """``functools.partial`` of a function that interpreted code defined."""

    def __init__(self, function: Any, args: Args, kwargs: Kwargs):
        self.function, self.args, self.kwargs = function, args, kwargs

    def __calque_trace__(self, machine: Machine, args: Args, kwargs: Kwargs, node: Any) -> Any:
        return machine.call_value(
            self.function, [*self.args, *args], {**self.kwargs, **kwargs}, node
        )

    def calque_children(self) -> list[Any]:
        """The values that a snapshot of the heap must follow."""
        return [self.function, *self.args, *self.kwargs.values()]


@builtin(functools.partial)
def _partial(machine: Comprehensions, node: Any, args: Args, kwargs: Kwargs) -> Any:
    return Bound(args[0], args[1:], kwargs)


@builtin(functools.wraps)
def _wraps(machine: Comprehensions, node: Any, args: Args, kwargs: Kwargs) -> Any:
    return _Named(machine.attribute(args[0], "__name__", node))


class _Named:
    """``functools.wraps(f)`` within interpreted code: the decorated function, by that name."""

    def __init__(self, name: str):
        self.name = name

    def __calque_trace__(self, machine: Machine, args: Args, kwargs: Kwargs, node: Any) -> Any:
        if isinstance(args[0], Closure):
            args[0].name = self.name
        return args[0]


@builtin(defaultdict)
def _defaultdict(machine: Comprehensions, node: Any, args: Args, kwargs: Kwargs) -> Any:
    made = defaultdict(None, *args[1:], **kwargs)
    made.default_factory = args[0] if args else None  # a Closure, too, which Python cannot call
    return machine.own(made)


@builtin(np.ndindex)
def _ndindex(machine: Comprehensions, node: Any, args: Args, kwargs: Kwargs) -> Any:
    sizes = list(args[0]) if len(args) == 1 and isinstance(args[0], (tuple, list)) else list(args)
    if known(sizes):
        return Over(tuple(np.ndindex(*sizes)))
    return _Indices(sizes)


@builtin(np.ndenumerate)
def _ndenumerate(machine: Comprehensions, node: Any, args: Args, kwargs: Kwargs) -> Any:
    return _Elements(machine.recorded(args[0]))


class _Elements(Iterable):
    """``np.ndenumerate``: indices and elements."""

    def __init__(self, array: Any):
        self.array, self.indices = array, _Indices(list(array.shape))
        self.iterates()

    def length(self) -> Any:
        """The number of elements."""
        return self.indices.length()

    def element(self, position: Any) -> Any:
        """A tuple of indices, and the element there."""
        index = self.indices.element(position)
        return index, self.array[index]


class _Indices(Iterable):
    """``np.ndindex`` with recorded sizes: positions counted in mixed radix."""

    def __init__(self, sizes: list[Any]):
        self.sizes = sizes
        self.iterates()

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
