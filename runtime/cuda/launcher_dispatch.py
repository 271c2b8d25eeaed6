"""From a call with arrays on a GPU to the launcher for their types, made once.

The table by exact shapes of ``call.dispatch`` serves here, too, with the strides of arrays and the
device that they are on. A call that is in it asks the device nothing, and waits for nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from calque.runtime.call.argument_keys import shape_key
from calque.runtime.call.arguments import check_values, labels_of
from calque.runtime.call.dispatch import Dispatcher
from calque.runtime.call.exact_shapes import ExactShapes, ReadyCall
from calque.runtime.call.loading import Program
from calque.runtime.cuda.captured_arrays import moved
from calque.runtime.cuda.given_arrays import adopted, lies_on_host, may_be_stored_into
from calque.runtime.cuda.graphs import graphed
from calque.runtime.cuda.transfers import put_host
from calque.runtime.gpus import cupy
from calque.transpiler.codegen.cuda.cuda_target import CUDA
from calque.transpiler.errors import MixedDevices, UnsupportedOption
from calque.transpiler.ir import pytrees
from calque.transpiler.ir.device_arrays import is_device_array
from calque.transpiler.ir.types import LARGE

_HOST = "the host"
Call = tuple[tuple[Any, ...], dict[str, Any]]


def device_key(args: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """A quick and exact key of arrays of CuPy, numbers and flags, nested or not; else None."""
    array = _library().ndarray
    quick: tuple[Any, ...] = ()
    for value in args:
        kind = type(value)
        if kind is array:
            quick += (value.dtype, value.shape, value.strides, value.data.device_id)
        elif kind is float or (kind is int and -LARGE < value < LARGE):
            quick += (kind,)
        elif kind is np.ndarray:
            return None
        else:
            break
    else:
        return quick
    key: list[Any] = []
    try:
        return tuple(key) if _extend(key, args, array) else None
    except RecursionError:
        return None


def _extend(key: list[Any], values: Iterable[Any], array: type) -> bool:
    for value in values:
        kind = type(value)
        if kind is array:
            key += (value.dtype, value.shape, value.strides, value.data.device_id)
        elif kind is tuple or kind is list:
            key += (kind, len(value))
            if not _extend(key, value, array):
                return False
        elif kind is dict:
            key += (kind, tuple(value))
            if not _extend(key, value.values(), array):
                return False
        else:
            found = None if isinstance(value, np.ndarray) else shape_key((value,))
            if found is None:
                return False
            key += found
    return True


class DeviceDispatcher(Dispatcher):
    """The programs of one function for a GPU."""

    def __init__(
        self,
        function: Any,
        name: Callable[[], str],
        static: Callable[[tuple[Any, ...], dict[str, Any]], frozenset[int]] | None,
        options: dict[str, Any],
        graph: Any = False,
    ):
        if options.get("reassociate") is False:
            raise UnsupportedOption(
                "jit: reassociate=False on a GPU, where threads share sums.",
                hint="call it with NumPy's arrays; deterministic=True gives the same bits again",
            )
        super().__init__(function, name, False, True, static, options, CUDA)
        self.shapes = ExactShapes(device_key)
        self.graph = graph

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Find or make the program for a call, and run it where its arrays are."""
        found = self.at_hand(args, kwargs)
        if found is None:
            given = (args, kwargs)
            args, kwargs = pytrees.tree_map(adopted, given)
            found = self.at_hand(args, kwargs, foreign=True)
            if found is None:
                found = self._looked_for(given, (args, kwargs))
        return self.run(found, args, kwargs)

    def call_there(self, args: tuple[Any, ...], kwargs: dict[str, Any], device: int) -> Any:
        """The same on a device to which the arrays that lie on the host are moved first."""
        leaves, structure = pytrees.flatten((args, kwargs))
        static = self.static(args, kwargs) if self.static is not None else frozenset()
        with cupy().cuda.Device(device):
            moved_there = [x if k in static else put_host(x) for k, x in enumerate(leaves)]
            args, kwargs = pytrees.unflatten(structure, moved_there)
            program, _ = self.find(args, kwargs)
            self._refuse_stores(program, labels_of(self.function, args, kwargs), leaves)
            return self.call(args, kwargs)

    def run(self, found: ReadyCall, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a launcher on the device of its arrays."""
        call, hidden = found
        library = _library()
        if not hidden and _is_current(args, library):
            return call(*args, **kwargs)
        with _current(_device_of(args, kwargs, hidden), library):
            there = {name: _there(value) for name, value in hidden.items()}
            result = call(*args, **kwargs, **there)
        kept = [there[n] for n, value in hidden.items() if isinstance(value, np.ndarray)]
        return own_memory(result, kept) if kept else result

    def at_hand(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], foreign: bool = False
    ) -> ReadyCall | None:
        """The launcher for arguments of these shapes, and what it captured; None for new ones.

        ``foreign``: some are of other libraries, of which it is asked whether they may change.
        """
        if not self.shapes.entries:
            return None  # its text was read, and nothing called there: CuPy may be missing
        return self.shapes.find(args, kwargs, self, foreign)

    def found(self, args: tuple[Any, ...]) -> ReadyCall:
        """The launcher for arguments that are CuPy's, or numbers, and what it captured."""
        return self.at_hand(args, {}) or self._looked_for((args, {}), (args, {}))

    def _looked_for(self, given: Call, call: Call) -> ReadyCall:
        args, kwargs = call
        leaves = pytrees.flatten(call)[0]
        labels = labels_of(self.function, args, kwargs)
        static = self.static(args, kwargs) if self.static is not None else frozenset()
        named = {n: x for k, (n, x) in enumerate(zip(labels, leaves)) if k not in static}
        self._refuse_mixed(named)
        program, types = self.find(args, kwargs)
        check_values(self.name(), self.function, call, types)
        hidden = program.hidden(self.root)
        on_gpu = {name: x for name, x in hidden.items() if is_device_array(x)}
        self._refuse_mixed({**named, **on_gpu})
        if program.stored:
            self._refuse_stores(program, labels, pytrees.flatten(given)[0])
            program.check_aliases(types, self.root)
        self._remember(args, kwargs, program)
        return self._launcher(program), hidden

    def _launcher(self, program: Program) -> Callable[..., Any]:
        """The callable that runs a program: its launcher, or a graph that replays its launches."""
        if self.root is not None and program.traced.compares:
            return self.comparing(program)
        if program.launcher is None:
            call = program.call.loaded() if hasattr(program.call, "loaded") else program.call
            given = call, program.text, tuple(program.stored)
            program.launcher = graphed(*given, self.name(), self.graph)
        return program.launcher

    def _remember(self, args: tuple[Any, ...], kwargs: dict[str, Any], program: Program) -> None:
        self.shapes.enter(args, kwargs, program, self._launcher(program), self.root)

    def _refuse_mixed(self, named: dict[str, Any]) -> None:
        """All arrays lie on one device."""
        places: dict[str, list[str]] = {}
        for label, value in named.items():
            if is_device_array(value):
                places.setdefault(f"cuda:{value.data.device_id}", []).append(label)
            elif lies_on_host(value):
                places.setdefault(_HOST, []).append(label)
        there = next((place for place in places if place != _HOST), "cuda:0")
        wrong = [label for place, found in places.items() if place != there for label in found]
        if not wrong:
            return
        said = " and ".join(f"{', '.join(found)} on {place}" for place, found in places.items())
        inner = wrong[0].partition("(")[2].removesuffix(")")
        inner = inner or wrong[0].removeprefix("argument ")  # of a keyword
        ways = [f'calque.device_put({inner}, "{there}")'] if _is_known(named[wrong[0]]) else []
        ways += [f"cupy.asarray({inner})"] if _HOST in places else []
        moved_by = " or ".join(ways)
        raise MixedDevices(f"{self.name()}: {said} are given together.", hint=moved_by)

    def _refuse_stores(self, program: Program, labels: Sequence[str], given: Sequence[Any]) -> None:
        """Raise if an argument that is stored into is not the caller's own memory on the GPU."""
        for position in program.written():
            leaf = given[position]
            if isinstance(leaf, np.ndarray):
                why = "lies on the host: the caller would not see it"
            elif not is_device_array(leaf) and not may_be_stored_into(leaf):
                why = f"is a {type(leaf).__name__}, which may not change"
            else:
                continue
            raise MixedDevices(
                f"{self.name()}: {labels[position]} is stored into, and {why}.",
                hint="pass an array of CuPy",
            )


def _is_known(value: Any) -> bool:
    """True if ``device_put`` takes an array: NumPy's and CuPy's."""
    return isinstance(value, np.ndarray) or is_device_array(value)


def _library() -> Any:
    """CuPy: an import statement takes longer than a look into the table of modules."""
    return sys.modules.get("cupy") or cupy()


def _is_current(args: tuple[Any, ...], library: Any) -> bool:
    """True if the arrays of a call lie on the current device: all lie where the first does."""
    if not args or type(args[0]) is not library.ndarray:
        return bool(library.cuda.runtime.getDeviceCount() == 1)
    return bool(args[0].data.device_id == library.cuda.runtime.getDevice())


def _current(device: int | None, library: Any) -> AbstractContextManager[Any]:
    """Make a device the current one, if it is not."""
    if device is None or device == library.cuda.runtime.getDevice():
        return nullcontext()
    found: AbstractContextManager[Any] = library.cuda.Device(device)
    return found


def _device_of(
    args: tuple[Any, ...], kwargs: Mapping[str, Any], hidden: Mapping[str, Any]
) -> int | None:
    """The device of the first array of a call; None where there is none."""
    for value in args:
        if is_device_array(value):
            return int(value.data.device_id)
    for value in pytrees.flatten((args, kwargs, hidden))[0]:
        if is_device_array(value):
            return int(value.data.device_id)
    return None


def _there(value: Any) -> Any:
    return moved(value) if isinstance(value, np.ndarray) else value


def own_memory(result: Any, kept: Sequence[Any]) -> Any:
    """A result that shares no memory with what is kept on the device for later calls."""
    ranges = [(x.data.ptr, x.data.ptr + x.nbytes) for x in kept]

    def own(leaf: Any) -> Any:
        if is_device_array(leaf) and any(low <= leaf.data.ptr < high for low, high in ranges):
            return leaf.copy()
        return leaf

    return pytrees.tree_map(own, result)
