"""Programs that are written as text: each a file, so that its source can be read."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from calque.runtime.call.dispatch import Dispatcher


def imported(text: str, path: Path, name: str = "f") -> Callable[..., Any]:
    """The function of that name of a program, written to a file and imported."""
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def as_numpy(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function as the NumPy source that calque writes for it, value alone."""
    name = getattr(function, "__name__", "f")
    dispatcher = Dispatcher(function, lambda: name if name.isidentifier() else "f")
    return lambda *args: dispatcher.call(args, {})


def outcome(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """The result of a call, or the error that it raises; arrays among the arguments are copied."""
    given = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return function(*given)
        except Exception as error:
            return error
