"""State of the process and its surroundings, which changes between calls and cannot be guarded.

The environment, the command line, files, the clock, the machine. Generated code that read it once
would be frozen; a program that needs it is refused, and its caller passes the value in.
"""

from __future__ import annotations

import datetime
import decimal
import os
import sys
from typing import Any

import numpy as np

_OBJECTS = (os.environ, getattr(os, "environb", None), sys.argv, sys.path, sys.modules)
_MODULES = frozenset(
    """time os posix nt posixpath ntpath genericpath subprocess io _io socket _socket platform
    getpass tempfile pathlib pathlib._local uuid secrets shutil glob locale _locale threading
    _thread multiprocessing gc signal _signal resource zoneinfo fileinput""".split()
)
_OF_TEXT = frozenset(
    """join basename dirname split splitext splitdrive normpath normcase isabs commonpath
    commonprefix fspath fsencode fsdecode relative_to with_suffix with_name joinpath as_posix
    is_absolute match strftime strptime gmtime""".split()
)
_CLOCKS = ("now", "today", "utcnow")
_SETTINGS = (np.geterr, np.geterrcall, np.getbufsize, np.get_printoptions, decimal.getcontext)


def holds_surroundings(value: Any) -> bool:
    """True if an object is the environment, the command line, or the table of modules.

    >>> holds_surroundings(os.environ), holds_surroundings({})
    (True, False)
    """
    return value is not None and any(value is held for held in _OBJECTS)


def reads_surroundings(function: Any) -> bool:
    """True if a function reads, or changes, state outside of the program.

    >>> reads_surroundings(os.getenv), reads_surroundings(os.path.join)
    (True, False)
    >>> reads_surroundings(datetime.datetime.now), reads_surroundings(datetime.datetime.fromordinal)
    (True, False)
    """
    if any(function is setting for setting in _SETTINGS):
        return True
    owner, name = getattr(function, "__self__", None), getattr(function, "__name__", "")
    if isinstance(owner, type) and issubclass(owner, (datetime.date, datetime.datetime)):
        return name in _CLOCKS
    if holds_surroundings(owner):
        return True
    module = getattr(function, "__module__", None) or getattr(owner, "__name__", None)
    if isinstance(function, type) or name in _OF_TEXT:
        return False
    return module in _MODULES or (module == "sys" and name != "exit")
