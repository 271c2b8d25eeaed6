"""``pmap``: one axis of devices, which the arguments have and a device's part has not."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from calque.runtime import typed
from calque.runtime.devices.mapped import (
    Mapped,
    leaves_of,
    name_of,
    numbered,
    refuse_names,
    require_engine,
    require_one_process,
    shape_of,
)
from calque.runtime.fitting import shown
from calque.runtime.inlining import TRACE
from calque.runtime.inner import made
from calque.runtime.meshes import Device, P, local_device_count, take
from calque.runtime.meshes import devices as all_devices
from calque.runtime.options import checked, given
from calque.runtime.parameters import within
from calque.runtime.spec import Spec
from calque.runtime.transformed import Transformed
from calque.transpiler.codegen.numpy.device_launchers import Cut
from calque.transpiler.errors import ShapeError
from calque.transpiler.frontend.library.python_builtins import builtin
from calque.transpiler.frontend.machine import Args, Kwargs, Machine
from calque.transpiler.ir import pytrees
from calque.transpiler.ir.device_arrays import is_device_array
from calque.transpiler.transformations import vmap
from calque.transpiler.transformations.mesh_programs import Layout
from calque.transpiler.transformations.vmap import Axes, axes_of_leaves

UNNAMED = "devices"  # the axis of a pmap without a name: no collective can have it


def _pmap_prefixes(mapped: Transformed, args: Sequence[Any]) -> list[Any]:
    """The mapped axes of each argument; a static one has none."""
    in_axes, name = mapped.options["axes"].in_axes, name_of(mapped.function)
    found = vmap.argument_axes(in_axes, args, name, "pmap")
    count = len(args)
    static = {n % count for n in mapped.options["static_argnums"] if -count <= n < count}
    return [None if k in static else axes for k, axes in enumerate(found)]


class Pmapped(Mapped):
    """``pmap(f)``: one axis of devices, which the arguments have and a device's part has not."""

    def layout(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Layout:
        """The layout with one axis, whose size is that of the arguments' mapped axes."""
        axes = self.options["axes"]
        places = tuple(self._leaf_axes(args))
        size = self._size(args, places)
        total = size * self.engine().size()
        take(self._have(), total)
        name = UNNAMED if axes.axis_name is None else axes.axis_name
        given = tuple(P() if a is None else P(name) for a in places)
        return Layout(((name, total),), given, P(), False, places)

    def _have(self) -> Sequence[Device]:
        have: Sequence[Device] | None = self.options["devices"]
        return all_devices(self.engine().platform) if have is None else have

    def devices(self, layout: Layout) -> list[Device]:
        """The first of those that it was given."""
        return take(self._have(), layout.axes[0][1])

    def on_gpus(self) -> bool:
        """True if it was given GPUs."""
        given = self.options["devices"]
        return bool(given) and all(d.platform == "gpu" for d in given)

    def _prefixes(self, args: Sequence[Any]) -> list[Any]:
        return _pmap_prefixes(self, args)

    def _leaf_axes(self, args: Sequence[Any]) -> list[int | None]:
        """The mapped axis of each leaf of the arguments, counted from the front."""
        axes = [
            a
            for k, (p, v) in enumerate(zip(self._prefixes(args), args, strict=True))
            for a in axes_of_leaves(p, v, f"argument {k}")
        ]
        ranks = [len(x.dims) if isinstance(x, Spec) else len(shape_of(x)) for x in leaves_of(args)]
        return [
            a + rank if a is not None and a < 0 else a for a, rank in zip(axes, ranks, strict=True)
        ]

    def _size(self, args: Sequence[Any], places: Sequence[int | None]) -> int:
        """The length of the mapped axis."""
        size, wherefrom = self.options["axes"].axis_size, "axis_size"
        leaves = leaves_of(args)
        if (found := _length(leaves, places)) and size in (None, found):
            return found
        names = [n for k, v in enumerate(args) for n in vmap.labels(v, k)]
        for leaf, axis, what in zip(leaves, places, names, strict=True):
            if axis is None:
                continue
            shape = leaf.shape if isinstance(leaf, Spec) else shape_of(leaf)
            place = vmap.leaf_axis(axis, len(shape), what, None, "pmap")
            if isinstance(shape[place], str):  # of a type: as long as this process has devices
                size = local_device_count() if size is None else size
            elif size is None:
                size, wherefrom = shape[place], what
            elif shape[place] != size:
                raise ShapeError(
                    f"pmap: {what} has {shape[place]} elements along its mapped axis {axis}, and "
                    f"{wherefrom} says that there are {size} devices."
                )
        if size == 0:
            raise ShapeError(f"pmap: {wherefrom} asks for 0 devices: there must be one at least.")
        if size is None:
            raise ValueError(
                "pmap: at least one argument must have a mapped axis, and none has: in_axes is "
                "None for all, and axis_size is not given"
            )
        return size

    def _placed(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Mapped, Any]:
        """The function that takes all arguments by position, and these, for a call by name."""
        bound = inspect.signature(self.function).bind(*args, **kwargs)
        if bound.kwargs:
            raise refuse_names(self.kind, [*bound.kwargs])
        key = len(args), len(bound.args)
        if key not in self._by_position:
            axes = self.options["axes"]
            prefixes = vmap.argument_axes(axes.in_axes, args, name_of(self.function), "pmap")
            prefixes += [0] * (len(bound.args) - len(args))
            options = {**self.options, "axes": replace(axes, in_axes=tuple(prefixes))}
            self._by_position[key] = type(self)(self.kind, self.function, **options)
        return self._by_position[key], bound.args

    def parts(self, args: tuple[Any, ...], layout: Layout) -> list[tuple[Any, ...]]:
        """Element k of the mapped axis of each argument."""
        leaves, structure = pytrees.flatten(list(args))
        axes = layout.places
        count = 1 if self.engine().processes else layout.axes[0][1]
        return [
            tuple(pytrees.unflatten(structure, [_element(x, a, k) for x, a in zip(leaves, axes)]))
            for k in range(count)
        ]

    def cuts_of_arguments(self, layout: Layout) -> list[Cut]:
        """An element of the mapped axis, or all."""
        name = layout.axes[0][0]
        return [Cut() if a is None else Cut((name, a)) for a in layout.places]

    def cuts_of_result(self, layout: Layout, result: Any) -> list[Cut]:
        """An element of the axis that ``out_axes`` say, or all."""
        name = layout.axes[0][0]
        axes = axes_of_leaves(
            self.options["axes"].out_axes, numbered(result), "the result", "out_axes"
        )
        return [Cut() if a is None else Cut((name, a)) for a in axes]

    def whole(self, results: list[Any], layout: Layout) -> Any:
        """Results behind each other along ``out_axes``; with None, those of the first device."""
        leaves, structure = pytrees.flatten(results[0])
        cuts = self.cuts_of_results(results[0], layout)
        others = [pytrees.flatten(r)[0] for r in results]
        made = [
            _stacked([o[k] for o in others], cut.element[1]) if cut.element else leaf
            for k, (leaf, cut) in enumerate(zip(leaves, cuts, strict=True))
        ]
        return pytrees.unflatten(structure, made)

    def cuts_of_results(self, result: Any, layout: Layout) -> list[Cut]:
        """An element of the axis that ``out_axes`` say, or all."""
        name = layout.axes[0][0]
        axes = axes_of_leaves(self.options["axes"].out_axes, result, "the result", "out_axes")
        cuts = []
        for leaf, axis in zip(pytrees.flatten(result)[0], axes, strict=True):
            rank = len(shape_of(leaf)) + 1
            if axis is not None and not -rank <= axis < rank:
                raise ShapeError(
                    f"pmap: out_axes {axis} is out of range for a result with {rank} axes"
                )
            cuts.append(Cut() if axis is None else Cut((name, axis % rank)))
        return cuts


def _length(leaves: Sequence[Any], places: Sequence[int | None]) -> int:
    """The common length of all mapped axes; 0 where they differ, or an array has none."""
    lengths = set()
    for leaf, axis in zip(leaves, places, strict=True):
        if axis is not None:
            fits = isinstance(leaf, np.ndarray) and 0 <= axis < leaf.ndim
            lengths.add(leaf.shape[axis] if fits else 0)
    return lengths.pop() if len(lengths) == 1 else 0


def _stacked(parts: Sequence[Any], axis: int) -> Any:
    """Parts along a new axis; of an array on a rank's own GPU there is one."""
    if is_device_array(parts[0]):
        return parts[0][(*[slice(None)] * axis, None)]
    return np.stack(parts, axis=axis)


def _element(leaf: Any, axis: int | None, k: int) -> Any:
    if axis is None:
        return leaf
    array = leaf if is_device_array(leaf) else np.asarray(leaf)
    return array[(slice(None),) * (axis % array.ndim) + (k,)]


def _trace_pmap(self: Pmapped, machine: Machine, args: Args, kwargs: Kwargs, node: Any) -> Any:
    require_one_process(self, machine)
    axes = self.options["axes"]
    if self.options["static_argnums"]:
        axes = replace(axes, in_axes=tuple(_pmap_prefixes(self, args)))
    return vmap.vmap(machine, self.function, args, kwargs, node, axes)


TRACE["pmap"] = _trace_pmap


@typed.mapping
def pmap(
    fun: Callable[..., Any],
    axis_name: Hashable | None = None,
    in_axes: Any = 0,
    out_axes: Any = 0,
    static_broadcasted_argnums: int | Sequence[int] = (),
    devices: Sequence[Any] | None = None,
    axis_size: int | None = None,
    engine: str | None = None,
) -> Any:
    """``fun`` on several devices at once, each on its element of the mapped axis, as ``jax.pmap``.

    ``axis_name`` names the devices' axis for ``psum`` and the other collectives. ``in_axes`` and
    ``out_axes`` are as for ``vmap``; an argument with None is whole on every device, a result with
    None is the first device's. ``static_broadcasted_argnums`` are positions of arguments whose
    values become part of the program. ``devices`` are those to use, all by default; ``axis_size``
    is their number, where no argument tells. ``engine`` is "threads", "mpi" or "nccl"; by default
    "nccl" where the devices are GPUs (``devices("gpu")``), of which each has its part of a result,
    and "mpi" under mpiexec, where each rank passes and gets its own part, with a mapped axis of one
    element.

    Raises ShapeError where arguments disagree on the number of devices, NoSuchDevice where there
    are fewer, DivergentCollective for a collective to which not every device comes.

    >>> import numpy as np
    >>> pmap(lambda x: x * 2.0)(np.ones((1, 3)))
    array([[2., 2., 2.]])
    """
    options = pmap_options(
        axis_name, in_axes, out_axes, static_broadcasted_argnums, devices, axis_size, engine
    )
    checked("pmap", fun=fun)
    within("pmap", "static_broadcasted_argnums", options["static_argnums"], fun)
    return Pmapped("pmap", fun, **options)


def pmap_options(
    axis_name: Hashable | None = None,
    in_axes: Any = 0,
    out_axes: Any = 0,
    static_broadcasted_argnums: int | Sequence[int] = (),
    devices: Sequence[Any] | None = None,
    axis_size: int | None = None,
    engine: str | None = None,
) -> dict[str, Any]:
    """The options of ``pmap``, checked."""
    if isinstance(axis_name, tuple):
        raise TypeError(f"pmap: axis_name must be one name, and is {shown(axis_name)}")
    axes = {"in_axes": in_axes, "out_axes": out_axes, "axis_size": axis_size}
    found = checked(
        "pmap",
        static_broadcasted_argnums=static_broadcasted_argnums,
        devices=devices,
        engine=engine,
    )
    if found["devices"]:
        require_engine("pmap", found["engine"], found["devices"][0].platform)
    return {
        "axes": Axes(**checked("pmap", **axes, axis_name=axis_name)),
        "static_argnums": found["static_broadcasted_argnums"],
        "devices": None if devices is None else tuple(found["devices"]),
        "engine": found["engine"],
    }


@builtin(pmap)
def _inner_pmap(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    options = given(pmap, args, kwargs)
    function = options.pop("fun")
    return made("pmap", function, pmap_options(**options))
