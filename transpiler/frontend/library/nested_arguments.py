"""NumPy functions that depend on the nesting of lists, or take any iterable, not only arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.transpiler.frontend.calls import builtin
from calque.transpiler.frontend.machine import Args, Kwargs, Machine
from calque.transpiler.frontend.values.containers.list_kinds import rows_of
from calque.transpiler.frontend.values.list_arrays import gathered
from calque.transpiler.ir.builder import FUNCTIONS, Array, current, known_int
from calque.transpiler.primitives.compositions import Repeated, block


@builtin(np.block)
def _block(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    (arrays,) = (*args, *kwargs.values())
    return block(_nested(arrays))


def _nested(item: Any) -> Any:
    """Nested lists, one that grew in a loop as its element and how often it is there."""
    rows = rows_of(item)
    if rows is not None:
        return Repeated(rows.stacked())
    return [_nested(i) for i in item] if isinstance(item, list) else item


@builtin(np.fromiter)
def _fromiter(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    return from_iterable(machine, node, *args, **kwargs)


def from_iterable(machine: Machine, node: Any, iter: Any, dtype: Any, count: Any = -1) -> Any:
    """``np.fromiter``: an array of one axis, of the first ``count`` elements."""
    plain = isinstance(iter, (Array, list, tuple, np.ndarray))
    values = gathered(iter if plain else machine.listed(iter, node))
    found = FUNCTIONS[np.array](values, dtype)
    if found.ndim != 1:
        raise ValueError("setting an array element with a sequence.")
    if not isinstance(count, Array) and count == -1:
        return found
    length = found.dims[0]
    rest = length - current().dim_of(count)
    if isinstance(rest, int) and rest == 0:
        return found
    if not current().dims.nonnegative(rest):
        count = known_int(count, "The count of np.fromiter")
        if not isinstance(length, int):
            raise current().needs_dims([length], "np.fromiter with a count: how many there are")
        raise ValueError(f"iterator too short: Expected {count} but it had only {length} items.")
    return found[:count]
