"""``collections.deque`` and ``heapq``."""

from __future__ import annotations

import contextlib
import heapq
from collections import deque
from collections.abc import Callable
from typing import Any

import gast

from calque.transpiler.frontend.calls import BUILTINS, builtin
from calque.transpiler.frontend.library import polyfills
from calque.transpiler.frontend.library.orders import RunTimeOrder
from calque.transpiler.frontend.library.polyfills import Deque
from calque.transpiler.frontend.machine import Args, Kwargs, Machine
from calque.transpiler.frontend.values.containers.list_kinds import RecordedList, rows_of
from calque.transpiler.ir.builder import Array, known_int


@builtin(deque)
def _deque(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    given = dict(zip(("iterable", "maxlen"), args, strict=False)) | kwargs
    maxlen = given.get("maxlen")
    made = machine.own(Deque(machine.own(RecordedList()), maxlen))
    if maxlen is not None:
        made.maxlen = known_int(maxlen, "The length of a deque")
    if "iterable" in given:
        machine.call_value(made.extend, [given["iterable"]], {}, node)
    return made


class _Ranked:
    """An element of a heap, compared as the program compares it."""

    def __init__(self, item: Any, machine: Machine, node: Any):
        self.item, self.machine, self.node = item, machine, node

    def __lt__(self, other: _Ranked) -> bool:
        return self._less(self.item, other.item)

    def _less(self, left: Any, right: Any) -> bool:
        if isinstance(left, (tuple, list)) and isinstance(right, type(left)):
            for a, b in zip(left, right, strict=False):
                if not self._decided(gast.Eq(), a, b):
                    return self._less(a, b)
            return len(left) < len(right)
        return self._decided(gast.Lt(), left, right)

    def _decided(self, op: Any, left: Any, right: Any) -> bool:
        if left is right and isinstance(op, gast.Eq):
            return True
        test = self.machine.truth(self.machine.compare(op, left, right, self.node), self.node)
        if isinstance(test, Array):
            raise RunTimeOrder
        return test


def _on_heap(function: Callable[..., Any]) -> Callable[..., Any]:
    twin = getattr(polyfills, function.__name__)

    def call(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
        values, *rest = args
        machine.check_writable(values, node, f"`{function.__name__}`")
        machine.check_not_walked(values, node, f"`{function.__name__}`")
        if rows_of(values) is None:
            heap = [_Ranked(v, machine, node) for v in values]
            given = [_Ranked(v, machine, node) for v in rest]
            with contextlib.suppress(RunTimeOrder), machine.builder.block():
                result = function(heap, *given)
                values[:] = [ranked.item for ranked in heap]
                return result.item if isinstance(result, _Ranked) else result
        return machine.call_value(twin, args, {}, node)

    return call


for _function in (
    heapq.heapify,
    heapq.heappush,
    heapq.heappop,
    heapq.heappushpop,
    heapq.heapreplace,
):
    BUILTINS[_function] = _on_heap(_function)


def _first(reverse: bool) -> Callable[..., Any]:
    """``nsmallest``, ``nlargest``: the first of the sorted ones, as their documentation says."""

    def call(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
        count, values, *key = args
        options = {**kwargs, "reverse": reverse} | ({"key": key[0]} if key else {})
        count = max(known_int(count, "How many are taken"), 0)
        ordered = machine.call_value(sorted, [values], options, node)
        if rows_of(ordered) is None:
            ordered = machine.known_items(ordered[:count], node)
        else:
            ordered = machine.known_items(ordered, node)[:count]
        return machine.own(RecordedList(ordered))

    return call


BUILTINS[heapq.nsmallest], BUILTINS[heapq.nlargest] = _first(False), _first(True)
