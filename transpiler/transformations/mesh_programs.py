"""One program that many devices run, each on its part of the arguments (SPMD).

The devices stand along named axes. A function is interpreted for one of them: its arguments are a
device's parts, and the collectives over the axes stay, for an engine to run. Where a transformed
function calls another that is mapped over devices, the devices are the examples of a batch.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from calque.transpiler.errors import DivergentCollective, Origin, ShapeError, VariesOverDevices
from calque.transpiler.frontend.machine import Args, Kwargs, Machine
from calque.transpiler.frontend.trace import listed
from calque.transpiler.ir import core, pytrees
from calque.transpiler.ir.builder import FUNCTIONS, Array
from calque.transpiler.ir.core import Block, For, Var, While
from calque.transpiler.ir.effects import is_store
from calque.transpiler.primitives.axis_collectives import NamedAxis
from calque.transpiler.spmd.mesh_variance import Varying, divergent_collectives
from calque.transpiler.transformations import vmap
from calque.transpiler.transformations.vmap import Axes, leaves_of_prefix


@dataclass(frozen=True, init=False, repr=False)
class PartitionSpec:
    """The axes of a mesh that cut each axis of an array, as ``jax.P``; ``P()`` cuts none.

    Each of ``entries`` is the name of an axis of the mesh, a tuple of names, or None for an axis
    that is not cut; axes of the array beyond the entries are not cut.

    >>> P("data", None)
    P('data', None)
    """

    entries: tuple[Any, ...]
    __calque_leaf__: ClassVar[bool] = True

    def __init__(self, *entries: Any):
        object.__setattr__(self, "entries", tuple(map(_entry, entries)))

    def __repr__(self) -> str:
        return f"P({', '.join(map(repr, self.entries))})"

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.entries)

    def __getitem__(self, index: Any) -> Any:
        return self.entries[index]

    def cuts(self) -> tuple[tuple[Hashable, ...], ...]:
        """The names for each axis of an array.

        >>> P("x", None, ("y", "z")).cuts()
        (('x',), (), ('y', 'z'))
        """
        return tuple(() if e is None else e if isinstance(e, tuple) else (e,) for e in self.entries)

    def names(self) -> frozenset[Hashable]:
        """All names in it."""
        return frozenset(name for names in self.cuts() for name in names)


def _entry(entry: Any) -> Any:
    found = tuple(entry) if isinstance(entry, list) else entry
    try:
        hash(found)
    except TypeError as error:
        raise TypeError(f"P: entries must be names, tuples of names or None: {error}") from None
    return found


P = PartitionSpec


@dataclass(frozen=True)
class Layout:
    """The axes of devices with their sizes, and how what they are given and give is cut.

    ``given`` has a spec for each leaf of the arguments; ``out_specs`` is a prefix of the result.
    """

    axes: tuple[tuple[Hashable, int], ...]
    given: tuple[PartitionSpec, ...]
    out_specs: Any = field(compare=False)  # it may hold lists; in ``repr`` it is
    checked: bool = True
    places: tuple[int | None, ...] = ()  # of pmap: the axis of each leaf that its parts lack

    @property
    def sizes(self) -> dict[Hashable, int]:
        """The number of devices along each axis."""
        return dict(self.axes)

    @property
    def numbers(self) -> list[dict[Hashable, int]]:
        """The number of each device along each axis, the last axis running fastest."""
        names = [name for name, _ in self.axes]
        ranges = [range(size) for _, size in self.axes]
        return [dict(zip(names, place, strict=True)) for place in itertools.product(*ranges)]


def is_spec(value: Any) -> bool:
    """True if a part of a prefix is a leaf."""
    return isinstance(value, PartitionSpec)


def specs_of_leaves(
    specs: Any, value: Any, what: str, option: str = "out_specs"
) -> list[PartitionSpec]:
    """The spec of each leaf of a value, from a prefix of its tree."""
    return leaves_of_prefix(specs, value, what, is_spec, "shard_map", option)


def specs_of_arguments(in_specs: Any, args: Sequence[Any], name: str) -> list[PartitionSpec]:
    """The spec of each leaf of the arguments of a function of this name."""
    if is_spec(in_specs):
        in_specs = [in_specs] * len(args)
    if not isinstance(in_specs, (tuple, list)):
        raise TypeError(f"shard_map: in_specs must be a P, or a tuple of them, and is {in_specs!r}")
    if len(in_specs) != len(args):
        raise ValueError(
            f"shard_map: in_specs has {len(in_specs)} entries, and {name} was given "
            f"{len(args)} arguments"
        )
    return [
        spec
        for k, (specs, value) in enumerate(zip(in_specs, args, strict=True))
        for spec in specs_of_leaves(specs, value, f"argument {k}", "in_specs")
    ]


def require_fitting(
    spec: PartitionSpec,
    shape: Sequence[Any],
    sizes: dict[Hashable, int],
    what: str,
    origin: Origin | None = None,
) -> None:
    """An array of this shape, whose sizes need not be known, can be cut, or put together, so."""
    named = [name for names in spec.cuts() for name in names]
    for name in named:
        if name not in sizes:
            raise ValueError(
                f"shard_map: the spec {spec!r} of {what} names {name!r}, which is no axis of "
                f"the mesh: it has {', '.join(map(repr, sizes))}"
            )
        if named.count(name) > 1:
            raise ValueError(
                f"shard_map: the spec {spec!r} of {what} names {name!r} twice: an axis of the "
                "mesh cuts one axis of an array"
            )
    if len(spec) > len(shape):
        raise ShapeError(
            f"shard_map: the spec {spec!r} of {what} has more entries than its {len(shape)} axes.",
            origin,
        )
    for axis, names in enumerate(spec.cuts()):
        count, size = math.prod(sizes[n] for n in names), shape[axis]
        if isinstance(size, int) and size % count:
            raise ShapeError(
                f"shard_map: axis {axis} of {what} has {size} elements, which "
                f"{count} devices along {', '.join(map(repr, names))} cannot share evenly.",
                origin,
            )


def communicators(layout: Layout, taken: Sequence[str]) -> dict[Hashable, str]:
    """The name that generated source gives to the communicator of each axis.

    >>> communicators(Layout((("x", 2), ("y", 2)), (), P()), ["w"])
    {'x': 'comm_x', 'y': 'comm_y'}
    """
    found: dict[Hashable, str] = {}
    for number, (name, _) in enumerate(layout.axes):
        word = name if isinstance(name, str) and name.isidentifier() else str(number)
        made = "comm" if len(layout.axes) == 1 else f"comm_{word}"
        while made in taken or made in found.values():
            made += "_"
        found[name] = made
    return found


def device_program(
    machine: Machine,
    function: Any,
    args: list[Any],
    kwargs: dict[str, Any],
    node: Any,
    layout: Layout,
    called: dict[Hashable, str],
) -> Any:
    """``function`` as one device runs it, whose communicators are ``called`` so."""
    builder = machine.builder
    axes = {
        name: NamedAxis(name, size, None, called[name], layout.checked)
        for name, size in layout.axes
    }
    seeds = _differing(args, layout, axes)
    varying = Varying(builder)
    varying.known.update(seeds)
    builder.varying = varying if layout.checked else None
    before, builder.axes = builder.axes, {**builder.axes, **axes}
    try:
        result = machine.call_value(function, args, kwargs, node)
    finally:
        builder.axes, builder.varying = before, None
    whole = Varying(builder)
    whole.known.update(seeds)
    _require_everyone(builder.blocks[-1], whole)
    if layout.checked:
        _require_settled(varying, whole)
        _require_same(result, layout, whole, machine)
    return result


def _differing(
    args: Sequence[Any], layout: Layout, axes: dict[Hashable, NamedAxis]
) -> dict[Var, frozenset[NamedAxis]]:
    """The axes along which each leaf of the arguments differs."""
    return {
        leaf.atom: frozenset(axes[n] for n in spec.names())
        for leaf, spec in zip(pytrees.flatten(list(args))[0], layout.given, strict=True)
        if isinstance(leaf, Array)
    }


def _require_everyone(body: Block, varying: Varying) -> None:
    """Each collective is one that all devices come to."""
    for s in divergent_collectives(body, varying):
        raise DivergentCollective(
            f"{s.primitive.name.removesuffix('_invariant')} stands where not every device comes: "
            "under a test, or in a loop, that differs from one device of the axis "
            f"{s.params['axis'].name!r} to the next.",
            s.origin,
            "call it before the branch, and choose by its result with np.where or if",
        )


def _require_settled(varying: Varying, whole: Varying) -> None:
    """Raise if a derivative in a loop assumed that a carried value is the same on all devices."""
    for phi, taken in varying.assumed.items():
        if phi in whole.known and (more := whole.known[phi] - taken):
            names = ", ".join(repr(a.name) for a in more)
            raise VariesOverDevices(
                f"{phi.name or 'A value'} is the same on all devices when this loop starts, and "
                f"differs along {names} after an iteration; a derivative is taken within.",
                phi.origin,
                f"write {phi.name or 'x'} = calque.pcast({phi.name or 'x'}, {names}, "
                "to='varying') before the loop, or pmean what differs",
            )


def _require_same(result: Any, layout: Layout, varying: Varying, machine: Machine) -> None:
    """Raise VariesOverDevices if a result differs along an axis that out_specs do not name."""
    result = listed(result)
    leaves = pytrees.flatten(result)[0]
    specs = specs_of_leaves(layout.out_specs, result, "the result")
    for leaf, spec in zip(leaves, specs, strict=True):
        if not isinstance(leaf, Array):
            continue
        lacking = [a.name for a in varying.of(leaf.atom) if a.name not in spec.names()]
        if lacking:
            names = ", ".join(map(repr, sorted(lacking, key=repr)))
            raise VariesOverDevices(
                f"out_specs has {spec!r} for a result that differs from device to device "
                f"along {names}.",
                machine.return_origin,
                f"sum it up with psum or pmean over {names}, name the axis in out_specs, or pass "
                "check_vma=False to take the first device's",
            )


def first_store(body: Block, array: Var) -> Origin | None:
    """The origin of a program's first store into an array that it is given; None without one."""
    versions = {array}
    for s in core.walk(body):
        if isinstance(s, (For, While)):
            versions.update(p for p, a in zip(s.phis, s.inits, strict=True) if a in versions)
        elif is_store(s) and s.args[0] in versions:
            return s.origin
    return None


# devices that are the examples of a batch


class _Device:
    """A function of one device's parts, whose leaves are declared to differ or not."""

    def __init__(self, function: Any, layout: Layout):
        self.function, self.layout = function, layout
        self.__name__ = getattr(function, "__name__", type(function).__name__)

    def __calque_trace__(self, machine: Machine, args: Args, kwargs: Kwargs, node: Any) -> Any:
        builder = machine.builder
        before = builder.varying
        if self.layout.checked:
            builder.varying = before or Varying(builder)
            builder.varying.known.update(_differing(args, self.layout, builder.axes))
        try:
            result = machine.call_value(self.function, args, kwargs, node)
            if self.layout.checked:
                whole = Varying(builder)
                whole.known.update(_differing(args, self.layout, builder.axes))
                whole.block(builder.blocks[-1])
                _require_settled(builder.varying, whole)
                _require_same(result, self.layout, whole, machine)
        finally:
            builder.varying = before
        return result

    def calque_children(self) -> list[Any]:
        """The objects that a snapshot of the heap must follow."""
        return [self.function]


class _Over:
    """A function for all devices along one axis, which are the examples of a batch."""

    def __init__(self, function: Any, how: Axes, checked: bool):
        self.function, self.how, self.checked = function, how, checked
        self.__name__ = function.__name__

    def __calque_trace__(self, machine: Machine, args: Args, kwargs: Kwargs, node: Any) -> Any:
        return vmap.vmap(machine, self.function, args, kwargs, node, self.how)

    def calque_children(self) -> list[Any]:
        """The objects that a snapshot of the heap must follow."""
        return [self.function]


def as_batch(
    machine: Machine, function: Any, args: Sequence[Any], node: Any, layout: Layout
) -> Any:
    """The function over all devices of a mesh, as one batched program on whole arrays."""
    sizes = layout.sizes
    flat, structure = pytrees.flatten(list(args))
    specs = layout.given
    names = [name for k, value in enumerate(args) for name in vmap.labels(value, k)]
    for leaf, spec, what in zip(flat, specs, names, strict=True):
        shape = leaf.shape if isinstance(leaf, Array) else np.shape(leaf)
        require_fitting(spec, shape, sizes, what, machine.builder.origin)
    cut = [_cut(leaf, spec, sizes) for leaf, spec in zip(flat, specs, strict=True)]
    made: Any = _Device(function, layout)
    for name, size in reversed(layout.axes):
        axes = [0 if name in spec.names() else None for spec in specs]
        prefix = tuple(pytrees.unflatten(structure, axes)) if args else 0
        made = _Over(made, Axes(prefix, 0, size, name), layout.checked)
    result = made.__calque_trace__(machine, pytrees.unflatten(structure, cut), {}, node)
    result = listed(result)
    leaves, shape = pytrees.flatten(result)
    outs = specs_of_leaves(layout.out_specs, result, "the result")
    for x, spec in zip(leaves, outs, strict=True):
        rank = (x.ndim if isinstance(x, Array) else np.ndim(x)) - len(layout.axes)
        require_fitting(spec, (None,) * rank, sizes, "the result", machine.builder.origin)
    joined = [_joined(x, spec, layout) for x, spec in zip(leaves, outs, strict=True)]
    return pytrees.unflatten(shape, joined)


def _cut(x: Any, spec: PartitionSpec, sizes: dict[Hashable, int]) -> Any:
    """An array with an axis in front for each axis of devices that cuts it, in their order."""
    if not spec.names():
        return x
    shape: list[Any] = []
    places: dict[Hashable, int] = {}
    cuts = spec.cuts()
    for axis, size in enumerate(x.shape):
        names = cuts[axis] if axis < len(cuts) else ()
        for name in names:
            places[name] = len(shape)
            shape.append(sizes[name])
        count = math.prod(sizes[n] for n in names)
        shape.append(size if count == 1 else size // count)
    order = [places[n] for n in sizes if n in places]
    return np.moveaxis(FUNCTIONS[np.reshape](x, tuple(shape)), order, list(range(len(order))))


def _joined(x: Any, spec: PartitionSpec, layout: Layout) -> Any:
    """The whole array of the devices' results, an axis in front for each axis of devices."""
    kept = []
    for name, _ in layout.axes:
        if name in spec.names():
            kept.append(name)
        else:
            x = x[(slice(None),) * len(kept) + (0,)]
    rank = x.ndim - len(kept)
    order: list[int] = []
    shape: list[Any] = []
    for axis in range(rank):
        names = spec.cuts()[axis] if axis < len(spec.cuts()) else ()
        order += [*(kept.index(n) for n in names), len(kept) + axis]
        count = math.prod(layout.sizes[n] for n in names)
        size = x.shape[len(kept) + axis]
        shape.append(size if count == 1 else count * size)
    if not kept:
        return x
    return FUNCTIONS[np.reshape](np.transpose(x, order), tuple(shape))
