"""Generated text made callable, and the conditions under which it may be called again."""

from __future__ import annotations

import contextlib
import functools
import itertools
import linecache
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np

from calque.runtime.call import disk_cache, kernel_source
from calque.runtime.call.addressed import addressed
from calque.runtime.call.argument_keys import leaf_key
from calque.runtime.call.blas_threads import calls_blas, on_measured_threads
from calque.runtime.call.kept_texts import KeptText
from calque.runtime.call.machine_code import KernelCache, attach, module_key, module_name
from calque.runtime.debug_nans import finite_checker
from calque.runtime.tracebacks import forget_origins, remember_origins
from calque.transpiler import texts
from calque.transpiler.diagnostics.placements import Fallback, fallbacks
from calque.transpiler.errors import AliasUndecided, Origin
from calque.transpiler.forking import free_in_children
from calque.transpiler.frontend.captures import may_be_input
from calque.transpiler.frontend.paths import Path
from calque.transpiler.frontend.trace import Traced
from calque.transpiler.ir.debug import show_text
from calque.transpiler.ir.device_arrays import is_device_array
from calque.transpiler.ir.dims import Dims
from calque.transpiler.ir.types import LARGE, Dim, integer_name

_count = itertools.count(1)
_lock = free_in_children("modules", threading.RLock())
_modules: dict[str, tuple[Any, tuple[KernelCache, ...]]] = {}  # of kernels, by their titles
# Files of functions that are gone. A function can go at any time, also while linecache walks
# through its own entries, which it takes to stay: they are taken out when the next is put in.
_gone: deque[str] = deque()
# told of each module's kernels, with its text and name
when_loaded: list[Callable[[tuple[KernelCache, ...], str, str], None]] = []
Condition = Callable[[dict[str, int]], bool]  # on the sizes of a call
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


@dataclass(eq=False)
class Surroundings:
    """Values read outside of a function, which must be unchanged where its program is used."""

    captures: tuple[tuple[str, Path], ...]
    guards: tuple[tuple[Path, Any], ...]
    capture_keys: tuple[Any, ...]

    @classmethod
    def of(cls, traced: Traced, function: Any) -> Surroundings:
        """The surroundings of a traced program of a function, as they are now."""
        captures = tuple((c.name, c.path) for c in traced.captures)
        guards = _distinct((g.path, g.value) for g in traced.guards)
        keys = tuple(capture_key(path.read(function)) for _, path in captures)
        return cls(captures, guards, keys)

    def still_valid(self, function: Any) -> bool:
        """True if captured constants, and the types of captured arrays, are unchanged."""
        try:
            for path, value in self.guards:
                now = path.read(function)
                if now is not value and not is_equal(now, value):
                    return False
            found = tuple([capture_key(path.read(function)) for _, path in self.captures])
        except Exception:  # what was captured then is not there now, in whatever way
            return False
        return found == self.capture_keys


@dataclass(eq=False)
class Program(Surroundings):
    """One generated function, and what must still hold for it to be used."""

    call: Callable[..., Any]
    traced: Traced
    text: str
    conditions: tuple[Condition, ...]
    condition_symbols: frozenset[str]
    stored: dict[int, tuple[int, ...]]  # leaves that are stored into: what must be apart from each
    known_leaves: frozenset[int]
    asked_leaves: frozenset[int]  # integers of which conditions are asked
    known_symbols: dict[str, int]
    kernels: tuple[KernelCache, ...] = ()
    asks_memory: bool = False  # where arguments lie: no table by shapes tells
    tried: bool = False  # its kernels have been compiled
    awaited: bool = False  # the next call may wait for a compiler
    abridged: bool = False  # its text was on disk: it cannot be read, only run
    fallbacks: tuple[Fallback, ...] = ()  # what of it runs as NumPy source, though compiled
    launcher: Callable[..., Any] | None = None  # for a GPU: what replays its launches, or its call

    def hidden(self, function: Any) -> dict[str, Any]:
        """The arrays that a function has captured, read again at every call.

        ``function`` is the dispatcher's ``root``: None of programs that functions do not share.
        """
        return {name: path.read(function) for name, path in self.captures}

    def written(self) -> list[int]:
        """The leaves into which the caller sees it store; others it copies first."""
        made = self.traced
        params = [made.function.params[position] for position in made.function.written]
        return [made.builder.leaf_of_param[p] for p in params]

    def progress(self) -> str:
        """The number of kernels that are ready to run, in words; empty if all are."""
        ready = {k.kernel for k in self.kernels if k.made}
        every = {k.kernel for k in self.kernels}
        if ready == every:
            return ""  # it runs
        return f"compiling, {len(ready)} of {len(every)} kernels are ready"

    def check_aliases(self, leaves: list[Any], function: Any) -> None:
        """An array stored into shares no memory with another argument, or a captured array."""
        captured = [addressed(x) for x in self.hidden(function).values()]
        for position, beside in self.stored.items():
            mine = leaves[position]
            if overlaps_itself(mine):
                raise AliasUndecided(
                    f"{self._name_of(position)} is stored into, and its elements share memory with "
                    "each other.",
                    hint="pass a copy",
                )
            if any(_share(mine, x) for x in (*(leaves[k] for k in beside), *captured)):
                raise AliasUndecided(
                    f"{self._name_of(position)} is stored into, and shares memory with another "
                    "argument of this call, or with a captured array.",
                    with_text(self.traced.function.origin),
                    "pass a copy",
                )

    def _name_of(self, position: int) -> str:
        """The user's name of a leaf of the arguments."""
        places = self.traced.builder.leaf_of_param.items()
        return next((p.name for p, k in places if k == position and p.name), "an argument")


def _share(left: Any, right: Any) -> bool:
    """True if two arrays have memory in common."""
    both = isinstance(left, np.ndarray) and isinstance(right, np.ndarray)
    return both and np.may_share_memory(left, right) and np.shares_memory(left, right)


def with_text(origin: Origin | None) -> Origin | None:
    """A function's place, with its first line to show."""
    if origin is None:
        return None
    text = linecache.getline(origin.file, origin.line).rstrip()
    start = len(text) - len(text.lstrip())
    return replace(origin, column=start, end_column=len(text), text=text)


def overlaps_itself(x: Any) -> bool:
    """True if elements of an array may share memory, as in a sliding window.

    >>> overlaps_itself(np.lib.stride_tricks.sliding_window_view(np.ones(4), 2))
    True
    >>> overlaps_itself(np.ones((4, 4))[::2, ::-1].T)
    False
    """
    if not isinstance(x, np.ndarray) or x.flags.c_contiguous or not x.size:
        return False
    reach = x.itemsize
    for stride, size in sorted((abs(s), n) for s, n in zip(x.strides, x.shape) if n > 1):
        if stride < reach:
            return True
        reach += stride * (size - 1)
    return False


def exact_key(value: Any) -> Any:
    """Dtype, shape and layout of a captured array; the type of a captured number."""
    kind = type(value)
    if kind is np.ndarray or is_device_array(value):
        return (kind, value.dtype, value.shape, value.strides)
    return kind if kind is not int or -LARGE < value < LARGE else (kind, value)


def capture_key(value: Any) -> Any:
    """The parts of a captured array, or number, that the generated code depends on."""
    if isinstance(value, np.ndarray) or is_device_array(value):
        return (is_device_array(value), leaf_key(addressed(value)), value.flags.c_contiguous)
    return exact_key(value)


def is_equal(left: Any, right: Any) -> bool:
    """Equality that tells 0.0 from -0.0 and 1 from True, and takes nan for itself."""
    if type(left) is not type(right):
        return False
    if isinstance(left, (float, complex)):
        return repr(left) == repr(right)
    try:
        return left is right or bool(left == right)
    except Exception:
        return False


def load(
    traced: Traced,
    name: str,
    known_leaves: frozenset[int],
    sizes: dict[str, int],
    written: KeptText | None,
    function: Any,
) -> Program:
    """Execute the text of a function's program; tracebacks and debuggers find its lines.

    ``written`` is the text with what else writing it told, if it was on disk; ``function`` is that
    from which captured values are read, None if it shares no programs.
    """
    if written is None:
        stepping = traced.compiled and os.environ.get("CALQUE_JIT") == "0"
        support = kernel_source.uncompiled if stepping else None
        text = texts.module_text(traced, name, "", [], support)
    else:
        text = written.text
    show_text(text)
    if traced.compiled and not traced.target.grid:
        own = set(traced.function.imports.values()) - {"scipy", "warnings", "mpi4py"}
        call, kernels = compiled_module(text, name, not own)
        file, kernel_origins = call.__code__.co_filename, traced.function.kernel_origins
        remember_origins(file, traced.function.origins, kernel_origins)
        options = traced.function.kernel_options
        fixed = options.get("reassociate") is False or options.get("deterministic")
        if calls_blas(text) and not fixed:  # another number of threads adds in another order
            call = on_measured_threads(call)
    elif traced.target.grid:
        call, kernels = _when_called(text, name, traced), ()
    else:
        call, kernels = _plain(text, name, traced), ()
    traced.builder.machine = None  # it holds the arrays that were captured
    conditions, symbols = conditions_of(traced)
    integers = {integer_name(i): i for i in traced.builder.leaf_of_param.values()}
    found = Surroundings.of(traced, function)
    slow: tuple[Fallback, ...] = ()
    if traced.compiled and not traced.target.grid:
        slow = fallbacks(traced.function, traced.target) if written is None else written.fallbacks
    return Program(
        *(found.captures, found.guards, found.capture_keys),
        call,
        traced,
        text,
        conditions,
        symbols - integers.keys(),
        stored_leaves(traced),
        known_leaves,
        frozenset(integers[s] for s in symbols & integers.keys()),
        sizes,
        kernels,
        abridged=written is not None,
        fallbacks=slow,
    )


def _when_called(text: str, name: str, traced: Traced) -> Any:
    """The function of a text that imports what need not be there for reading.

    ``loaded`` gives the function of the text itself.
    """

    @functools.cache
    def loaded() -> Any:
        return _plain(text, name, traced)

    def call(*args: Any, **kwargs: Any) -> Any:
        return loaded()(*args, **kwargs)

    call.loaded = loaded  # type: ignore[attr-defined]
    return call


def _plain(text: str, name: str, traced: Traced) -> Any:
    """The function of a text that lives in memory alone."""
    file = f"<calque {name} {next(_count)}>"
    function = _executed(text, name, file, {"__name__": f"calque.generated.{name}"})
    remember_origins(file, traced.function.origins)
    if traced.function.checks:
        function.__globals__[traced.function.checker] = finite_checker(traced.function.checks)
        function = np.errstate(all="ignore")(function)
    weakref.finalize(function, _gone.append, file)
    return function


def _executed(text: str, name: str, file: str, namespace: dict[str, Any]) -> Any:
    with contextlib.suppress(IndexError):  # of the last one, which another thread may take
        while _gone:
            gone = _gone.popleft()
            linecache.cache.pop(gone, None)
            forget_origins(gone)
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    try:
        exec(compile(text, file, "exec"), namespace)
        return namespace[name]
    except BaseException:
        linecache.cache.pop(file, None)
        raise


def compiled_module(text: str, name: str, shared: bool) -> tuple[Any, tuple[KernelCache, ...]]:
    """The function and the kernels of a text: one module for one text, with a file in the cache.

    It stays for good, as imported modules do: Numba finds it by its name when it loads machine
    code, and never lets go of what a kernel's globals are. A text that imports the user's functions
    or classes is not ``shared``: other ones may have their names later, or in another process.
    """
    key = module_key(text)
    title = module_name(name, key)
    with _lock:
        if not shared:
            return _module(text, name, f"{title}-{next(_count)}", None)
        if title not in _modules:
            _modules[title] = _module(text, name, title, key)
        return _modules[title]


def _module(
    text: str, name: str, title: str, key: str | None
) -> tuple[Any, tuple[KernelCache, ...]]:
    """Execute the text of kernels and their launcher as a module; without a key, none is kept."""
    path = None if key is None else disk_cache.keep_text(f"{title}.py", text)
    file = f"<calque {title}>" if path is None else str(path)
    made = ModuleType(f"calque.generated.{title}")
    sys.modules[made.__name__] = made
    try:
        function = _executed(text, name, file, vars(made))
    except BaseException:
        sys.modules.pop(made.__name__)
        raise
    kernels = attach(vars(made), title, key)
    for tell in when_loaded:
        tell(kernels, text, name)
    return function, kernels


def conditions_of(traced: Traced) -> tuple[tuple[Condition, ...], frozenset[str]]:
    """The assumptions about sizes, as functions of them, and the arguments' symbols in them."""
    dims = traced.builder.dims
    found = [_condition(d, False, dims) for d in traced.assumptions]
    symbols = {s for d in traced.assumptions for s in d.symbols() & dims.integers.keys()}
    symbols = symbols.union(*map(dims.arguments_in, traced.assumptions))
    for equal in traced.function.equal_dims:
        difference = equal.left - equal.right
        if isinstance(difference, Dim) and not dims.beyond_arguments(difference):
            found.append(_condition(difference, True, dims))
            symbols |= dims.arguments_in(difference)
    return tuple(found), frozenset(symbols)


def _condition(dim: Dim, zero: bool, dims: Dims) -> Condition:
    def holds(sizes: dict[str, int]) -> bool:
        value = dims.of_arguments(dim, sizes)
        if isinstance(value, Dim):
            return True
        return value == 0 if zero else value >= 0

    return holds


def changed_numbers(program: Program, function: Any) -> dict[Any, str]:
    """The captured numbers that are no longer what they were: the user's names, by places."""
    found = {}
    for guard in program.traced.guards:
        if guard.name and may_be_input(guard.value):
            now = _now(guard.path, function)
            if may_be_input(now) and not is_equal(now, guard.value):
                found[guard.path.place] = guard.name
    return found


def may_hold_again(program: Program, function: Any) -> bool:
    """True if only flags, numbers and names changed: these may return to what they were."""
    values = [value for path, value in program.guards if not is_equal(_now(path, function), value)]
    return all(isinstance(value, (*_PLAIN, np.generic)) for value in values)


def _now(path: Path, function: Any) -> Any:
    try:
        return path.read(function)
    except Exception:
        return None


def _distinct(guards: Iterable[tuple[Path, Any]]) -> tuple[tuple[Path, Any], ...]:
    """Each place once, however often the function reads it."""
    return tuple({path.place: (path, value) for path, value in guards}.values())


def stored_leaves(traced: Traced) -> dict[int, tuple[int, ...]]:
    """The arguments into which the user's code stores, and those that the function has besides.

    A copy of an argument, and an adjoint that begins as one, are memory of the program's own.
    """
    arrays = set(traced.builder.leaf_of_param.values())
    found = traced.builder.stored.items()
    return {k: tuple(sorted((beside & arrays) - {k})) for k, beside in sorted(found)}
