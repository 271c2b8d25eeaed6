"""Functions through pickle: by name, or by value with the place of their source.

calque reads a function's source in the process that compiles it. cloudpickle, which sends functions
that have no name elsewhere (closures, lambdas, all of ``__main__``), forgets the files that they
come from; here these are sent along.
"""

from __future__ import annotations

import collections
import functools
import importlib.util
import io
import linecache
import os
import pickle
import types
from collections.abc import Callable
from typing import Any

from calque.transpiler.errors import cell_name


class UserFunction:
    """A user's function, compared by identity; pickled by name where it has one."""

    def __init__(self, function: Callable[..., Any]):
        self.function = function
        self.__name__ = getattr(function, "__name__", type(function).__name__)

    def _identity(self) -> tuple[int, ...]:
        """The key that tells functions apart; a method is made anew each time it is asked for."""
        owner = getattr(self.function, "__self__", None)
        own = getattr(self.function, "__func__", None)
        return (id(self.function),) if own is None else (id(owner), id(own))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UserFunction) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __repr__(self) -> str:
        return self.__name__

    def __reduce__(self) -> Any:
        return reduced(self, self.function)


def reduced(holder: Any, function: Callable[..., Any]) -> tuple[Any, ...]:
    """The result of ``__reduce__`` of an object that holds a function; ``type(holder)`` takes it.

    Raises PicklingError, which says what to write instead, where nothing can send the function.
    """
    try:
        pickle.dumps(function)
        by_name = getattr(function, "__module__", None) != "__main__"
    except Exception:  # a class of its own for each kind of object that cannot be pickled
        by_name = False
    if by_name:
        return type(holder), (function,)
    return _held, (type(holder), _dumped(function))


@functools.lru_cache(maxsize=64)
def _held(holder: type, pickled: bytes) -> Any:
    """The holder of the function in these bytes: the same one each time it is asked for."""
    return holder(pickle.loads(pickled))


def _dumped(function: Callable[..., Any]) -> bytes:
    name = getattr(function, "__qualname__", type(function).__name__)
    code = getattr(function, "__code__", None)
    file = "" if code is None else cell_name(code.co_filename) or code.co_filename
    place = "" if code is None else f" ({file}, line {code.co_firstlineno})"
    start = f"{name}{place} cannot be sent to another process: "
    end = ". Define it with def at the top level of a module, or sample with cores=1."
    if importlib.util.find_spec("cloudpickle") is None:
        raise pickle.PicklingError(f"{start}no module has it by name{end}")
    try:
        file = io.BytesIO()
        _pickler()(file).dump(function)
        return file.getvalue()
    except Exception as error:
        raise pickle.PicklingError(f"{start}{error}{end}") from error


@functools.cache
def _pickler() -> Any:
    """cloudpickle's class, but that code keeps its file's name."""
    import cloudpickle

    table = cloudpickle.Pickler.dispatch_table
    of_code = table[types.CodeType]

    def reduced_code(code: types.CodeType) -> Any:
        lines = None if os.path.exists(code.co_filename) else linecache.getlines(code.co_filename)
        return _placed, (code.co_filename, lines, *of_code(code)[:2])

    tables = collections.ChainMap({types.CodeType: reduced_code}, table)
    return type("Pickler", (cloudpickle.Pickler,), {"dispatch_table": tables})


def _placed(file: str, lines: list[str] | None, make: Callable[..., Any], args: Any) -> Any:
    """The code of a function, and its source where ``inspect`` looks for it."""
    if lines and not linecache.getlines(file):
        linecache.cache[file] = (sum(map(len, lines)), None, lines, file)
    return make(*args).replace(co_filename=file)
