"""A call that needs a kernel's other version, for one thread or several, does not wait for it.

No test measures time: the compiler that works aside is held up until the calls have returned.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import calque

pytest.importorskip("numba")

from calque.runtime.kernels import decorator, pace
from calque.runtime.tiers import background, compiling_process

SMALL = np.linspace(0.0, 1.0, 50)
LARGE = np.linspace(0.0, 1.0, decorator.PARALLEL_FROM)
_different = itertools.count(1)  # so that no test finds what another one has compiled


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: Any) -> None:
    """Keep machine code where no earlier run has kept any."""
    monkeypatch.setenv("CALQUE_CACHE", str(tmp_path / "cache"))


class Overflow(Exception):
    """An error of the user's: a module that imports it is compiled in this process alone."""


def elementwise() -> Callable[[Any], Any]:
    """A function whose kernel has two versions, and that no other test has had compiled."""
    factor = 1.0 + next(_different) / 64.0

    def scaled(x: Any) -> Any:
        return np.exp(x) * x * factor

    return scaled


def versions(fn: Any) -> set[str]:
    return {k.version for k in fn.cache_info().kernels}


@pytest.fixture
def held(monkeypatch: Any) -> Iterator[threading.Event]:
    """Hold up the compiler that works aside until the event is set."""
    may_go = threading.Event()
    original = compiling_process.compile_elsewhere

    def wait(order: Any) -> str:
        assert may_go.wait(120)
        return original(order)

    monkeypatch.setattr(compiling_process, "compile_elsewhere", wait)
    yield may_go
    may_go.set()


@pytest.fixture
def on_threads(monkeypatch: Any) -> list[int]:
    """A list that grows with each call that runs on several threads."""
    found: list[int] = []
    original = decorator.VersionChoice.is_parallel

    def is_parallel(self: Any, wanted: bool, args: Any) -> bool:
        parallel = original(self, wanted, args)
        found.extend([1] * parallel)
        return parallel

    monkeypatch.setattr(decorator.VersionChoice, "is_parallel", is_parallel)
    return found


def test_one_thread_answers_until_several_are_ready(held: Any, on_threads: list[int]) -> None:
    scaled = elementwise()
    fn = calque.jit(scaled)
    for x in (SMALL, LARGE, LARGE):
        np.testing.assert_allclose(fn(x), scaled(x), rtol=1e-14)
    assert versions(fn) == {"serial"} and not on_threads
    held.set()
    fn.wait()
    np.testing.assert_allclose(fn(LARGE), scaled(LARGE), rtol=1e-14)
    assert versions(fn) == {"serial", "parallel"} and len(on_threads) == 1
    np.testing.assert_allclose(fn(SMALL), scaled(SMALL), rtol=1e-14)
    assert len(on_threads) == 1


def test_several_threads_answer_until_one_is_ready(held: Any, on_threads: list[int]) -> None:
    scaled = elementwise()
    fn = calque.jit(scaled)
    for x in (LARGE, SMALL, SMALL, LARGE):
        np.testing.assert_allclose(fn(x), scaled(x), rtol=1e-14)
    assert versions(fn) == {"parallel"}
    held.set()
    fn.wait()
    assert versions(fn) == {"serial", "parallel"}
    before = len(on_threads)
    np.testing.assert_allclose(fn(SMALL), scaled(SMALL), rtol=1e-14)
    assert len(on_threads) == before


def test_a_training_loop_whose_kernels_are_measured(
    held: Any, on_threads: list[int], monkeypatch: Any
) -> None:
    ticks = itertools.count()
    clock = SimpleNamespace(perf_counter=lambda: 0.01 * next(ticks))  # each run takes 10 ms
    monkeypatch.setattr(pace, "time", clock)
    target = np.linspace(0.0, 1.0, 1 << 15)

    def loss(w: Any, t: Any) -> Any:
        return np.mean((np.tanh(w) - t) ** 2)

    step = calque.jit(lambda w, t: w - 0.1 * calque.grad(loss)(w, t))
    w = np.zeros_like(target)
    want = w.copy()
    for k in range(60):
        if k == 30:
            assert versions(step) == {"serial"} and not on_threads
            held.set()
            step.wait()
        w = step(w, target)
        slope = 2.0 * (np.tanh(want) - target) * (1.0 - np.tanh(want) ** 2) / target.size
        want = want - 0.1 * slope
        np.testing.assert_allclose(w, want, rtol=1e-12, atol=1e-15)
    assert versions(step) == {"serial", "parallel"} and on_threads


def test_each_type_has_a_first_call_of_its_own(held: Any) -> None:
    scaled = elementwise()
    fn = calque.jit(scaled)
    fn(SMALL), fn(LARGE)
    single = LARGE.astype("f4")
    np.testing.assert_allclose(fn(single), scaled(single), rtol=1e-6)  # which waits, for itself
    assert versions(fn) == {"serial", "parallel"}
    assert {k.types.partition(",")[0].count("32") for k in fn.cache_info().kernels} == {0, 1}


def test_random_calls_from_several_threads() -> None:
    scaled = elementwise()
    fn = calque.jit(scaled, parallel="auto")
    wrong: list[Any] = []

    def calls(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(12):
            dtype, step = rng.choice(["f8", "f4"]), int(rng.choice([1, 2, -1]))
            x = (LARGE if rng.random() < 0.4 else SMALL).astype(dtype)[::step]
            if not np.allclose(fn(x), scaled(x), rtol=1e-5):
                wrong.append((seed, dtype, step, x.size))

    threads = [threading.Thread(target=calls, args=(seed,)) for seed in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    fn.wait()
    calls(5)
    assert not wrong
    made = [(k.kernel, k.version, k.types) for k in fn.cache_info().kernels]
    assert len(set(made)) == len(made)


def lost(order: Any) -> str:
    raise compiling_process.CompilerLost("it was killed")


def broken(order: Any) -> str:
    raise RuntimeError("a fault of its own")


@pytest.mark.parametrize("fault", [lost, broken, lambda order: "TypingError: no"])
def test_errors_of_the_compiler_aside_reach_no_call(fault: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(compiling_process, "compile_elsewhere", fault)
    scaled = elementwise()
    fn = calque.jit(scaled)
    for x in (SMALL, LARGE):
        np.testing.assert_allclose(fn(x), scaled(x), rtol=1e-14)
        fn.wait()
        np.testing.assert_allclose(fn(x), scaled(x), rtol=1e-14)
    # without that process, this one compiles
    assert versions(fn) == ({"serial", "parallel"} if fault is lost else {"serial"})
    other = elementwise()
    monkeypatch.undo()
    later = calque.jit(other)
    later(SMALL), later(LARGE), later.wait()
    assert versions(later) == {"serial", "parallel"}


def test_a_kernel_beside_a_class_of_the_users(held: Any) -> None:
    """Another process does not know the class: a thread of this one compiles."""

    def guarded(x: Any) -> Any:
        if x[0] > 2.0:
            raise Overflow("too large")
        return np.exp(x) * x

    fn = calque.jit(guarded)
    for x in (SMALL, LARGE):
        np.testing.assert_allclose(fn(x), guarded(x), rtol=1e-14)
    fn.wait()
    assert versions(fn) == {"serial", "parallel"}
    np.testing.assert_allclose(fn(LARGE), guarded(LARGE), rtol=1e-14)
    with pytest.raises(Overflow):
        fn(LARGE + 3.0)


def test_the_process_that_compiles_does_not_stay_for_it() -> None:
    if compiling_process._kept:
        compiling_process.stop()
    compiling_process._kept = False
    fn = calque.jit(elementwise())
    fn(SMALL), fn(LARGE), fn.wait()
    assert background.is_idle() and compiling_process._process is None


SCRIPT = """
import os, sys
import numpy as np
import calque
from calque.runtime.kernels.decorator import PARALLEL_FROM

class Overflow(Exception):
    pass

def plain(x):
    return np.exp(x) * x

def guarded(x):
    if x[0] > 2.0:
        raise Overflow("too large")
    return np.exp(x) * x

most = 500 if os.environ.get("CALQUE_JIT") == "0" else PARALLEL_FROM  # where Python runs loops
small, large = np.linspace(0.0, 1.0, 50), np.linspace(0.0, 1.0, most)
functions = [(calque.jit(f), f) for f in (plain, guarded)]

def check():
    for x in (small, large, small):
        for fn, f in functions:
            np.testing.assert_allclose(fn(x), f(x), rtol=1e-14)

check()
"""
CHECK_ALL = "for fn, _ in functions: fn.wait()\ncheck()\n"


def ran(folder: Path, script: str, **environment: str) -> str:
    """The output of a script in a process of its own, which must end soon, and well."""
    (folder / "script.py").write_text(script)
    done = subprocess.run(
        [sys.executable, str(folder / "script.py")],
        env={**os.environ, "CALQUE_CACHE": str(folder), **environment},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"CALQUE_CACHE": "0"},
        {"CALQUE_JIT": "0"},
        {"CALQUE_JIT": "tiered"},
    ],
)
def test_without_a_cache_and_without_kernels(environment: Any, tmp_path: Path) -> None:
    ran(tmp_path, SCRIPT + CHECK_ALL, **environment)


@pytest.mark.parametrize("cache", ["", "0"])
def test_the_program_ends_while_a_version_is_compiled(cache: str, tmp_path: Path) -> None:
    late = "import atexit; atexit.register(check); print('last line', flush=True)\n"
    environment = {"CALQUE_CACHE": cache} if cache else {}
    assert ran(tmp_path, late.replace("check", "print") + SCRIPT, **environment).strip()
    assert ran(tmp_path, SCRIPT + late, **environment).strip() == "last line"


def test_the_next_process_finds_the_version_in_the_cache(tmp_path: Path) -> None:
    show = "print(*{(k.version, k.from_disk) for fn, _ in functions[:1] for k in fn.cache_info().kernels})"
    ran(tmp_path, SCRIPT + CHECK_ALL)
    second = ran(tmp_path, SCRIPT + CHECK_ALL + show)
    assert "False" not in second and "parallel" in second


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")
def test_a_fork_while_a_version_is_compiled(tmp_path: Path) -> None:
    forked = """
for _ in range(3):
    child = os.fork()
    if child == 0:
        check()
        for fn, _ in functions:
            fn.wait()
        sys.exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0
"""
    ran(tmp_path, SCRIPT + forked + CHECK_ALL)
