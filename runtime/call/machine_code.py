"""Machine code of kernels, kept from one process to the next, and an account of what was compiled.

Numba asks the ``KernelCache`` of a kernel before it compiles, and gives it what it compiled. Its
own cache on disk would trust any file that it finds, and share an index between processes.
"""

from __future__ import annotations

import dis
import functools
import importlib.util
import os
import platform
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calque.runtime.call import disk_cache
from calque.runtime.version import __version__
from calque.transpiler.codegen.numba.called_functions import REFUSING
from calque.transpiler.errors import NumbaMissing
from calque.transpiler.ir.debug import show_text
from calque.transpiler.late import Late

if TYPE_CHECKING:
    import hashlib
else:
    hashlib = Late("hashlib")

# environment variables of Numba that change no machine code
_HARMLESS = ("NUMBA_NUM_THREADS", "NUMBA_THREADING_LAYER", "NUMBA_CACHE", "NUMBA_DEBUG_CACHE")

# what may raise an error
_REFUSING = REFUSING | {"argmax", "argmin", "interp", "digitize", "convolve", "cross"}

_QUICK_FROM = 0, 65  # of Numba, the oldest tried: trimmed_compiler.py needs its parts


@dataclass(frozen=True)
class Compilation:
    """A kernel made ready for arguments of some types."""

    kernel: str
    version: str  # serial or parallel
    types: str
    from_disk: bool
    seconds: float


class NotReady(Exception):
    """A kernel has no machine code for these types yet, and the call is not to wait for it."""

    def __init__(self, cache: KernelCache, types: Any):
        super().__init__(cache.kernel)
        self.cache, self.types = cache, types


_waiting = threading.local()  # whether calls of this thread wait for a compiler
received: dict[tuple[str, str], bytes] = {}  # what another process compiled, by names and keys
sent: list[tuple[tuple[str, str], bytes]] | None = None  # what this one compiled for another


@contextmanager
def only_what_is_ready() -> Iterator[None]:
    """Within it, a kernel that would have to be compiled raises ``NotReady``."""
    before = getattr(_waiting, "never", False)
    _waiting.never = True
    try:
        yield
    finally:
        _waiting.never = before


class KernelCache:
    """Numba's cache of one version of one kernel: what it asks, and what it is given to keep."""

    cache_path = None
    dispatcher: Any = None  # Numba's, which compiles this version
    aside: Any = None  # of a kernel of two versions: what chooses one for a call
    maker: Any = None  # what compiles this version while the other one answers

    def __init__(self, module: str, kernel: str, version: str, key: str | None):
        self.module, self.kernel, self.version, self.key = module, kernel, version, key
        self.made: list[Compilation] = []
        self._started: dict[Any, float] = {}

    def enable(self) -> None:
        """Part of Numba's protocol: this cache is always on."""

    def disable(self) -> None:
        """Part of Numba's protocol: ``CALQUE_CACHE=0`` turns the cache off."""

    def flush(self) -> None:
        """Part of Numba's protocol: ``calque cache clear`` empties the cache."""

    def load_overload(self, types: Any, target: Any) -> Any:
        """The compiled code for argument types, from disk; None where it must be compiled."""
        started = self._started[types] = time.perf_counter()
        if self.key is None:
            return None
        payload = self._payload(types, target.codegen())
        if payload is None:
            if getattr(_waiting, "never", False):
                raise NotReady(self, types)
            return None
        try:
            found = _loaded(payload, target)
        except Exception:  # whatever it is, compiling anew is right
            return None
        received.pop(self._entry(types, target.codegen()), None)
        self._note(types, True, started)
        return found

    def save_overload(self, types: Any, result: Any) -> None:
        """Keep what was compiled; what refers to this process's memory cannot be kept."""
        self._note(types, False, self._started.pop(types, time.perf_counter()))
        if result.library.has_dynamic_globals or any(not x.can_cache for x in result.lifted):
            return
        if self.key is None or (disk_cache.folder() is None and sent is None):
            return
        from numba.core.serialize import dumps

        name, key = self._entry(types, result.codegen)
        payload = dumps(result._reduce())
        disk_cache.write_entry(name, key, payload)
        if sent is not None:
            sent.append(((name, key), payload))

    def is_ready(self, types: Any) -> bool:
        """True if machine code for argument types is loaded, or need only be loaded."""
        known = tuple(types) in self.dispatcher.overloads
        return known or self._payload(types, self.dispatcher.targetctx.codegen()) is not None

    def _payload(self, types: Any, codegen: Any) -> bytes | None:
        name, key = self._entry(types, codegen)
        found = received.get((name, key))
        return disk_cache.read_entry(name, key) if found is None else found

    def _entry(self, types: Any, codegen: Any) -> tuple[str, str]:
        """The name of a file, and all that its content depends on."""
        machine = repr(codegen.magic_tuple())
        key = "\n".join([self.key or "", self.kernel, self.version, str(types), machine])
        digest = hashlib.sha256(key.encode()).hexdigest()[:16]
        return f"{self.module}.{self.kernel[:60]}.{self.version}.{digest}.code", key

    def _note(self, types: Any, from_disk: bool, started: float) -> None:
        seconds = time.perf_counter() - started
        shown = ", ".join(map(str, types))
        self.made.append(Compilation(self.kernel, self.version, shown, from_disk, seconds))
        how = "loaded from the cache" if from_disk else "compiled"
        show_text(f"# {self.kernel} ({self.version}) {how} in {seconds:.3f} s for ({shown})")


def _loaded(payload: bytes, target: Any) -> Any:
    import pickle

    from numba.core.compiler import CompileResult
    from numba.core.runtime import rtsys

    # the part of target.refresh() that running needs; the rest imports what only compiling needs
    rtsys.initialize(target)
    return CompileResult._rebuild(target, *pickle.loads(payload))


def attach(namespace: dict[str, Any], module: str, key: str | None) -> tuple[KernelCache, ...]:
    """Give the kernels that a module defines their caches; without a key, in memory only."""
    found = []
    known: dict[Any, Any] = {}
    for name, value in list(namespace.items()):
        if getattr(value, "__module__", None) == namespace["__name__"]:
            kernel = _within(value)
            versions = getattr(kernel, "versions", (kernel,))
            if not hasattr(versions[0], "targetoptions"):  # none under NUMBA_DISABLE_JIT
                continue
            if hasattr(kernel, "on_threads"):
                _quickly(kernel)
                continue
            namespace[name] = known.setdefault((_work(versions[0]), len(versions)), value)
            if namespace[name] is not value:
                continue  # a kernel that is there already does the same
            for dispatcher in versions:
                version = "parallel" if "parallel" in dispatcher.targetoptions else "serial"
                dispatcher._cache = KernelCache(module, name, version, key)
                dispatcher._cache.dispatcher = dispatcher
                dispatcher._cache.aside = getattr(kernel, "aside", None)
                _quickly(dispatcher)
                found.append(dispatcher._cache)
    return tuple(found)


def _within(value: Any) -> Any:
    """The compiled function within a module's definition: ``forms_errors`` wraps a kernel."""
    while not hasattr(value, "versions") and not hasattr(value, "targetoptions"):
        if not hasattr(value, "__wrapped__"):
            break
        value = value.__wrapped__
    return value


def _work(dispatcher: Any) -> Any:
    """A key of what a kernel computes, for any variable names; itself, if errors tell its lines."""
    code = dispatcher.py_func.__code__
    refuses = dis.opmap["RAISE_VARARGS"] in code.co_code[::2] or _REFUSING & {*code.co_names}
    if refuses or dispatcher.targetoptions["boundscheck"] is not False:
        return dispatcher
    constants = tuple([(type(c), repr(c)) for c in code.co_consts])
    own = code.co_code, constants, code.co_names, code.co_argcount
    return *own, repr(sorted(dispatcher.targetoptions.items(), key=str))


def _quickly(dispatcher: Any) -> None:
    """Compile a kernel of this process without what only other programs need."""
    import numba

    if numba.version_info.short < _QUICK_FROM:
        return
    plain = dispatcher._compiler.pipeline_class

    def compiler(*args: Any) -> Any:
        try:
            from calque.runtime.kernels.trimmed_compiler import (
                quick,  # what imports it only compiling needs
            )
        except ImportError:
            return plain(*args)  # a Numba whose compiler has other parts
        return quick(plain, hasattr(dispatcher, "on_threads"))(*args)

    dispatcher._compiler.pipeline_class = compiler
    dispatcher.targetoptions["no_cfunc_wrapper"] = True


def module_key(text: str) -> str:
    """The key of a module's machine code, apart from the machine and the types of a call."""
    numba = [*_numba_settings(), _helpers(), _numba_version()] if "@kernel" in text else []
    scipy = scipy_version() if "in_kernels(" in text else []
    return "\n".join([*versions_used(), *numba, *scipy, text])


def module_name(stem: str, key: str) -> str:
    """A name for a module that two texts never share.

    >>> module_name("selu_jit", "...")
    'selu_jit-ab5df625bc76dbd4'
    """
    return f"{stem[:80]}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"


@functools.cache
def versions_used() -> tuple[str, ...]:
    import numpy as np

    python = f"{platform.python_implementation()} {platform.python_version()}"
    return (
        f"calque {__version__}",
        f"numpy {np.__version__}",
        python,
    )


@functools.cache
def scipy_version() -> list[str]:
    """The SciPy that there is, by its file and the time of that: kernels call its machine code.

    It is found without an import: Numba imports SciPy, and a key must not tell before from after.
    """
    found = importlib.util.find_spec("scipy")
    if found is None or found.origin is None:
        return []
    return [f"scipy {found.origin} {os.stat(found.origin).st_mtime_ns}"]


def _numba_version() -> str:
    try:
        import numba
    except ImportError as error:
        raise NumbaMissing(
            f"jit compiles kernels with Numba, which cannot be imported: {error}.",
            hint="pip install numba, or leave out jit: NumPy source needs no compiler",
        ) from None
    return f"numba {numba.__version__}"


def _numba_settings() -> list[str]:
    settings = sorted((k, v) for k, v in os.environ.items() if k.startswith("NUMBA_"))
    return [f"{k}={v}" for k, v in settings if not k.startswith(_HARMLESS)]


@functools.cache
def _helpers() -> str:
    """The functions that kernels call are compiled into them: their text is part of the code."""
    here = Path(__file__).parents[1]
    files = [f for room in ("kernels", "vecmath") for f in sorted((here / room).glob("*.py"))]
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes() + b"\0")
    return digest.hexdigest()


