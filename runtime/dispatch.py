"""From a call to the generated function for its types, made once.

The key of a call holds each array's dtype, rank and which sizes are 1; values of leaves that are no
numbers; and, where interpretation asked for them, values of integers and sizes.
"""

from __future__ import annotations

import linecache
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calque.runtime.spec import Spec
from calque.transpiler import pipeline, tree
from calque.transpiler.errors import SpecializationNeeded
from calque.transpiler.frontend.trace import Traced
from calque.transpiler.pipeline import Arguments
from calque.transpiler.types import (
    BOOL,
    COMPLEX,
    FLOAT,
    INT,
    ArrayType,
    Dim,
    DimLike,
    substitute_dim,
    symbol,
)

_SCALARS = {float: FLOAT, int: INT, complex: COMPLEX, bool: BOOL}
_NUMBERS = (np.ndarray, np.generic)
_MAX_ROUNDS = 64
_count = 0
_lock = threading.RLock()


def leaf_key(leaf: Any) -> Any:
    """What of a leaf the generated code depends on."""
    kind = type(leaf)
    if kind is np.ndarray:
        return (leaf.dtype, tuple([s == 1 for s in leaf.shape]))
    if kind in (float, int, complex):
        return kind
    if isinstance(leaf, np.generic) and leaf.dtype.kind in "biufc":
        return leaf.dtype
    if isinstance(leaf, Spec):
        return leaf
    if isinstance(leaf, np.ndarray):
        return (leaf.dtype, tuple([s == 1 for s in leaf.shape]))
    if hasattr(leaf, "__array__") and not isinstance(leaf, type):
        return leaf_key(np.asarray(leaf))
    try:
        hash(leaf)
    except TypeError:
        return (kind, id(leaf))
    return (kind, leaf)


def leaf_type(leaf: Any, position: int, pinned: dict[str, int]) -> ArrayType | None:
    """The type of a leaf; None for one that is known."""
    if isinstance(leaf, Spec):
        dims = tuple(_spec_dim(d, pinned) for d in leaf.dims)
        return ArrayType(leaf.dtype, dims, getattr(leaf, "weak", False))
    kind = type(leaf)
    if kind in (float, int, complex):
        return _SCALARS[kind]
    if isinstance(leaf, _NUMBERS) or hasattr(leaf, "__array__") and not isinstance(leaf, type):
        value = np.asarray(leaf)
        if value.dtype.kind not in "biufc":
            return None
        names = [f"d{position}_{axis}" for axis in range(value.ndim)]
        return ArrayType(
            value.dtype,
            tuple(_dim(s, n, pinned) for s, n in zip(value.shape, names, strict=True)),
        )
    return None


def _dim(size: int, name: str, pinned: dict[str, int]) -> DimLike:
    if size == 1:
        return 1
    return pinned[name] if name in pinned else symbol(name)


def _spec_dim(dim: int | str, pinned: dict[str, int]) -> DimLike:
    if isinstance(dim, int):
        return dim
    return pinned[dim] if dim in pinned else symbol(dim)


def sizes_of(leaves: list[Any]) -> dict[str, int]:
    """The size of each argument symbol in a call."""
    found = {}
    for position, leaf in enumerate(leaves):
        shape = getattr(leaf, "shape", None)
        if shape and not isinstance(leaf, Spec):
            for axis, size in enumerate(shape):
                found[f"d{position}_{axis}"] = int(size)
    return found


@dataclass(eq=False)
class Program:
    """One generated function, and what must still hold for it to be used."""

    call: Callable[..., Any]
    traced: Traced
    text: str
    captures: tuple[tuple[str, Callable[[], Any]], ...]
    guards: tuple[tuple[Callable[[], Any], Any], ...]
    capture_keys: tuple[Any, ...]
    conditions: tuple[Callable[[dict[str, int]], bool], ...]
    condition_symbols: frozenset[str]

    def still_valid(self) -> bool:
        """Whether the captured constants and the types of the captured arrays are what they were."""
        for read, value in self.guards:
            now = read()
            if now is not value and not _equal(now, value):
                return False
        return all(
            leaf_key(read()) == key for (_, read), key in zip(self.captures, self.capture_keys, strict=True)
        )

    def hidden(self) -> dict[str, Any]:
        """The captured arrays, read again at every call."""
        return {name: read() for name, read in self.captures}


def _equal(left: Any, right: Any) -> bool:
    try:
        return type(left) is type(right) and bool(left == right)
    except Exception:
        return False


@dataclass(eq=False)
class Plan:
    """For one key: which values and sizes became part of the key, and the programs made so far."""

    leaves: frozenset[int] = frozenset()
    symbols: frozenset[str] = frozenset()
    programs: dict[Any, Program] = field(default_factory=dict)


class Dispatcher:
    """The programs of one function."""

    def __init__(self, function: Any, name: Callable[[], str]):
        self.function = function
        self.name = name
        self.plans: dict[Any, Plan] = {}

    def program(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Program:
        """The program for these arguments; made if there is none."""
        leaves, structure = tree.flatten((args, kwargs))
        key = (structure, tuple([leaf_key(x) for x in leaves]))
        plan = self.plans.get(key)
        if plan is None:
            with _lock:
                plan = self.plans.setdefault(key, Plan())
        sizes = sizes_of(leaves)
        for _ in range(_MAX_ROUNDS):
            full = self._full_key(plan, leaves, sizes)
            program = plan.programs.get(full)
            if program is not None:
                violated = self._violated(program, sizes)
                if not violated:
                    if program.still_valid():
                        return program
                    del plan.programs[full]
                    continue
                plan.symbols |= violated
                continue
            with _lock:
                self._make(plan, leaves, structure, sizes, full)
        raise RuntimeError("the signature does not settle")

    def _full_key(self, plan: Plan, leaves: list[Any], sizes: dict[str, int]) -> Any:
        values = tuple(leaves[i] if not isinstance(leaves[i], np.ndarray) else leaves[i].item() for i in sorted(plan.leaves))
        return (plan.leaves, values, tuple((s, sizes.get(s)) for s in sorted(plan.symbols)))

    def _violated(self, program: Program, sizes: dict[str, int]) -> frozenset[str]:
        if not program.conditions or not sizes:
            return frozenset()
        full = {**sizes, **_capture_sizes(program)}
        if all(condition(full) for condition in program.conditions):
            return frozenset()
        return program.condition_symbols

    def _make(
        self, plan: Plan, leaves: list[Any], structure: Any, sizes: dict[str, int], full: Any
    ) -> None:
        if full in plan.programs:
            return
        pinned = {s: sizes[s] for s in plan.symbols if s in sizes}
        pinned.update({s: v for s, v in self._capture_pins(plan).items() if s not in pinned})
        types = [
            None if i in plan.leaves else leaf_type(x, i, pinned) for i, x in enumerate(leaves)
        ]
        values = [
            x.item() if i in plan.leaves and isinstance(x, np.ndarray) else x for i, x in enumerate(leaves)
        ]
        arguments = Arguments(tuple(types), tuple(values), lambda new: tree.unflatten(structure, new))
        try:
            traced = pipeline.to_core(self.function, arguments, pinned)
        except SpecializationNeeded as needed:
            if needed.leaves <= plan.leaves and needed.symbols <= plan.symbols:
                raise RuntimeError(f"asked twice for the same: {needed.why}") from None
            self._check_specs(needed, leaves)
            plan.leaves |= needed.leaves
            plan.symbols |= needed.symbols
            return
        plan.programs[full] = load(traced, self.name(), self.function)

    def _check_specs(self, needed: SpecializationNeeded, leaves: list[Any]) -> None:
        from calque.transpiler.errors import NeedsKnownValue

        specs = [leaves[i] for i in needed.leaves if isinstance(leaves[i], Spec)]
        named = {d for x in leaves if isinstance(x, Spec) for d in x.dims if isinstance(d, str)}
        if specs or needed.symbols & named:
            raise NeedsKnownValue(
                f"{needed.why} must be known when the code is generated.",
                needed.origin,
                "give the value, or the size, in --args instead of a type or a letter",
            )

    def _capture_pins(self, plan: Plan) -> dict[str, int]:
        found: dict[str, int] = {}
        for symbol_name in plan.symbols:
            if "." in symbol_name:
                found[symbol_name] = _captured_size(self.function, symbol_name)
        return {k: v for k, v in found.items() if v >= 0}


def _captured_size(function: Any, label: str) -> int:
    """The present size of a captured array's axis, found by its name; -1 if it is not there."""
    name, axis = label.rsplit(".", 1)
    plain = function
    while hasattr(plain, "__wrapped__"):
        plain = plain.__wrapped__
    value = getattr(plain, "__globals__", {}).get(name)
    cells = dict(zip(getattr(getattr(plain, "__code__", None), "co_freevars", ()), getattr(plain, "__closure__", None) or (), strict=False))
    if name in cells:
        value = cells[name].cell_contents
    return int(np.shape(value)[int(axis)]) if value is not None and np.ndim(value) > int(axis) else -1


def _capture_sizes(program: Program) -> dict[str, int]:
    found = {}
    for name, read in program.captures:
        for axis, size in enumerate(np.shape(read())):
            found[f"{name}.{axis}"] = int(size)
    return found


def _condition(dim: Dim, zero: bool) -> Callable[[dict[str, int]], bool]:
    def holds(sizes: dict[str, int]) -> bool:
        value = substitute_dim(dim, {s: sizes[s] for s in dim.symbols() if s in sizes})
        if isinstance(value, Dim):
            return True
        return value == 0 if zero else value >= 0

    return holds


def load(traced: Traced, name: str, owner: Any) -> Program:
    """Execute the generated text; tracebacks and debuggers find its lines."""
    global _count
    text = pipeline.module_text(traced, name, "", [])
    _count += 1
    file = f"<calque {name} {_count}>"
    namespace: dict[str, Any] = {"__name__": f"calque.generated.{name}"}
    exec(compile(text, file, "exec"), namespace)
    function = namespace[name]
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    weakref.finalize(function, linecache.cache.pop, file, None)
    conditions = [_condition(d, False) for d in traced.assumptions]
    symbols = {s for d in traced.assumptions for s in d.symbols()}
    arguments = traced.builder.dims.arguments
    for equal in traced.function.equal_dims:
        difference = equal.left - equal.right
        if isinstance(difference, Dim) and difference.symbols() <= arguments:
            conditions.append(_condition(difference, True))
            symbols |= difference.symbols()
    captures = tuple((c.name, c.read) for c in traced.captures)
    return Program(
        function,
        traced,
        text,
        captures,
        tuple({(id(g.value), i): (g.read, g.value) for i, g in enumerate(traced.guards)}.values()),
        tuple(leaf_key(read()) for _, read in captures),
        tuple(conditions),
        frozenset(symbols),
    )
