"""``with calque.debug_keys():`` a key that is used twice is an error."""

from __future__ import annotations

import linecache
import sys
import threading
from contextlib import ContextDecorator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from calque.runtime import debug_nans
from calque.runtime.fitting import fitting, flag
from calque.runtime.tracebacks import origin_of
from calque.transpiler.errors import KeyReuseError, Origin

_HERE = str(Path(__file__).parent)
_local = threading.local()


class debug_keys(ContextDecorator):
    """Within it, drawing twice with one key is a ``KeyReuseError`` that shows both lines.

    A draw and ``split`` use a key up, ``fold_in`` does not. ``key``, ``wrap_key_data`` and
    ``clone`` give a fresh one. Keys are told apart by their numbers, in plain calls, in generated
    code and in compiled functions: also that ``fold_in(key, 1)`` is ``split(key)[1]`` is found. A
    function under ``checkpoint`` draws again in its reverse phase, and is refused.
    ``debug_keys(False)`` is an exception inside.

    After ``jax.debug_key_reuse``.

    ``enabled`` says whether it is on inside.

    >>> from calque import random
    >>> key = random.key(0)
    >>> try:
    ...     with debug_keys():
    ...         random.normal(key), random.uniform(key)
    ... except KeyReuseError as error:
    ...     print(error.message)
    random.uniform takes a key that random.normal has used ...
    """

    def __init__(self, enabled: bool = True):
        self.enabled = fitting(flag, enabled, "debug_keys", "enabled")

    def __enter__(self) -> debug_keys:
        debug_nans.watch("keys", self.enabled)
        _local.__dict__.setdefault("states", []).append({} if self.enabled else None)
        return self

    def __exit__(self, *error: object) -> None:
        _local.states.pop()
        debug_nans.unwatch()


def _used() -> dict[tuple[int, int], tuple[str, Origin]] | None:
    """The keys that this thread has used up, with the draw and its place; None: not watched."""
    states = getattr(_local, "states", None)
    return states[-1] if states else None


def use(keys: np.ndarray, name: str) -> None:
    """Note that these keys are used; an error if one of them has been."""
    used = _used()
    if used is None:
        return
    now = {(one, other) for one, other in keys.reshape(-1, 2).tolist()}
    place = _place()
    for key in sorted(now):
        if key in used:
            earlier, before = used[key]
            raise KeyReuseError(
                f"{name} takes a key that {earlier} has used already, in line {before.line} of "
                f"{before.file}: `{before.text.strip()}`.",
                place,
                "split the key, and use each part once: `key, subkey = random.split(key)`",
            )
    used.update(dict.fromkeys(now, (name, place)))


def renew(keys: np.ndarray) -> None:
    """Let these keys be used once more."""
    used = _used()
    if used:
        for one, other in keys.reshape(-1, 2).tolist():
            used.pop((one, other), None)


def _place() -> Origin:
    """The call that came from outside of this package."""
    frame: FrameType | None = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):  # type: ignore[union-attr]
        frame = frame.f_back  # type: ignore[union-attr]
    assert frame is not None
    code = frame.f_code
    positions: Any = list(code.co_positions())[frame.f_lasti // 2]
    line, end_line, column, end_column = positions
    line = line or frame.f_lineno
    if (origin := origin_of(code.co_filename, line)) is not None:
        return origin  # of generated code
    text = linecache.getline(code.co_filename, line).rstrip("\n")
    return Origin(
        code.co_filename, line, column or 0, end_line or line, end_column or 0, text, code.co_name
    )
