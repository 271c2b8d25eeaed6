"""Functions of a flat list of arrays, and their derivatives, for frameworks that call by arrays.

A framework's operation takes and gives arrays of types that are known before. ``LeafProgram`` is
that: a function of NumPy leaves, the types of its leaves and results, and what is derived from it:
tangents, cotangents, values with gradients, batches. Each of these is a function that calque reads,
so that derivatives of derivatives are compositions. Each is made once, when it is first asked for.
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from calque.runtime import trees
from calque.runtime.api import jit, vmap
from calque.runtime.linear_maps import jvp, vjp
from calque.runtime.more_derivatives import jacobian
from calque.runtime.spec import Spec
from calque.runtime.transformed import Transformed, result_spec
from calque.transpiler.errors import NeedsKnownValue
from calque.transpiler.ir import pytrees

OPEN = object()  # the place of an argument that a call gives


class Unshared(Transformed):
    """A transformed function that shares no programs with other functions of its code.

    Functions made here capture places and sizes. Among functions that share programs these would
    be captured numbers that change.
    """


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
        made: Any = jit(function) if kernels and _has_numba() else Unshared("identity", function)
        self.program = Unshared(made.kind, function, **made.options)

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
        gives = [self.gives[i] for i in self.differentiable_results()]
        return self._derived("tangent", _tangent, (wanted,), takes, gives)

    def cotangent(self, wanted: tuple[int, ...], outs: tuple[int, ...]) -> LeafProgram:
        """The cotangents of the wanted leaves; it takes the leaves, then cotangents of results."""
        takes = (*self.takes, *(self.gives[i] for i in outs))
        gives = [_strong(self.takes[i]) for i in wanted]
        return self._derived("cotangent", _cotangent, (wanted, outs), takes, gives)

    def with_gradient(self, wanted: tuple[int, ...]) -> LeafProgram:
        """All results, then the gradient of the only differentiable one, which is a scalar."""
        gives = (*self.gives, *(_strong(self.takes[i]) for i in wanted))
        (out,) = self.differentiable_results()
        return self._derived("with_gradient", _with_gradient, (wanted, out), self.takes, gives)

    def batched(self, dims: tuple[int | None, ...], size: int) -> LeafProgram:
        """The function of all examples at once; ``dims`` has the axis of each leaf, or None."""
        takes = [_with_axis(spec, dim, size) for spec, dim in zip(self.takes, dims, strict=True)]
        gives = [_with_axis(spec, 0, size) for spec in self.gives]
        return self._derived("batched", _batched, (dims, size), takes, gives)

    def jacobian(self, wanted: tuple[int, ...], outs: tuple[int, ...]) -> LeafProgram:
        """A matrix for each of the results ``outs`` and each of the wanted leaves.

        Its rows are the result's elements and its columns the leaf's, both column by column.
        """
        pairs = [(self.gives[i], self.takes[j]) for i in outs for j in wanted]
        gives = [Spec(out.dtype, (_count(out), _count(leaf))) for out, leaf in pairs]
        shapes = tuple([spec.dims for spec in gives])
        axes = tuple([_by_columns(out.ndim, leaf.ndim) for out, leaf in pairs])
        options = (wanted, outs, axes, shapes)
        found = self._derived("jacobian", _jacobian, options, self.takes, gives)
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
        return self._derived("selected", _selected, (outs,), self.takes, gives)

    def _derived(
        self, kind: str, make: Callable[..., Any], options: tuple[Any, ...], takes: Any, gives: Any
    ) -> LeafProgram:
        found = self._made.get((kind, *options))
        if found is None:
            function = make(self.function, len(self.takes), *options)
            function.__name__ = f"{self.name}_{kind}"
            found = LeafProgram(function, takes, gives, self.kernels)
            found = self._made.setdefault((kind, *options), found)
        return found


def flattened(
    function: Callable[..., Any],
    tree: Any,
    leaves: Sequence[Any],
    kernels: bool,
) -> tuple[LeafProgram, Callable[[Sequence[Any]], Any]]:
    """``function`` by the leaves of its arguments; and what puts results into its structure.

    ``tree`` is ``(args, kwargs)``, ``leaves`` has for each of its leaves a spec, or a value that is
    part of the code.
    """
    structure = trees.tree_structure(tree)
    fixed = [OPEN if isinstance(leaf, Spec) else leaf for leaf in leaves]
    takes = [leaf for leaf in leaves if isinstance(leaf, Spec)]
    name = getattr(function, "__name__", type(function).__name__)

    arrays = [bool(spec.dims) for spec in takes]

    def called(*given: Any) -> Any:
        rest = iter([x.copy() if array else x for x, array in zip(given, arrays)])
        full = [next(rest) if value is OPEN else value for value in fixed]
        args, kwargs = trees.tree_unflatten(structure, full)
        return function(*args, **kwargs)

    found, outer = pytrees.flatten(
        result_spec(Unshared("identity", called), tuple(takes), sized=True)
    )
    places = [i for i, leaf in enumerate(found) if isinstance(leaf, Spec)]
    gives = [_strong(_known(found[i], name)) for i in places]

    def flat(*given: Any) -> Any:
        results = trees.tree_leaves(called(*given))
        return tuple([results[i] for i in places])

    def unflattened(results: Sequence[Any]) -> Any:
        rest = iter(results)
        full = [next(rest) if isinstance(leaf, Spec) else leaf for leaf in found]
        return pytrees.unflatten(outer, full)

    flat.__name__ = name if name.isidentifier() else "function"
    return LeafProgram(flat, takes, gives, kernels), unflattened


@functools.cache
def _has_numba() -> bool:
    try:
        importlib.import_module("numba")
    except ImportError:
        return False
    return True


def _tangent(function: Callable[..., Any], count: int, wanted: tuple[int, ...]) -> Any:
    """The tangents of ``function``'s results along those of its wanted leaves."""

    def tangent(*given: Any) -> Any:
        primals = given[:count]

        def active(*some: Any) -> Any:
            return function(*_placed(primals, wanted, some))

        return jvp(active, tuple([primals[i] for i in wanted]), given[count:])[1]

    return tangent


def _cotangent(
    function: Callable[..., Any], count: int, wanted: tuple[int, ...], outs: tuple[int, ...]
) -> Any:
    """The cotangents of ``function``'s wanted leaves for those of some of its results."""

    def cotangent(*given: Any) -> Any:
        primals = given[:count]

        def active(*some: Any) -> Any:
            results = function(*_placed(primals, wanted, some))
            return tuple([results[i] for i in outs])

        return vjp(active, *[primals[i] for i in wanted])[1](given[count:])

    return cotangent


def _with_gradient(
    function: Callable[..., Any], count: int, wanted: tuple[int, ...], out: int
) -> Any:
    """All of ``function``'s results, then the gradient of one of them."""

    def with_gradient(*given: Any) -> Any:
        def active(*some: Any) -> Any:
            results = function(*_placed(given, wanted, some))
            return results[out], results

        _, pullback, results = vjp(active, *[given[i] for i in wanted], has_aux=True)
        return (*results, *pullback(1.0))

    return with_gradient


def _jacobian(
    function: Callable[..., Any],
    count: int,
    wanted: tuple[int, ...],
    outs: tuple[int, ...],
    axes: tuple[tuple[int, ...], ...],
    shapes: tuple[tuple[int, ...], ...],
) -> Any:
    """The Jacobian of some of ``function``'s results by its wanted leaves, as matrices."""
    assert len(axes) == len(wanted) * len(outs)

    def by_leaves(*given: Any) -> Any:
        def active(*some: Any) -> Any:
            results = function(*_placed(given, wanted, some))
            return tuple([results[i] for i in outs])

        places = tuple(range(len(wanted)))
        rows = jacobian(active, argnums=places)(*[given[i] for i in wanted])
        blocks = [block for row in rows for block in row]
        return tuple(
            [
                np.reshape(np.transpose(block, order), shape)
                for block, order, shape in zip(blocks, axes, shapes)
            ]
        )

    return by_leaves


def _selected(function: Callable[..., Any], count: int, outs: tuple[int, ...]) -> Any:
    """``function`` with some of its results."""

    def selected(*given: Any) -> Any:
        results = function(*given)
        return tuple([results[i] for i in outs])

    return selected


def _batched(
    function: Callable[..., Any], count: int, dims: tuple[int | None, ...], size: int
) -> Any:
    """``function`` of each example along the axes ``dims``."""
    assert len(dims) == count

    def batched(*given: Any) -> Any:
        return vmap(function, in_axes=dims, axis_size=size)(*given)

    return batched


def _placed(all_leaves: Sequence[Any], places: tuple[int, ...], some: Sequence[Any]) -> list[Any]:
    """The leaves, with ``some`` at their places."""
    full = list(all_leaves)
    for i, leaf in zip(places, some):
        full[i] = leaf
    return full


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
