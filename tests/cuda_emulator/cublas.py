"""An emulated cuBLAS: matrix products in column-major order, by address; and CuPy's refusals.

CuPy calls neither cuBLAS nor cuSOLVER while a stream captures; cuBLAS itself can be captured. What a
call would read beside its matrices is an error here.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy

from cuda_emulator import capturing, validity

HANDLE = 4096
calls: list[tuple[int, int, int]] = []  # the sizes of products that were asked for
_BY_CUBLAS = "dot einsum inner matmul tensordot vdot".split()
_streams: dict[int, int] = {}  # of each handle
_rooms: dict[int, numpy.ndarray] = {}  # to work in, of each handle


def refuse(name: str, given: Sequence[Any]) -> None:
    """Refuse functions that CuPy computes by cuBLAS or cuSOLVER while the stream captures."""
    inexact = any(getattr(getattr(x, "dtype", x), "kind", "") in ("f", "c") for x in given)
    if name.startswith("linalg.") or (name in _BY_CUBLAS and inexact):
        capturing.refuse_library("cuSOLVER" if name.startswith("linalg.") else "cuBLAS")


def cublasSetStream_v2(handle: ctypes.c_void_p, stream: ctypes.c_void_p) -> int:
    """Set the stream of later calls."""
    assert handle.value is not None
    _streams[handle.value] = stream.value or 0
    _rooms.pop(handle.value, None)
    return 0


def cublasSetWorkspace_v2(handle: Any, address: Any, size: ctypes.c_size_t) -> int:
    """Memory to work in until the stream is set again: it must be there as long as a graph is."""
    owner = capturing.memory_at(address.value)
    assert address.value + size.value <= owner.ctypes.data + owner.nbytes
    _rooms[handle.value] = owner
    return 0


def _gemm(dtype: Any, handle: Any, *given: Any) -> int:
    """``out = left @ right`` of matrices by columns, each of which may be kept transposed."""
    turn_left, turn_right, rows, columns, inner = (x.value for x in given[:5])
    one, left, lead_left, right, lead_right, zero, out, lead_out = given[5:]
    assert _streams[handle.value] == capturing.current().ptr, "the stream of another call"
    width = numpy.dtype(dtype).itemsize // ctypes.sizeof(one._type_)
    assert list(one) == [1, 0][:width] and list(zero) == [0, 0][:width]
    leads = lead_left.value, lead_right.value, lead_out.value
    tall = inner if turn_left else rows, columns if turn_right else inner, rows
    if min(rows, columns, inner) < 0 or any(
        a < max(1, b) for a, b in zip(leads, tall, strict=True)
    ):
        return 7  # CUBLAS_STATUS_INVALID_VALUE
    calls.append((rows, columns, inner))
    wide = rows if turn_left else inner, inner if turn_right else columns, columns
    addresses = left.value, right.value, out.value
    found = [_lines(dtype, *at) for at in zip(addresses, leads, tall, wide, strict=True)]
    size = numpy.dtype(dtype).itemsize

    def compute() -> None:
        _multiplied(turn_left, turn_right, *(lines for lines, _ in found))
        for column in range(columns):
            validity.store_at(out.value + column * lead_out.value * size, rows * size)

    *factors, product = (owner for _, owner in found)
    capturing.did(compute, [product, _rooms[handle.value]], factors)
    return 0


def _lines(dtype: Any, address: int, lead: int, tall: int, wide: int) -> tuple[Any, numpy.ndarray]:
    """A matrix by columns at an address, as it will be then, and the memory that it is in."""
    owner = capturing.memory_at(address)
    size = numpy.dtype(dtype).itemsize
    end = address + ((wide - 1) * lead + tall) * size
    assert end <= owner.ctypes.data + owner.nbytes, "a matrix ends beyond its memory"

    def lines() -> numpy.ndarray:
        cells = (ctypes.c_char * (end - address)).from_address(address)
        flat = numpy.frombuffer(cells, dtype)
        return numpy.lib.stride_tricks.as_strided(flat, (tall, wide), (size, lead * size))

    return lines, owner


def _multiplied(turn_left: int, turn_right: int, *matrices: Callable[[], Any]) -> None:
    left, right, out = (lines() for lines in matrices)
    out[...] = (left.T if turn_left else left) @ (right.T if turn_right else right)


cublasSgemm_v2 = partial(_gemm, numpy.float32)
cublasDgemm_v2 = partial(_gemm, numpy.float64)
cublasCgemm_v2 = partial(_gemm, numpy.complex64)
cublasZgemm_v2 = partial(_gemm, numpy.complex128)
