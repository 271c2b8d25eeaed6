"""Find the statement whose derivative is wrong: each is tested alone, at the values it had."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from calque.runtime.call.dispatch import Dispatcher
from calque.runtime.call.loading import Program
from calque.runtime.check.directional import (
    Comparison,
    Leaves,
    Modes,
    compare,
    is_float,
    is_symmetric,
)
from calque.runtime.transformed import Transformed
from calque.transpiler.diagnostics.single_statements import (
    OBSERVER,
    Kind,
    SingleStatement,
    observed,
)
from calque.transpiler.errors import CalqueError, NotDifferentiable, Origin, SpecializationNeeded
from calque.transpiler.ir.core import Apply, For, If

_MOST_ITERATIONS = 4  # how often a statement of a loop is tested


@dataclass(frozen=True)
class Fault:
    """A statement that was tested: where it stands, its operation, the numbers.

    Those that ``find_faults`` gives are wrong.
    """

    origin: Origin | None
    operation: str
    comparison: Comparison

    @property
    def message(self) -> str:
        """``np.sin: reverse mode disagrees with forward mode and with differences (...)``."""
        c = self.comparison
        forward = "" if c.forward is None else f"forward {c.forward:.6g}, "
        numbers = f"reverse {c.reverse:.6g}, differences {c.differences:.6g}"
        return f"{self.operation}: {c.verdict} ({forward}{numbers})"


def find_faults(fn: Callable[..., Any], args: tuple[Any, ...], seed: int) -> list[Fault]:
    """The innermost statements of ``fn`` that are wrong by themselves."""
    return list(_faults(*_run(fn, args), seed))


def compare_statements(fn: Callable[..., Any], args: tuple[Any, ...], seed: int) -> list[Fault]:
    """The comparison of each statement of ``fn`` that can be tested by itself, right or wrong."""
    return list(_comparisons(*_run(fn, args), seed))


def _run(
    fn: Callable[..., Any], args: tuple[Any, ...]
) -> tuple[list[SingleStatement], dict[int, list[tuple[Any, ...]]]]:
    """The statements of ``fn``, and the values that each had in a few iterations."""
    roots: list[Any] = []

    def find(dispatcher: Dispatcher, given: Any) -> Program:
        roots.append(dispatcher.root)
        return dispatcher.find(given, {})[0]

    program = Transformed("observed", fn).asked(find, args)
    traced = program.traced
    text, top, every = observed(traced.with_calls or traced.function, traced.builder)
    seen: dict[int, list[tuple[Any, ...]]] = {}

    def observe(number: int, read: Callable[[], tuple[Any, ...]]) -> None:
        try:
            values = read()
        except NameError:
            return  # not assigned yet on this path: the statement cannot be run alone
        iterations = seen.setdefault(id(every[number]), [])
        del iterations[_MOST_ITERATIONS - 1 :]
        iterations.append(tuple(_fresh(values)))

    with np.errstate(all="ignore"):
        _load(text, "observed", {OBSERVER: observe})(*args, **program.hidden(roots[-1]))
    return top, seen


def _comparisons(
    statements: list[SingleStatement], seen: dict[int, list[tuple[Any, ...]]], seed: int
) -> Iterator[Fault]:
    for single in statements:
        if single.statements:
            yield from _comparisons(single.statements, seen, seed)
            continue
        found = _compared(single, seen.get(id(single), []), seed)
        if found is not None:
            yield Fault(single.statement.origin, _operation(single), found)


def _faults(
    statements: list[SingleStatement], seen: dict[int, list[tuple[Any, ...]]], seed: int
) -> Iterator[Fault]:
    for single in statements:
        found = _wrong(single, seen.get(id(single), []), seed)
        if found == "right":
            continue
        inner = list(_faults(single.statements, seen, seed))
        if isinstance(found, Comparison) and not inner:
            inner = [Fault(single.statement.origin, _operation(single), found)]
        yield from inner


def _operation(single: SingleStatement) -> str:
    match single.statement:
        case Apply(primitive=primitive):
            return str(primitive.name)
        case If():
            return "the branch"
        case For():
            return "the for loop"
    return "the while loop"


def _wrong(
    single: SingleStatement, iterations: list[tuple[Any, ...]], seed: int
) -> Comparison | Literal["right", "untested"]:
    """A comparison that fails, if any does."""
    found = _compared(single, iterations, seed)
    if found is None:
        return "untested"
    return found if found.error > 1.0 else "right"


def _compared(
    single: SingleStatement, iterations: list[tuple[Any, ...]], seed: int
) -> Comparison | None:
    """The first comparison that fails, else the worst one; None if a statement is not tested."""
    modes = _modes(single)
    if modes is None:
        return None
    compared: list[Comparison] = []
    for number, values in enumerate(iterations):
        floats = (k for k, v in enumerate(single.inputs) if v.type.is_float)
        moving = {k for k in floats if is_float(values[k])}
        try:
            compared.append(worst(modes, list(values), moving, seed + number))
        except NameError:
            return None  # a result is not assigned on this path
        if compared[-1].error > 1.0:
            return compared[-1]
    return max(compared, key=lambda c: c.error, default=None)


def worst(modes: Modes, leaves: list[Any], moving: set[int], seed: int) -> Comparison:
    """The worst of a few directions; of symmetric ones, where a symmetric matrix is at fault."""
    found = [compare(modes, leaves, moving, np.random.default_rng(seed + k)) for k in range(3)]
    if max(c.error for c in found) > 1.0 and any(is_symmetric(leaves[k]) for k in moving):
        rngs = [np.random.default_rng(seed + k) for k in range(3)]
        found = [compare(modes, leaves, moving, rng, symmetric=True) for rng in rngs]
    return max(found, key=lambda c: c.error)


def _modes(single: SingleStatement) -> Modes | None:
    """The statement and its derivatives; None if it has none, or cannot be written alone."""
    if not single.differentiable:
        return None
    try:
        value, vjp = (_alone(single, kind) for kind in ("value", "vjp"))
    except (CalqueError, SpecializationNeeded):
        return None
    try:
        jvp = _alone(single, "jvp")
    except NotDifferentiable as error:
        jvp = _refusing(error)
    floats = [k for k, v in enumerate(single.inputs) if v.type.is_float]
    outs = [k for k, v in enumerate(single.statement.outs) if v.type.is_float]

    def push(leaves: list[Any], dots: list[Any]) -> tuple[Leaves, Leaves]:
        return value(*_fresh(leaves)), jvp(*leaves, *[dots[k] for k in floats])

    def pull(leaves: list[Any], bars: list[Any]) -> Leaves:
        found: list[Any] = [None] * len(leaves)
        for k, bar in zip(floats, vjp(*leaves, *[bars[k] for k in outs]), strict=True):
            found[k] = bar
        return found

    return Modes(lambda leaves: value(*leaves), push, pull)


def _refusing(error: NotDifferentiable) -> Callable[..., Any]:
    def refuse(*args: Any) -> Any:
        raise error

    return refuse


def _fresh(leaves: Leaves) -> list[Any]:
    return [x.copy() if isinstance(x, np.ndarray) else x for x in leaves]


def _alone(single: SingleStatement, kind: Kind) -> Callable[..., Any]:
    """The statement, or a derivative of it, as a function."""
    text, read_outside = single.module(kind)
    return partial(_load(text, "single"), **read_outside)


def _load(text: str, name: str, names: dict[str, Any] | None = None) -> Callable[..., Any]:
    namespace: dict[str, Any] = {"__name__": f"calque.generated.{name}"}
    exec(compile(text, f"<calque {name}>", "exec"), namespace)
    namespace.update(names or {})
    found: Callable[..., Any] = namespace[name]
    return found
