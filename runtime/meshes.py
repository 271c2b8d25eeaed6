"""Devices, and meshes of devices with named axes: names and meaning are JAX's."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from calque.runtime import gpus
from calque.runtime.engines.choosing import GPUS, running
from calque.runtime.fitting import Unfit, at_least, axis_name, fitting, optional, shown, sizes, text
from calque.transpiler.errors import NoSuchDevice
from calque.transpiler.frontend.library.python_builtins import builtin
from calque.transpiler.frontend.machine import Args, Kwargs, Machine
from calque.transpiler.transformations.mesh_programs import PartitionSpec

P = PartitionSpec


@dataclass(frozen=True)
class Device:
    """A place where programs run: ``platform`` ("cpu", "gpu"), ``id``, and the process that has it.

    ``process_index`` is the number of that process. Devices come from ``devices()``.

    >>> Device("cpu", 2), Device("cpu", 2) == Device("cpu", 2, process_index=1)
    (CpuDevice(id=2), False)
    >>> print(Device("gpu", 0))
    cuda:0
    """

    platform: str
    id: int
    process_index: int = 0

    def __post_init__(self) -> None:
        fitting(text, self.platform, "Device", "platform")
        fitting(at_least(0), self.id, "Device", "id")
        fitting(at_least(0), self.process_index, "Device", "process_index")

    def __repr__(self) -> str:
        kind = "cuda" if self.platform == "gpu" else self.platform
        return f"{kind.capitalize()}Device(id={self.id})"

    def __str__(self) -> str:
        return f"cuda:{self.id}" if self.platform == "gpu" else repr(self)


@functools.cache
def _device(platform: str, number: int, process: int) -> Device:
    return Device(platform, number, process)


def local_device_count() -> int:
    """The number of devices of this process: ``CALQUE_CPU_DEVICES``, else the number of cores.

    Under MPI it is one, as each process is a device.

    Raises ValueError where ``CALQUE_CPU_DEVICES`` is no positive number.

    >>> local_device_count() == len(local_devices())
    True
    """
    if running().processes:
        return 1
    wished = os.environ.get("CALQUE_CPU_DEVICES", "").strip()
    if not wished:
        return os.cpu_count() or 1
    if not wished.isdigit() or int(wished) < 1:
        raise ValueError(f"CALQUE_CPU_DEVICES must be a positive number, and is {wished!r}")
    return int(wished)


def process_count() -> int:
    """The number of processes that work together: the ranks of ``mpiexec``, else 1.

    >>> process_count()
    1
    """
    return running().size()


def process_index() -> int:
    """The number of this process among all that work together, from 0 on.

    >>> process_index()
    0
    """
    return running().rank()


def device_count() -> int:
    """The number of devices of all processes.

    >>> device_count() == len(devices())
    True
    """
    return local_device_count() * process_count()


def devices(backend: str | None = None) -> list[Device]:
    """All devices, also those of other processes, as ``jax.devices``.

    ``backend`` is the platform: "cpu", which None stands for, or "gpu" ("cuda") for the GPUs of
    this process. Raises NoSuchDevice for another one, and where there is no GPU.

    >>> devices()[0]
    CpuDevice(id=0)
    """
    if isinstance(backend, str) and backend in _GPU:
        return _gpus(backend)
    if backend is not None and not (isinstance(backend, str) and backend == "cpu"):
        raise _none_of(backend, "leave the platform out, or write 'cpu' or 'gpu'")
    own = local_device_count()
    return [_device("cpu", k, k // own) for k in range(own * process_count())]


_GPU = ("gpu", "cuda")


def _gpus(backend: str) -> list[Device]:
    try:
        gpus.cupy()
    except NoSuchDevice as error:
        raise _none_of(backend, error.hint, f" {error.message}") from None
    count = gpus.gpu_count()
    if not count:
        raise _none_of(backend, "look what nvidia-smi says", " CuPy finds no GPU.")
    return [_device("gpu", k, process_index()) for k in range(count)]


def device_of(value: Any) -> Device:
    """A device, or the one that a text names: "cuda:0", "gpu" (the first), "cpu".

    Raises NoSuchDevice for what is none that is there.

    >>> device_of("cpu:0")
    CpuDevice(id=0)
    """
    known = value
    if isinstance(value, str):
        platform, _, number = value.partition(":")
        if platform in ("cpu", *_GPU) and (number or "0").isdigit():
            platform = "gpu" if platform in _GPU else platform
            known = _device(platform, int(number or 0), process_index())
    if not isinstance(known, Device) or known.platform not in ("cpu", "gpu"):
        cpus = ", ".join(map(repr, devices()))
        hint = f"take one of calque.devices(), or of calque.devices('gpu'); {gpus.EXTRAS}"
        raise NoSuchDevice(f"{shown(value)} is no device; there are {cpus}.", hint=hint)
    there = devices(known.platform)
    if known not in there:
        hint = f"set CALQUE_CPU_DEVICES={known.id + 1} before the program starts"
        listed = ", ".join(map(repr, there))
        raise NoSuchDevice(
            f"There is no {known!r}; there are {listed}.",
            hint=hint if known.platform == "cpu" else "take one of calque.devices('gpu')",
        )
    return known


def local_devices(process_index: int | None = None, backend: str | None = None) -> list[Device]:
    """The devices of this process, as ``jax.local_devices``.

    ``process_index`` is the number of another process; ``backend`` is as for ``devices``. There
    are none of a process that is not there.

    >>> local_devices()[0], local_devices(process_index=7)
    (CpuDevice(id=0), [])
    """
    number = optional(at_least(0))
    number_given = fitting(number, process_index, "local_devices", "process_index")
    mine = globals()["process_index"]() if number_given is None else number_given
    return [d for d in devices(backend) if d.process_index == mine]


def _none_of(backend: Any, hint: str | None, why: str = "") -> NoSuchDevice:
    return NoSuchDevice(
        f"There is no device of the platform {shown(backend)}; there are "
        f"{local_device_count()} of the platform 'cpu'.{why}",
        hint=hint,
    )


def _of_one_platform(devices: Sequence[Any], owner: str) -> str:
    """The platform of devices that run one program; GPUs once each."""
    platforms = {device.platform for device in devices}
    if len(platforms) > 1:
        raise NoSuchDevice(
            f"{owner} takes devices of one platform, and was given some of each of "
            f"{', '.join(sorted(platforms))}.",
            hint="take calque.devices(), or calque.devices('gpu')",
        )
    if "gpu" in platforms:
        twice = next((d for k, d in enumerate(devices) if d in devices[:k]), None)
        if twice is not None:
            raise NoSuchDevice(f"{owner} was given {twice} twice.", hint="pass each GPU once")
    return platforms.pop() if platforms else "cpu"


class Mesh:
    """Devices in an array with named axes, as ``jax.sharding.Mesh``.

    ``devices`` is an array of devices, ``axis_names`` a name for each of its axes. Raises
    ValueError where they do not fit.

    >>> mesh = Mesh(np.array(devices()[:1]), ("x",))
    >>> mesh.shape, mesh.size
    ({'x': 1}, 1)
    """

    __calque_leaf__: ClassVar[bool] = True

    def __init__(self, devices: Any, axis_names: Any):
        self.devices: np.ndarray = fitting(_array_of_devices, devices, "Mesh", "devices")
        self.platform = _of_one_platform(list(self.devices.flat), "Mesh")
        self.axis_names: tuple[Hashable, ...] = fitting(_names, axis_names, "Mesh", "axis_names")
        if self.devices.ndim != len(self.axis_names):
            raise ValueError(
                f"Mesh: devices has {self.devices.ndim} axes, and axis_names has "
                f"{len(self.axis_names)} names: {self.axis_names!r}"
            )
        if len(set(self.axis_names)) < len(self.axis_names):
            raise ValueError(f"Mesh: a name stands twice in axis_names {self.axis_names!r}")

    @property
    def shape(self) -> dict[Hashable, int]:
        """The number of devices along each axis."""
        return dict(zip(self.axis_names, self.devices.shape, strict=True))

    @property
    def size(self) -> int:
        """The number of devices."""
        return int(self.devices.size)

    def _key(self) -> Any:
        return (self.axis_names, self.devices.shape, tuple(self.devices.flat))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mesh) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"Mesh({', '.join(f'{n!r}: {s}' for n, s in self.shape.items())})"


def _array_of_devices(value: Any) -> np.ndarray:
    if isinstance(value, (tuple, list, np.ndarray)):
        try:
            found = np.asarray(value, dtype=object)
        except (RuntimeError, ValueError):  # nested too deeply, or ragged
            raise Unfit("an array, or a sequence, of devices") from None
        if all(isinstance(d, Device) for d in found.ravel()):
            return found
    raise Unfit("an array, or a sequence, of devices")


def _names(value: Any) -> tuple[Hashable, ...]:
    """Names of axes; one that stands alone is the only one."""
    found = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    return tuple(map(axis_name, found))


def make_mesh(
    axis_shapes: Sequence[int],
    axis_names: Sequence[str],
    *,
    devices: Sequence[Device] | None = None,
) -> Mesh:
    """A mesh of the first devices, as ``jax.make_mesh``.

    ``axis_shapes`` are the numbers of devices along the axes, ``axis_names`` their names;
    ``devices`` are taken in order instead of all. Raises NoSuchDevice (a ValueError) where there
    are fewer, and says how to have more.

    >>> make_mesh((1,), ("x",))
    Mesh('x': 1)
    """
    shape = fitting(sizes, axis_shapes, "make_mesh", "axis_shapes")
    given = fitting(optional(_array_of_devices), devices, "make_mesh", "devices")
    have = globals()["devices"]() if given is None else list(given.flat)
    return Mesh(np.array(take(have, math.prod(shape)), dtype=object).reshape(shape), axis_names)


def take(have: Sequence[Device], count: int) -> list[Device]:
    """The first devices; an error that says how to have more."""
    platform = _of_one_platform(have, "pmap")
    if count > len(have):
        engine = running() if platform == "cpu" else GPUS
        enough = len(have) < len(devices(platform)) and not engine.processes
        hint = f"pass {count} devices" if enough else engine.more(count)
        raise NoSuchDevice(f"{count} devices are asked for, and there are {len(have)}.", hint=hint)
    return list(have[:count])


def _known(function: Any) -> Any:
    """Return the implementation of a function of known values, such as specs: called as it is."""

    def call(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
        return function(*args, **kwargs)

    return call


for _function in (PartitionSpec, make_mesh, Mesh, devices):
    builtin(_function)(_known(_function))
