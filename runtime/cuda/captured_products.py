"""Products of matrices while a stream captures: cuBLAS, called as CuPy refuses to call it then.

The library is the one that CuPy has loaded, and so is the handle; cuBLAS itself can be captured. It
takes matrices by columns: of arrays by rows these are the transposed ones, and so is the result.
A graph has the address of the memory that cuBLAS works in: one for all graphs of a stream, where
they run one after the other. CuPy's next call gives the handle back its stream, and its memory.
"""

from __future__ import annotations

import ctypes
import functools
import os
from typing import Any

import numpy as np

from calque.runtime.gpus import cupy

_GEMM = {  # by dtype: the function, and the numbers 1 and 0 as it takes them
    "f": ("cublasSgemm_v2", ctypes.c_float, 1),
    "d": ("cublasDgemm_v2", ctypes.c_double, 1),
    "F": ("cublasCgemm_v2", ctypes.c_float, 2),
    "D": ("cublasZgemm_v2", ctypes.c_double, 2),
}
_workspaces: dict[tuple[int, int], tuple[Any, Any]] = {}  # by device and stream, with the stream
_MOST = 2**31  # sizes that cuBLAS takes are below
_AS_IT_IS, _TRANSPOSED = 0, 1


def workspace() -> Any:
    """The memory in which cuBLAS may work in graphs for the current device and stream."""
    library = cupy()
    stream = library.cuda.get_current_stream()
    key = library.cuda.runtime.getDevice(), stream.ptr
    if key not in _workspaces:
        recommended = 32 if int(library.cuda.Device().compute_capability) >= 90 else 8  # MiB
        _workspaces[key] = stream, library.empty(recommended << 20, np.uint8)
    return _workspaces[key][1]


def product(memory: Any, left: Any, right: Any) -> Any:
    """``left @ right`` of arrays of up to two dims; what cuBLAS does not take is CuPy's.

    cuBLAS works in the ``memory``, if it needs any.
    """
    library = cupy()
    dtype = np.result_type(left.dtype, right.dtype)
    if dtype.char not in _GEMM or left.ndim > 2 or right.ndim > 2:
        return left @ right
    rows, columns = left.shape[:-1], right.shape[1:]
    a = left if left.ndim == 2 else left.reshape(1, -1)
    b = right if right.ndim == 2 else right.reshape(-1, 1)
    if a.shape[1] != b.shape[0]:
        return left @ right  # which says so
    if not a.size or not b.size:
        return library.zeros((*rows, *columns), dtype)
    out = library.empty((a.shape[0], b.shape[1]), dtype)
    _multiply(memory, a.astype(dtype, copy=False), b.astype(dtype, copy=False), out)
    return out.reshape((*rows, *columns))


def _multiply(memory: Any, a: Any, b: Any, out: Any) -> None:
    cuda = cupy().cuda
    handle = ctypes.c_void_p(cuda.Device().cublas_handle)  # which loads the library
    (a, turn_a, lead_a), (b, turn_b, lead_b) = _by_columns(a), _by_columns(b)
    name, number, count = _GEMM[out.dtype.char]
    one, zero = (number * count)(1), (number * count)()
    (rows, inner), columns = a.shape, b.shape[1]
    sizes = columns, rows, inner
    if max(*sizes, lead_a, lead_b) >= _MOST:
        raise RuntimeError(f"cuBLAS takes no product of {rows} by {inner} by {columns}")
    stream = ctypes.c_void_p(cuda.get_current_stream().ptr)
    room = ctypes.c_void_p(memory.data.ptr), ctypes.c_size_t(memory.nbytes)
    _check(_cublas().cublasSetStream_v2(handle, stream))
    _check(_cublas().cublasSetWorkspace_v2(handle, *room))
    of_b = ctypes.c_void_p(b.data.ptr), ctypes.c_int(lead_b)
    of_a = ctypes.c_void_p(a.data.ptr), ctypes.c_int(lead_a)
    of_out = ctypes.c_void_p(out.data.ptr), ctypes.c_int(columns)
    turns = ctypes.c_int(turn_b), ctypes.c_int(turn_a)
    numbers = map(ctypes.c_int, sizes)
    _check(getattr(_cublas(), name)(handle, *turns, *numbers, one, *of_b, *of_a, zero, *of_out))


def _by_columns(x: Any) -> tuple[Any, int, int]:
    """A matrix that cuBLAS can read, whether it is to be transposed, and from line to line.

    Kept by rows, it is the transposed one by columns, which is what the result is made of.
    """
    (rows, columns), width = x.shape, x.itemsize
    down, along = (s // width if s % width == 0 else 0 for s in x.strides)
    if (along == 1 or columns == 1) and (down >= columns or rows == 1):
        return x, _AS_IT_IS, down if rows > 1 else columns
    if (down == 1 or rows == 1) and (along >= rows or columns == 1):
        return x, _TRANSPOSED, along if columns > 1 else rows
    return cupy().ascontiguousarray(x), _AS_IT_IS, columns


@functools.cache
def _cublas() -> Any:
    """The library that is in this process."""
    only_loaded = getattr(os, "RTLD_NOLOAD", None)
    for version in (13, 12, 11):
        if only_loaded is None:
            break
        try:
            return ctypes.CDLL(f"libcublas.so.{version}", mode=only_loaded | os.RTLD_NOW)
        except OSError:
            continue
    raise RuntimeError("cuBLAS is not found in this process")


def _check(status: int) -> None:
    if status:
        raise RuntimeError(f"cuBLAS answers with the error {status}")
