"""The common part of ``pmap`` and ``shard_map``: one program for all devices, run by an engine."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Hashable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np

from calque.runtime import debug_nans
from calque.runtime.call import blas_threads
from calque.runtime.call.dispatch import Dispatcher
from calque.runtime.call.loading import Program
from calque.runtime.call.signatures import static_leaves
from calque.runtime.cuda import raise_if_outside
from calque.runtime.cuda.given_arrays import adopted, any_on_gpu
from calque.runtime.cuda.launcher_dispatch import DeviceDispatcher
from calque.runtime.devices.gpu_parts import parts_on_gpus, whole_on_gpus, with_captured
from calque.runtime.engines.choosing import ENGINES, GPUS, THREADS, chosen, running
from calque.runtime.engines.engine import Engine
from calque.runtime.inlining import TRACE
from calque.runtime.meshes import Device
from calque.runtime.spec import Spec
from calque.runtime.tiers.launch_types import tried
from calque.runtime.tracebacks import hide_own_frames
from calque.runtime.transformed import Transformed
from calque.transpiler.codegen.numpy.device_launchers import Cut
from calque.transpiler.errors import (
    DevicesDiffer,
    ImpureFunction,
    MixedDevices,
    Origin,
    UnsupportedFunction,
    UnsupportedOption,
)
from calque.transpiler.frontend.machine import Args, Kwargs, Machine
from calque.transpiler.ir import pytrees
from calque.transpiler.ir.core import Slot, map_tree
from calque.transpiler.ir.device_arrays import is_device_array
from calque.transpiler.spmd.library_calls import write_calls
from calque.transpiler.transformations.mesh_programs import (
    Layout,
    communicators,
    device_program,
    first_store,
)


class DeviceProgram(Transformed):
    """The program that each device runs; its first parameters are the communicators."""

    def __init__(
        self,
        function: Callable[..., Any],
        layout: Layout,
        static: tuple[int, ...] = (),
        engine: Engine = THREADS,
    ):
        self.engine = engine
        self.called = communicators(layout, _parameters(function))
        self.communicators = tuple(self.called.values())
        self.static = static
        super().__init__("device", function, layout=layout)
        if self._dispatcher.options is not None:  # each device is a thread already
            self._dispatcher.options = {**self._dispatcher.options, "parallel": False}
        if engine.library is not None:
            self._dispatcher.finish = partial(write_calls, engine.library)
        if static:
            options = {"static_argnums": static}
            self._dispatcher.static = static_leaves(function, options)

    def _chain(self) -> tuple[Any, tuple[Any, ...]]:
        function, chain = super()._chain()
        return function, (self.communicators, self.engine.name, self.static, *chain)


def leaves_of(args: Sequence[Any]) -> list[Any]:
    found: list[Any] = pytrees.flatten(list(args))[0]
    return found


def _parameters(function: Any) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []


def _trace_device(
    self: DeviceProgram, machine: Machine, args: Args, kwargs: Kwargs, node: Any
) -> Any:
    layout = self.options["layout"]
    return device_program(machine, self.function, args, kwargs, node, layout, self.called)


class Mapped(Transformed):
    """A function over devices. Called, it runs on them; within another, it is a batch."""

    on_devices = True

    def layout(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Layout:
        """The axes of devices, and how these arguments are cut."""
        raise NotImplementedError

    def parts(self, args: tuple[Any, ...], layout: Layout) -> list[tuple[Any, ...]]:
        """The arguments of each device of this process."""
        raise NotImplementedError

    def whole(self, results: list[Any], layout: Layout) -> Any:
        """The result, of those of the devices."""
        raise NotImplementedError

    def example_parts(self, args: Sequence[Any], layout: Layout) -> tuple[Any, ...]:
        """The arguments of one device, of arrays or types."""
        leaves, structure = pytrees.flatten(list(args))
        cuts = self.cuts_of_arguments(layout)
        parts = [_example(x, cut, layout.sizes) for x, cut in zip(leaves, cuts, strict=True)]
        return tuple(pytrees.unflatten(structure, parts))

    def cuts_of_arguments(self, layout: Layout) -> list[Cut]:
        """The cut by which each leaf of the arguments is dealt out."""
        raise NotImplementedError

    def cuts_of_result(self, layout: Layout, result: Any) -> list[Cut]:
        """The cut by which each leaf of a result, whose leaves are Slots, is put together."""
        raise NotImplementedError

    def cuts_of_results(self, result: Any, layout: Layout) -> list[Cut]:
        """The cuts of a device's result; raises where the parts cannot be put together."""
        raise NotImplementedError

    def devices(self, layout: Layout) -> list[Device]:
        """The devices of a call, as they stand in the mesh, the last axis running fastest."""
        raise NotImplementedError

    def device(self, layout: Layout, engine: Engine) -> DeviceProgram:
        """The program of one device."""
        key = layout, engine.name
        if key not in self._devices:
            static = self.options.get("static_argnums", ())
            self._devices[key] = DeviceProgram(self.function, layout, static, engine)
        return self._devices[key]

    def __init__(self, kind: str, function: Callable[..., Any], **options: Any):
        self._devices: dict[tuple[Layout, str], DeviceProgram] = {}
        self._by_position: dict[tuple[int, int], Mapped] = {}  # of calls by name
        super().__init__(kind, function, **options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            if kwargs:
                placed, args = self._placed(args, kwargs)
                return placed(*args)
            layout = self.layout(args, kwargs)
            if self.engine().platform == "gpu":
                return self._call_on_gpus(args, layout)
            if "cupy" in sys.modules and any_on_gpu(args, {}):
                return self._call_on_own_gpu(args, layout)
            given = self.parts(args, layout)
            engine, library = self.engine(), blas_threads.library()
            dispatcher = self.device(layout, engine).dispatcher()
            program = self.program_of(dispatcher, given, args, layout)
            if not program.tried:
                tried(dispatcher, given[0])
                program = self.program_of(dispatcher, given, args, layout)
                program.tried = True  # its kernels are compiled, or it has none
                dispatcher.warn(program.fallbacks)
            named = program.hidden(dispatcher.root)
            shape = [size for _, size in layout.axes]
            engine.roll_call(program.text, _described(self, args))
            with library.one_thread() if library and len(given) > 1 else nullcontext():
                results = engine.run(program.call, given, named, shape)
            return self.whole(results, layout)
        except Exception as error:
            hide_own_frames(error)
            raise

    def _call_on_own_gpu(self, args: tuple[Any, ...], layout: Layout) -> Any:
        """The result of a call under mpiexec, where this rank's part lies on its GPU."""
        engine = self.engine()
        if not engine.processes:
            raise arrays_of_gpus(self)
        args = pytrees.tree_map(adopted, args)
        (given,) = self.parts(args, layout)
        dispatcher = self.device(layout, GPUS).cuda_programs()
        program = self.program_of(dispatcher, [given], args, layout)
        call, captured = dispatcher.found(given)
        engine.roll_call(program.text, _described(self, args))
        communicators = engine.gpu_communicators([size for _, size in layout.axes])
        result = dispatcher.run((partial(call, *communicators), captured), given, {})
        return self.whole([result], layout)

    def require_cuts(self, args: tuple[Any, ...], layout: Layout) -> None:
        """An error where an argument cannot be dealt out; the layout has looked at the others."""

    def _call_on_gpus(self, args: tuple[Any, ...], layout: Layout) -> Any:
        """The result of a call, whose parts are on the GPUs that made them."""
        if debug_nans.threads and debug_nans.checking():
            raise MixedDevices(
                f"{self.generated_name()}: debug_nans and debug_keys look at values on the host.",
                hint="leave the GPUs out: then the host runs it",
            )
        raise_if_outside()  # of what ran before: not on one of the GPUs alone
        self.require_cuts(args, layout)
        devices = self.devices(layout)
        given, own = parts_on_gpus(args, self.cuts_of_arguments(layout), layout, devices)
        dispatcher = self.device(layout, GPUS).cuda_programs()
        program = self.program_of(dispatcher, given, args, layout)
        for position in program.written():
            if position not in own:
                name = program.traced.function.params[position].name or "an argument"
                raise MixedDevices(
                    f"{self.generated_name()}: {name} is stored into, and the GPUs have copies of "
                    "it: the caller would not see it.",
                    hint=f"work on a copy: {name} = {name}.copy()",
                )
        shape = [size for _, size in layout.axes]
        call, numbers = with_captured(program.call), [d.id for d in devices]
        results = GPUS.run_on(call, given, program.hidden(dispatcher.root), shape, numbers)
        return whole_on_gpus(results, self.cuts_of_results(results[0], layout), layout, devices)

    def _placed(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Mapped, Any]:
        """The function that takes all arguments by position, and these, for a call by name."""
        raise refuse_names(self.kind, [*kwargs])

    def program_of(
        self,
        dispatcher: Dispatcher,
        given: list[tuple[Any, ...]],
        args: tuple[Any, ...],
        layout: Layout,
    ) -> Program:
        """The program that all devices run."""
        found = [dispatcher.find(args, {}) for args in given]
        program = found[0][0]
        for k, (other, _) in enumerate(found):
            if other is not program:
                raise DevicesDiffer(
                    f"{self.generated_name()}: device {k} would run another program than device "
                    "0: a branch, a size or an option depends on a value that differs.",
                    hint="pass that value with in_axes=None, the same for all devices",
                )
        if program.stored:
            on_gpus = isinstance(dispatcher, DeviceDispatcher)  # where parts alone have addresses
            for leaves in [x for _, x in found] if on_gpus else [leaves_of(args)]:
                program.check_aliases(leaves, dispatcher.root)
            require_own(program, layout)
        return program

    def engine(self) -> Engine:
        """The one asked for; by default that of the GPUs, or the one that is running."""
        name = self.options.get("engine")
        return GPUS if name is None and self.on_gpus() else chosen(name)

    def on_gpus(self) -> bool:
        """True if the devices that it was given are GPUs."""
        raise NotImplementedError

    def in_parts(self) -> bool:
        """True if a call is given this process's part of arrays, as the other processes theirs."""
        return _in_parts(self.options)


def _in_parts(options: dict[str, Any]) -> bool:
    return running().processes and chosen(options.get("engine")).processes


def arrays_of_gpus(mapped: Mapped) -> MixedDevices:
    """The error of arguments on a GPU for devices that are threads of the host."""
    gpus = "devices=calque.devices('gpu')"
    return MixedDevices(
        f"{mapped.generated_name()}: an argument lies on a GPU, and the devices are CPUs.",
        hint=f"pass mesh=make_mesh(..., {gpus})" if mapped.kind == "shard_map" else f"pass {gpus}",
    )


def shape_of(x: Any) -> tuple[Any, ...]:
    """The shape of an array, wherever it lies, or of a number."""
    found: tuple[Any, ...] = x.shape if hasattr(x, "shape") else np.shape(x)
    return found


def refuse_names(
    kind: str, names: Sequence[str], origin: Origin | None = None
) -> UnsupportedFunction:
    """The error of arguments by name that no position, or no spec, stands for."""
    takes = "in_specs are" if kind == "shard_map" else "the mapped axes are"
    return UnsupportedFunction(
        f"{kind}: {', '.join(names)} is passed by name, and {takes} of positions.",
        origin,
        "pass it by position, or capture it: functools.partial, or a lambda around the call",
    )


def require_engine(kind: str, engine: str | None, platform: str) -> None:
    """An engine that was asked for runs the devices that were given."""
    if engine is None or ENGINES[engine].platform == platform:
        return
    given, own = {"cpu": "CPUs", "gpu": "GPUs"}[platform], ENGINES[engine].platform
    raise UnsupportedOption(
        f"{kind}: the devices are {given}, which the engine {engine!r} does not run.",
        hint=f"leave engine out, or take calque.devices({own!r})",
    )


def require_own(program: Program, layout: Layout) -> None:
    """A device stores into what no other device has."""
    function = program.traced.function
    for position in function.written:
        param = function.params[position]
        spec = layout.given[program.traced.builder.leaf_of_param[param]]
        if any(size > 1 and name not in spec.names() for name, size in layout.axes):
            name = param.name or "an argument"
            raise ImpureFunction(
                f"{name} is the same array on several devices, and is stored into: each would "
                "read what the others have stored so far.",
                first_store(function.body, param),
                f"work on a copy: {name} = {name}.copy()",
            )


def name_of(function: Any) -> str:
    return getattr(function, "__name__", "the function")


def _described(mapped: Mapped, args: Sequence[Any]) -> str:
    leaves = pytrees.flatten(list(args))[0]
    types = [
        f"{x.dtype}[{','.join(map(str, x.shape))}]"
        if isinstance(x, np.ndarray) or is_device_array(x)
        else type(x).__name__
        for x in leaves
    ]
    return f"{mapped.generated_name()}({', '.join(types)})"


def numbered(result: Any) -> Any:
    """A result with numbers for its Slots, which are no nodes."""
    return map_tree(lambda leaf: leaf.position if isinstance(leaf, Slot) else leaf, result)


def _example(leaf: Any, cut: Cut, sizes: dict[Hashable, int]) -> Any:
    """A device's part of an array, or its type."""
    if not cut.names:
        return leaf
    if not isinstance(leaf, Spec):
        leaf = np.asarray(leaf)
        leaf = Spec(leaf.dtype, leaf.shape)
    dims = list(leaf.dims)
    if cut.element:
        del dims[cut.element[1]]
    for axis, names in enumerate(cut.blocks):
        size, count = dims[axis], math.prod(sizes[n] for n in names)
        dims[axis] = size // count if isinstance(size, int) else size
    return Spec(leaf.dtype, tuple(dims))


def require_one_process(self: Any, machine: Machine) -> None:
    """Raise if a mapped function is called within a transformation under MPI."""
    if _in_parts(self.options):
        raise UnsupportedFunction(
            f"Under mpiexec {self.kind} cannot be called within another transformation: each rank "
            "has its own part, and the derivative of one knows nothing of the others.",
            machine.builder.origin,
            f"take the derivative within: {self.kind}(grad(f), ...)",
        )


TRACE["device"] = _trace_device


def jitted(mapped: Mapped, jit: Callable[..., Any]) -> Mapped:
    """``jit(pmap(f))``: the program of each device is compiled."""
    return type(mapped)(mapped.kind, jit(mapped.function), **mapped.options)
