"""Kernels of the stand-in: ``RawKernel`` checks its arguments and runs in the emulator."""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from cuda_emulator import building, capturing, validity
from cuda_emulator.building import POINTER
from cuda_emulator.tables import PASSED_AS, SCALARS

MOST_SHARED = 227 << 10  # bytes of a block, if the kernel asks for them
OF_MULTIPROCESSOR = 228 << 10
_launching = threading.Lock()  # the emulator runs one kernel at a time
# set by the stand-in
array: Any
require_current: Callable[[Any], None]
note_launch: Callable[[str], None]
note_traffic: Callable[[tuple[int, int]], None]
order_now: Callable[[], int]


class RawModule:
    """``RawModule(code=..., options=...)``: ``get_function`` gives its kernels."""

    def __init__(self, *, code: str, options: tuple[str, ...] = ()):
        self.code, self.options = code, options

    def get_function(self, name: str) -> RawKernel:
        """A kernel of the text."""
        return RawKernel(self.code, name, self.options)


class RawKernel:
    """``RawKernel(code, name, options)``; compiled when it is first launched, as in CuPy."""

    max_dynamic_shared_size_bytes = 48 << 10

    def __init__(self, code: str, name: str, options: tuple[str, ...] = ()):
        self.code, self.name, self.options = code, name, options
        self.parameters = building.parameters(code, name, options)
        self._launcher: Any = None

    def __call__(
        self, grid: Sequence[int], block: Sequence[int], args: Sequence[Any], shared_mem: int = 0
    ) -> None:
        grid, block = ((*shape, 1, 1)[:3] for shape in (grid, block))
        most = building.most_threads(self.code, self.name)
        if min(*grid, *block) < 1 or max(grid[1:]) > 65535 or numpy.prod(block) > most:
            raise ValueError(f"{self.name}: no such launch, {grid} blocks of {block}, of {most} threads")
        if not 0 <= shared_mem <= min(self.max_dynamic_shared_size_bytes, MOST_SHARED):
            raise ValueError(f"{self.name}: no block has {shared_mem} bytes of shared memory")
        passed = self._passed(args)
        note_launch(self.name)
        shapes = [(ctypes.c_uint * 3)(*shape) for shape in (grid, block)]
        barriers = ctypes.c_bool(bool(re.search(r"_sync\b|__sync", self.code)))
        touched: tuple[list[Any], list[Any]] = ([], [])
        for parameter, a in zip(self.parameters, args, strict=True):
            if isinstance(a, array):
                touched[parameter.startswith("const ")].append(a._memory)
        given = *shapes, barriers, order_now(), ctypes.c_longlong(shared_mem)
        capturing.did(lambda: self._run(given, passed), *touched)

    def _run(self, launch: Sequence[Any], passed: Sequence[Any]) -> None:
        with _launching:
            if self._launcher is None:
                self._launcher = building.launcher(self.code, self.name, self.options)
                self._launcher.restype = ctypes.c_char_p
            arrays = [a() for a in passed if isinstance(a, capturing.Reference)]
            held = [validity.elements(memory) for memory in arrays]
            if any(h is not None for h in held):  # what is copied may go anywhere
                held = [numpy.ones(m.shape, bool) if h is None else h for h, m in zip(held, arrays, strict=True)]
            pointers = (_pointers(m, h) for m, h in zip(arrays, held, strict=True))
            given: list[Any] = []
            for a in passed:
                given += next(pointers) if isinstance(a, capturing.Reference) else [a]
            if error := self._launcher(*launch, *given):
                raise RuntimeError(f"{self.name}: {error.decode()}")
            note_traffic(building.moved(self._launcher.library))
            for memory, found in zip(arrays, held, strict=True):
                if found is not None:
                    validity.store(memory, found)

    def _passed(self, args: Sequence[Any]) -> list[Any]:
        """The arguments for ctypes, after the checks that CuPy does not make."""
        if len(args) != len(self.parameters):
            wanted, got = len(self.parameters), len(args)
            raise TypeError(f"{self.name}: {wanted} parameters, and {got} arguments")
        require_current(args)
        passed: list[Any] = []
        arrays: list[tuple[str, Any, str | None]] = []
        for parameter, value in zip(self.parameters, args, strict=True):
            pointer = POINTER.fullmatch(parameter)
            if pointer is None:
                passed.append(self._number(parameter, value))
                continue
            constant, kind, name = pointer.groups()
            fits = isinstance(value, array) and value.dtype == SCALARS[kind][0]
            if not fits or not value.flags.c_contiguous:
                got = f"{type(value).__name__} {getattr(value, 'dtype', '')}"
                raise TypeError(f"{self.name}: {name} is a contiguous array of {kind}, got {got}")
            for other_name, other, other_constant in arrays:
                if not (constant and other_constant) and numpy.may_share_memory(
                    value._memory, other._memory
                ):
                    raise ValueError(f"{self.name}: {name} and {other_name} share memory")
            arrays.append((name, value, constant))
            passed.append(capturing.Reference(value._memory))
        return passed

    def _number(self, parameter: str, value: Any) -> Any:
        kind, _, name = parameter.rpartition(" ")
        if kind.startswith("volatile"):  # the address of pinned memory, as a number
            return ctypes.c_void_p(int(value))
        value = PASSED_AS.get(type(value), lambda x: x)(value)
        dtype, ctype = SCALARS[kind]
        if type(value) is not dtype:
            raise TypeError(f"{self.name}: {name} is {kind}, got {type(value).__name__}")
        return ctype(value.real, value.imag) if dtype().dtype.kind == "c" else ctype(value)


def _pointers(memory: numpy.ndarray, held: numpy.ndarray | None) -> list[Any]:
    """An array, its size, and which of its elements are stored: nowhere where all are."""
    stored = None if held is None else held.ctypes.data
    return [*map(ctypes.c_void_p, (memory.ctypes.data,)), ctypes.c_longlong(memory.size), ctypes.c_void_p(stored)]
