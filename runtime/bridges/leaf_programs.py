"""Functions of a flat list of arrays, and their derivatives, for frameworks that call by arrays.

A framework's operation takes and gives arrays of types that are known before. ``LeafProgram`` is
that: a function of NumPy leaves, the types of its leaves and results, and what is derived from it:
tangents, cotangents, values with gradients, batches. Each of these is a function that calque reads,
so that derivatives of derivatives are compositions. Each is made once, when it is first asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from calque.runtime import trees
from calque.runtime.bridges import leaf_functions
from calque.runtime.bridges.leaf_functions import ArgumentTree, FixedArgument
from calque.runtime.spec import Spec
from calque.transpiler.errors import NeedsKnownValue
from calque.transpiler.ir import pytrees


class Blocks(NamedTuple):
    """The blocks that a Jacobian has: of which program, and by which result and leaf each is."""

    of: LeafProgram
    pairs: list[tuple[int, int]]


class LeafProgram:
    """A function of NumPy leaves with a tuple of results, and the types of both."""

    def __init__(
        self,
        function: Callable[..., Any],
        takes: Sequence[Spec],
        gives: Sequence[Spec],
        kernels: bool,
    ):
        self.function, self.kernels = function, kernels
        self.takes, self.gives = tuple(takes), tuple(gives)
        self.name: str = function.__name__
        self._made: dict[Hashable, LeafProgram] = {}
        self._blocks: Blocks | None = None
        self.program = leaf_functions.transformed(function, kernels)

    def __repr__(self) -> str:
        return f"<{self.name} of {', '.join(map(str, self.takes))}>"

    def __call__(self, *leaves: Any) -> list[np.ndarray[Any, Any]]:
        """The results, as arrays of the promised types that share no memory with the leaves."""
        given = [_as_argument(leaf, spec) for leaf, spec in zip(leaves, self.takes, strict=True)]
        results = self.program(*given)
        return [_as_result(x, spec, self.name) for x, spec in zip(results, self.gives, strict=True)]

    def differentiable(self) -> tuple[int, ...]:
        """The places of the leaves that have a derivative."""
        return tuple(i for i, spec in enumerate(self.takes) if spec.dtype.kind in "fc")

    def differentiable_results(self) -> tuple[int, ...]:
        """The places of the results that have a derivative."""
        return tuple(i for i, spec in enumerate(self.gives) if spec.dtype.kind in "fc")

    def has_gradient(self) -> bool:
        """True if one result is differentiable, and that is a real scalar."""
        places = self.differentiable_results()
        return len(places) == 1 and str(self.gives[places[0]]) in ("f2", "f4", "f8")

    def tangent(self, wanted: tuple[int, ...]) -> LeafProgram:
        """The tangents of the differentiable results.

        It takes the leaves, then tangents of the wanted ones.
        """
        takes = (*self.takes, *(_strong(self.takes[i]) for i in wanted))
        outs = self.differentiable_results()
        gives = [self.gives[i] for i in outs]
        return self._derived(leaf_functions.tangent, (wanted, outs), takes, gives)

    def cotangent(self, wanted: tuple[int, ...], outs: tuple[int, ...]) -> LeafProgram:
        """The cotangents of the wanted leaves; it takes the leaves, then cotangents of results."""
        takes = (*self.takes, *(self.gives[i] for i in outs))
        gives = [_strong(self.takes[i]) for i in wanted]
        return self._derived(leaf_functions.cotangent, (wanted, outs), takes, gives)

    def with_gradient(self, wanted: tuple[int, ...]) -> LeafProgram:
        """All results, then the gradient of the only differentiable one, which is a scalar."""
        gives = (*self.gives, *(_strong(self.takes[i]) for i in wanted))
        (out,) = self.differentiable_results()
        return self._derived(leaf_functions.with_gradient, (wanted, out), self.takes, gives)

    def batched(self, dims: tuple[int | None, ...], size: int) -> LeafProgram:
        """The function of all examples at once; ``dims`` has the axis of each leaf, or None."""
        takes = [_with_axis(spec, dim, size) for spec, dim in zip(self.takes, dims, strict=True)]
        gives = [_with_axis(spec, 0, size) for spec in self.gives]
        return self._derived(leaf_functions.batched, (dims, size), takes, gives)

    def jacobian(self, wanted: tuple[int, ...], outs: tuple[int, ...]) -> LeafProgram:
        """A matrix for each of the results ``outs`` and each of the wanted leaves.

        Its rows are the result's elements and its columns the leaf's, both column by column.
        """
        pairs = [(self.gives[i], self.takes[j]) for i in outs for j in wanted]
        gives = [Spec(out.dtype, (_count(out), _count(leaf))) for out, leaf in pairs]
        shapes = tuple([spec.dims for spec in gives])
        axes = tuple([_by_columns(out.ndim, leaf.ndim) for out, leaf in pairs])
        options = (wanted, outs, axes, shapes)
        make = leaf_functions.jacobian_matrices
        found = self._derived(make, options, self.takes, gives)
        found._blocks = Blocks(self, [(i, j) for i in outs for j in wanted])
        return found

    def selected(self, outs: tuple[int, ...]) -> LeafProgram:
        """The program that computes some of the results only."""
        if len(outs) == len(self.gives):
            return self
        if self._blocks is not None:  # of a Jacobian, fewer directions may do
            pairs = [self._blocks.pairs[place] for place in outs]
            rows, columns = ([*dict.fromkeys(each)] for each in zip(*pairs))
            if pairs == [(i, j) for i in rows for j in columns]:
                return self._blocks.of.jacobian(tuple(columns), tuple(rows))
        gives = [self.gives[i] for i in outs]
        return self._derived(leaf_functions.selected, (outs,), self.takes, gives)

    def _derived(
        self, make: Callable[..., Any], options: tuple[Any, ...], takes: Any, gives: Any
    ) -> LeafProgram:
        found = self._made.get((make, *options))
        if found is None:
            function = make(self.function, len(self.takes), *options)
            found = LeafProgram(function, takes, gives, self.kernels)
            found = self._made.setdefault((make, *options), found)
        return found


def flattened(
    function: Callable[..., Any],
    tree: Any,
    leaves: Sequence[Spec | FixedArgument],
    kernels: bool,
) -> tuple[LeafProgram, Callable[[Sequence[Any]], Any]]:
    """``function`` by the leaves of its arguments; and what puts results into its structure.

    ``tree`` is ``(args, kwargs)``, ``leaves`` has for each of its leaves a spec, or what is part of
    the code.
    """
    takes = [leaf for leaf in leaves if isinstance(leaf, Spec)]
    fixed = [None if isinstance(leaf, Spec) else leaf for leaf in leaves]
    arguments = ArgumentTree(trees.tree_structure(tree), tuple(fixed))
    called = leaf_functions.of_leaves(function, arguments, [bool(spec.dims) for spec in takes])
    result = leaf_functions.result_of(called, tuple(takes), sized=True)
    found, outer = pytrees.flatten(result)
    places = [i for i, leaf in enumerate(found) if isinstance(leaf, Spec)]
    name = getattr(function, "__name__", type(function).__name__)
    gives = [_strong(_known(found[i], name)) for i in places]
    flat = leaf_functions.selected(called, len(takes), tuple(places))

    def unflattened(results: Sequence[Any]) -> Any:
        rest = iter(results)
        full = [next(rest) if isinstance(leaf, Spec) else leaf for leaf in found]
        return pytrees.unflatten(outer, full)

    return LeafProgram(flat, takes, gives, kernels), unflattened


def _strong(spec: Spec) -> Spec:
    return Spec(spec.dtype, spec.dims)


def _with_axis(spec: Spec, axis: int | None, size: int) -> Spec:
    """The type of all examples; a leaf without an axis is the same for all."""
    if axis is None:
        return spec
    dims = list(spec.dims)
    dims.insert(axis, size)
    return Spec(spec.dtype, tuple(dims))


def _by_columns(rows: int, columns: int) -> tuple[int, ...]:
    """The order of axes in which the elements of a derivative lie column by column.

    >>> _by_columns(2, 1)
    (1, 0, 2)
    """
    return (*reversed(range(rows)), *reversed(range(rows, rows + columns)))


def _count(spec: Spec) -> int:
    return math.prod([int(dim) for dim in spec.dims])


def _known(spec: Spec, name: str) -> Spec:
    """The type of a result, whose sizes must be known."""
    if all(isinstance(dim, int) for dim in spec.dims):
        return spec
    raise NeedsKnownValue(
        f"A result of {name}, {spec.dtype.name} of {spec.ndim} axes, has a size that depends on "
        "run-time values.",
        hint="write np.where(mask, x, 0.0) for x[mask]; a number that decides a size must be an "
        "int of Python's, which jax.jit does not trace where static_argnums says so",
    )


def _as_argument(leaf: Any, spec: Spec) -> Any:
    """A leaf as calque takes it: an array, a number of NumPy's, or one of Python's."""
    array = np.asarray(leaf, spec.dtype)
    if spec.weak:
        return array.item()
    return array if spec.dims else array[()]


def _as_result(value: Any, spec: Spec, name: str) -> np.ndarray[Any, Any]:
    """A result as it was promised."""
    array = np.asarray(value, spec.dtype)
    if array.shape != spec.dims:
        raise ValueError(f"{name}: a result has shape {array.shape}, and not {spec.dims}")
    return array
