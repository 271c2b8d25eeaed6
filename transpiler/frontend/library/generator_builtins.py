"""``enumerate``, ``zip`` and their kin of a generator: a generator again."""

from __future__ import annotations

import itertools
from typing import Any

from calque.transpiler.errors import UnsupportedSyntax
from calque.transpiler.frontend.library import polyfills
from calque.transpiler.frontend.values.iterables import Endless, Generator, Zipped, as_iterable

TAKES_STEPS = (enumerate, zip, map, filter, reversed)
Call = tuple[Any, list[Any]]  # a twin, and its arguments


def takes_steps(function: Any) -> bool:
    """Whether a function goes only as far in a generator as it is asked to."""
    module = getattr(function, "__module__", None)
    return module == "itertools" or any(function is f for f in TAKES_STEPS)


def stepwise(
    machine: Any, function: Any, args: list[Any], kwargs: dict[str, Any], node: Any
) -> Any:
    """The call of such a function with a generator among its arguments."""
    found = _twin(function, args, kwargs)
    if found is None:
        return machine.fail(
            UnsupportedSyntax,
            node,
            f"`{function.__name__}` takes a generator step by step.",
            "consume it by a for alone, or make a list of it first: list(...)",
        )
    twin, given = found
    made = machine.call_for_user(twin, given, {}, node)
    made.origin = machine.origin(node)
    return made


def _twin(function: Any, args: list[Any], kwargs: dict[str, Any]) -> Call | None:
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
        itertools.takewhile: polyfills.while_true,
    }
    return (short[function], args) if function in short else None


def _zipped(args: list[Any], at: int) -> Call:
    others = Zipped([as_iterable(a) for a in (*args[:at], *args[at + 1 :])])
    ends = any(not isinstance(part, Endless) for part in others.parts)
    return polyfills.zipped, [args[at], others, at, others.length() if ends else None]


def _sliced(args: list[Any]) -> Call | None:
    """Of known bounds: one step further would be taken in a generator that gives nothing."""
    values, *bounds = args
    if not all(b is None or type(b) is int for b in bounds):
        return None
    made = slice(*bounds)
    if made.stop == 0:
        return None
    return polyfills.sliced, [values, made.start or 0, made.stop, made.step or 1]
