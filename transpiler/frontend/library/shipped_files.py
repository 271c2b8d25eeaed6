"""Files that ship with a package, and that its functions read: coefficients, grids, settings.

They are read while the program is translated. Each call compares when a file was changed last, and
its size: another file leads to another program. Other files are refused.
"""

from __future__ import annotations

import configparser
import io
import json
import os
import pathlib
import pickle
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from calque.transpiler.errors import ImpureFunction, UnsupportedSyntax
from calque.transpiler.frontend.calls import BUILTINS
from calque.transpiler.frontend.guarding import Guard
from calque.transpiler.frontend.machine import NEXT, Args, Kwargs, Machine
from calque.transpiler.frontend.paths import of_object, step
from calque.transpiler.ir.builder import function_name, known

_READERS = (np.load, np.loadtxt, np.genfromtxt, np.fromfile)
_OF_PATHS = (pathlib.Path.read_text, pathlib.Path.read_bytes, pathlib.Path.open)
_PARSERS = (json.load, json.loads, pickle.load, pickle.loads)
_TEXT_OF_PATHS = (
    *("joinpath", "with_name", "with_stem", "with_suffix", "relative_to", "as_posix", "match"),
    *("is_absolute", "__truediv__", "__rtruediv__", "__fspath__", "__str__"),
)
_OF_CONFIG = [f for f in vars(configparser.RawConfigParser).values() if callable(f)]


def file_state(path: str) -> tuple[int, ...] | None:
    """The time of a file's last change, its size and its inode; None for no file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino)


def _packages(machine: Machine) -> Iterator[str]:
    """The folders of the packages, or of the single modules, whose functions are running."""
    for call in machine.calls:
        file, name = call.globals.get("__file__"), call.globals.get("__name__", "")
        top = sys.modules.get(name.partition(".")[0])
        if name.partition(".")[0] in sys.stdlib_module_names or not isinstance(file, str):
            continue
        own = getattr(top, "__file__", None) if hasattr(top, "__path__") else file
        if own is not None:
            yield os.path.realpath(os.path.dirname(own)) + os.sep


def _shipped(machine: Machine, path: Any) -> str | None:
    """The absolute path of a file in the folder of a package that is running; else None."""
    if not isinstance(path, (str, os.PathLike)) or not os.path.isabs(path):
        return None
    found = os.path.realpath(path)
    inside = any(found.startswith(folder) for folder in _packages(machine))
    return found if inside and os.path.isfile(found) else None


def _guard(machine: Machine, path: str) -> None:
    machine.guards.append(Guard(step(file_state, of_object(path)), file_state(path)))


def reads_shipped(machine: Machine, function: Any, args: Args, kwargs: Kwargs, node: Any) -> Any:
    """The contents of a file of the package, where a call reads them; NEXT for every other call."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, io.IOBase) and id(owner) in machine.owned:
        require_once(machine, node)
        return function(*args, **kwargs)
    of_path = any(getattr(function, "__func__", None) is f for f in _OF_PATHS)
    if not (of_path or function is open or any(function is f for f in _READERS)):
        return NEXT
    first = owner if of_path else args[0] if args else None
    if isinstance(first, io.IOBase) and id(first) in machine.owned:
        require_once(machine, node)
        return machine.native(function, args, kwargs, node)
    path = _shipped(machine, first)
    if path is None or not known((args, list(kwargs.values()))):
        return NEXT
    opens = function is open or (of_path and function.__func__ is pathlib.Path.open)
    given = dict(zip(("mode",), args[0 if of_path else 1 :], strict=False)) | kwargs
    if opens and not {"r", "b", "t"}.issuperset(given.get("mode", "r")):
        return NEXT
    _guard(machine, path)
    if opens:
        with function(*args, **kwargs) as file:
            held = file.read()
        return machine.own(io.BytesIO(held) if isinstance(held, bytes) else io.StringIO(held))
    return machine.native(function, args, kwargs, node)


def require_once(machine: Machine, node: Any) -> None:
    """Refuse to read on in a file where that is not done exactly once in each call."""
    if machine.tests or machine.loop_depth:
        machine.fail(
            UnsupportedSyntax,
            node,
            "A file is read under a run-time test, or in a run-time loop.",
            "read all of it before",
        )


def _natively(function: Callable[..., Any], reads: bool = True) -> Callable[..., Any]:
    def call(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
        if reads:
            require_once(machine, node)
        return machine.native(function, args, kwargs, node)

    return call


for _function in _PARSERS:
    BUILTINS[_function] = _natively(_function)


for _name in _TEXT_OF_PATHS:
    _function = getattr(pathlib.PurePath, _name)
    BUILTINS[_function] = _natively(_function, reads=False)


def _read_config(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    names = args[1] if args[1:] else kwargs.get("filenames")
    for name in [names] if isinstance(names, (str, os.PathLike)) else names or ():
        path = _shipped(machine, name)
        if path is None:
            machine.fail(
                ImpureFunction,
                node,
                f"{function_name(configparser.ConfigParser.read)} reads a file.",
                "read it outside, and pass the values in",
            )
        _guard(machine, str(path))
    return _natively(configparser.RawConfigParser.read)(machine, node, args, kwargs)


for _function in _OF_CONFIG:
    BUILTINS[_function] = _natively(_function)
BUILTINS[configparser.RawConfigParser.read] = _read_config
