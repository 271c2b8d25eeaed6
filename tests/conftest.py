"""Settings that all tests share."""

from __future__ import annotations

import atexit
import ctypes
import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

# The same examples on every run, and no deadline: two test processes share two cores.
settings.register_profile("calque", deadline=None, derandomize=True, database=None)
settings.load_profile("calque")

# JAX is an oracle here: it need not be quick, but it is to compile quickly. Set before its import.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")

# Compiled kernels go to a folder of this run: nothing of an earlier one is found, nothing stays.
if "CALQUE_CACHE" not in os.environ:
    os.environ["CALQUE_CACHE"] = tempfile.mkdtemp(prefix="calque-tests-")
    atexit.register(shutil.rmtree, os.environ["CALQUE_CACHE"], ignore_errors=True)


def pytest_configure() -> None:
    """Core is verified after every pass, and tests are chosen from whole tables of records."""
    from calque.transpiler.ir import debug
    from calque.transpiler.primitives import rare

    assert rare.__all__
    debug.verifying = True


def pytest_collection_finish() -> None:
    """Exempt all objects that exist before the first test from the search for reference cycles."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """``gpu`` are the tests which CALQUE_TESTS_ON=card lets run on a GPU instead of the emulator."""
    for item in items:
        if {"on_cuda", "installed"} & set(vars(getattr(item, "module", item))):
            item.add_marker("gpu")


@pytest.fixture(scope="module", autouse=True)
def _memory() -> Iterator[None]:
    """Free memory that a file's tests have left, and exempt the rest from the search for cycles.
    Freed are JAX's compiled code, and pages that C libraries hold in reserve, NVRTC above all.
    """
    yield
    if "jax" in sys.modules:
        sys.modules["jax"].clear_caches()
    gc.collect()
    gc.freeze()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: Any, log: Any) -> Any:
    """Each process takes a half, and then of what the other has left: a file's tests share what
    one of them has compiled. ``-n 2`` would deal them out one by one.
    """
    if config.getvalue("dist") != "load":
        return None
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)


def pytest_runtest_setup() -> None:
    """A transformation finds no programs that another test had generated of the same function."""
    from calque.runtime.call import sharing

    original = sharing._Shared.__mro__[-3]  # the last two are dict and object
    sharing._Shared = type("_Shared", (original,), {"__module__": sharing.__name__})
