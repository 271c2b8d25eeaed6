"""A ``cupy`` on NumPy for machines without a GPU; its kernels run in the emulator.

It is stricter than CuPy, which hands arrays of any dtype and numbers of any width to a kernel
without a word: here a launch whose arguments do not fit the parameters is a TypeError. As on a
GPU, host and device do not mix: an ``ndarray`` of this module and one of NumPy refuse each other.
New memory holds NaN, or -1, and what reads it before anything is stored there is an error. Two streams
that touch one memory must have waited for each other. Memory belongs to a device: an operation on arrays of another one than
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
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy
from numpy.lib.mixins import NDArrayOperatorsMixin

from cuda_emulator import (
    capturing,
    compiling,
    cublas,
    kernels,
    nccl,
    ownership,
    refusals,
    validity,
)
from cuda_emulator.computing import as_held, computed, flat
from cuda_emulator.ownership import OfThread
from cuda_emulator.tables import API

__version__ = "13.3.0"
order = 0
device_count = 1
launches: list[str] = []  # the kernels that ran, by name: what a test may count
transfers: list[str] = []  # "put" and "get", between host and device
traffic: list[tuple[int, int]] = []  # bytes that each launch fetched from memory, and stored
moved_by_calls: list[int] = []  # bytes that functions other than kernels read and make
peer_copies: list[tuple[int, int]] = []  # from one device to another, without the host
waits: list[int] = []  # the devices that were waited for


class ndarray(NDArrayOperatorsMixin):
    """An array on a device. It is none of NumPy's, and does not become one by itself."""

    __slots__ = ("__weakref__", "_memory", "device_id")

    def __init__(self, shape: Any, dtype: Any = numpy.float64):
        self._memory = numpy.empty(shape, dtype)
        self._memory.reshape(-1).view(numpy.uint8)[:] = 255
        capturing.keep(self._memory)
        validity.new(self._memory)
        self.device_id = cuda.runtime.getDevice()
        ownership.note(self)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self._memory.__array_interface__, "version": 3, "stream": 1}

    @property
    def data(self) -> Any:
        """The pointer to the array's memory."""
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
        compute = partial(self._memory.copy, order=order)
        again = partial(as_held, self._memory)
        return _device(computed("copy", compute, [self._memory], (), again))

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
        own, stored = list(map(_host, given)), list(map(_host, out))
        compute = partial(getattr(function, method), *own, **options)
        result = computed(function.__name__, compute, own, stored)
        _count(given, result)
        return out[0] if len(out) == 1 else _device(result)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return _Function(function, function.__name__)(*args, **kwargs)

    def __getitem__(self, index: Any) -> Any:
        given = _host(index)
        places = [v for v in flat([given]) if isinstance(v, numpy.ndarray)]
        if places:
            _require_current([self, *(index if isinstance(index, tuple) else (index,))])
            compute = partial(self._memory.__getitem__, given)
            return _device(capturing.made(compute, [self._memory, *places], partial(self._read, given)))
        if isinstance(self._memory[given], numpy.generic):
            given = (*given, ...) if isinstance(given, tuple) else (given, ...)
        return _device(self._memory[given], self.device_id)  # an element is a view, as in CuPy

    def _read(self, given: Any, made: Any) -> None:
        """Elements were read at places that arrays say: they hold what they held there."""
        for v in flat([given]):
            if isinstance(v, numpy.ndarray):
                validity.require(v, "an index")
        held = validity.elements(self._memory)
        if held is not None:
            validity.store(numpy.asarray(made), held[given])

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(value, numpy.ndarray) and value.ndim:
            raise TypeError("an array of NumPy is not on the device")
        _require_current([self, value, *(index if isinstance(index, tuple) else (index,))])
        _count([value], self._memory[_host(index)])
        given = _host(index), _host(value)
        places = [v for v in flat(given[:1]) if isinstance(v, numpy.ndarray)]

        def store() -> None:
            for v in places:
                validity.require(v, "an index")
            self._memory.__setitem__(*given)
            validity.set_items(self._memory, *given)

        capturing.did(store, [self._memory], [*places, *flat(given[1:])])

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
        capturing.taken(self._memory)
        validity.require(self._memory, "the host")
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


class _Pointer:
    """A pointer to the memory of an array."""

    def __init__(self, memory: numpy.ndarray, device_id: int):
        self.memory, self.device_id = memory, device_id
        self.ptr = memory.ctypes.data

    def copy_from_device_async(self, source: _Pointer, size: int, stream: Any = None) -> None:
        """Bytes from there to here."""
        if size > min(source.memory.nbytes, self.memory.nbytes):
            raise ValueError("more bytes than there are")

        def copy() -> None:
            ctypes.memmove(self.ptr, source.ptr, size)
            validity.copied(source.memory, self.memory, size)

        capturing.did(copy, [self.memory], [source.memory])
        moved_by_calls.append(2 * size)


_IN_PLACE = ("ndarray.fill", "ndarray.sort", "ndarray.partition")


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
        return self.called(args, kwargs)

    def called(self, args: Any, kwargs: Any) -> Any:
        """Its result, once what is given is known to be what it takes."""
        out = kwargs.get("out")
        given = {k: _host(v) for k, v in kwargs.items()}
        own = getattr(self.function, "__self__", None)
        operands = [*map(_host, args), *(v for k, v in given.items() if k != "out")]
        operands += [] if self.name == "ndarray.fill" else [own]

        def again(held: Any) -> Any:
            """The same of other operands: a method is that of what its own array becomes."""
            function = self.function if own is None else getattr(held(own), self.function.__name__)
            return function(*map(held, map(_host, args)), **given)

        compute = partial(self.function, *map(_host, args), **given)
        stored = [] if out is None else [given["out"]]
        if self.name in _IN_PLACE:
            stored = [own]
        result = computed(self.name, compute, operands, stored, again)
        _count([*args, own], result)
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
    compute, again = partial(numpy.array, _host(x), dtype), partial(as_held, _host(x))
    made = _device(computed("copy", compute, [_host(x)], (), again))
    if not isinstance(x, ndarray):
        capturing.sent()
    return made


def asnumpy(x: Any) -> numpy.ndarray:
    """A copy on the host."""
    return x.get() if isinstance(x, ndarray) else numpy.array(x)


def argsort(x: Any, axis: int = -1, kind: str | None = None) -> Any:
    """CuPy's sorts are stable, and called nothing else."""
    if kind not in (None, "stable"):
        raise ValueError(f"kind is stable, not {kind}")
    validity.require(_host(x), "argsort")
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
        capturing.all_done()
        waits.append(self.id)


_thread = OfThread()
def _attribute(attribute: int, device: int) -> int:
    """Shared memory: of a block that asks for it, and of a multiprocessor."""
    return {97: kernels.MOST_SHARED, 81: kernels.OF_MULTIPROCESSOR}[attribute]


runtime = SimpleNamespace(
    getDeviceCount=lambda: device_count,
    getDevice=lambda: _thread.current[-1],
    deviceGetAttribute=_attribute,
)
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


kernels.array, kernels.require_current = ndarray, _require_current
kernels.note_launch = launches.append
kernels.note_traffic = traffic.append
kernels.order_now = lambda: order
RawModule, RawKernel = kernels.RawModule, kernels.RawKernel
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
