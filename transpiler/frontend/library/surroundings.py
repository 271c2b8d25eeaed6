"""State of the process and its surroundings, which changes between calls.

Settings, the environment and the modules are asked by name and compared at each call. The command
line, files, the clock and the machine are not: generated code that read them once would be frozen;
a program that needs them is refused, and its caller passes the value in.
"""

from __future__ import annotations

import datetime
import decimal
import os
import pathlib
import platform
import sys
from typing import Any, ClassVar

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
    is_absolute match strftime strptime gmtime with_name with_stem __truediv__ __rtruediv__
    __fspath__ __str__""".split()
)
_DATES = ("now", "today", "utcnow")
CLOCKS = frozenset(
    """time perf_counter monotonic process_time thread_time time_ns perf_counter_ns monotonic_ns
    process_time_ns thread_time_ns""".split()
)
_SETTINGS = (np.geterr, np.geterrcall, np.getbufsize, np.get_printoptions, decimal.getcontext)
# functions whose results a program may read: each call compares them with those of now
ASKED = (
    *(sys.getrecursionlimit, sys.getdefaultencoding, sys.getfilesystemencoding, sys.gettrace),
    *(os.getenv, os.cpu_count, os.getpid, os.path.exists, os.path.isfile, os.path.isdir),
    *(os.path.abspath, os.path.realpath, os.getcwd, pathlib.Path.resolve, pathlib.Path.absolute),
    *(platform.system, platform.machine, platform.python_version, platform.python_implementation),
)


class ProcessTable:
    """A table of the process that a program asks by name: the environment, the modules."""

    views: ClassVar[dict[int, ProcessTable]] = {}  # by the id of the table


def holds_surroundings(value: Any) -> bool:
    """True if an object is the environment, the command line, or the table of modules.

    >>> holds_surroundings(os.environ), holds_surroundings({})
    (True, False)
    """
    return value is not None and any(value is held for held in _OBJECTS)


def reads_surroundings(function: Any) -> bool:
    """True if a function reads, or changes, state outside of the program.

    >>> reads_surroundings(os.listdir), reads_surroundings(os.path.join)
    (True, False)
    >>> reads_surroundings(datetime.datetime.now), reads_surroundings(datetime.datetime.fromordinal)
    (True, False)
    """
    plain = getattr(function, "__func__", function)
    if any(plain is asked for asked in ASKED):
        return False
    if any(function is setting for setting in _SETTINGS):
        return True
    owner, name = getattr(function, "__self__", None), getattr(function, "__name__", "")
    if isinstance(owner, type) and issubclass(owner, (datetime.date, datetime.datetime)):
        return name in _DATES
    if holds_surroundings(owner):
        return True
    module = getattr(function, "__module__", None) or getattr(owner, "__name__", None)
    if isinstance(function, type) or name in _OF_TEXT or (module == "time" and name in CLOCKS):
        return False
    return module in _MODULES or (module == "sys" and name != "exit")
