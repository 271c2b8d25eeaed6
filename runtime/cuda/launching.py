"""Launches of kernels of CUDA C through CuPy, with the checks that CuPy does not make.

CuPy hands an array of any dtype, and a number of any width, to a kernel without a word, and it is
read as garbage there. A grid depends on sizes only, never on the device: sums are the same on all.
"""

from __future__ import annotations

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


def blocks(size: int) -> tuple[int, ...]:
    """Blocks of 256 threads for so many elements; from a million on, a thread takes several.

    >>> blocks(1000), blocks(0), blocks(10**9)
    ((4,), (1,), (4096,))
    """
    return (max(1, min(-(-int(size) // 256), 4096)),)


def tiles(*sizes: int) -> tuple[int, ...]:
    """Blocks of 32 x 8 threads for planes (if any), rows and columns, columns first.

    >>> tiles(100, 50), tiles(3, 100, 50)
    ((2, 13), (2, 13, 3))
    """
    planes, rows, columns = (1, *map(int, sizes))[-3:]
    grid = [max(1, min(-(-columns // 32), 1024)), max(1, min(-(-rows // 8), 4096))]
    return (*grid, max(1, min(planes, 4096))) if len(sizes) > 2 else tuple(grid)


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


def row_threads(columns: int) -> tuple[int, int]:
    """The threads that share a row, and the rows of a block: a warp a row, or a block a long one.

    >>> row_threads(1000), row_threads(10**7)
    ((32, 8), (256, 1))
    """
    return (256, 1) if columns >= 2048 else (32, 8)


def row_blocks(*sizes: int) -> tuple[int, ...]:
    """Blocks for rows of so many columns; of three sizes, the first is that of planes.

    >>> row_blocks(100, 50), row_blocks(100, 10**6), row_blocks(2, 100, 50)
    ((13,), (100,), (13, 1, 2))
    """
    planes, rows, columns = (1, *map(int, sizes))[-3:]
    together = 1 if columns >= 2048 else 8
    grid = (max(1, min(-(-rows // together), 4096)),)
    return (*grid, 1, max(1, min(planes, 4096))) if len(sizes) > 2 else grid


def parts_of(grid: tuple[int, ...], dtype: str) -> Any:
    """Memory for a number of each block."""
    import cupy as cp

    return cp.empty(int(np.prod(grid)), dtype)


def kernel(code: str, name: str, compiler: Any = None) -> Callable[..., None]:
    """The kernel of this name in a text of CUDA C: ``launch(blocks, threads, *args)``.

    ``compiler`` makes it of text, name and options, if not CuPy's ``RawKernel`` does.

    Arrays must be of their parameter's dtype; the kernel is given contiguous ones. Numbers become
    what their parameter is; one for a pointer goes to the device. Indices have 32 bits where
    arrays have less than 2**30 elements and integers are below that: fewer registers than 64 take.
    """
    import cupy as cp

    found = re.search(rf"void {name}\(([^)]*)\)", code)
    assert found is not None
    parameters = [" ".join(p.split()) for p in found.group(1).split(",")]
    compiled: dict[str, Any] = {}

    def passed(parameter: str, value: Any) -> Any:
        kind, pointer, title = parameter.removeprefix("const ").rpartition("* __restrict__ ")
        if not pointer:
            return value
        if not isinstance(value, cp.ndarray):
            if isinstance(value, np.ndarray) and value.ndim:
                raise TypeError(f"{title} is an array of NumPy: cupy.asarray moves it to the GPU")
            value = cp.full((), np.asarray(value)[()], _TYPES[kind])  # which copies nothing
        if value.dtype != _TYPES[kind]:
            raise TypeError(f"{title} must be {_TYPES[kind]}, not {value.dtype}")
        return cp.ascontiguousarray(value)

    def number(parameter: str, value: Any, index: str) -> Any:
        kind, _, _ = parameter.rpartition(" ")
        if "*" in parameter:
            return value
        return np.dtype(index if kind == "Index" else _TYPES[kind]).type(value)

    def launch(grid: Any, threads: Any, *args: Any) -> None:
        given = [passed(p, value) for p, value in zip(parameters, args, strict=True)]
        sizes = (x.size if isinstance(x, cp.ndarray) else x for x in given)
        large = any(abs(int(n)) >= 2**30 for n in sizes if isinstance(n, (int, np.integer)))
        index = "int64" if large else "int32"
        if index not in compiled:
            word = "long long" if large else "int"
            compiled[index] = (compiler or cp.RawKernel)(code, name, (f"-DIndex={word}",))
        shapes = [shape if isinstance(shape, tuple) else (shape,) for shape in (grid, threads)]
        given = [number(p, value, index) for p, value in zip(parameters, given, strict=True)]
        compiled[index](*shapes, tuple(given))
        for parameter, whole, part in zip(parameters, given, args, strict=True):
            stored = "*" in parameter and not parameter.startswith("const ")
            if stored and isinstance(part, cp.ndarray) and whole is not part:
                part[...] = whole  # a view, of which the kernel had a copy

    return launch
