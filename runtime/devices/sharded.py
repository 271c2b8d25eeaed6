"""``shard_map``: a mesh of devices, whose parts are blocks of the arguments."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from calque.runtime import typed
from calque.runtime.devices.mapped import (
    Mapped,
    leaves_of,
    numbered,
    refuse_names,
    require_engine,
    require_one_process,
    shape_of,
)
from calque.runtime.fitting import shown
from calque.runtime.inlining import TRACE
from calque.runtime.inner import made
from calque.runtime.meshes import Device, Mesh, take
from calque.runtime.meshes import devices as all_devices
from calque.runtime.options import UNSAID, checked, given
from calque.transpiler.codegen.numpy.device_launchers import Cut
from calque.transpiler.frontend.library.python_builtins import builtin
from calque.transpiler.frontend.machine import Args, Kwargs, Machine
from calque.transpiler.ir import pytrees
from calque.transpiler.transformations import vmap
from calque.transpiler.transformations.mesh_programs import (
    Layout,
    PartitionSpec,
    as_batch,
    require_fitting,
    specs_of_arguments,
    specs_of_leaves,
)


class Sharded(Mapped):
    """``shard_map(f)``: a mesh of devices, whose parts are blocks of the arguments."""

    def layout(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Layout:
        """The mesh and the specs, as they were given."""
        take(all_devices(self.engine().platform), self.options["mesh"].size)
        return layout_of(self.options, args, getattr(self, "__name__", "the function"))

    def devices(self, layout: Layout) -> list[Device]:
        """The devices of the mesh."""
        return list(self.options["mesh"].devices.flat)

    def on_gpus(self) -> bool:
        """True if the mesh is one of GPUs."""
        return bool(self.options["mesh"].platform == "gpu")

    def require_cuts(self, args: tuple[Any, ...], layout: Layout) -> None:
        """Each array is shared evenly."""
        names = [name for k, value in enumerate(args) for name in vmap.labels(value, k)]
        for x, spec, what in zip(leaves_of(args), layout.given, names, strict=True):
            require_fitting(spec, shape_of(x), layout.sizes, what)

    def parts(self, args: tuple[Any, ...], layout: Layout) -> list[tuple[Any, ...]]:
        """The block of each argument that belongs to each device."""
        if self.engine().processes:
            return [args]
        self.require_cuts(args, layout)
        leaves, structure = pytrees.flatten(list(args))
        specs = layout.given
        leaves = [np.asarray(x) if s.names() else x for x, s in zip(leaves, specs, strict=True)]
        return [
            tuple(
                pytrees.unflatten(
                    structure,
                    [_block(x, s, layout, place) for x, s in zip(leaves, specs, strict=True)],
                )
            )
            for place in layout.numbers
        ]

    def cuts_of_arguments(self, layout: Layout) -> list[Cut]:
        """Blocks by specs."""
        return [Cut(blocks=spec.cuts()) for spec in layout.given]

    def cuts_of_result(self, layout: Layout, result: Any) -> list[Cut]:
        """Blocks by specs."""
        specs = specs_of_leaves(layout.out_specs, numbered(result), "the result")
        return [Cut(blocks=spec.cuts()) for spec in specs]

    def cuts_of_results(self, result: Any, layout: Layout) -> list[Cut]:
        """Blocks by specs."""
        specs = specs_of_leaves(layout.out_specs, result, "the result")
        for leaf, spec in zip(pytrees.flatten(result)[0], specs, strict=True):
            require_fitting(spec, (None,) * len(shape_of(leaf)), layout.sizes, "the result")
        return [Cut(blocks=spec.cuts()) for spec in specs]

    def whole(self, results: list[Any], layout: Layout) -> Any:
        """The blocks put together; where devices have the same, the first one's."""
        leaves, structure = pytrees.flatten(results[0])
        specs = specs_of_leaves(layout.out_specs, results[0], "the result")
        if self.engine().processes:
            return results[0]
        self.cuts_of_results(results[0], layout)
        others = [pytrees.flatten(r)[0] for r in results]
        made = []
        for k, (leaf, spec) in enumerate(zip(leaves, specs, strict=True)):
            if not spec.names():
                made.append(leaf)
                continue
            shape = list(np.shape(leaf))
            for axis, names in enumerate(spec.cuts()):
                shape[axis] *= math.prod(layout.sizes[n] for n in names)
            joined = np.empty(shape, np.asarray(leaf).dtype)
            for place, blocks in zip(layout.numbers, others, strict=True):
                if any(number for name, number in place.items() if name not in spec.names()):
                    continue  # of devices that have the same, the first
                _block(joined, spec, layout, place)[...] = blocks[k]
            made.append(joined)
        return pytrees.unflatten(structure, made)


def layout_of(options: dict[str, Any], args: Sequence[Any], name: str) -> Layout:
    """The layout that the options of ``shard_map`` mean for these arguments."""
    shape = tuple(options["mesh"].shape.items())
    given = tuple(specs_of_arguments(options["in_specs"], args, name))
    return Layout(shape, given, options["out_specs"], options["check_vma"])


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


def _trace_shard_map(self: Sharded, machine: Machine, args: Args, kwargs: Kwargs, node: Any) -> Any:
    require_one_process(self, machine)
    if kwargs:
        raise refuse_names("shard_map", [*kwargs], machine.builder.origin)
    layout = layout_of(self.options, args, "the function")
    return as_batch(machine, self.function, args, node, layout)


TRACE["shard_map"] = _trace_shard_map


@typed.shard_mapping
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
    require_engine("shard_map", found["engine"], mesh.platform)
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


@builtin(shard_map)
def _inner_shard_map(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    options = given(shard_map, args, kwargs)
    function = options.pop("f")
    return made("shard_map", function, shard_map_options(**options))
