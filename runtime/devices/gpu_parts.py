"""Parts on GPUs for ``pmap`` and ``shard_map``: arguments dealt out, results that stay there.

An array on the host is moved, a part to each GPU; one on a GPU is copied to the others; a
``ShardedArray`` that is dealt out as the call needs it is taken as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from calque.runtime.cuda.captured_arrays import moved
from calque.runtime.cuda.given_arrays import adopted
from calque.runtime.cuda.launcher_dispatch import own_memory
from calque.runtime.cuda.sharded_array import Index, Shard, ShardedArray, copied_to
from calque.runtime.gpus import cupy
from calque.runtime.meshes import Device
from calque.transpiler.codegen.numpy.device_launchers import Cut
from calque.transpiler.ir import pytrees
from calque.transpiler.ir.device_arrays import is_device_array
from calque.transpiler.transformations.mesh_programs import Layout

Coordinates = dict[Hashable, int]


def with_captured(call: Callable[..., Any]) -> Callable[..., Any]:
    """A program that finds captured arrays where it runs, and gives back memory of its own."""

    def there(value: Any) -> Any:
        if is_device_array(value):
            return copied_to(value, int(cupy().cuda.runtime.getDevice()))
        return moved(value) if isinstance(value, np.ndarray) else value

    def program(*given: Any, **captured: Any) -> Any:
        here = {name: there(value) for name, value in captured.items()}
        kept = filter(is_device_array, pytrees.flatten((given, here))[0])
        return own_memory(call(*given, **here), list(kept))

    return program


def parts_on_gpus(
    args: Sequence[Any], cuts: Sequence[Cut], layout: Layout, devices: Sequence[Device]
) -> tuple[list[tuple[Any, ...]], set[int]]:
    """The arguments of each device, and the leaves whose parts are the caller's own memory."""
    leaves, structure = pytrees.flatten(list(args))
    places = layout.numbers
    own: set[int] = set()
    columns = []
    for k, (leaf, cut) in enumerate(zip(leaves, cuts, strict=True)):
        column = [_part(leaf, cut, layout.sizes, place, d) for place, d in zip(places, devices)]
        if isinstance(leaf, ShardedArray) and all(mine for _, mine in column):
            own.add(k)
        columns.append([part for part, _ in column])
    rows = list(zip(*columns, strict=True)) if columns else [()] * len(devices)
    return [tuple(pytrees.unflatten(structure, list(row))) for row in rows], own


def dealt_out(array: Any, cut: Cut, layout: Layout, devices: Sequence[Device]) -> ShardedArray:
    """A copy of an array, a part on each device."""
    shards = []
    for place, device in zip(layout.numbers, devices, strict=True):
        part, _ = _part(array, cut, layout.sizes, place, device)
        with cupy().cuda.Device(device.id):
            index = index_of(cut, array.shape, layout.sizes, place)
            shards.append(Shard(device, index, cupy().array(part)))
    return ShardedArray(array.shape, array.dtype, shards)


def _part(
    leaf: Any, cut: Cut, sizes: dict[Hashable, int], place: Coordinates, device: Device
) -> tuple[Any, bool]:
    """A device's part of a leaf of the arguments; whether it is memory of the caller."""
    if isinstance(leaf, ShardedArray):
        index = index_of(cut, leaf.shape, sizes, place)
        found = leaf.part(index, device)
        mine = found is not None
        found = found if mine else _moved(leaf.together(device.id)[index], device)
    else:
        leaf = adopted(leaf) if cut.names or not isinstance(leaf, np.ndarray) else leaf
        if not cut.names and not isinstance(leaf, np.ndarray) and not is_device_array(leaf):
            return leaf, False
        if isinstance(leaf, np.ndarray) and not leaf.ndim:
            return leaf[()], False
        array = leaf if is_device_array(leaf) else np.asarray(leaf)
        index = index_of(cut, array.shape, sizes, place)
        found, mine = _moved(array[index], device), False
    return (found[_element(cut)] if cut.element else found), mine


def _moved(array: Any, device: Device) -> Any:
    """An array on a device, in one piece there: parts on all devices are alike."""
    library = cupy()
    if is_device_array(array):
        array = copied_to(array, device.id)
    with library.cuda.Device(device.id):
        return library.ascontiguousarray(library.asarray(array)).reshape(array.shape)


def _element(cut: Cut) -> tuple[Any, ...]:
    """The index that takes away the axis along which a part has one element."""
    assert cut.element is not None
    return (*[slice(None)] * cut.element[1], 0)


def index_of(
    cut: Cut, shape: Sequence[int], sizes: dict[Hashable, int], place: Coordinates
) -> Index:
    """The index, in an array of this shape, of the part of a device at this place."""
    found = [slice(0, size) for size in shape]
    if cut.element:
        name, axis = cut.element
        found[axis] = slice(place[name], place[name] + 1)
    for axis, names in enumerate(cut.blocks):
        number, count = 0, 1
        for name in names:
            number, count = number * sizes[name] + place[name], count * sizes[name]
        length = shape[axis] // count
        found[axis] = slice(number * length, (number + 1) * length)
    return tuple(found)


def whole_on_gpus(
    results: Sequence[Any], cuts: Sequence[Cut], layout: Layout, devices: Sequence[Device]
) -> Any:
    """The devices' results: the first one's, where it is whole; else an array of their parts."""
    leaves, structure = pytrees.flatten(results[0])
    others = [pytrees.flatten(r)[0] for r in results]
    made = [
        leaf if not cut.names else _joined([o[k] for o in others], cut, layout, devices)
        for k, (leaf, cut) in enumerate(zip(leaves, cuts, strict=True))
    ]
    return pytrees.unflatten(structure, made)


def _joined(
    parts: Sequence[Any], cut: Cut, layout: Layout, devices: Sequence[Device]
) -> ShardedArray:
    there = []
    for part, device in zip(parts, devices, strict=True):
        with cupy().cuda.Device(device.id):
            array = cupy().asarray(part)
        if cut.element:
            array = array[(*[slice(None)] * cut.element[1], None)]
        there.append(array)
    shape = list(there[0].shape)
    if cut.element:
        shape[cut.element[1]] = layout.sizes[cut.element[0]]
    for axis, names in enumerate(cut.blocks):
        shape[axis] *= math.prod(layout.sizes[n] for n in names)
    shards = [
        Shard(device, index_of(cut, shape, layout.sizes, place), array)
        for device, place, array in zip(devices, layout.numbers, there, strict=True)
    ]
    return ShardedArray(shape, there[0].dtype, shards)
