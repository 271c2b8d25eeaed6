"""``enumerate``, ``zip`` and their kin of a generator: a generator again, where it can be written.

Then a ``for`` may consume it in a loop of the generated program. Else the generator is taken a step
at a time, as other iterators are.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

from calque.transpiler.frontend.library import polyfills
from calque.transpiler.frontend.machine import Args, Kwargs, Machine
from calque.transpiler.frontend.values.containers.list_kinds import rows_of
from calque.transpiler.frontend.values.iterables import (
    Endless,
    Generator,
    Iterable,
    Known,
    Zipped,
    positional,
    sequence,
)

TAKES_STEPS = (enumerate, zip, map, filter, iter, next, functools.reduce)
HOLDS = (functools.partial, setattr, isinstance, type, callable)  # it is not consumed there
POOLS = (
    *(itertools.product, itertools.combinations, itertools.permutations),
    itertools.combinations_with_replacement,
)
Call = tuple[Any, list[Any]]  # a twin, and its arguments


def takes_steps(function: Any) -> bool:
    """True if a function advances a generator only as far as it is asked to."""
    if any(function is f for f in POOLS):
        return False
    own = getattr(function, "__self__", None) is itertools.chain
    module = getattr(function, "__module__", None)
    return own or module == "itertools" or any(function is f for f in (*TAKES_STEPS, *HOLDS))


def stepwise(machine: Machine, function: Any, args: Args, kwargs: Kwargs, node: Any) -> Any:
    """The call of such a function with a generator among its arguments; None without a twin."""
    args = [a if isinstance(a, Generator) else machine.iterated(a, node) for a in args]
    if any(isinstance(a, Generator) and a.started is not False for a in args):
        return None
    found = _twin(function, args, kwargs)
    if found is None:
        return None
    twin, given = found
    made = machine.call_for_user(twin, given, {}, node)
    made.origin = machine.origin(node)
    return made


def _twin(function: Any, args: Args, kwargs: Kwargs) -> Call | None:
    steps = [isinstance(a, Generator) for a in args]
    if function is enumerate and steps[0]:
        return polyfills.enumerated, [*args, *kwargs.values()]  # only `start` can be named
    if kwargs:
        return None
    if function is zip and sum(steps) == 1:
        return _zipped(args, steps.index(True))
    if function is itertools.chain:
        return polyfills.chained, args
    if steps != [False, True]:
        return _sliced(args) if function is itertools.islice and steps[0] else None
    short = {
        map: polyfills.mapped,
        filter: polyfills.filtered,
        itertools.filterfalse: polyfills.dropped,
        itertools.takewhile: polyfills.while_true,
    }
    return (short[function], args) if function in short else None


def _zipped(args: list[Any], at: int) -> Call | None:
    found = [_by_position(a) for a in (*args[:at], *args[at + 1 :])]
    if any(f is None for f in found):
        return None
    others = Zipped([f if isinstance(f, Known) else positional(f) for f in found])
    ends = any(not isinstance(part, Endless) for part in others.parts)
    return polyfills.zipped, [args[at], others, at, others.length() if ends else None]


def _by_position(value: Any) -> Any:
    """Values zipped with a generator: read at positions, if they are no iterator under way."""
    if isinstance(value, (list, tuple)) and rows_of(value) is None:
        return Known(value)
    found = sequence(value)
    return None if isinstance(found, Iterable) and found.cursor is not None else found


def _sliced(args: list[Any]) -> Call | None:
    """``islice`` with known bounds; None if it yields nothing, as the twin would read too far."""
    values, *bounds = args
    if not all(b is None or type(b) is int for b in bounds):
        return None
    made = slice(*bounds)
    if made.stop == 0:
        return None
    return polyfills.sliced, [values, made.start or 0, made.stop, made.step or 1]
