"""``pmap`` and ``shard_map``: a function that many devices run, each on its part of the data."""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Hashable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from calque.runtime import blas_threads, typed
from calque.runtime.engines import mpi, threads
from calque.runtime.loading import Program
from calque.runtime.meshes import Mesh, local_device_count, take
from calque.runtime.meshes import devices as all_devices
from calque.runtime.options import UNSAID, checked, shown, within
from calque.runtime.signatures import static_leaves
from calque.runtime.spec import Spec
from calque.runtime.tracebacks import hide_own_frames
from calque.runtime.transformed import TRACE, Transformed
from calque.transpiler import batching, tree
from calque.transpiler.batching import Axes, axes_of_leaves
from calque.transpiler.core import Slot, map_tree
from calque.transpiler.devices import (
    Layout,
    PartitionSpec,
    as_batch,
    communicators,
    device_program,
    first_store,
    require_fitting,
    specs_of_arguments,
    specs_of_leaves,
)
from calque.transpiler.emit.device_launchers import Cut
from calque.transpiler.errors import (
    DevicesDiffer,
    ImpureFunction,
    Origin,
    ShapeError,
    UnsupportedFunction,
)
from calque.transpiler.passes.mpi_calls import to_mpi_calls

P = PartitionSpec
UNNAMED = "devices"  # the axis of a pmap without a name: no collective can have it


class DeviceProgram(Transformed):
    """What one device runs; its first parameters are the communicators."""

    def __init__(
        self,
        function: Callable[..., Any],
        layout: Layout,
        static: tuple[int, ...] = (),
        engine: str = "threads",
    ):
        self.engine = engine
        self.called = communicators(layout, _parameters(function))
        self.communicators = tuple(self.called.values())
        self.static = static
        super().__init__("device", function, layout=layout)
        if self._dispatcher.options is not None:  # each device is a thread already
            self._dispatcher.options = {**self._dispatcher.options, "parallel": False}
        if engine == "mpi":
            self._dispatcher.finish = to_mpi_calls
        if static:
            options = {"static_argnums": static}
            self._dispatcher.static = static_leaves(function, options)

    def _chain(self) -> tuple[Any, tuple[Any, ...]]:
        function, chain = super()._chain()
        return function, (self.communicators, self.engine, self.static, *chain)


def _leaves(args: Sequence[Any]) -> list[Any]:
    found: list[Any] = tree.flatten(list(args))[0]
    return found


def _parameters(function: Any) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []


def _trace_device(
    self: DeviceProgram, machine: Any, args: list[Any], kwargs: dict[str, Any], node: Any
) -> Any:
    layout = self.options["layout"]
    return device_program(machine, self.function, args, kwargs, node, layout, self.called)


class Mapped(Transformed):
    """A function over devices. Called, it runs on them; within another, it is a batch."""

    def layout(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Layout:
        """The axes of devices, and how these arguments are cut."""
        raise NotImplementedError

    def parts(self, args: tuple[Any, ...], layout: Layout) -> list[tuple[Any, ...]]:
        """The arguments of each device of this process."""
        raise NotImplementedError

    def whole(self, results: list[Any], layout: Layout) -> Any:
        """The result, of those of the devices."""
        raise NotImplementedError

    def example_parts(self, args: Sequence[Any], layout: Layout) -> tuple[Any, ...]:
        """The arguments of one device, of arrays or types."""
        leaves, structure = tree.flatten(list(args))
        cuts = self.cuts_of_arguments(layout)
        parts = [_example(x, cut, layout.sizes) for x, cut in zip(leaves, cuts, strict=True)]
        return tuple(tree.unflatten(structure, parts))

    def cuts_of_arguments(self, layout: Layout) -> list[Cut]:
        """How each leaf of the arguments is dealt out."""
        raise NotImplementedError

    def cuts_of_result(self, layout: Layout, result: Any) -> list[Cut]:
        """How each leaf of a result, whose leaves are Slots, is put together."""
        raise NotImplementedError

    def device(self, layout: Layout) -> DeviceProgram:
        """The program of one device."""
        found = self._devices.get(layout)
        if found is None:
            static = self.options.get("static_argnums", ())
            found = self._devices[layout] = DeviceProgram(
                self.function, layout, static, self.engine()
            )
        return found

    def __init__(self, kind: str, function: Callable[..., Any], **options: Any):
        self._devices: dict[Layout, DeviceProgram] = {}
        self._by_position: dict[tuple[int, int], Mapped] = {}  # of calls by name
        super().__init__(kind, function, **options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            if kwargs:
                placed, args = self._placed(args, kwargs)
                return placed(*args)
            layout = self.layout(args, kwargs)
            given = self.parts(args, layout)
            device = self.device(layout)
            program = self._program(device, given, args, layout)
            named = program.hidden()
            shape = [size for _, size in layout.axes]
            if self.engine() == "mpi":
                mpi.roll_call(program.text, _described(self, args))
                results = mpi.run(program.call, given, named, shape)
            else:
                library = blas_threads.library()
                with library.one_thread() if library and len(given) > 1 else nullcontext():
                    results = threads.run(program.call, given, named, shape)
            return self.whole(results, layout)
        except Exception as error:
            hide_own_frames(error)
            raise

    def _placed(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Mapped, Any]:
        """For a call by name: what takes all by position, and the arguments in that order."""
        bound = inspect.signature(self.function).bind(*args, **kwargs)
        if bound.kwargs or self.kind == "shard_map":
            refuse_names(self.kind, [*(bound.kwargs or kwargs)])
        key = len(args), len(bound.args)
        if key not in self._by_position:
            axes = self.options["axes"]
            prefixes = batching.argument_axes(axes.in_axes, args, _name(self.function), "pmap")
            prefixes += [0] * (len(bound.args) - len(args))
            options = {**self.options, "axes": replace(axes, in_axes=tuple(prefixes))}
            self._by_position[key] = type(self)(self.kind, self.function, **options)
        return self._by_position[key], bound.args

    def _program(
        self,
        device: DeviceProgram,
        given: list[tuple[Any, ...]],
        args: tuple[Any, ...],
        layout: Layout,
    ) -> Program:
        """The program that all devices run."""
        found = [device.dispatcher().find(args, {}) for args in given]
        program = found[0][0]
        for k, (other, _) in enumerate(found):
            if other is not program:
                raise DevicesDiffer(
                    f"{self.generated_name()}: device {k} would run another program than device "
                    "0: a branch, a size or an option depends on a value that differs.",
                    hint="pass that value with in_axes=None, the same for all devices",
                )
        if program.stored:
            program.check_aliases(_leaves(args))
            require_own(program, layout)
        return program

    def engine(self) -> str:
        """ "mpi" under mpiexec, else "threads"."""
        wished = self.options.get("engine")
        return wished or ("mpi" if mpi.is_running() else "threads")


def refuse_names(kind: str, names: Sequence[str], origin: Origin | None = None) -> None:
    """Arguments by name that no position, or no spec, stands for."""
    takes = "in_specs are" if kind == "shard_map" else "the mapped axes are"
    raise UnsupportedFunction(
        f"{kind}: {', '.join(names)} is passed by name, and {takes} of positions.",
        origin,
        "pass it by position, or capture it: functools.partial, or a lambda around the call",
    )


def require_own(program: Program, layout: Layout) -> None:
    """A device stores into what no other device has."""
    function = program.traced.function
    for position in function.written:
        param = function.params[position]
        spec = layout.given[program.traced.builder.leaf_of_param[param]]
        if any(size > 1 and name not in spec.names() for name, size in layout.axes):
            name = param.name or "an argument"
            raise ImpureFunction(
                f"{name} is the same array on several devices, and is stored into: each would "
                "read what the others have stored so far.",
                first_store(function.body, param),
                f"work on a copy: {name} = {name}.copy()",
            )


def _name(function: Any) -> str:
    return getattr(function, "__name__", "the function")


def _described(mapped: Mapped, args: Sequence[Any]) -> str:
    leaves = tree.flatten(list(args))[0]
    types = [
        f"{x.dtype}[{','.join(map(str, x.shape))}]"
        if isinstance(x, np.ndarray)
        else type(x).__name__
        for x in leaves
    ]
    return f"{mapped.generated_name()}({', '.join(types)})"


def _pmap_prefixes(mapped: Transformed, args: Sequence[Any]) -> list[Any]:
    """The mapped axes of each argument; a static one has none."""
    in_axes, name = mapped.options["axes"].in_axes, _name(mapped.function)
    found = batching.argument_axes(in_axes, args, name, "pmap")
    count = len(args)
    static = {n % count for n in mapped.options["static_argnums"] if -count <= n < count}
    return [None if k in static else axes for k, axes in enumerate(found)]


class Pmapped(Mapped):
    """``pmap(f)``: one axis of devices, which the arguments have and a device's part has not."""

    def layout(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Layout:
        """One axis, as long as what the arguments have of it."""
        axes = self.options["axes"]
        size = self._size(args)
        total = size * mpi.size() if self.engine() == "mpi" else size
        have = self.options["devices"]
        take(all_devices() if have is None else have, total)
        name = UNNAMED if axes.axis_name is None else axes.axis_name
        places = tuple(self._leaf_axes(args))
        given = tuple(P() if a is None else P(name) for a in places)
        return Layout(((name, total),), given, P(), False, places)

    def _prefixes(self, args: Sequence[Any]) -> list[Any]:
        return _pmap_prefixes(self, args)

    def _leaf_axes(self, args: Sequence[Any]) -> list[int | None]:
        """The mapped axis of each leaf of the arguments, counted from the front."""
        axes = [
            a
            for k, (p, v) in enumerate(zip(self._prefixes(args), args, strict=True))
            for a in axes_of_leaves(p, v, f"argument {k}")
        ]
        ranks = [len(x.dims) if isinstance(x, Spec) else np.ndim(x) for x in _leaves(args)]
        return [
            a + rank if a is not None and a < 0 else a for a, rank in zip(axes, ranks, strict=True)
        ]

    def _size(self, args: Sequence[Any]) -> int:
        """The length of the mapped axis."""
        size, wherefrom = self.options["axes"].axis_size, "axis_size"
        leaves = tree.flatten(list(args))[0]
        names = [n for k, v in enumerate(args) for n in batching.labels(v, k)]
        for leaf, axis, what in zip(leaves, self._leaf_axes(args), names, strict=True):
            if axis is None:
                continue
            shape = leaf.shape if isinstance(leaf, Spec) else np.shape(leaf)
            place = batching.leaf_axis(axis, len(shape), what, None, "pmap")
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

    def parts(self, args: tuple[Any, ...], layout: Layout) -> list[tuple[Any, ...]]:
        """Element k of the mapped axis of each argument."""
        leaves, structure = tree.flatten(list(args))
        axes = self._leaf_axes(args)
        count = 1 if self.engine() == "mpi" else layout.axes[0][1]
        return [
            tuple(tree.unflatten(structure, [_element(x, a, k) for x, a in zip(leaves, axes)]))
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
            self.options["axes"].out_axes, _numbered(result), "the result", "out_axes"
        )
        return [Cut() if a is None else Cut((name, a)) for a in axes]

    def whole(self, results: list[Any], layout: Layout) -> Any:
        """Results behind each other along ``out_axes``; with None, those of the first device."""
        leaves, structure = tree.flatten(results[0])
        axes = axes_of_leaves(self.options["axes"].out_axes, results[0], "the result", "out_axes")
        others = [tree.flatten(r)[0] for r in results]
        for leaf, axis in zip(leaves, axes, strict=True):
            if axis is not None and not -np.ndim(leaf) - 1 <= axis <= np.ndim(leaf):
                raise ShapeError(
                    f"pmap: out_axes {axis} is out of range for a result with "
                    f"{np.ndim(leaf) + 1} axes"
                )
        made = [
            leaf if axis is None else np.stack([o[k] for o in others], axis=axis)
            for k, (leaf, axis) in enumerate(zip(leaves, axes, strict=True))
        ]
        return tree.unflatten(structure, made)


def _numbered(result: Any) -> Any:
    """A result with numbers for its Slots, which are no nodes."""
    return map_tree(lambda leaf: leaf.position if isinstance(leaf, Slot) else leaf, result)


def _example(leaf: Any, cut: Cut, sizes: dict[Hashable, int]) -> Any:
    """A device's part of an array, or its type."""
    if not cut.names:
        return leaf
    if not isinstance(leaf, Spec):
        leaf = np.asarray(leaf)
        leaf = Spec(leaf.dtype, leaf.shape)
    dims = list(leaf.dims)
    if cut.element:
        del dims[cut.element[1]]
    for axis, names in enumerate(cut.blocks):
        size, count = dims[axis], math.prod(sizes[n] for n in names)
        dims[axis] = size // count if isinstance(size, int) else size
    return Spec(leaf.dtype, tuple(dims))


def _element(leaf: Any, axis: int | None, k: int) -> Any:
    if axis is None:
        return leaf
    array = np.asarray(leaf)
    return array[(slice(None),) * (axis % array.ndim) + (k,)]


class Sharded(Mapped):
    """``shard_map(f)``: a mesh of devices, whose parts are blocks of the arguments."""

    def layout(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Layout:
        """The mesh and the specs, as they were given."""
        take(all_devices(), self.options["mesh"].size)
        return layout_of(self.options, args, getattr(self, "__name__", "the function"))

    def parts(self, args: tuple[Any, ...], layout: Layout) -> list[tuple[Any, ...]]:
        """The block of each argument that belongs to each device."""
        if self.engine() == "mpi":
            return [args]
        leaves, structure = tree.flatten(list(args))
        specs = layout.given
        names = [name for k, value in enumerate(args) for name in batching.labels(value, k)]
        checked = [
            _divides(x, spec, layout.sizes, what)
            for x, spec, what in zip(leaves, specs, names, strict=True)
        ]
        return [
            tuple(
                tree.unflatten(
                    structure,
                    [_block(x, s, layout, place) for x, s in zip(checked, specs, strict=True)],
                )
            )
            for place in _places(layout)
        ]

    def cuts_of_arguments(self, layout: Layout) -> list[Cut]:
        """Blocks by specs."""
        return [Cut(blocks=spec.cuts()) for spec in layout.given]

    def cuts_of_result(self, layout: Layout, result: Any) -> list[Cut]:
        """Blocks by specs."""
        specs = specs_of_leaves(layout.out_specs, _numbered(result), "the result")
        return [Cut(blocks=spec.cuts()) for spec in specs]

    def whole(self, results: list[Any], layout: Layout) -> Any:
        """The blocks put together; where devices have the same, the first one's."""
        leaves, structure = tree.flatten(results[0])
        specs = specs_of_leaves(layout.out_specs, results[0], "the result")
        if self.engine() == "mpi":
            return results[0]
        others = [tree.flatten(r)[0] for r in results]
        made = []
        for k, (leaf, spec) in enumerate(zip(leaves, specs, strict=True)):
            require_fitting(spec, (None,) * np.ndim(leaf), layout.sizes, "the result")
            if not spec.names():
                made.append(leaf)
                continue
            shape = list(np.shape(leaf))
            for axis, names in enumerate(spec.cuts()):
                shape[axis] *= math.prod(layout.sizes[n] for n in names)
            joined = np.empty(shape, np.asarray(leaf).dtype)
            for place, blocks in zip(_places(layout), others, strict=True):
                if any(number for name, number in place.items() if name not in spec.names()):
                    continue  # of devices that have the same, the first
                _block(joined, spec, layout, place)[...] = blocks[k]
            made.append(joined)
        return tree.unflatten(structure, made)


def layout_of(options: dict[str, Any], args: Sequence[Any], name: str) -> Layout:
    """What ``shard_map`` was told, for these arguments."""
    shape = tuple(options["mesh"].shape.items())
    given = tuple(specs_of_arguments(options["in_specs"], args, name))
    return Layout(shape, given, options["out_specs"], options["check_vma"])


def _places(layout: Layout) -> list[dict[Hashable, int]]:
    """Where each device stands: its number along each axis."""
    names = [name for name, _ in layout.axes]
    ranges = [range(size) for _, size in layout.axes]
    return [dict(zip(names, place, strict=True)) for place in itertools.product(*ranges)]


def _divides(x: Any, spec: PartitionSpec, sizes: dict[Hashable, int], what: str) -> Any:
    """An argument that can be cut as its spec says."""
    require_fitting(spec, np.shape(x), sizes, what)
    return np.asarray(x) if spec.names() else x


def _block(x: Any, spec: PartitionSpec, layout: Layout, place: dict[Hashable, int]) -> Any:
    """The view of an array that belongs to a device."""
    index = []
    for axis, names in enumerate(spec.cuts()):
        number, count = 0, 1
        for name in names:
            number, count = number * layout.sizes[name] + place[name], count * layout.sizes[name]
        length = x.shape[axis] // count
        index.append(slice(number * length, (number + 1) * length) if names else slice(None))
    return x[tuple(index)] if spec.names() else x


def _trace_pmap(
    self: Pmapped, machine: Any, args: list[Any], kwargs: dict[str, Any], node: Any
) -> Any:
    _require_one_process(self, machine)
    axes = self.options["axes"]
    if self.options["static_argnums"]:
        axes = replace(axes, in_axes=tuple(_pmap_prefixes(self, args)))
    return batching.vmap(machine, self.function, args, kwargs, node, axes)


def _require_one_process(self: Any, machine: Any) -> None:
    """Within a transformation devices are the examples of a batch, in one process."""
    if mpi.is_running() and self.options.get("engine") != "threads":
        raise UnsupportedFunction(
            f"Under mpiexec {self.kind} cannot be called within another transformation: each rank "
            "has its own part, and the derivative of one knows nothing of the others.",
            machine.builder.origin,
            f"take the derivative within: {self.kind}(grad(f), ...)",
        )


def _trace_shard_map(
    self: Sharded, machine: Any, args: list[Any], kwargs: dict[str, Any], node: Any
) -> Any:
    _require_one_process(self, machine)
    if kwargs:
        refuse_names("shard_map", [*kwargs], machine.builder.origin)
    layout = layout_of(self.options, args, "the function")
    return as_batch(machine, self.function, args, node, layout)


def shard(tree_of_arrays: Any) -> Any:
    """This process's part of arrays whose leading axis goes over all devices.

    In one process that is all of it; under mpiexec, rank k has the k-th of as many equal parts as
    there are ranks. ``tree_of_arrays`` is a pytree of arrays. Raises ShapeError where a leading
    axis cannot be shared evenly.

    >>> import numpy as np
    >>> shard({"x": np.arange(4)})
    {'x': array([0, 1, 2, 3])}
    """
    if not mpi.is_running():
        return tree_of_arrays
    count, mine = mpi.size(), mpi.rank()

    def part(leaf: Any) -> Any:
        array = np.asarray(leaf)
        if not array.ndim or array.shape[0] % count:
            raise ShapeError(
                f"shard: an array of shape {array.shape} has no leading axis that {count} ranks "
                "can share evenly."
            )
        rows = array.shape[0] // count
        return array[mine * rows : (mine + 1) * rows]

    return tree.tree_map(part, tree_of_arrays)


def unshard(tree_of_arrays: Any) -> Any:
    """The whole of what every process has a part of, along the leading axis; see ``shard``.

    ``tree_of_arrays`` is a pytree of arrays, of the same shapes on all ranks; every rank must call
    this, and gets the whole.

    >>> import numpy as np
    >>> unshard({"x": np.arange(4)})
    {'x': array([0, 1, 2, 3])}
    """
    if not mpi.is_running():
        return tree_of_arrays
    leaves, structure = tree.flatten(tree_of_arrays)
    arrays = [np.ascontiguousarray(leaf) for leaf in leaves]
    types = ", ".join(f"{a.dtype}[{','.join(map(str, a.shape))}]" for a in arrays)
    mpi.roll_call("unshard", f"unshard({types})")
    return tree.unflatten(structure, [np.concatenate(list(mpi.gathered(a))) for a in arrays])


TRACE["device"] = _trace_device
TRACE["pmap"] = _trace_pmap
TRACE["shard_map"] = _trace_shard_map


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
    is their number, where no argument tells. ``engine`` is "threads" or "mpi"; by default "mpi"
    under mpiexec, where each rank passes and gets its own part, with a mapped axis of one element.

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
    return {
        "axes": Axes(**checked("pmap", **axes, axis_name=axis_name)),
        "static_argnums": found["static_broadcasted_argnums"],
        "devices": None if devices is None else tuple(found["devices"]),
        "engine": found["engine"],
    }


def shard_map(
    f: Callable[..., Any] = UNSAID,
    *,
    mesh: Mesh | None = None,
    in_specs: Any = None,
    out_specs: Any = None,
    check_vma: bool = True,
    engine: str | None = None,
) -> Any:
    """``f`` on the devices of a mesh, each on its block of the arguments, as ``jax.shard_map``.

    ``mesh`` is a ``Mesh`` (see ``make_mesh``). ``in_specs`` and ``out_specs`` are trees of ``P``,
    prefixes of the arguments (a tuple, or one ``P`` for all) and of the result: ``P("x", None)``
    cuts the first axis of an array along the mesh's axis "x"; ``P()`` is the whole array.

    With ``check_vma`` it is known which values differ between devices: a result that ``out_specs``
    calls whole must be the same on all, and the derivative by a value that is the same on all is
    summed over the devices. Without it, a whole result is the first device's, and the transpose of
    psum is psum, as under ``pmap``. ``engine`` is as for ``pmap``.

    Raises ShapeError where an axis cannot be cut evenly, VariesOverDevices where a result differs
    that should not, DivergentCollective for a collective to which not every device comes.

    >>> import numpy as np
    >>> from calque import P, make_mesh, psum
    >>> mesh = make_mesh((1,), ("x",))
    >>> total = shard_map(lambda v: psum(np.sum(v), "x"), mesh=mesh, in_specs=P("x"), out_specs=P())
    >>> total(np.arange(4.0))
    np.float64(6.0)
    """
    options = shard_map_options(mesh, in_specs, out_specs, check_vma, engine)

    def made(f: Callable[..., Any]) -> Any:
        checked("shard_map", f=f)
        return Sharded("shard_map", f, **options)

    return made if f is UNSAID else made(f)


def shard_map_options(
    mesh: Any = None,
    in_specs: Any = None,
    out_specs: Any = None,
    check_vma: bool = True,
    engine: str | None = None,
) -> dict[str, Any]:
    """The options of ``shard_map``, checked."""
    if not isinstance(mesh, Mesh):
        raise TypeError(f"shard_map: mesh must be a Mesh, and is {shown(mesh)}")
    found = checked("shard_map", check_vma=check_vma, engine=engine)
    checked("shard_map", in_specs=in_specs, out_specs=out_specs)
    for what, specs in (("in_specs", in_specs), ("out_specs", out_specs)):
        if specs is None:
            raise TypeError(
                f"shard_map: {what} must be given: a P such as P({mesh.axis_names[0]!r}), or a tree"
            )
    return {
        "mesh": mesh,
        "in_specs": tuple(in_specs) if isinstance(in_specs, list) else in_specs,
        "out_specs": out_specs,
        **found,
    }


def jitted(mapped: Mapped, jit: Callable[..., Any]) -> Mapped:
    """``jit(pmap(f))``: the program of each device is compiled."""
    return type(mapped)(mapped.kind, jit(mapped.function), **mapped.options)
