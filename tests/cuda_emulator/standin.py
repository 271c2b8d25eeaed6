"""A ``cupy`` on NumPy for machines without a GPU; its kernels run in the emulator.

It is stricter than CuPy, which hands arrays of any dtype and numbers of any width to a kernel
without a word: here a launch whose arguments do not fit the parameters is a TypeError. As on a
GPU, host and device do not mix: an ``ndarray`` of this module and one of NumPy refuse each other.
New memory holds NaN, or -1. Memory belongs to a device: an operation on arrays of another one than
the thread's current device is an error, but for copies. ``nccl`` has what several of them tell each
other. ``order`` is that of a kernel's threads: 0 as numbered, 1 backward,
else the seed of a shuffle.

>>> import numpy
>>> sum(asarray([1.0, 2.0]))
array(3.)
>>> asarray([1.0]) + numpy.ones(1)
Traceback (most recent call last):
    ...
TypeError: add: one operand is on the device, and another one, an array of NumPy, is not
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import re
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy
from numpy.lib.mixins import NDArrayOperatorsMixin

from cuda_emulator import building, capturing, compiling, cublas, nccl, ownership, refusals
from cuda_emulator.building import POINTER
from cuda_emulator.ownership import OfThread
from cuda_emulator.tables import API, PASSED_AS, SCALARS

__version__ = "13.3.0"
order = 0
device_count = 1
launches: list[str] = []  # the kernels that ran, by name: what a test may count
transfers: list[str] = []  # "put" and "get", between host and device
traffic: list[tuple[int, int]] = []  # bytes that each launch fetched from memory, and stored
moved_by_calls: list[int] = []  # bytes that functions other than kernels read and make
peer_copies: list[tuple[int, int]] = []  # from one device to another, without the host
waits: list[int] = []  # the devices that were waited for
_launching = threading.Lock()  # the emulator runs one kernel at a time


class ndarray(NDArrayOperatorsMixin):
    """An array on a device. It is none of NumPy's, and does not become one by itself."""

    __slots__ = ("__weakref__", "_memory", "device_id")

    def __init__(self, shape: Any, dtype: Any = numpy.float64):
        self._memory = numpy.empty(shape, dtype)
        self._memory.reshape(-1).view(numpy.uint8)[:] = 255
        capturing.keep(self._memory)
        self.device_id = cuda.runtime.getDevice()
        ownership.note(self)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self._memory.__array_interface__, "version": 3, "stream": 1}

    @property
    def data(self) -> Any:
        """Where it lies."""
        return _Pointer(self._memory, self.device_id)

    @property
    def device(self) -> Any:
        """The device that has it."""
        return cuda.Device(self.device_id)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._memory, name)
        if f"ndarray.{name}" not in API:
            raise AttributeError(f"an array of CuPy has no {name}")
        if callable(found):
            _require_current([self])
            return _Function(found, f"ndarray.{name}")
        return _device(found, self.device_id)

    def copy(self, order: str = "C") -> ndarray:
        """A copy on the current device, be it another one's."""
        _note_peer(self)
        return _device(_computed(partial(self._memory.copy, order=order), [self._memory], False))

    def __array_ufunc__(self, function: Any, method: str, *given: Any, **options: Any) -> Any:
        out = options.get("out", ())
        for value in (*given, *out):
            if isinstance(value, numpy.ndarray):
                raise TypeError(
                    f"{function.__name__}: one operand is on the device, and another one, an array "
                    "of NumPy, is not"
                )
        _require_current((*given, *out))
        cublas.refuse(function.__name__, given)
        if out:
            options["out"] = _host(out)
        compute = partial(getattr(function, method), *map(_host, given), **options)
        result = _computed(compute, [*map(_host, given), *map(_host, out)], bool(out))
        _count(given, result)
        return out[0] if len(out) == 1 else _device(result)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return _Function(function, function.__name__)(*args, **kwargs)

    def __getitem__(self, index: Any) -> Any:
        given = _host(index)
        if _has_arrays(given):
            _require_current([self, *(index if isinstance(index, tuple) else (index,))])
        if isinstance(self._memory[given], numpy.generic) and not _has_arrays(given):
            given = (*given, ...) if isinstance(given, tuple) else (given, ...)
        return _device(self._memory[given], self.device_id)  # an element is a view, as in CuPy

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(value, numpy.ndarray) and value.ndim:
            raise TypeError("an array of NumPy is not on the device")
        _require_current([self, value, *(index if isinstance(index, tuple) else (index,))])
        _count([value], self._memory[_host(index)])
        compute = partial(self._memory.__setitem__, _host(index), _host(value))
        _computed(compute, [self._memory, _host(value)], True)

    def __len__(self) -> int:
        return len(self._memory)

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(len(self)))

    def __bool__(self) -> bool:
        return bool(self.get())

    def __int__(self) -> int:
        return int(self.get())

    def __float__(self) -> float:
        return float(self.get())

    def __complex__(self) -> complex:
        return complex(self.get())

    def __repr__(self) -> str:
        return repr(self._memory)

    def __str__(self) -> str:
        return str(self.get())

    def __format__(self, form: str) -> str:
        return format(self.get(), form)

    def item(self) -> Any:
        """Python's number on the host."""
        return self.get().item()

    def tolist(self) -> Any:
        """Python's numbers on the host."""
        return self.get().tolist()

    def get(self) -> numpy.ndarray:
        """A copy on the host."""
        capturing.refuse("D2H transfers")
        transfers.append("get")
        return numpy.array(self._memory)


def _require_current(values: Iterable[Any]) -> None:
    """Real CuPy takes arrays of peers, or not: here none are."""
    here = cuda.runtime.getDevice()
    for value in values:
        if isinstance(value, ndarray) and value.device_id != here:
            raise ValueError(
                "Array device must be same as the current device: "
                f"array device = {value.device_id} while current = {here}"
            )


def _note_peer(x: ndarray) -> None:
    if x.device_id != cuda.runtime.getDevice():
        peer_copies.append((x.device_id, cuda.runtime.getDevice()))


def _device(value: Any, device: int | None = None) -> Any:
    """Arrays and NumPy's scalars are arrays on the device, as results of CuPy are."""
    if isinstance(value, (numpy.ndarray, numpy.generic)):
        made = ndarray.__new__(ndarray)
        made._memory = numpy.asarray(value)
        made.device_id = cuda.runtime.getDevice() if device is None else device
        ownership.note(made)
        return made
    if isinstance(value, (tuple, list)):
        parts = [_device(v) for v in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


def _host(value: Any) -> Any:
    if isinstance(value, ndarray):
        return value._memory
    return type(value)(map(_host, value)) if type(value) in (tuple, list) else value


def _count(given: Sequence[Any], result: Any) -> None:
    """Keep the bytes of operands and of a result that is no view of one."""
    read = [v for v in map(_host, given) if isinstance(v, numpy.ndarray)]
    made = [v for v in (result,) if isinstance(v, numpy.ndarray)]
    if not any(numpy.may_share_memory(a, b) for a in read for b in made):
        moved_by_calls.append(sum(int(v.nbytes) for v in [*read, *made]))


def _computed(compute: Any, given: Sequence[Any], stores: bool) -> Any:
    """Compute something of arrays; or, while the stream captures, when its graph is launched."""
    arrays = [v for v in given if isinstance(v, numpy.ndarray)]
    if stores:
        found: list[Any] = []
        capturing.did(lambda: found.append(compute()), arrays)
        return found[0] if found else None
    return capturing.made(compute, arrays)


class _Pointer:
    """Where an array lies."""

    def __init__(self, memory: numpy.ndarray, device_id: int):
        self.memory, self.device_id = memory, device_id
        self.ptr = memory.ctypes.data

    def copy_from_device_async(self, source: _Pointer, size: int, stream: Any = None) -> None:
        """Bytes from there to here."""
        if size > min(source.memory.nbytes, self.memory.nbytes):
            raise ValueError("more bytes than there are")
        compute = partial(ctypes.memmove, self.ptr, source.ptr, size)
        capturing.did(compute, [self.memory, source.memory])
        moved_by_calls.append(2 * size)


def _has_arrays(index: Any) -> bool:
    items = index if isinstance(index, tuple) else (index,)
    return any(isinstance(i, numpy.ndarray) for i in items)


class _Function:
    """A function of NumPy's or SciPy's, on the device, as far as CuPy has it."""

    def __init__(self, function: Any, name: str):
        self.function, self.name = function, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for value in (*args, *kwargs.values()):
            if isinstance(value, numpy.ndarray):
                raise TypeError(f"{self.name}: an array of NumPy is not on the device")
            _require_current(value if isinstance(value, (tuple, list)) else [value])
        taken = API[self.name]
        wrong = kwargs.keys() - set(taken)
        if wrong and not any(p.startswith("**") for p in taken):
            raise TypeError(f"{self.name} of CuPy takes no {', '.join(sorted(wrong))}")
        if len(args) > len(taken) and not any(p.startswith("*") for p in taken):
            raise TypeError(f"{self.name} of CuPy takes {len(taken)} arguments, not {len(args)}")
        cublas.refuse(self.name, args)
        refusals.refuse(self.name, args, ndarray)
        out = kwargs.get("out")
        given = {k: _host(v) for k, v in kwargs.items()}
        compute = partial(self.function, *map(_host, args), **given)
        own = getattr(self.function, "__self__", None)
        result = _computed(compute, [*map(_host, args), *given.values(), own], out is not None)
        _count([*args, getattr(self.function, "__self__", None)], result)
        return _device(result) if out is None else out

    def __getattr__(self, name: str) -> Any:
        return _found(self.function, f"{self.name}.", name)


def _found(module: Any, prefix: str, name: str) -> Any:
    value = getattr(module, name, None)
    if value is None or prefix + name not in API:
        raise AttributeError(f"CuPy has no {prefix}{name}")
    plain = isinstance(value, (type, ModuleType)) or not callable(value)
    return value if plain else _Function(value, prefix + name)


def __getattr__(name: str) -> Any:
    return _found(numpy, "", name)


class _Module(ModuleType):
    def __init__(self, name: str, of: Any):
        super().__init__(name)
        self.of, self.__path__ = of, []

    def __getattr__(self, name: str) -> Any:
        return _found(self.of, f"{self.__name__}.", name)


linalg, fft = _Module("linalg", numpy.linalg), _Module("fft", numpy.fft)
_scipy = {f"scipy.{n}": importlib.util.find_spec("scipy") for n in ("linalg", "special")}
CUPYX: dict[str, ModuleType] = {"cupyx": ModuleType("cupyx"), "cupyx.scipy": ModuleType("scipy")}
for _name, _there in _scipy.items():
    if _there is not None:
        CUPYX[f"cupyx.{_name}"] = _Module(_name, importlib.import_module(_name))
        setattr(CUPYX["cupyx.scipy"], _name.removeprefix("scipy."), CUPYX[f"cupyx.{_name}"])
CUPYX["cupyx"].scipy = CUPYX["cupyx.scipy"]  # type: ignore[attr-defined]


def empty(shape: Any, dtype: Any = numpy.float64) -> ndarray:
    """Memory that holds NaN, or -1: what reads it before it is stored is seen."""
    return ndarray(shape, dtype)


def empty_like(x: Any, dtype: Any = None) -> ndarray:
    """As ``empty``, of the shape of an array, and of its dtype where none is given."""
    return empty(x.shape, x.dtype if dtype is None else dtype)


def asarray(x: Any, dtype: Any = None) -> ndarray:
    """To the device: a copy, unless it is there, be it another library's."""
    if isinstance(x, ndarray):
        if x.device_id != cuda.runtime.getDevice():
            return array(x, dtype)
        return x if dtype in (None, x.dtype) else _device(x._memory.astype(dtype))
    if hasattr(x, "__cuda_array_interface__"):
        seen = SimpleNamespace(__array_interface__=x.__cuda_array_interface__)
        return asarray(_device(numpy.asarray(seen)), dtype)
    return array(x, dtype)


def ascontiguousarray(x: ndarray) -> ndarray:
    """An array itself where it is contiguous; of no dims, as a view of one."""
    if x.ndim and x.flags.c_contiguous:
        return x
    return _Function(numpy.ascontiguousarray, "ascontiguousarray")(x)


def from_dlpack(x: Any) -> ndarray:
    """Another library's array on a device, in its memory."""
    if x.__dlpack_device__()[0] not in (2, 13):
        raise ValueError("it does not lie on a GPU")
    seen = SimpleNamespace(__dlpack__=x.__dlpack__, __dlpack_device__=lambda: (1, 0))
    return _device(numpy.from_dlpack(seen))


def array(x: Any, dtype: Any = None) -> ndarray:
    """A copy on the device."""
    refusals.refuse("array", (x,), ndarray)
    if isinstance(x, ndarray):
        _note_peer(x)
    else:
        capturing.refuse("H2D transfers")
        transfers.append("put")
    return _device(_computed(partial(numpy.array, _host(x), dtype), [_host(x)], False))


def asnumpy(x: Any) -> numpy.ndarray:
    """A copy on the host."""
    return x.get() if isinstance(x, ndarray) else numpy.array(x)


def argsort(x: Any, axis: int = -1, kind: str | None = None) -> Any:
    """CuPy's sorts are stable, and called nothing else."""
    if kind not in (None, "stable"):
        raise ValueError(f"kind is stable, not {kind}")
    return _device(numpy.argsort(_host(x), axis, kind="stable"))


def _pinned(size: int) -> Any:
    return ctypes.create_string_buffer(size)


class Device:
    """``with cupy.cuda.Device(1):`` new arrays lie there."""

    def __init__(self, number: int | None = None):
        self.id = _thread.current[-1] if number is None else number
        if not 0 <= self.id < max(device_count, 1):
            raise RuntimeError(f"cudaErrorInvalidDevice: there is no device {self.id}")

    @property
    def compute_capability(self) -> str:
        """Of which architecture it is."""
        return compiling.capability

    @property
    def cublas_handle(self) -> int:
        """That of cuBLAS, of which ``cublas`` has a part."""
        return cublas.HANDLE + self.id

    def __enter__(self) -> Device:
        _thread.current.append(self.id)
        return self

    def __exit__(self, *error: object) -> None:
        _thread.current.pop()

    def synchronize(self) -> None:
        """Wait for the device."""
        capturing.refuse("synchronous API calls")
        waits.append(self.id)


_thread = OfThread()
runtime = SimpleNamespace(getDeviceCount=lambda: device_count, getDevice=lambda: _thread.current[-1])
cuda = SimpleNamespace(
    alloc_pinned_memory=_pinned,
    Device=Device,
    runtime=runtime,
    Stream=capturing.Stream,
    Graph=capturing.Graph,
    MemoryPool=capturing.MemoryPool,
    using_allocator=capturing.using_allocator,
    get_current_stream=capturing.current,
    nccl=nccl,
    compiler=SimpleNamespace(compile_using_nvrtc=compiling.compile_using_nvrtc),
    nvrtc=SimpleNamespace(getVersion=lambda: compiling.version),
    function=SimpleNamespace(Module=compiling.Module),
)
nccl.current = runtime.getDevice


class RawModule:
    """``RawModule(code=..., options=...)``: ``get_function`` gives its kernels."""

    def __init__(self, *, code: str, options: tuple[str, ...] = ()):
        self.code, self.options = code, options

    def get_function(self, name: str) -> RawKernel:
        """A kernel of the text."""
        return RawKernel(self.code, name, self.options)


class RawKernel:
    """``RawKernel(code, name, options)``; compiled when it is first launched, as in CuPy."""

    def __init__(self, code: str, name: str, options: tuple[str, ...] = ()):
        self.code, self.name, self.options = code, name, options
        self.parameters = building.parameters(code, name, options)
        self._launcher: Any = None

    def __call__(self, grid: Sequence[int], block: Sequence[int], args: Sequence[Any]) -> None:
        grid, block = ((*shape, 1, 1)[:3] for shape in (grid, block))
        if min(*grid, *block) < 1 or max(grid[1:]) > 65535 or numpy.prod(block) > 1024:
            raise ValueError(f"{self.name}: no such launch, {grid} blocks of {block}")
        passed = self._passed(args)
        launches.append(self.name)
        shapes = [(ctypes.c_uint * 3)(*shape) for shape in (grid, block)]
        barriers = ctypes.c_bool(bool(re.search(r"_sync\b|__sync", self.code)))
        touched = [a._memory for a in args if isinstance(a, ndarray)]
        capturing.did(lambda: self._run(shapes, barriers, passed), touched)

    def _run(self, shapes: Any, barriers: Any, passed: Sequence[Any]) -> None:
        with _launching:
            if self._launcher is None:
                self._launcher = building.launcher(self.code, self.name, self.options)
                self._launcher.restype = ctypes.c_char_p
            if error := self._launcher(*shapes, barriers, order, *passed):
                raise RuntimeError(f"{self.name}: {error.decode()}")
            traffic.append(building.moved(self._launcher.library))

    def _passed(self, args: Sequence[Any]) -> list[Any]:
        """The arguments for ctypes, after the checks that CuPy does not make."""
        if len(args) != len(self.parameters):
            wanted, got = len(self.parameters), len(args)
            raise TypeError(f"{self.name}: {wanted} parameters, and {got} arguments")
        _require_current(args)
        passed: list[Any] = []
        arrays: list[tuple[str, Any, str | None]] = []
        for parameter, value in zip(self.parameters, args, strict=True):
            pointer = POINTER.fullmatch(parameter)
            if pointer is None:
                passed.append(self._number(parameter, value))
                continue
            constant, kind, name = pointer.groups()
            fits = isinstance(value, ndarray) and value.dtype == SCALARS[kind][0]
            if not fits or not value.flags.c_contiguous:
                got = f"{type(value).__name__} {getattr(value, 'dtype', '')}"
                raise TypeError(f"{self.name}: {name} is a contiguous array of {kind}, got {got}")
            for other_name, other, other_constant in arrays:
                if not (constant and other_constant) and numpy.may_share_memory(
                    value._memory, other._memory
                ):
                    raise ValueError(f"{self.name}: {name} and {other_name} share memory")
            arrays.append((name, value, constant))
            passed += [ctypes.c_void_p(value.data.ptr), ctypes.c_longlong(value.size)]
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


compiling.kernel_of = RawKernel


@contextmanager
def installed() -> Iterator[ModuleType]:
    """``import cupy`` gives this module, and ``import cupyx.scipy.special`` SciPy's."""
    own: dict[str, Any] = {"cupy": sys.modules[__name__], "cupy.cuda": cuda, "cupy.cuda.nccl": nccl}
    modules = {**own, **CUPYX}
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        yield sys.modules[__name__]
    finally:
        for name, module in before.items():
            del sys.modules[name]
            if module is not None:
                sys.modules[name] = module
