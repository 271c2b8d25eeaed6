"""Small launches in a row, captured as a CUDA graph: a replay costs the host one launch.

A graph has the addresses of what it was captured with, and its numbers. So it has arrays of its
own: a call copies its arguments into them, launches, and copies the results into new arrays, all in
the caller's stream. A graph is for calls of the same types, sizes and numbers on one stream; which
come again is seen before anything is captured. What a graph cannot hold runs as before: a launcher
that calls a library, a value that the host waits for, many bytes to copy, launches without end.
"""

from __future__ import annotations

import ast
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np

from calque.runtime.cuda.faults import raise_if_outside
from calque.runtime.gpus import cupy
from calque.transpiler.errors import NoGraph
from calque.transpiler.forking import free_in_children
from calque.transpiler.ir import pytrees
from calque.transpiler.ir.device_arrays import is_device_array

LEAST_LAUNCHES = 4  # and more of them than copies
MOST_LAUNCHES = 4096
MOST_BYTES = 1 << 20  # to be copied for a call
_SEEN_BEFORE = 2  # calls alike, until one is captured
_MOST_GRAPHS = 8  # of a program
_MOST_KEYS = 256
_lock = free_in_children("graphs", threading.RLock())

_HOST_FUNCTIONS = frozenset(
    "abs blocks bool checked_index float int len max min outside parts_of raise_if_outside range"
    " row_blocks row_threads tiles".split()
)
_CUPY_FUNCTIONS = frozenset(
    "ascontiguousarray broadcast_to copy empty empty_like expand_dims full full_like moveaxis ones"
    " ones_like reshape squeeze swapaxes transpose zeros zeros_like".split()
)
_METHODS = frozenset("astype copy ravel reshape squeeze swapaxes transpose".split())
Call = Callable[..., Any]


@dataclass(eq=False)
class _Captured:
    """A graph, and the memory that is its own."""

    graph: Any
    pool: Any
    buffers: list[Any]  # one for each array that a call gives
    results: list[Any]  # arrays of the graph's memory, numbers, or which argument a result is
    structure: Any
    stream: Any  # the caller's: as long as it lives, no other one has its address


@dataclass(frozen=True)
class _Argument:
    """A result that is an argument."""

    position: int


class GraphedLauncher:
    """A launcher whose launches are captured when its calls are alike, and replayed.

    ``always``: at once, and what stands in the way is an error.
    """

    def __init__(self, call: Call, stored: Sequence[int], name: str, always: bool):
        self.call, self.stored, self.name, self.always = call, tuple(stored), name, always
        self.seen: dict[Any, int] = {}
        self.graphs: OrderedDict[Any, _Captured] = OrderedDict()
        self.refused: set[Any] = set()
        self.off = False  # calls are never alike

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.off or (kwargs and self.stored):
            return self.call(*args, **kwargs)
        leaves, structure = pytrees.flatten((args, kwargs))
        key = _key(leaves, structure)
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
        """Whether calls like this one come again."""
        if len(self.seen) >= _MOST_KEYS:
            self.seen.clear()
            self.off = not self.graphs and not self.always
        count = self.seen[key] = self.seen.get(key, 0) + 1
        return self.always or count > _SEEN_BEFORE

    def _capture(self, key: Any, leaves: list[Any], structure: Any) -> _Captured | None:
        """The graph of a call; None, from now on, where there is none."""
        try:
            found = _captured(self.call, leaves, structure, self.stored, self.always)
        except (NoGraph, RuntimeError, MemoryError) as error:
            if self.always:
                raise NoGraph(f"{self.name}: graph=True, and {error}.", hint=_HINT) from error
            self.refused.add(key)
            self.off = len(self.refused) >= _MOST_KEYS and not self.graphs
            return None
        self.graphs[key] = found
        if len(self.graphs) > _MOST_GRAPHS:
            self.graphs.popitem(last=False)
        return found

    def _replay(self, found: _Captured, leaves: list[Any]) -> Any:
        library = cupy()
        raise_if_outside()  # of calls that have finished, as the launcher itself would
        arrays = [x for x in leaves if is_device_array(x)]
        for buffer, given in zip(found.buffers, arrays, strict=True):
            _copy(given, buffer)
        found.graph.launch()
        made: dict[int, Any] = {}
        results: list[Any] = []
        for result in found.results:
            if isinstance(result, _Argument):
                results.append(leaves[result.position])
            elif not is_device_array(result):
                results.append(result)
            else:
                if id(result) not in made:
                    own = made[id(result)] = library.empty(result.shape, result.dtype)
                    _copy(result, own)
                results.append(made[id(result)])
        places = [k for k, x in enumerate(leaves) if is_device_array(x)]
        for position in self.stored:
            buffer = found.buffers[places.index(position)]
            _copy(buffer, leaves[position])
        return pytrees.unflatten(found.structure, results)


_HINT = 'leave graph out: with "auto" such calls launch one by one'


def _reason(key: Any) -> str:
    return key if isinstance(key, str) else "calls like this one have none"


def graphed(call: Call, text: str, stored: Sequence[int], name: str, wish: Any) -> Call:
    """A launcher with graphs, or itself where it has none; ``wish`` is "auto", True or False."""
    if wish is False:
        return call
    why = why_not(text)
    if why is None:
        return GraphedLauncher(call, stored, name, wish is True)
    if wish is True:
        raise NoGraph(f"{name}: graph=True, and {why}.", hint=_HINT)
    return call


def why_not(text: str) -> str | None:
    """What of a launcher no graph can hold; None where it can be tried.

    >>> why_not("k = kernel(code, 'k')\\ndef f(x):\\n    return cp.linalg.inv(x)")
    'it calls cp.linalg.inv'
    """
    module = ast.parse(text)
    kernels = {
        s.targets[0].id
        for s in module.body
        if isinstance(s, ast.Assign) and isinstance(s.value, ast.Call)
        if isinstance(s.targets[0], ast.Name) and ast.unparse(s.value.func) == "kernel"
    }
    launcher = [s for s in module.body if isinstance(s, ast.FunctionDef)]
    in_loops, launches = False, 0
    for function in launcher:
        for node in ast.walk(function):
            if isinstance(node, (ast.While, ast.With, ast.Try)):
                return "it loops until a value says so, or more"
            if isinstance(node, ast.Call) and not _is_capturable(node.func, kernels):
                return f"it calls {ast.unparse(node.func)}"
            launches += isinstance(node, ast.Call) and ast.unparse(node.func) in kernels
            if isinstance(node, ast.For):
                in_loops |= any(
                    isinstance(n, ast.Call) and ast.unparse(n.func) in kernels
                    for n in ast.walk(node)
                )
    if not launches:
        return "it launches no kernel"
    return None if in_loops or launches >= 2 else "it launches one kernel"


def _is_capturable(function: ast.expr, kernels: set[str]) -> bool:
    """Whether a call launches, makes an array or a view, or is of the host's numbers."""
    if isinstance(function, ast.Name):
        return function.id in kernels or function.id in _HOST_FUNCTIONS or _is_error(function.id)
    if not isinstance(function, ast.Attribute):
        return False
    if isinstance(function.value, ast.Name):
        if function.value.id == "np":
            return True
        if function.value.id == "cp":
            return function.attr in _CUPY_FUNCTIONS
    return function.attr in _METHODS and not ast.unparse(function).startswith(("cp.", "cupyx."))


def _is_error(name: str) -> bool:
    return name.endswith("Error")


def _key(leaves: list[Any], structure: Any) -> Any:
    """What calls of one graph share; why there is none, in words, for others."""
    library = cupy()
    stream = library.cuda.get_current_stream()
    found: list[Any] = [structure, library.cuda.runtime.getDevice(), stream.ptr]
    for x in leaves:
        if is_device_array(x):
            if not x.flags.c_contiguous:
                return "an argument is not contiguous"
            found += (x.dtype, x.shape)
        elif isinstance(x, (bool, int, str)) or x is None:
            found += (type(x), x)
        elif isinstance(x, float):
            found += (float, x.hex())
        elif isinstance(x, np.generic):
            found += (x.dtype, x.tobytes())
        elif isinstance(x, complex):
            found += (complex, x.real.hex(), x.imag.hex())
        else:
            return f"an argument is a {type(x).__name__}"
    if stream.is_capturing():
        return "the stream is being captured"
    key = tuple(found)
    try:
        hash(key)
    except TypeError:
        return "arguments cannot be compared"
    return key


def _captured(
    call: Any, leaves: list[Any], structure: Any, stored: Sequence[int], always: bool
) -> _Captured:
    """Capture a call in a stream and in memory of the graph's own."""
    library = cupy()
    cuda = library.cuda
    places = [k for k, x in enumerate(leaves) if is_device_array(x)]
    pool, stream = cuda.MemoryPool(), cuda.Stream(non_blocking=True)
    user = cuda.get_current_stream()
    stream.wait_event(user.record())
    with stream, cuda.using_allocator(pool.malloc):
        mine = list(leaves)
        for k in places:
            mine[k] = leaves[k].copy()
        args, kwargs = pytrees.unflatten(structure, mine)
        number: list[int] = []
        _counted(call, number)(*args, **kwargs)  # compiles, and makes room in the pool
        _refuse_much([mine[k] for k in places], len(number), stored, always)
        stream.begin_capture()
        try:
            result = call(*args, **kwargs)
        except BaseException:
            _abandon(stream)
            raise
        graph = stream.end_capture()
    user.wait_event(stream.record())
    buffers = [mine[k] for k in places]
    parts, shape = pytrees.flatten(result)
    results = _results(parts, mine, always, len(number))
    return _Captured(graph, pool, buffers, results, shape, user)


def _abandon(stream: Any) -> None:
    """End a capture that an error has ended."""
    try:
        stream.end_capture()
    except Exception:  # it is invalid: there is no graph to have
        return


def _counted(call: FunctionType, number: list[int]) -> FunctionType:
    """The same launcher, which notes each launch."""

    def noting(kernel: Any) -> Any:
        def launch(*args: Any) -> None:
            number.append(1)
            kernel(*args)

        return launch

    names = {n: call.__globals__.get(n) for n in call.__code__.co_names}
    own = {n: noting(k) for n, k in names.items() if getattr(k, "__name__", "") == "launch"}
    namespace = {**call.__globals__, **own}
    made = FunctionType(
        call.__code__, namespace, call.__name__, call.__defaults__, call.__closure__
    )
    made.__kwdefaults__ = call.__kwdefaults__
    return made


def _refuse_much(arrays: list[Any], launches: int, stored: Sequence[int], always: bool) -> None:
    """What is dearer to copy than to launch, and what is no graph."""
    if launches > MOST_LAUNCHES:
        raise NoGraph(f"it launches {launches} kernels, of at most {MOST_LAUNCHES}")
    if always:
        return
    if launches < max(LEAST_LAUNCHES, len(arrays) + len(stored)):
        raise NoGraph("it has few launches")
    if sum(x.nbytes for x in arrays) > MOST_BYTES:
        raise NoGraph("its arguments are large")


def _results(parts: list[Any], given: list[Any], always: bool, launches: int) -> list[Any]:
    """What a replay gives: copies of arrays, arguments, numbers."""
    found: list[Any] = []
    own: dict[int, Any] = {}
    arrays = [x for x in given if is_device_array(x)]
    for part in parts:
        same = [k for k, x in enumerate(given) if x is part and is_device_array(x)]
        if same:
            found.append(_Argument(same[0]))
            continue
        if isinstance(part, np.ndarray):
            raise NoGraph("a result lies on the host")
        if is_device_array(part):
            if not part.flags.c_contiguous:
                raise NoGraph("a result is not contiguous")
            others = [*arrays, *(x for x in own.values() if x is not part)]
            if any(_overlap(part, x) for x in others):
                raise NoGraph("a result shares memory with an argument, or with another result")
            own[id(part)] = part
        found.append(part)
    copied = sum(x.nbytes for x in own.values())
    if not always and (copied > MOST_BYTES or launches <= len(own)):
        raise NoGraph("its results are large")
    return found


def _copy(source: Any, there: Any) -> None:
    """Copy an array in the current stream; nothing waits for it."""
    if source.nbytes:
        there.data.copy_from_device_async(source.data, source.nbytes)


def _overlap(left: Any, right: Any) -> bool:
    low, high = left.data.ptr, right.data.ptr
    return bool(low < high + right.nbytes and high < low + left.nbytes)
