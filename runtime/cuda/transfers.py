"""Arrays that go to a GPU and come back because somebody asked for it, and waiting for one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from calque.runtime.cuda.given_arrays import adopted, lies_on_gpu
from calque.runtime.cuda.sharded_array import ShardedArray, copied_to
from calque.runtime.gpus import cupy
from calque.transpiler.ir.device_arrays import is_device_array


def put(leaf: Any, device: int) -> Any:
    """A copy of an array, or of a number, on a GPU."""
    library = cupy()
    if isinstance(leaf, ShardedArray):
        return leaf.together(device)
    leaf = adopted(leaf)
    if is_device_array(leaf) and leaf.data.device_id != device:
        return copied_to(leaf, device)
    with library.cuda.Device(device):
        return leaf.copy() if is_device_array(leaf) else library.array(leaf)


def put_host(leaf: Any) -> Any:
    """An array of NumPy on the current GPU; whatever else as it is."""
    is_array = isinstance(leaf, np.ndarray) and leaf.ndim and leaf.dtype.kind in "biufc"
    return cupy().array(leaf) if is_array else leaf


def get(leaf: Any) -> Any:
    """An array on a GPU as one of NumPy, when it is there; whatever else as it is."""
    if isinstance(leaf, ShardedArray):
        return leaf.get()
    return adopted(leaf).get() if lies_on_gpu(leaf) else leaf


def wait(leaves: Iterable[Any]) -> None:
    """Wait until the GPUs that have one of these arrays are done with what they were asked for."""
    there: set[int] = set()
    for leaf in filter(lies_on_gpu, leaves):
        sharded = isinstance(leaf, ShardedArray)
        arrays = [s.data for s in leaf.addressable_shards] if sharded else [adopted(leaf)]
        there.update(int(array.data.device_id) for array in arrays)
    for device in sorted(there):
        cupy().cuda.Device(device).synchronize()
