"""``device_put``, ``shard`` and their kin: placement of arrays, on the host or on a GPU."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from calque.runtime.cuda import raise_if_outside, transfers
from calque.runtime.cuda.chosen_device import choosing, chosen
from calque.runtime.cuda.given_arrays import adopted, lies_on_gpu
from calque.runtime.cuda.sharded_array import ShardedArray
from calque.runtime.devices.gpu_parts import dealt_out
from calque.runtime.engines.choosing import running
from calque.runtime.fitting import Unfit, finite_tree, fitting, numeric_tree
from calque.runtime.meshes import Device, Mesh, device_of
from calque.transpiler.codegen.numpy.device_launchers import Cut
from calque.transpiler.errors import ShapeError
from calque.transpiler.frontend.library.python_builtins import builtin
from calque.transpiler.frontend.machine import Args, Kwargs, Machine
from calque.transpiler.ir import pytrees
from calque.transpiler.ir.builder import FUNCTIONS, Array
from calque.transpiler.ir.device_arrays import is_device_array
from calque.transpiler.transformations.mesh_programs import Layout, PartitionSpec


@dataclass(frozen=True)
class NamedSharding:
    """The layout of an array on a mesh: ``spec`` says which mesh axes cut each of its axes.

    As ``jax.sharding.NamedSharding``. Raises ValueError for a name that the mesh has not.

    ``mesh`` is a ``Mesh``.

    >>> from calque import P, make_mesh
    >>> NamedSharding(make_mesh((1,), ("x",)), P("x"))
    NamedSharding(mesh=Mesh('x': 1), spec=P('x'))
    """

    mesh: Mesh
    spec: PartitionSpec
    __calque_leaf__: ClassVar[bool] = True

    def __post_init__(self) -> None:
        fitting(_mesh, self.mesh, "NamedSharding", "mesh")
        fitting(_spec, self.spec, "NamedSharding", "spec")
        unknown = self.spec.names() - self.mesh.shape.keys()
        if unknown:
            raise ValueError(f"NamedSharding: {self.mesh!r} has no axis {min(unknown, key=repr)!r}")


def _mesh(value: Any) -> Mesh:
    if isinstance(value, Mesh):
        return value
    raise Unfit("a Mesh")


def _spec(value: Any) -> PartitionSpec:
    if isinstance(value, PartitionSpec):
        return value
    raise Unfit("a P")


def device_put(x: Any, device: Any = None) -> Any:
    """Copies of a pytree's arrays and numbers on a device, as ``jax.device_put``.

    ``device`` is one of ``devices()``, or its name, "cuda:0": on a GPU arrays are CuPy's. Or it is
    a ``NamedSharding``: then an axis that is cut must be shared evenly by the devices; of a mesh of
    GPUs each has its part, and under mpiexec each rank keeps its own block. None is the default
    device; what lies on a GPU stays there then. Raises NoSuchDevice (a ValueError) for a device
    that is not there, ShapeError where an array cannot be cut so.

    ``x`` is the pytree.

    >>> device_put({"w": [1.0, 2.0]}, "cpu")
    {'w': [array(1.), array(2.)]}
    """
    fitting(numeric_tree, x, "device_put", "x")
    if isinstance(device, NamedSharding):
        if device.mesh.platform == "gpu":
            return pytrees.tree_map(lambda leaf: _dealt(leaf, device), x)
        return pytrees.tree_map(lambda leaf: _cut(np.array(leaf), device), x)
    there = chosen() if device is None else device_of(device)
    if there is not None and there.platform == "gpu":
        return pytrees.tree_map(lambda leaf: transfers.put(leaf, there.id), x)
    stays = device is None

    def copied(leaf: Any) -> Any:
        if not lies_on_gpu(leaf):
            return np.array(leaf)
        if isinstance(leaf, ShardedArray) and stays:
            return leaf.copy()
        return adopted(leaf).copy() if stays else device_get(leaf)

    return pytrees.tree_map(copied, x)


def _require_cuts(shape: tuple[int, ...], sharding: NamedSharding) -> None:
    """An array of this shape can be dealt out so."""
    sizes, spec = sharding.mesh.shape, sharding.spec
    if len(spec) > len(shape):
        raise ShapeError(f"device_put: {spec!r} has more entries than an array with {len(shape)}.")
    for axis, names in enumerate(spec.cuts()):
        count = math.prod(sizes[n] for n in names)
        if shape[axis] % count:
            raise ShapeError(
                f"device_put: axis {axis} of an array of shape {shape} cannot be shared "
                f"evenly by {count} devices."
            )


def _dealt(leaf: Any, sharding: NamedSharding) -> ShardedArray:
    """An array whose parts lie on the GPUs of a mesh."""
    array = leaf if isinstance(leaf, ShardedArray) else adopted(leaf)
    array = array if lies_on_gpu(array) else np.asarray(array)
    _require_cuts(array.shape, sharding)
    mesh, cut = sharding.mesh, Cut(blocks=sharding.spec.cuts())
    layout = Layout(tuple(mesh.shape.items()), (), None)
    return dealt_out(array, cut, layout, list(mesh.devices.flat))


def _cut(array: np.ndarray, sharding: NamedSharding) -> np.ndarray:
    _require_cuts(array.shape, sharding)
    sizes, spec = sharding.mesh.shape, sharding.spec
    engine = running()
    mine = np.unravel_index(engine.rank(), tuple(sizes.values())) if engine.processes else ()
    place = dict(zip(sizes, map(int, mine), strict=False))
    for axis, names in enumerate(spec.cuts()):
        number, count = 0, math.prod(sizes[n] for n in names)
        for name in names:
            number = number * sizes[name] + place.get(name, 0)
        if place and names:
            array = np.split(array, count, axis=axis)[number]
    return array


def device_get(x: Any) -> Any:
    """A pytree's arrays as NumPy's, as ``jax.device_get``.

    What lies on a GPU is waited for; an index out of range there raises IndexError now. ``x`` is
    the pytree.

    >>> device_get({"w": np.ones(2), "b": 1.0})
    {'w': array([1., 1.]), 'b': 1.0}
    """
    found = pytrees.tree_map(transfers.get, x)
    if any(map(lies_on_gpu, pytrees.flatten(x)[0])):
        raise_if_outside()
    return found


def block_until_ready(x: Any) -> Any:
    """The pytree itself, as ``jax.block_until_ready``, when what it lies on is done with it.

    What a CPU returns is complete; a GPU is waited for, and an index out of range there raises
    IndexError now. ``x`` is the pytree.

    >>> block_until_ready(np.ones(2))
    array([1., 1.])
    """
    leaves = fitting(finite_tree, x, "block_until_ready", "x")
    if any(map(lies_on_gpu, leaves)):
        transfers.wait(leaves)
        raise_if_outside()
    return x


@contextmanager
def default_device(device: Device | str | None) -> Iterator[None]:
    """Within the ``with``, arrays of the host go to this device, as ``jax.default_device``.

    Under a GPU ``device_put`` puts arrays there, and calls of transformed functions move their
    NumPy arrays there and give CuPy's. CPUs of a process share its memory.

    ``device`` is one of ``devices()``, or its name, "cuda:0"; None is the first CPU. Raises
    NoSuchDevice for others.

    >>> with default_device("cpu"):
    ...     device_put(1.0)
    array(1.)
    """
    with choosing(None if device is None else device_of(device)):
        yield


def shard(tree_of_arrays: Any) -> Any:
    """This process's part of arrays whose leading axis goes over all devices.

    In one process that is all of it; under mpiexec, rank k has the k-th of as many equal parts as
    there are ranks. ``tree_of_arrays`` is a pytree of arrays. Raises ShapeError where a leading
    axis cannot be shared evenly.

    >>> import numpy as np
    >>> shard({"x": np.arange(4)})
    {'x': array([0, 1, 2, 3])}
    """
    engine = running()
    if not engine.processes:
        return tree_of_arrays
    count, mine = engine.size(), engine.rank()

    def part(leaf: Any) -> Any:
        array = leaf if is_device_array(leaf) else np.asarray(leaf)
        if not array.ndim or array.shape[0] % count:
            raise ShapeError(
                f"shard: an array of shape {array.shape} has no leading axis that {count} ranks "
                "can share evenly."
            )
        rows = array.shape[0] // count
        return array[mine * rows : (mine + 1) * rows]

    return pytrees.tree_map(part, tree_of_arrays)


def unshard(tree_of_arrays: Any) -> Any:
    """The whole of what every process has a part of, along the leading axis; see ``shard``.

    ``tree_of_arrays`` is a pytree of arrays, of the same shapes on all ranks; every rank must call
    this, and gets the whole.

    >>> import numpy as np
    >>> unshard({"x": np.arange(4)})
    {'x': array([0, 1, 2, 3])}
    """
    engine = running()
    if not engine.processes:
        return tree_of_arrays
    leaves, structure = pytrees.flatten(tree_of_arrays)
    arrays = [np.ascontiguousarray(device_get(leaf)) for leaf in leaves]
    types = ", ".join(f"{a.dtype}[{','.join(map(str, a.shape))}]" for a in arrays)
    engine.roll_call("unshard", f"unshard({types})")
    wholes = [np.concatenate(list(engine.gathered(a))) for a in arrays]
    there = [
        transfers.put(whole, int(leaf.data.device_id)) if is_device_array(leaf) else whole
        for leaf, whole in zip(leaves, wholes, strict=True)
    ]
    return pytrees.unflatten(structure, there)


@builtin(device_put)
def _device_put(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    """A copy; where it lies is not for generated code to say."""

    def copied(leaf: Any) -> Any:
        return FUNCTIONS[np.array](leaf) if isinstance(leaf, Array) else leaf

    return pytrees.tree_map(copied, pytrees.plain(args[0]))


@builtin(device_get)
@builtin(block_until_ready)
def _same(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    return args[0]
