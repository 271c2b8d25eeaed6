"""Compiled kernels of CUDA C in calque's cache on disk: a second process does not compile.

A file is found by the text, the options, the architecture and the versions of the compiler and of
CuPy, and is private, written in one step and checked as the cache's others are: one that is damaged
or another user's is made again, and so is one that the driver refuses. Without a cache, or with a
CuPy that has no such compiler, CuPy compiles and keeps kernels itself.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable
from typing import Any

from calque.runtime.call import disk_cache
from calque.runtime.cuda import launching
from calque.runtime.gpus import cupy
from calque.runtime.version import __version__

_MOST_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_modules: dict[tuple[int, str, tuple[str, ...]], Any] = {}  # loaded on each device


def kernel(code: str, name: str, held: int = 0) -> Callable[..., None]:
    """As ``launching.kernel``, compiled once for all processes."""
    return launching.kernel(code, name, KeptKernel, held)


class KeptKernel:
    """A kernel of a text, loaded on each device where it is launched: as CuPy's ``RawKernel``."""

    def __init__(self, code: str, name: str, options: tuple[str, ...] = ()):
        self.code, self.name, self.options = code, name, options
        self._functions: dict[int, Any] = {}
        self._runtime = cupy().cuda.runtime

    def __call__(
        self, grid: tuple[int, ...], block: tuple[int, ...], args: Any, shared_mem: int = 0
    ) -> None:
        self._function()(grid, block, args, shared_mem=shared_mem)

    def _function(self) -> Any:
        """The kernel on the current device."""
        device = self._runtime.getDevice()
        function = self._functions.get(device)
        if function is None:
            function = self._functions[device] = self._loaded(device)
        return function

    def _allow(self, size: int) -> None:
        """Let the blocks of a launch have so many bytes of shared memory."""
        function = self._function()
        if hasattr(function, "max_dynamic_shared_size_bytes"):  # CuPy's RawKernel
            function.max_dynamic_shared_size_bytes = size
        else:
            cupy().cuda.driver.funcSetAttribute(function.ptr, _MOST_SHARED, size)

    max_dynamic_shared_size_bytes = property(None, _allow)

    def _loaded(self, device: int) -> Any:
        library = cupy()
        if disk_cache.folder() is None or not _can_compile(library):
            return library.RawKernel(self.code, self.name, self.options)
        place = device, self.code, self.options
        module = _modules.get(place)
        if module is None:
            module = _modules[place] = _module(library, self.code, self.options)
        return module.get_function(self.name)


def _can_compile(library: Any) -> bool:
    """True if this CuPy can compile kernels to a form that can be kept."""
    places = ("cuda.compiler.compile_using_nvrtc", "cuda.nvrtc.getVersion", "cuda.function.Module")
    for place in places:
        found: Any = library
        for part in place.split("."):
            found = getattr(found, part, None)
        if found is None:
            return False
    return True


def _module(library: Any, code: str, options: tuple[str, ...]) -> Any:
    """The kernels of a text, loaded on the current device: from disk, or compiled."""
    key = _key(library, code, options)
    name = f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.cubin"
    found = disk_cache.read_entry(name, key)
    if found is not None:
        try:
            return _load(library, found)
        except RuntimeError:  # of the driver: whatever it is, compiling anew is right
            pass
    compiled, _ = library.cuda.compiler.compile_using_nvrtc(code, options)
    payload = compiled.encode() if isinstance(compiled, str) else bytes(compiled)
    module = _load(library, payload)
    disk_cache.write_entry(name, key, payload)
    return module


def _load(library: Any, payload: bytes) -> Any:
    module = library.cuda.function.Module()
    module.load(payload)
    return module


def _key(library: Any, code: str, options: tuple[str, ...]) -> str:
    """All that the machine code of a text depends on."""
    versions = f"calque {__version__}, CuPy {library.__version__}, NVRTC {_compiler(library)}"
    found = [versions, f"compute capability {library.cuda.Device().compute_capability}"]
    found += [f"{n}={os.environ.get(n, '')}" for n in ("CUPY_COMPILE_WITH_PTX",)]
    return "\n".join([*found, *options, code])


@functools.cache
def _compiler(library: Any) -> str:
    return ".".join(map(str, library.cuda.nvrtc.getVersion()))
