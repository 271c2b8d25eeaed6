"""``max`` and ``min`` of arrays, of lists that grow in loops, and of other iterables."""

from __future__ import annotations

from typing import Any

import gast
import numpy as np

from calque.transpiler.frontend.calls import BUILTINS
from calque.transpiler.frontend.comparisons import always
from calque.transpiler.frontend.control.comprehension import Comprehensions, unless_changed
from calque.transpiler.frontend.library import polyfills
from calque.transpiler.frontend.machine import Args, Kwargs
from calque.transpiler.frontend.values.containers.list_kinds import rows_of
from calque.transpiler.frontend.values.iterables import (
    Behind,
    Generator,
    Iterable,
    Positions,
    positional,
    sequence,
)
from calque.transpiler.ir.builder import FUNCTIONS, Array
from calque.transpiler.ir.types import INT
from calque.transpiler.primitives import pythons_extrema
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.scalars import larger_integer, smaller_integer

_WORDS = {"max": "larger", "min": "smaller"}  # of two values, in names
PLAIN = {"max": FUNCTIONS[larger_integer], "min": FUNCTIONS[smaller_integer]}


class Extremum:
    """``max`` or ``min``."""

    def __init__(self, name: str, reduce: Any, of_floats: Any, order: Any, twin: Any):
        self.__name__ = name
        self.reduce, self.of_floats, self.order, self.twin = reduce, of_floats, order, twin

    def __call__(self, machine: Comprehensions, node: Any, args: Args, kwargs: Kwargs) -> Any:
        if len(args) > 1:
            return self._of_steps(machine, machine.steps(args, node), kwargs, node)
        key, source = kwargs.get("key"), args[0]
        if isinstance(source, gast.GeneratorExp):
            source = machine.eval_GeneratorExp(source)
        rows = rows_of(source)
        if isinstance(source, Array) and source.ndim == 1 and key is None:
            return self._of_array(source)
        if rows is not None and key is None and getattr(rows.buffers, "ndim", 0) == 1:
            return self._of_array(rows.stacked())
        source = machine.iterated(source, node)
        if not isinstance(source, Generator) or source.started is not False:
            return self._of_values(machine, source, kwargs, node)
        of_list = lambda: self._of_values(
            machine, machine.consumed_value(source, node), kwargs, node
        )
        if key is None:
            return of_list()
        exact = lambda: self._of_steps(machine, machine.steps(source, node), kwargs, node)
        return unless_changed(machine, source, of_list, exact, effects=False)

    def _of_array(self, values: Any) -> Any:
        """Return a vector's extremum: Python keeps a NaN that comes first, and takes no other."""
        return apply(self.of_floats, values) if values.dtype.kind == "f" else self.reduce(values)

    def _of_values(
        self, machine: Comprehensions, source: Any, kwargs: dict[str, Any], node: Any
    ) -> Any:
        """The extremum of an iterable, read by position if it can be, else in steps."""
        found = sequence(source)
        if found is None or found.cursor is not None:
            return self._of_steps(machine, machine.steps(source, node), kwargs, node)
        values = positional(source)
        length = values.length()
        if isinstance(length, Array):
            return self._of_counted(machine, values, kwargs, node)
        return self._of_steps(machine, Positions(values, length), kwargs, node)

    def _of_steps(
        self, machine: Comprehensions, steps: Any, kwargs: dict[str, Any], node: Any
    ) -> Any:
        """The extremum of an iterator: each element's key is computed before the next is read."""
        key = kwargs.get("key")
        weigh = lambda item: item if key is None else machine.call_value(key, [item], {}, node)
        try:
            best = steps.following()
        except StopIteration:
            if "default" in kwargs:
                return kwargs["default"]
            raise ValueError(f"{self.__name__}() iterable argument is empty") from None
        weight = weigh(best)
        while True:
            try:
                item = steps.following()
            except StopIteration:
                return best
            new = (item, weigh(item))
            best, weight = self._better(machine, (best, weight), new, key is None, node)

    def _better(
        self, machine: Comprehensions, old: Any, new: Any, itself: bool, node: Any
    ) -> tuple[Any, Any]:
        """The element that wins, with its weight."""
        weight, now = old[1], new[1]
        if itself and (isinstance(now, Array) or isinstance(weight, Array)):
            if _is_int(now) and _is_int(weight):
                best = PLAIN[self.__name__](now, weight)
                return best, best
        better = machine.truth(machine.compare(self.order, now, weight, node), node)
        if not isinstance(better, Array):
            return new if better else old
        pair: tuple[Any, Any] = machine.choose(better, always(new), always(old), node)
        for value in pair:
            if type(value) is Array and value.is_lasting_number() and value.atom.name is None:
                value.atom.word = value.atom.word or _WORDS.get(self.__name__)
        return pair

    def _of_counted(
        self, machine: Comprehensions, values: Iterable, kwargs: dict[str, Any], node: Any
    ) -> Any:
        """Of as many values as the run has, by a loop of the program."""
        count = values.length()

        def found() -> Any:
            given = [values.element(0), Behind(values, 1), kwargs.get("key")]
            return machine.call_value(self.twin, given, {}, node)

        def none() -> Any:
            if "default" in kwargs:
                return kwargs["default"]
            error = ValueError(f"{self.__name__}() iterable argument is empty")
            return machine.path_raises(error, node)

        test = machine.truth(count > 0, node)
        if not isinstance(test, Array):
            return found() if test else none()
        return machine.choose(test, found, none, node)


def _is_int(value: Any) -> bool:
    """True if a value is a Python integer, known or not."""
    if isinstance(value, Array):
        return value.type == INT
    return isinstance(value, int) and not isinstance(value, bool)


BUILTINS[max] = Extremum("max", np.max, pythons_extrema.largest, gast.Gt(), polyfills.largest)
BUILTINS[min] = Extremum("min", np.min, pythons_extrema.smallest, gast.Lt(), polyfills.smallest)
