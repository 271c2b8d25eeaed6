"""The arrays of a call that lie on a GPU: CuPy's, and those of other libraries, without a copy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from calque.runtime.gpus import cupy
from calque.transpiler.errors import NestedTooDeeply
from calque.transpiler.ir import pytrees
from calque.transpiler.ir.device_arrays import is_device_array
from calque.transpiler.late import Late

if TYPE_CHECKING:
    from calque.runtime.cuda import sharded_array
else:
    sharded_array = Late("calque.runtime.cuda.sharded_array")

_HOST = frozenset([np.ndarray, float, int, bool, complex, str, type(None)])
_CUDA = (2, 13)  # DLPack's numbers for memory of a GPU, and for managed memory


def lies_on_gpu(value: Any) -> bool:
    """True if a leaf is an array of CuPy, PyTorch, JAX, ... whose memory is a GPU's.

    >>> lies_on_gpu(np.ones(3))
    False
    """
    kind = type(value)
    if kind in _HOST or isinstance(value, (np.ndarray, np.generic)):
        return False
    if is_device_array(value) or hasattr(kind, "calque_shards"):
        return True
    if hasattr(kind, "__cuda_array_interface__"):
        try:
            return value.__cuda_array_interface__ is not None
        except AttributeError:  # PyTorch's way to say that it lies on the host
            return False
    return hasattr(kind, "__dlpack_device__") and value.__dlpack_device__()[0] in _CUDA


def lies_on_host(value: Any) -> bool:
    """True if a leaf is an array of numbers on the host: NumPy's, or one of PyTorch, JAX, ...

    >>> lies_on_host(np.ones(3)), lies_on_host(1.0), lies_on_host(np.float64(1.0))
    (True, False, False)
    """
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "biufc"
    kind = type(value)
    if kind in _HOST or isinstance(value, np.generic) or lies_on_gpu(value):
        return False
    return any(hasattr(kind, n) for n in ("__dlpack_device__", "__array_interface__"))


def any_on_gpu(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """True if a leaf of the arguments lies on a GPU."""
    for value in (*args, *kwargs.values()):
        if type(value) in _HOST:
            continue
        if lies_on_gpu(value):
            return True
        try:
            if any(map(lies_on_gpu, pytrees.flatten(value)[0])):
                return True
        except NestedTooDeeply:
            continue  # the lookup of the program says which argument it is
    return False


def adopted(leaf: Any) -> Any:
    """An array on a GPU as CuPy's, in the same memory; NumPy's of no dims as its number."""
    if type(leaf) is np.ndarray and not leaf.ndim and leaf.dtype.kind in "biufc":
        return leaf[()]
    if not lies_on_gpu(leaf) or is_device_array(leaf):
        return leaf
    if hasattr(leaf, "calque_shards"):
        raise sharded_array.on_several(leaf)
    if hasattr(type(leaf), "__cuda_array_interface__"):
        return cupy().asarray(leaf)
    return cupy().from_dlpack(leaf)


def may_be_stored_into(leaf: Any) -> bool:
    """True if another library's array may be changed: JAX's are constants for JAX."""
    if is_device_array(leaf):
        return True
    interface = getattr(leaf, "__cuda_array_interface__", None) or {}
    read_only = bool(interface.get("data", (0, False))[1])
    return not read_only and type(leaf).__module__.split(".")[0] not in ("jax", "jaxlib")
