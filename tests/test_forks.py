"""A forked child can generate and compile, whatever other threads did at the moment of the fork."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

import calque
from calque.runtime import debug_nans
from calque.runtime.call import blas_threads, disk_cache, dispatch, loading
from calque.transpiler import forking
from calque.transpiler.ir import pytrees

ROOT = Path(calque.__file__).resolve().parent
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
LOCKS = {
    "programs": dispatch.making,
    "modules": loading._lock,
    "pytrees": pytrees._lock,
    "debugging": debug_nans._lock,
    "cache": disk_cache._lock,
}


def in_child(action: Any) -> int:
    """The exit status of a forked child that does something; -1 where it did not end in 10 s."""
    with warnings.catch_warnings():  # Python's and JAX's, of every fork beside threads
        warnings.filterwarnings("ignore", message=".*fork")
        child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if action() else 2
        finally:
            os._exit(status)
    ends = time.monotonic() + 10
    while time.monotonic() < ends:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return -1


@pytest.mark.parametrize("name", [*LOCKS, "Numba's"])
def test_a_child_can_take_what_another_thread_held(name: str) -> None:
    pytest.importorskip("numba")
    from numba.core.compiler_lock import global_compiler_lock

    lock: Any = LOCKS.get(name, getattr(global_compiler_lock, "_lock", None))
    taken, ended = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            taken.set()
            time.sleep(0.2)
            ended.set()

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait()
    assert in_child(lambda: lock.acquire(timeout=1) and ended.is_set()) == 0
    thread.join()
    assert lock.acquire(timeout=1)  # the parent's is free again
    lock.release()


def test_every_lock_of_modules_is_told() -> None:
    """A lock that a fork does not wait for stays taken in the child."""
    found = set()
    for name, module in list(sys.modules.items()):
        if name.startswith("calque.") and not name.startswith("calque.generated"):
            kinds = (type(threading.Lock()), type(threading.RLock()))
            found |= {id(v) for v in vars(module).values() if isinstance(v, kinds)}
    assert found == {id(lock) for lock in forking._locks.values()}
    assert set(forking._locks) <= set(forking.ORDER)


def test_a_forking_thread_may_hold_them() -> None:
    with dispatch.making, disk_cache._lock:
        assert in_child(lambda: dispatch.making.acquire(timeout=1)) == 0
    assert in_child(lambda: in_child(lambda: True) == 0) == 0


def test_calls_on_one_thread_of_blas_end_with_their_threads() -> None:
    number = [4]
    blas = blas_threads.Library(lambda: number[0], lambda n: number.__setitem__(0, n))
    with blas.one_thread():
        blas.lock.acquire()
        blas.forget_calls()
        assert number == [4] and blas.lock.acquire(timeout=1)
        blas.lock.release()
    with blas.one_thread():
        assert number == [1]
    assert number == [4]


FORKING = """
import os, sys, threading, time, warnings
warnings.simplefilter("ignore")
import numpy as np, calque

made = []

def fresh(seed):
    source = f"def f(x):\\n    y = np.exp(x) * {seed}.0\\n    for k in range(3):\\n        y = np.sin(y) + k\\n    return np.sum(y)\\n"
    import linecache
    file = f"<fresh {seed}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    space = {"np": np}
    exec(compile(source, file, "exec"), space)
    return space["f"]

def work():
    for seed in range(1, 10_000):
        if stop.is_set():
            return
        calque.jit(calque.grad(fresh(seed)))(np.ones(3))
        made.append(seed)

stop = threading.Event()
thread = threading.Thread(target=work)
thread.start()
while len(made) < 1:
    time.sleep(0.01)
children = []
for n in range(6):
    time.sleep(0.037)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            f = fresh(20_000 + n)
            got = calque.jit(calque.grad(f))(np.ones(3))
            status = 0 if np.allclose(got, calque.grad(f)(np.ones(3))) else 2
        finally:
            os._exit(status)
    children.append(child)
stop.set()
thread.join()
ends = time.monotonic() + 60
bad = 0
for child in children:
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done or time.monotonic() > ends:
            break
        time.sleep(0.01)
    if not done:
        os.kill(child, 9)
        os.waitpid(child, 0)
    bad += not done or status != 0
sys.exit(bad)
"""


def test_children_compile_while_another_thread_did(tmp_path: Path) -> None:
    environment = {**os.environ, "CALQUE_CACHE": "0", "PYTHONPATH": str(ROOT.parent)}
    done = subprocess.run(
        [sys.executable, "-c", FORKING], capture_output=True, text=True, env=environment, timeout=120
    )
    assert done.returncode == 0, done.stderr
