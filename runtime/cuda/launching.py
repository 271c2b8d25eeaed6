"""Launches of kernels of CUDA C through CuPy, with the checks that CuPy does not make.

CuPy hands an array of any dtype, and a number of any width, to a kernel without a word, and it is
read as garbage there. A grid depends on sizes only, never on the device: sums are the same on all.
"""

from __future__ import annotations

import functools
import math
import operator
import re
from collections.abc import Callable
from typing import Any

import numpy as np

_TYPES = {
    "bool": "bool", "signed char": "int8", "unsigned char": "uint8", "short": "int16",
    "unsigned short": "uint16", "int": "int32", "unsigned int": "uint32", "long long": "int64",
    "unsigned long long": "uint64", "float": "float32", "double": "float64",
    "complex64": "complex64", "complex128": "complex128",
}  # fmt: skip


def blocks(size: int, *, most: int = 16384) -> tuple[int, ...]:
    """Blocks of 256 threads for so many elements; a card's worth of them, then a thread takes four.

    From sixteen million elements on, where there are ``most`` blocks, it takes more.

    >>> blocks(1000), blocks(0), blocks(10**6), blocks(10**7), blocks(10**9)
    ((4,), (1,), (1024,), (9765,), (16384,))
    """
    wanted = (int(size) + 255) // 256
    if wanted > 1024:
        wanted = max(1024, wanted // 4)
    return (min(wanted, most) if wanted > 1 else 1,)


def tiles(*sizes: int, most: int = 4096) -> tuple[int, ...]:
    """Blocks of 32 x 8 threads for planes (if any), rows and columns, columns first.

    Where there are more blocks than a card runs at a time, a thread has up to four planes or rows.

    >>> tiles(100, 50), tiles(3, 100, 50), tiles(5000, 1000), tiles(200, 200, 200)
    ((2, 13), (2, 13, 3), (32, 157), (7, 25, 50))
    """
    planes = int(sizes[0]) if len(sizes) > 2 else 1
    grid = [(int(sizes[-1]) + 31) // 32, (int(sizes[-2]) + 7) // 8, planes]
    grid = [min(max(n, 1), most) for n in grid[: len(sizes)]]
    if each := min(math.prod(grid) // 4096, 4):
        grid[-1] = -(-grid[-1] // each)
    return tuple(grid)


def accumulated(function: Any, x: Any, axis: int = 0) -> Any:
    """``function.accumulate``, in as many steps as the size of the axis has binary digits.

    >>> accumulated(np.maximum, np.array([1, 3, 2, 5, 4])).tolist()
    [1, 3, 3, 5, 5]
    """
    found = x.copy()
    rows, step = found.swapaxes(0, axis), 1
    while step < len(rows):
        rows[step:] = function(rows[step:], rows[:-step])
        step *= 2
    return found


def row_threads(columns: int, held: int = 0) -> tuple[int, int]:
    """The threads that share a row, and the rows of a block: one, a warp, or all of the block.

    ``held`` are the bytes of a column that a block keeps: eight rows must not be too many of them.

    >>> row_threads(3), row_threads(1000), row_threads(10**7), row_threads(2000, held=8)
    ((1, 256), (32, 8), (256, 1), (256, 1))
    """
    if columns < 16:
        return (1, 256)
    return (256, 1) if columns >= 2048 or columns * held > 8192 else (32, 8)


def row_blocks(*sizes: int, held: int = 0, most: int = 4096) -> tuple[int, ...]:
    """Blocks for rows of so many columns, at most so many; of three sizes, the first is of planes.

    >>> row_blocks(100, 50), row_blocks(100, 10**6), row_blocks(2, 100, 50), row_blocks(1000, 3)
    ((13,), (100,), (13, 1, 2), (4,))
    """
    *planes, rows, columns = sizes
    each = 256 if columns < 16 else 1 if columns >= 2048 or columns * held > 8192 else 8
    grid = min(max((int(rows) + each - 1) // each, 1), most)
    return (grid, 1, min(max(int(planes[0]), 1), most)) if planes else (grid,)


def held_columns(columns: int, held: int) -> int:
    """The columns of a row that a block keeps in shared memory, of so many bytes each.

    They are all, if a multiprocessor has room for two such blocks. A kernel reads others again, and
    those of few columns, which are still in the cache.
    """
    import cupy as cp

    if columns < 16:
        return 0
    device = cp.cuda.runtime.getDevice()
    of_block, of_all = (cp.cuda.runtime.deviceGetAttribute(k, device) for k in (97, 81))
    rows = 1 if columns >= 2048 or columns * held > 8192 else 8
    room = (min(of_block, of_all // 2) - 2048) // (held * rows)  # but for what reductions need
    return int(max(min(room, columns + 31) // 32 * 32, 0))


def parts_of(grid: tuple[int, ...], dtype: str) -> Any:
    """Memory for a number of each block."""
    import cupy as cp

    return cp.empty(math.prod(grid), dtype)


def kernel(code: str, name: str, compiler: Any = None, held: int = 0) -> Callable[..., None]:
    """The kernel of this name in a text of CUDA C: ``launch(blocks, threads, *args)``.

    ``compiler`` makes it of text, name and options, if not CuPy's ``RawKernel`` does. Its blocks
    keep ``held`` bytes for each of the columns that its parameter of that name says.

    Arrays must be of their parameter's dtype; the kernel is given contiguous ones. Numbers become
    what their parameter is; one for a pointer goes to the device. Indices have 32 bits where
    arrays have less than 2**30 elements and integers are below that: fewer registers than 64 take.
    """
    import cupy as cp

    found = re.search(rf"void {name}\(([^)]*)\)", code)
    assert found is not None
    parameters = [_parameter(" ".join(p.split())) for p in found.group(1).split(",")]
    pointers = [(k, *p) for k, p in enumerate(parameters) if p[0] in ("read", "stored")]
    numbers = [(k, *p) for k, p in enumerate(parameters) if p[0] in ("integer", "number")]
    columns = next((k for k, p in enumerate(parameters) if p[1] == "held"), 0)
    array, contiguous, compiled = cp.ndarray, cp.ascontiguousarray, {}

    def launch(grid: Any, threads: Any, *args: Any) -> None:
        if len(args) != len(parameters):
            raise TypeError(f"{name} has {len(parameters)} parameters, and got {len(args)}")
        given, copies, large = list(args), None, False
        for k, kind, title, dtype, _ in pointers:
            value = args[k]
            if type(value) is not array or value.dtype is not dtype:
                given[k] = value = _on_device(title, dtype, value)
            if value.ndim and contiguous(value) is not value:
                given[k] = contiguous(value)
                copies = [*(copies or ()), k] if kind == "stored" else copies
            if value.size >= 2**30:
                large = True
        for k, kind, _, _, number in numbers:
            value = args[k]
            if kind == "integer" and type(value) is not int:
                value = operator.index(value)  # of NumPy's, an array without axes among them
            if kind == "number" or -(2**30) < value < 2**30:
                given[k] = number(value)
            else:
                large = True
        if large:
            for k, _, _, dtype, _ in numbers:
                given[k] = (np.int64 if dtype is None else dtype.type)(args[k])
        if large not in compiled:
            width = "long long" if large else "int"
            compiled[large] = (compiler or cp.RawKernel)(code, name, (f"-DIndex={width}",))
        grid = grid if type(grid) is tuple else (grid,)
        threads = threads if type(threads) is tuple else (threads,)
        if not held:
            compiled[large](grid, threads, tuple(given))
        else:
            shared = args[columns] * held * threads[1]
            _launch_with(shared, compiled[large], grid, threads, tuple(given))
        for k in copies or ():
            args[k][...] = given[k]  # a view, of which the kernel had a copy

    return launch


def _on_device(title: str, dtype: Any, value: Any) -> Any:
    """An argument as an array on the device; TypeError if it has another dtype, or is NumPy's."""
    import cupy as cp

    if not isinstance(value, cp.ndarray):
        if isinstance(value, np.ndarray) and value.ndim:
            raise TypeError(f"{title} is an array of NumPy: cupy.asarray moves it to the GPU")
        value = cp.full((), np.asarray(value)[()], dtype)  # which copies nothing
    if value.dtype != dtype:
        raise TypeError(f"{title} must be {dtype}, not {value.dtype}")
    return value


def _launch_with(shared: int, compiled: Any, grid: Any, threads: Any, given: Any) -> None:
    """Launch a kernel whose blocks have so many bytes of shared memory."""
    if shared > 48 << 10:  # more than a kernel may have unless it says so
        compiled.max_dynamic_shared_size_bytes = shared
    compiled(grid, threads, given, shared_mem=shared)


def _parameter(text: str) -> tuple[str, str, Any, Any]:
    """A parameter's use, its name, its dtype, and the function that makes its numbers.

    >>> _parameter("const float* __restrict__ x"), _parameter("Index n")[:3]
    (('read', 'x', dtype('float32'), None), ('integer', 'n', None))
    """
    kind, pointer, title = text.removeprefix("const ").rpartition("* __restrict__ ")
    if pointer:
        use = "read" if text.startswith("const ") else "stored"
        return use, title, np.dtype(_TYPES[kind]), None
    kind, _, title = text.rpartition(" ")
    if "*" in text:
        return "address", title, None, None  # of the host's memory, as a number
    dtype = None if kind == "Index" else np.dtype(_TYPES[kind])
    number = np.int32 if dtype is None else dtype.type
    if dtype is not None and dtype.kind not in "iu":
        return "number", title, dtype, number
    return "integer", title, dtype, functools.lru_cache(1024)(number)  # they come again
