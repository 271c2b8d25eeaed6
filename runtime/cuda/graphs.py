"""Small launches in a row, captured as a CUDA graph: a replay costs the host one launch.

A graph contains the addresses and the numbers of the arguments that it was captured with. So it has
small arrays of its own, into which a call copies its arguments; large ones are read, and stored
into, where they are, and the graph serves only calls with arrays at these addresses, to which those
of a training loop return. Results are copied into new arrays; all is done in the caller's stream. A
graph serves calls of the same types, sizes and numbers on one stream; only calls that come again
are captured. Launchers that no graph can hold run as before: with calls of a library, a value that
the host waits for, many bytes to copy, or launches without end.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np

from calque.runtime.cuda.faults import raise_if_outside
from calque.runtime.cuda.graph_texts import noting, why_not
from calque.runtime.gpus import cupy
from calque.transpiler.errors import NoGraph
from calque.transpiler.forking import free_in_children
from calque.transpiler.ir import pytrees
from calque.transpiler.ir.device_arrays import is_device_array

LEAST_LAUNCHES = 4  # and more of them than copies
MOST_LAUNCHES = 4096
MOST_BYTES = 1 << 20  # to be copied for a call, for each launch
MOST_MEMORY = 1 << 23  # of arguments and of a graph's own, for each launch: more take a GPU long
IN_PLACE = 1 << 18  # arguments of more bytes are not copied
_SEEN_BEFORE = 2  # calls alike, until one is captured
_MOST_GRAPHS = 8  # of a program, at a time
_MOST_CAPTURES = 64  # of a program
_MOST_KEYS = 256
_lock = free_in_children("graphs", threading.RLock())
Call = Callable[..., Any]


@dataclass(eq=False)
class _Captured:
    """A graph, and the memory that is its own."""

    graph: Any
    pool: Any
    buffers: dict[int, Any]  # for the arguments that a call copies
    own: list[Any]  # arrays of the graph's memory, which each call copies
    results: list[tuple[str, Any]]  # which of these, or which argument; or a number
    structure: Any
    stream: Any  # the caller's: as long as it lives, no other one has its address


class GraphedLauncher:
    """A launcher whose launches are captured when its calls are alike, and replayed.

    ``always``: at once, and what stands in the way is an error.
    """

    def __init__(self, call: FunctionType, text: str, stored: Sequence[int], name: str, wish: bool):
        self.call, self.text, self.stored = call, text, tuple(stored)
        self.name, self.always = name, wish
        self.leaves = {cupy().ndarray, float, int, bool, complex}  # what is no tree
        self.seen: dict[Any, int] = {}
        self.graphs: OrderedDict[Any, _Captured] = OrderedDict()
        self.refused: set[Any] = set()
        self.captures = 0
        self.off = False  # no call is captured

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.off or (kwargs and self.stored):
            return self.call(*args, **kwargs)
        leaves: Sequence[Any]
        if not kwargs and self.leaves.issuperset(map(type, args)):
            leaves, structure = args, None
        else:
            leaves, structure = pytrees.flatten((args, kwargs))
        key = _key(leaves, structure, self.always)
        if isinstance(key, str) or key in self.refused:
            if self.always:
                raise NoGraph(f"{self.name}: graph=True, and {_reason(key)}.", hint=_HINT)
            return self.call(*args, **kwargs)
        with _lock:
            found = self.graphs.get(key)
            if found is None and self._is_due(key):
                found = self._capture(key, leaves, structure)
            if found is not None:
                return self._replay(found, leaves)
        return self.call(*args, **kwargs)

    def _is_due(self, key: Any) -> bool:
        """True if calls with this key have come often enough to capture a graph."""
        if len(self.seen) >= _MOST_KEYS:
            self.seen.clear()
            self.off = not self.graphs and not self.always
        count = self.seen[key] = self.seen.get(key, 0) + 1
        return self.always or (count > _SEEN_BEFORE and self.captures < _MOST_CAPTURES)

    def _capture(self, key: Any, leaves: Sequence[Any], structure: Any) -> _Captured | None:
        """The graph of a call; None, from now on, where there is none."""
        self.captures += 1
        try:
            found = self._captured(leaves, structure)
        except (NoGraph, RuntimeError, MemoryError) as error:
            if self.always:
                raise NoGraph(f"{self.name}: graph=True, and {error}.", hint=_HINT) from error
            self.refused.add(key)
            lasting = not isinstance(error, NoGraph) or len(self.refused) >= _MOST_KEYS
            self.off = lasting and not self.graphs
            return None
        self.graphs[key] = found
        if len(self.graphs) > _MOST_GRAPHS:
            self.graphs.popitem(last=False)
        return found

    def _captured(self, leaves: Sequence[Any], structure: Any) -> _Captured:
        """Capture a call in a stream and in memory of the graph's own."""
        cuda = cupy().cuda
        pool, stream = cuda.MemoryPool(), cuda.Stream(non_blocking=True)
        user = cuda.get_current_stream()
        arrays = {k: x for k, x in enumerate(leaves) if is_device_array(x)}
        if not all(x.flags.c_contiguous for x in arrays.values()):
            raise NoGraph("an argument is not contiguous")
        number: list[int] = []
        call = noting(self.call, self.text, number)
        stream.wait_event(user.record())
        try:
            with stream, cuda.using_allocator(pool.malloc):
                buffers = {k: x.copy() for k, x in arrays.items() if self.always or not _stays(x)}
                stored = {k: leaves[k].copy() for k in self.stored if k not in buffers}
                # compiles, and makes room in the pool; what is stored into is not the caller's
                _called(call, structure, leaves, {**buffers, **stored})
                memory = pool.total_bytes() + sum(x.nbytes for x in arrays.values())
                self._refuse_much(len(buffers), len(number), memory)
                stream.begin_capture()
                try:
                    result = _called(call, structure, leaves, buffers)
                except BaseException:
                    _abandon(stream)
                    raise
                graph = stream.end_capture()
        finally:
            user.wait_event(stream.record())
        parts, shape = pytrees.flatten(result)
        given = [buffers.get(k, x) for k, x in enumerate(leaves)]
        own, results = _results(parts, given, None if self.always else len(number) // 2)
        return _Captured(graph, pool, buffers, own, results, shape, user)

    def _refuse_much(self, copies: int, launches: int, memory: int) -> None:
        """Raise NoGraph if there are too many or too few launches, or arrays are large."""
        if launches > MOST_LAUNCHES:
            raise NoGraph(f"it launches {launches} kernels, of at most {MOST_LAUNCHES}")
        if self.always:
            return
        if launches < max(LEAST_LAUNCHES, copies + len(self.stored)):
            raise NoGraph("it has few launches")
        if memory > MOST_MEMORY * launches:
            raise NoGraph("its arrays are large")

    def _replay(self, found: _Captured, leaves: Sequence[Any]) -> Any:
        empty = cupy().empty
        raise_if_outside()  # of calls that have finished, as the launcher itself would
        for k, buffer in found.buffers.items():
            _copy(leaves[k], buffer)
        found.graph.launch()
        made = []
        for array in found.own:
            made.append(empty(array.shape, array.dtype))
            _copy(array, made[-1])
        for k in self.stored:
            if k in found.buffers:
                _copy(found.buffers[k], leaves[k])
        places = {"own": made, "argument": leaves}
        results = [places[kind][x] if kind in places else x for kind, x in found.results]
        return pytrees.unflatten(found.structure, results)


_HINT = 'leave graph out: with "auto" such calls launch one by one'


def _reason(key: Any) -> str:
    return key if isinstance(key, str) else "calls like this one have none"


def graphed(call: Call, text: str, stored: Sequence[int], name: str, wish: Any) -> Call:
    """A launcher with graphs, or itself where it has none; ``wish`` is "auto", True or False."""
    if wish is False:
        return call
    why = why_not(text) if wish is True else why_not(text, LEAST_LAUNCHES)
    if why is None and isinstance(call, FunctionType):
        return GraphedLauncher(call, text, stored, name, wish is True)
    if wish is True:
        raise NoGraph(f"{name}: graph=True, and {why}.", hint=_HINT)
    return call


def _key(leaves: Sequence[Any], structure: Any, copied: bool) -> Any:
    """The key that calls of one graph share; for others the reason, in words, why there is none."""
    cuda = cupy().cuda
    array, stream = cupy().ndarray, cuda.get_current_stream()
    found: list[Any] = [structure, cuda.runtime.getDevice(), stream.ptr]
    for x in leaves:
        kind = type(x)
        if kind is array:
            found += (x.dtype, x.shape, x.strides)
            if not copied and _stays(x):
                found.append(x.data.ptr)
        elif kind is float:
            found += (kind, x.hex())
        elif isinstance(x, (bool, int, str)) or x is None:
            found += (kind, x)
        elif isinstance(x, np.generic):
            found += (x.dtype, x.tobytes())
        elif isinstance(x, complex):
            found += (kind, x.real.hex(), x.imag.hex())
        else:
            return f"an argument is a {kind.__name__}"
    if stream.is_capturing():
        return "the stream is being captured"
    key = tuple(found)
    try:
        hash(key)
    except TypeError:
        return "arguments cannot be compared"
    return key


def _stays(array: Any) -> bool:
    """True if an argument is too large to be copied at each call."""
    return bool(array.nbytes > IN_PLACE)


def _called(call: Call, structure: Any, leaves: Sequence[Any], others: dict[int, Any]) -> Any:
    """Call with other arrays in some places."""
    given = [others.get(k, x) for k, x in enumerate(leaves)]
    args, kwargs = (given, {}) if structure is None else pytrees.unflatten(structure, given)
    return call(*args, **kwargs)


def _abandon(stream: Any) -> None:
    """End a capture that an error has ended."""
    try:
        stream.end_capture()
    except Exception:  # it is invalid: there is no graph to have
        return


def _results(
    parts: list[Any], given: list[Any], most: int | None
) -> tuple[list[Any], list[tuple[str, Any]]]:
    """The arrays that a replay copies, at most so many; and which, or what, the results are."""
    own: list[Any] = []
    found: list[tuple[str, Any]] = []
    for part in parts:
        if isinstance(part, np.ndarray):
            raise NoGraph("a result lies on the host")
        if not is_device_array(part):
            found.append(("number", part))
        elif (k := _place(part, given)) is not None:
            found.append(("argument", k))
        elif (k := _place(part, own)) is not None:
            found.append(("own", k))
        else:
            if not part.flags.c_contiguous:
                raise NoGraph("a result is not contiguous")
            if any(_overlap(part, x) for x in (*filter(is_device_array, given), *own)):
                raise NoGraph("a result shares memory with an argument, or with another result")
            found.append(("own", len(own)))
            own.append(part)
    if most is not None and (sum(x.nbytes for x in own) > MOST_BYTES * most or len(own) >= most):
        raise NoGraph("its results are large")
    return own, found


def _place(array: Any, among: list[Any]) -> int | None:
    return next((k for k, x in enumerate(among) if x is array), None)


def _copy(source: Any, there: Any) -> None:
    """Copy an array in the current stream; nothing waits for it."""
    if source.nbytes:
        there.data.copy_from_device_async(source.data, source.nbytes)


def _overlap(left: Any, right: Any) -> bool:
    low, high = left.data.ptr, right.data.ptr
    return bool(low < high + right.nbytes and high < low + left.nbytes)
