"""An array whose parts lie on several GPUs: a result, or argument, of ``pmap``, ``shard_map``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from calque.runtime.gpus import cupy
from calque.runtime.meshes import Device
from calque.transpiler.errors import MixedDevices

Index = tuple[slice, ...]


@dataclass(frozen=True, eq=False)
class Shard:
    """A part of an array: ``data``, of CuPy, on ``device``, is ``whole[index]``."""

    device: Device
    index: Index
    data: Any
    __calque_leaf__: ClassVar[bool] = True
    calque_shards: ClassVar[bool] = True  # by which a call knows one


class ShardedArray:
    """An array of this ``shape`` and ``dtype``, of which each of several GPUs has a part.

    Called with it, a function that deals its arguments out in the same way moves nothing.
    ``calque.device_get(x)`` is the whole on the host, ``calque.device_put(x, "cuda:0")`` on a GPU.
    ``addressable_shards`` are its parts, each with ``device``, ``index`` and ``data``.
    """

    __calque_leaf__: ClassVar[bool] = True
    calque_shards: ClassVar[bool] = True  # by which a call knows one

    def __init__(self, shape: Sequence[int], dtype: Any, shards: Sequence[Shard]):
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)
        self.addressable_shards = list(shards)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without axes")
        return self.shape[0]

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("this array lies on GPUs: calque.device_get(x) moves it to the host")

    def __repr__(self) -> str:
        devices = ", ".join(dict.fromkeys(str(s.device) for s in self.addressable_shards))
        return f"ShardedArray(shape={self.shape}, dtype={self.dtype}, on {devices})"

    def part(self, index: Index, device: Device) -> Any:
        """``whole[index]`` where it lies on this device as it is; else None."""
        for shard in self.addressable_shards:
            if shard.index == index and shard.device == device:
                return shard.data
        return None

    def get(self) -> np.ndarray:
        """The whole as an array of NumPy, when it is there."""
        found = np.empty(self.shape, self.dtype)
        for shard in self._distinct():
            found[shard.index] = shard.data.get()
        return found

    def together(self, device: int) -> Any:
        """The whole as an array of CuPy on the GPU of this number."""
        with cupy().cuda.Device(device):
            found = cupy().empty(self.shape, self.dtype)
            for shard in self._distinct():
                found[shard.index] = copied_to(shard.data, device)
        return found

    def copy(self) -> ShardedArray:
        """A copy of each part, where it lies."""
        shards = []
        for s in self.addressable_shards:
            with cupy().cuda.Device(s.device.id):
                shards.append(Shard(s.device, s.index, s.data.copy()))
        return ShardedArray(self.shape, self.dtype, shards)

    def _distinct(self) -> list[Shard]:
        """A shard for each part, though several devices may have the same."""
        found: dict[Any, Shard] = {}
        for shard in self.addressable_shards:
            found.setdefault(tuple((s.start, s.stop) for s in shard.index), shard)
        return list(found.values())


def copied_to(array: Any, device: int) -> Any:
    """An array of CuPy on a GPU: itself, if it lies there.

    The copy waits for what makes the array; what takes up its memory later waits for the copy.
    """
    library = cupy()
    here = int(array.data.device_id)
    if here == device:
        return array
    current = library.cuda.get_current_stream
    with library.cuda.Device(here):
        array = library.ascontiguousarray(array).reshape(array.shape)
        made = current().record()
    with library.cuda.Device(device):
        current().wait_event(made)
        found = array.copy()
        moved = current().record()
    with library.cuda.Device(here):
        current().wait_event(moved)
    return found


def on_several(value: Any) -> MixedDevices:
    """The error of one of these where a program runs on one device."""
    count = len({s.device for s in value.addressable_shards})
    return MixedDevices(
        f"An array of shape {value.shape} is shared by {count} GPUs, and this program runs on one "
        "device.",
        hint='calque.device_put(x, "cuda:0") puts it together on one; or call the function within '
        "pmap or shard_map",
    )
