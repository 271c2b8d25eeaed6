"""From a function and its arguments to the pattern of its derivative."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calque.runtime.call.argument_keys import integers_of, sizes_of
from calque.runtime.call.arguments import private_copies
from calque.runtime.call.plans import capture_sizes
from calque.runtime.sparse.patterns import SparsityPattern
from calque.runtime.sparse.programs import cotangents_of, tangents_of
from calque.runtime.spec import Spec
from calque.runtime.transformed import Transformed, result_spec
from calque.runtime.trees import tree_leaves, tree_map
from calque.transpiler.errors import (
    CalqueError,
    CustomRuleError,
    NotDifferentiable,
    SparsityUndecided,
    cell_name,
)
from calque.transpiler.frontend.paths import Path
from calque.transpiler.ir import pytrees
from calque.transpiler.ir.core import Function, Slot, Var, map_tree
from calque.transpiler.sparsity.detection import Detection
from calque.transpiler.sparsity.reached_inputs import ReachedInputs, none, numbered, together
from calque.transpiler.sparsity.rules import Coarse
from calque.transpiler.sparsity.unknown_sizes import is_in_part


class DenseBlockWarning(UserWarning):
    """A part of a pattern holds more than it must, because an operation's places are not known.

    >>> import warnings
    >>> warnings.simplefilter("error", DenseBlockWarning)  # such patterns are refused then
    """


@dataclass(frozen=True)
class Detected:
    """A pattern, and the known values by which it was decided: it is that of these values only."""

    pattern: SparsityPattern
    mode: str | None  # the only one in which the function has this derivative
    integers: tuple[tuple[int, Any], ...]  # leaves of the arguments, counted, that hold no floats
    captured: tuple[tuple[Path, Any], ...]  # values that the function reads from outside
    root: Any  # of which captured values are read
    program: Any  # the program that was followed, and the function that finds it
    find: Callable[..., Any]

    def serves(self, args: Sequence[Any]) -> bool:
        """True if the known values of a call are those of the detection."""
        if self.integers:
            leaves = pytrees.flatten(tuple(args))[0]
            if not all(_are_equal(leaves[k], value) for k, value in self.integers):
                return False
        if not all(_are_equal(path.read(self.root), value) for path, value in self.captured):
            return False
        # numbers, flags and functions that it reads decide which program it is, and so do dtypes
        return self.find(*args) is self.program


def detect(
    function: Callable[..., Any], args: Sequence[Any], argnums: Sequence[int], fixed: bool = True
) -> Detected:
    """The pattern of the Jacobian of the first result of ``function``, by these arguments.

    ``function`` returns a pair ``(value, aux)``; ``argnums`` are the arguments' numbers. There is a
    row for each number of the value, a column for each number of those arguments, both in the order
    of ``ravel_pytree``. What is followed is the program that gives tangents (cotangents, where the
    function has no forward mode), so rules of the user's count. The pattern holds for all values of
    floats among the arguments, in these sizes; integers, booleans and what the function captures
    are taken as they are now, or, unless ``fixed``, for unknown, too. Warns of operations with too
    large an answer, and raises SparsityUndecided where sizes depend on what is unknown.
    """
    chosen = tuple(args[k] for k in argnums)
    try:
        zeros = tree_map(lambda x: np.zeros(np.shape(x), np.asarray(x).dtype), chosen)
        return _follow(tangents_of(function, argnums), zeros, args, fixed, None)
    except (NotDifferentiable, CustomRuleError):
        zeros = value_like(function, args)
        return _follow(cotangents_of(function, argnums), zeros, args, fixed, "reverse")


def value_like(function: Callable[..., Any], args: Sequence[Any]) -> Any:
    """A value in the structure, the sizes and the types of what ``function`` returns.

    ``function`` returns a pair ``(value, aux)``. It is called only where types leave sizes open.
    """

    @functools.wraps(function)
    def value(*args: Any) -> Any:
        return function(*args)[0]

    found = result_spec(value, tuple(args), sized=True)
    specs = [leaf for leaf in tree_leaves(found) if isinstance(leaf, Spec)]
    if not all(isinstance(size, int) for spec in specs for size in spec.dims):
        return function(*private_copies(args))[0]
    return tree_map(lambda x: np.zeros(x.dims, x.dtype) if isinstance(x, Spec) else x, found)


def _follow(
    derivative: Callable[..., Any],
    directions: Any,
    args: Sequence[Any],
    fixed: bool,
    mode: str | None,
) -> Detected:
    """The pattern of ``derivative(directions, *args)`` by the directions; transposed in reverse."""
    program = Transformed("identity", derivative)
    found = program.program(directions, *args)
    followed = _reached(program, directions, args, fixed)
    _warn(followed.coarse)
    if followed.is_complex and mode is None and not any(map(np.iscomplexobj, followed.directions)):
        mode = "forward"  # a cotangent of a complex number gives no derivative by real ones
    pattern = SparsityPattern.reached(followed.reach)
    return Detected(
        pattern.transposed() if mode == "reverse" else pattern,
        mode,
        tuple(followed.integers),
        tuple((path, np.array(value)) for path, value in followed.captured),
        program.dispatcher().root,
        found,
        functools.partial(program.program, directions),
    )


@dataclass(frozen=True)
class Followed:
    """The inputs that all numbers of a program's result reach, and the values that decided so."""

    reach: ReachedInputs
    is_complex: bool  # one of the numbers is
    coarse: list[Coarse]
    directions: list[Any]  # leaves: the inputs
    integers: list[tuple[int, Any]]
    captured: list[tuple[Path, Any]]
    in_part: bool  # arrays on the way have no known sizes

    def looseness(self) -> tuple[int, int]:
        """The numbers of operations that are said to reach too much, and of the entries."""
        return len(self.coarse), len(self.reach.sparse()[1])


def _reached(program: Transformed, directions: Any, args: Sequence[Any], fixed: bool) -> Followed:
    """The inputs that the numbers of a program's result reach.

    A test on unknown values takes examples of a batch apart: which, and how many, is not known.
    Where the pattern is undecided or coarse then, another program is followed, in which no examples
    are taken apart: both arms of each branch are for all.
    """
    undecided, found = None, None
    try:
        found = _followed(program, directions, args, fixed)
    except SparsityUndecided as error:
        undecided = error
    apart = program.program(directions, *args).traced.builder.lanes_taken
    if apart and (found is None or found.coarse or found.in_part):
        whole = Transformed("whole_batches", program.function)
        try:
            other = _followed(whole, directions, args, fixed, certain=False)
        except (CalqueError, IndexError, ArithmeticError, ValueError):
            pass  # an arm does not run for the examples that do not take it
        else:
            if found is None or other.looseness() < found.looseness():
                return other
    if found is None:
        assert undecided is not None
        raise undecided
    return found


def _followed(
    program: Transformed, directions: Any, args: Sequence[Any], fixed: bool, certain: bool = True
) -> Followed:
    root, traced = program.dispatcher().root, program.program(directions, *args).traced
    own, leaves = pytrees.flatten(directions)[0], pytrees.flatten(tuple(args))[0]
    every = [*own, *leaves]
    captured = [(c.path, c.path.read(root)) for c in traced.captures]
    names = tuple((c.name, c.path) for c in traced.captures)
    sizes = capture_sizes(names, root) | sizes_of(every) | integers_of(every)
    small = traced.copied(sizes)
    inputs = sum(np.size(leaf) for leaf in own)
    given, integers = _arguments(leaves, inputs, fixed)
    first, numbers = 1, []
    for leaf in own:
        numbers.append(numbered(np.shape(leaf), first, inputs))
        first += np.size(leaf)
    known = [*numbers, *given]
    values: dict[Var, Any] = {var: known[k] for var, k in small.builder.leaf_of_param.items()}
    for copy, (_, value) in zip(small.captures, captured, strict=True):
        values[copy.var] = value if fixed else none(np.shape(value), inputs)
    detection = Detection(inputs, certain=certain)
    detection.follow(small.function, values)
    flat, is_complex = _results(detection, small.function)
    in_part = detection.unsized is not None
    return Followed(flat, is_complex, detection.coarse, own, integers, captured, in_part)


def _results(detection: Detection, function: Function) -> tuple[ReachedInputs, bool]:
    """The sets of all numbers of a program's result, in order; True if one is complex."""
    atoms = function.body.results
    seen: list[Any] = []  # what stands in the result, in the order of its numbers in ``order``

    def number(found: Any) -> int:
        seen.append(detection.read(atoms[found.position]) if isinstance(found, Slot) else found)
        return len(seen) - 1

    order = pytrees.flatten(map_tree(number, function.result))[0]
    if any(map(is_in_part, seen)):
        raise SparsityUndecided(
            "the size of an array depends on the inputs here, and it is in the result",
            detection.unsized,
            "give the pattern: sparsity=a boolean matrix, or a SparsityPattern",
        )
    results, inputs = [seen[k] for k in order if seen[k] is not None], detection.inputs
    reach = [r if isinstance(r, ReachedInputs) else none(np.shape(r), inputs) for r in results]
    is_complex = any(isinstance(a, Var) and a.type.dtype.kind == "c" for a in atoms)
    parts = [r.reshaped((r.size,)) for r in reach] or [none((0,), inputs)]
    return together(parts, np.concatenate), is_complex


def _arguments(
    leaves: Sequence[Any], inputs: int, fixed: bool
) -> tuple[list[Any], list[tuple[int, Any]]]:
    """For each leaf that it reaches nothing, or its value; and those that are taken as they are."""
    given, known = [], []
    for position, leaf in enumerate(leaves):
        is_number = isinstance(leaf, (np.ndarray, np.generic, bool, int, float, complex))
        kind = np.result_type(leaf).kind if is_number else ""
        if is_number and (kind in "fc" or not fixed):
            given.append(none(np.shape(leaf), inputs))
            continue
        given.append(leaf)
        if is_number:
            known.append((position, np.array(leaf)))
    return given, known


def _are_equal(now: Any, then: Any) -> bool:
    return np.shape(now) == then.shape and np.array_equal(
        now, then, equal_nan=then.dtype.kind in "fc"
    )


def _warn(coarse: Sequence[Coarse]) -> None:
    """One warning for each line of the user's that an answer is too large for."""
    for told in dict.fromkeys(coarse):
        file = "" if told.origin is None else cell_name(told.origin.file) or told.origin.file
        place = "" if told.origin is None else f"{file}, line {told.origin.line}: "
        text = "" if told.origin is None else f"\n    {told.origin.text.strip()}"
        warnings.warn(
            f"{place}{told.why}.{text}\nInstead: give a smaller pattern, sparsity=...",
            DenseBlockWarning,
            stacklevel=2,
        )
