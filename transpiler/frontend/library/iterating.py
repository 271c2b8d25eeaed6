"""The builtins that make and consume iterators: ``iter``, ``next``, ``zip`` and their kin.

Over what has positions in a loop of the generated program they are sequences of their own; else
they are iterators that are taken a step at a time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import partial
from typing import Any

import gast
import numpy as np

from calque.transpiler.frontend.calls import BUILTINS, builtin
from calque.transpiler.frontend.control.comprehension import (
    Comprehensions,
    accumulate,
    fold,
    readable_later,
    unless_changed,
)
from calque.transpiler.frontend.library import polyfills
from calque.transpiler.frontend.library.polyfills import Deque
from calque.transpiler.frontend.machine import Args, Kwargs
from calque.transpiler.frontend.methods import method_of
from calque.transpiler.frontend.values.containers.list_kinds import RecordedList, rows_of
from calque.transpiler.frontend.values.heap import Snapshot
from calque.transpiler.frontend.values.iterables import (
    Endless,
    Enumerated,
    Generator,
    Iterated,
    MappedElements,
    Range,
    Reversed,
    Zipped,
    positional,
    sequence,
)
from calque.transpiler.frontend.values.key_presence import VIEWS
from calque.transpiler.frontend.values.stepwise import (
    STEPS,
    Backwards,
    CallSteps,
    Enumerate,
    Filter,
    Map,
    OverKeys,
    Zip,
    is_iterator,
)
from calque.transpiler.ir.builder import FUNCTIONS, OPERATORS, Array
from calque.transpiler.ir.effects import has_effects


@builtin(iter)
def _iter(machine: Comprehensions, node: Any, args: Args, kwargs: Kwargs) -> Any:
    if len(args) == 2:
        return CallSteps(args[0], [], args[1], node)
    if isinstance(args[0], Array) and not args[0].ndim:
        raise TypeError("iteration over a 0-d array")
    source = machine.iterated(args[0], node)
    found = sequence(source)
    if isinstance(source, Generator) or (found is not None and found.spent is not None):
        return source
    if found is None or isinstance(found, Endless):
        return machine.steps(source, node)
    length = found.length()
    few = type(length) is int and length <= STEPS
    return machine.steps(source, node) if few else Iterated(source)


@builtin(next)
def _next(machine: Comprehensions, node: Any, args: Args, kwargs: Kwargs) -> Any:
    source, *default = args
    following = method_of(source, "next")
    if following is None and not is_iterator(source):
        machine.check_writable(source, node, "`next`")
        raise TypeError(f"'{kind_of(source)}' object is not an iterator")
    try:
        if following is not None:
            return machine.call_value(following, [source], {}, node)
        return machine.steps(source, node).following()
    except StopIteration as end:
        if default and not getattr(end, "calque_on_a_path", False):
            return default[0]
        raise


def kind_of(value: Any) -> str:
    """The name that Python's errors give to the type of a value."""
    if isinstance(value, Array):
        return "numpy.ndarray"
    kinds = {RecordedList: "list", Range: "range"}
    return kinds.get(type(value), type(value).__name__)


@builtin(enumerate)
def _enumerate(machine: Comprehensions, node: Any, args: Args, kwargs: Kwargs) -> Any:
    start = kwargs.get("start", args[1] if len(args) > 1 else 0)
    source = machine.iterated(args[0], node)
    part = positional(source)
    return (
        Enumerate(machine.steps(source, node), start) if part is None else Enumerated(part, start)
    )


def _parts(machine: Comprehensions, sources: list[Any], strict: bool = False) -> list[Any] | None:
    """Sources consumed together, by positions; None where one must be taken step by step."""
    found = [sequence(s) for s in sources]
    if any(f is None or f.cursor is not None for f in found):
        return None
    iterators = [f for f in found if f.spent is not None or isinstance(f, Endless)]
    if len({id(f) for f in iterators}) < len(iterators):
        return None  # zip(it, it): they take turns
    if all(isinstance(f, Endless) for f in found):
        return None
    if strict:
        known_lengths = {f.length() for f in found if not isinstance(f, Endless)}
        if len(known_lengths) > 1 and not any(isinstance(n, Array) for n in known_lengths):
            return None
        if any(isinstance(f, Endless) for f in found):
            return None
    if len(found) > 1 and _acts_in_vain(machine, found):
        return None
    return [positional(s) for s in sources]


def _acts_in_vain(machine: Comprehensions, parts: list[Any]) -> bool:
    """True if a part may do something to give an element for which another has no companion."""
    lengths = [machine.builder.dim_of(p.length()) for p in parts if not isinstance(p, Endless)]
    if not any(isinstance(p, MappedElements) for p in parts) or len(set(lengths)) == 1:
        return False
    base, marks = Snapshot([*machine.roots(), *parts], machine.owned), machine._marks()
    before = readable_later(Snapshot(machine.roots(), machine.owned))
    with machine.builder.block() as block:
        for part in parts[:-1]:
            if isinstance(part, MappedElements):
                part.element(0)
    acts = before.differs(Snapshot(machine.roots(), machine.owned))
    acts = acts or any(map(has_effects, block.statements))
    base.restore()
    machine._back_to(marks)
    return acts


@builtin(zip)
def _zip(machine: Comprehensions, node: Any, args: Args, kwargs: Kwargs) -> Any:
    strict = bool(kwargs.get("strict", False))
    sources = [machine.iterated(a, node) for a in args]
    parts = _parts(machine, sources, strict)
    if not parts:
        return Zip([machine.steps(s, node) for s in sources], strict)
    if strict:
        _compare_lengths(machine, [p.length() for p in parts], node)
    return Zipped(parts)


def _compare_lengths(machine: Comprehensions, lengths: list[Any], node: Any) -> None:
    """The condition of ``zip(strict=True)`` on lengths that only the run knows."""
    first, dim_of = lengths[0], machine.builder.dim_of
    for position, other in enumerate(lengths[1:], 2):
        if dim_of(first) == dim_of(other):
            continue
        error = ValueError(f"zip() argument {position} is as long as argument 1 no more")
        differ = OPERATORS["ne"](first, other)
        machine.fork(differ, partial(machine.path_raises, error, node), lambda: None, node)


@builtin(reversed)
def _reversed(machine: Comprehensions, node: Any, args: Args, kwargs: Kwargs) -> Any:
    value = args[0]
    if isinstance(value, Deque) and rows_of(value.items) is None:
        return Backwards(value.items, fixed=True)
    own = method_of(value, "reversed")
    if own is not None:
        return machine.call_value(own, args, {}, node)
    if isinstance(value, (dict, *VIEWS)):
        return OverKeys(value, backwards=True)
    part = sequence(value)
    if isinstance(value, range):
        return Iterated(range(*_reversed_range(value)))
    if part is None or part.spent is not None:
        if not hasattr(type(value), "__len__") or isinstance(value, (set, frozenset)):
            raise TypeError(f"'{kind_of(value)}' object is not reversible")
        return Backwards(value)
    if isinstance(part, Range) and part.step == 1:
        return Iterated(Range(part.stop - 1, part.start - 1, -1))
    return Reversed(part)


def _reversed_range(value: range) -> tuple[int, int, int]:
    last = value.start + (len(value) - 1) * value.step
    return last, value.start - value.step, -value.step


@builtin(map)
def _map(machine: Comprehensions, node: Any, args: Args, kwargs: Kwargs) -> Any:
    function, *sources = [args[0], *(machine.iterated(a, node) for a in args[1:])]
    parts = _parts(machine, sources)
    if not parts:
        return Map(function, [machine.steps(s, node) for s in sources], node)
    call = lambda *values: machine.call_value(function, list(values), {}, node)
    return MappedElements(call, parts)


@builtin(filter)
def _filter(machine: Comprehensions, node: Any, args: Args, kwargs: Kwargs) -> Any:
    return Filter(args[0], machine.steps(args[1], node), node)


@builtin(functools.reduce)
def _reduce(machine: Comprehensions, node: Any, args: Args, kwargs: Kwargs) -> Any:
    function, values, *initial = args
    steps = machine.steps(values, node)
    try:
        result = initial[0] if initial else steps.following()
    except StopIteration:
        raise TypeError("reduce() of empty iterable with no initial value") from None
    for item in steps:
        result = machine.call_value(function, [result, item], {}, node)
    return result


def _quantifier(is_all: bool) -> Callable[..., Any]:
    def quantify(machine: Comprehensions, node: Any, args: Args, kwargs: Kwargs) -> Any:
        source = args[0]
        if isinstance(source, Array):
            return FUNCTIONS[bool]((np.all if is_all else np.any)(source))

        def exact() -> Any:
            twin = polyfills.holds_for_all if is_all else polyfills.holds_for_one
            generator = isinstance(source, gast.GeneratorExp)
            values = machine.eval_GeneratorExp(source) if generator else source
            return machine.call_for_user(twin, [values], {}, node)

        quick = partial(whether, machine, node, source)
        return FUNCTIONS[bool](unless_changed(machine, source, quick, exact))

    def whether(machine: Comprehensions, node: Any, source: Any) -> Any:
        """``any`` or ``all`` by testing every element, which is equivalent without side effects."""

        def step(result: Any, item: Any) -> Any:
            item = machine.truth(item, node)
            if not isinstance(result, Array):
                return item if result == is_all else result
            return machine.short_circuit(result, lambda: item, node, is_and=is_all)

        if isinstance(source, gast.GeneratorExp):
            return accumulate(machine, source, is_all, step)
        return fold(machine, node, source, is_all, step)

    return quantify


BUILTINS[any], BUILTINS[all] = _quantifier(False), _quantifier(True)
