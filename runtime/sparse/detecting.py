"""From a function and its arguments to the pattern of its derivative."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calque.runtime.call.argument_keys import integers_of, sizes_of
from calque.runtime.call.plans import capture_sizes
from calque.runtime.sparse.patterns import SparsityPattern
from calque.runtime.transformed import Transformed
from calque.transpiler.frontend.paths import Path
from calque.transpiler.ir import pytrees
from calque.transpiler.ir.core import Slot, Var, map_tree
from calque.transpiler.sparsity.detection import Detection
from calque.transpiler.sparsity.reached_inputs import ReachedInputs, none, numbered, together
from calque.transpiler.sparsity.rules import Coarse


class DenseBlockWarning(UserWarning):
    """A part of a pattern holds more than it must, because an operation's places are not known.

    >>> import warnings
    >>> warnings.simplefilter("error", DenseBlockWarning)  # such patterns are refused then
    """


@dataclass(frozen=True)
class Detected:
    """A pattern, and the known values by which it was decided: it is that of these values only."""

    pattern: SparsityPattern
    integers: tuple[tuple[int, Any], ...]  # leaves of the arguments, counted, that hold no floats
    captured: tuple[tuple[Path, Any], ...]  # values that the function reads from outside
    root: Any = None  # of which captured values are read
    program: Any = None  # the program that was followed, and the function that finds it
    find: Callable[..., Any] | None = None

    def serves(self, args: Sequence[Any]) -> bool:
        """True if the known values of a call are those of the detection."""
        if self.integers:
            leaves = pytrees.flatten(tuple(args))[0]
            if not all(_are_equal(leaves[k], value) for k, value in self.integers):
                return False
        if not all(_are_equal(path.read(self.root), value) for path, value in self.captured):
            return False
        # numbers, flags and functions that it reads decide which program it is, and so do dtypes
        return self.find is None or self.find(*args) is self.program


def detect(
    function: Callable[..., Any], args: Sequence[Any], argnums: Sequence[int], fixed: bool = True
) -> Detected:
    """The pattern of the Jacobian of ``function`` by the arguments of these numbers.

    A row for each number of the result, a column for each number of those arguments, both in the
    order of ``ravel_pytree``. It holds for all values of floats among the arguments, in these
    sizes; integers, booleans and what the function captures are taken as they are now, or, unless
    ``fixed``, for unknown, too. Warns of operations with too large an answer, and raises
    SparsityUndecided where sizes depend on what is unknown.
    """
    program = Transformed("identity", function)
    found = program.program(*args)
    root, traced = program.dispatcher().root, found.traced
    groups = [pytrees.flatten(a)[0] for a in args]
    leaves = [leaf for group in groups for leaf in group]
    chosen = [k in argnums for k, group in enumerate(groups) for _ in group]
    captured = [
        (c, path.read(root)) for c, (_, path) in zip(traced.captures, found.captures, strict=True)
    ]
    sizes = capture_sizes(found.captures, root) | sizes_of(leaves) | integers_of(leaves)
    small = traced.copied(sizes)
    inputs = sum(np.size(leaf) for leaf, counted in zip(leaves, chosen, strict=True) if counted)
    given, integers = _arguments(leaves, chosen, inputs, fixed)
    values: dict[Var, Any] = {var: given[k] for var, k in small.builder.leaf_of_param.items()}
    for copy, (_, value) in zip(small.captures, captured, strict=True):
        values[copy.var] = value if fixed else none(np.shape(value), inputs)
    detection = Detection(inputs)
    detection.follow(small.function, values)
    atoms = small.function.body.results
    seen: list[Any] = []  # what stands in the result, in the order of its numbers in ``order``

    def number(found: Any) -> int:
        seen.append(detection.read(atoms[found.position]) if isinstance(found, Slot) else found)
        return len(seen) - 1

    order = pytrees.flatten(map_tree(number, small.function.result))[0]
    results = [seen[k] for k in order]
    reach = [r if isinstance(r, ReachedInputs) else none(np.shape(r), inputs) for r in results]
    flat = together([r.reshaped((r.size,)) for r in reach], np.concatenate)
    _warn(detection.coarse)
    return Detected(
        SparsityPattern.reached(flat),
        tuple(integers),
        tuple(
            (path, np.array(v)) for (_, path), (_, v) in zip(found.captures, captured, strict=True)
        ),
        root,
        found,
        program.program,
    )


def _arguments(
    leaves: Sequence[Any], chosen: Sequence[bool], inputs: int, fixed: bool
) -> tuple[list[Any], list[tuple[int, Any]]]:
    """For each leaf what it reaches, or its value; and those that are taken as they are."""
    given, known, first = [], [], 1
    for position, (leaf, counted) in enumerate(zip(leaves, chosen, strict=True)):
        is_float = np.result_type(leaf).kind in "fc"
        if not is_float and fixed:
            given.append(leaf)
            known.append((position, np.array(leaf)))
        elif counted and is_float:
            given.append(numbered(np.shape(leaf), first, inputs))
        else:
            given.append(none(np.shape(leaf), inputs))
        first += np.size(leaf) if counted else 0
    return given, known


def _are_equal(now: Any, then: Any) -> bool:
    return np.shape(now) == then.shape and np.array_equal(
        now, then, equal_nan=then.dtype.kind in "fc"
    )


def _warn(coarse: Sequence[Coarse]) -> None:
    """One warning for each line of the user's that an answer is too large for."""
    for told in dict.fromkeys(coarse):
        place = "" if told.origin is None else f"{told.origin.file}, line {told.origin.line}: "
        text = "" if told.origin is None else f"\n    {told.origin.text.strip()}"
        warnings.warn(
            f"{place}{told.why}.{text}\nInstead: give a smaller pattern, sparsity=...",
            DenseBlockWarning,
            stacklevel=2,
        )
