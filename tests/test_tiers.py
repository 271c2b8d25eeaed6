"""jit(f, first="numpy"): NumPy answers at once, kernels once another process has compiled them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calque
from calque.runtime.call.machine_code import NotReady
from calque.runtime.tiers import compiling_process, numpy_first


def entropy(x, w):
    p = np.exp(x @ w)
    p /= p.sum(axis=1, keepdims=True)
    total = 0.0
    for i in range(p.shape[0]):
        total -= np.log(p[i, i % p.shape[1]])
    return total


def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(30, 4)), rng.normal(size=(4, 3))


def test_numpy_answers_and_then_kernels():
    fn = calque.jit(calque.grad(entropy, argnums=(0, 1)), first="numpy")
    want = calque.grad(entropy, argnums=(0, 1))(*data())
    assert fn.cache_info().answered == ""
    found = fn(*data())
    assert fn.cache_info().answered == "numpy"
    fn.wait()
    later = fn(*data())
    assert fn.cache_info().answered == "kernels"
    assert fn.cache_info().loaded and not fn.cache_info().compiled  # the other process did
    for a, b, c in zip(found, later, want, strict=True):
        np.testing.assert_array_equal(a, c)
        np.testing.assert_allclose(b, c, rtol=1e-12)


def test_calls_take_kernels_up_without_waiting():
    fn = calque.jit(lambda x: np.sum(np.sin(x) * x), first="numpy")
    x = np.linspace(0.0, 1.0, 50)
    for _ in range(600):
        assert abs(fn(x) - np.sum(np.sin(x) * x)) < 1e-12
        if fn.cache_info().answered == "kernels":
            break
        time.sleep(0.1)
    assert fn.cache_info().answered == "kernels"
    assert not fn.cache_info().compiled


def shifted(x, y):
    for i in range(1, x.size):
        x[i] += x[i - 1] * y[i]
    return x.sum()


def test_stores_happen_once():
    """Types that were foreseen wrong, a reversed view here, undo what was stored before."""
    fn = calque.jit(shifted, first="numpy")
    seen = []
    for _ in range(300):
        x, y = np.ones(8), np.arange(16.0)[::-2]
        mine, other = x.copy(), y.copy()
        assert fn(x, y) == shifted(mine, other)
        np.testing.assert_array_equal(x, mine)
        seen.append(fn.cache_info().answered)
        if seen[-1] == "kernels":
            break
        time.sleep(0.1)
    assert seen[-1] == "kernels"


def transposed_twice(a, b):
    for i in range(3):
        a = np.linalg.solve(a + 5.0 * np.eye(a.shape[0]), b.T).T
        for j in range(a.shape[0]):
            a[j] = a[j] * a[j, 0] + np.tanh(a[j])
    return a.sum()


def test_types_of_a_launch_that_nobody_foresaw_are_asked_for():
    fn = calque.jit(calque.grad(transposed_twice), first="numpy")
    a, b = np.random.default_rng(1).normal(size=(2, 4, 4))
    want = calque.grad(transposed_twice)(a, b)
    for _ in range(300):
        np.testing.assert_allclose(fn(a, b), want, rtol=1e-10)
        if fn.cache_info().answered == "kernels":
            break
        time.sleep(0.1)
    assert fn.cache_info().answered == "kernels"
    assert not fn.cache_info().compiled


def stored_and_solved(x, a, b):
    for i in range(1, x.size):
        x[i] += 0.5 * x[i - 1]
    a = np.linalg.solve(a + 5.0 * np.eye(a.shape[0]), b.T).T
    for j in range(a.shape[0]):
        a[j] = a[j] * a[j, 0] + np.tanh(a[j])
    return a.sum() + x.sum()


def test_what_was_stored_before_a_launch_that_is_not_ready_is_undone(monkeypatch):
    undone = []

    def run_program(self, program, leaves, args, kwargs):
        try:
            return original(self, program, leaves, args, kwargs)
        except NotReady:
            undone.append(args[0].copy())
            raise

    original = numpy_first.Dispatcher.run_program
    monkeypatch.setattr(numpy_first.NumPyFirst, "run_program", run_program)
    foreseen = numpy_first.expected_launches
    monkeypatch.setattr(numpy_first, "expected_launches", lambda *given: foreseen(*given)[:1])
    fn = calque.jit(stored_and_solved, first="numpy")
    a, b = np.random.default_rng(1).normal(size=(2, 4, 4))
    for _ in range(300):
        x, mine = np.ones(6), np.ones(6)
        np.testing.assert_allclose(fn(x, a, b), stored_and_solved(mine, a, b), rtol=1e-12)
        np.testing.assert_array_equal(x, mine)
        if fn.cache_info().answered == "kernels":
            break
        for task in list(fn._dispatcher.tasks.values()):
            task.done.wait()
    assert fn.cache_info().answered == "kernels"
    assert len(undone) > 0
    for before in undone:
        np.testing.assert_array_equal(before, np.ones(6))


def test_other_types_are_answered_by_numpy_again():
    fn = calque.jit(lambda x: x * np.tanh(x), first="numpy")
    fn(np.ones(5))
    fn.wait()
    fn(np.ones(5))
    assert fn.cache_info().answered == "kernels"
    assert fn(np.ones(5, "f4")).dtype == np.float32
    assert fn.cache_info().answered == "numpy"
    fn(np.ones(5))
    fn.wait()
    assert fn(np.ones(5, "f4")).dtype == np.float32
    assert fn.cache_info().answered == "kernels"


def test_captured_values_that_change_in_the_meantime():
    scale = 2.0
    table = np.arange(4.0)

    def scaled(x):
        return np.sum(scale * x * table)

    fn = calque.jit(calque.grad(scaled), first="numpy")
    x = np.ones(4)
    for k in range(40):
        scale, table = 2.0 + k // 10, np.arange(4.0) + k
        np.testing.assert_allclose(fn(x), scale * table)
        if k % 10 == 5:
            fn.wait()
    assert fn.cache_info().answered == "kernels"


def test_threads_compile_once():
    fn = calque.jit(calque.grad(entropy), first="numpy")
    want = calque.grad(entropy)(*data())
    wrong: list[Any] = []

    def calls() -> None:
        for _ in range(20):
            found = fn(*data())
            if not np.allclose(found, want, rtol=1e-12):
                wrong.append(found)
            time.sleep(0.01)

    threads = [threading.Thread(target=calls) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    fn.wait()
    calls()
    assert not wrong
    assert fn.cache_info().answered == "kernels"
    assert fn.cache_info().programs == 2  # NumPy's and the one with kernels
    assert len({(k.kernel, k.version, k.types) for k in fn.cache_info().kernels}) == len(
        fn.cache_info().kernels
    )


def test_a_compiler_that_dies_leaves_numpy_with_one_warning(monkeypatch):
    fn = calque.jit(lambda x: np.sum(np.cos(x) ** 3), first="numpy")
    x = np.ones(7)

    def killed(order):
        assert compiling_process.start()
        process = compiling_process._process
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        return original(order)

    original = compiling_process.compile_elsewhere
    monkeypatch.setattr(compiling_process, "compile_elsewhere", killed)
    monkeypatch.setattr(compiling_process, "start", lambda to_stay=False: True)
    fn(x)
    for task in fn._dispatcher.tasks.values():
        task.done.wait()
    monkeypatch.undo()
    with pytest.warns(calque.JitFallback, match="No kernels can be had") as caught:
        fn(x)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert abs(fn(x) - 7 * np.cos(1.0) ** 3) < 1e-12
    assert fn.cache_info().answered == "numpy"


def test_a_machine_that_starts_no_process(monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError("no processes here")

    compiling_process.stop()
    monkeypatch.setattr(subprocess, "Popen", refuse)
    fn = calque.jit(lambda x: np.sum(x * 3.0), first="numpy")
    with pytest.warns(RuntimeWarning, match="no other process can be started"):
        assert [fn(np.ones(3)), fn(np.ones(3))] == [9.0, 9.0]
    assert fn.cache_info().answered == "numpy"


SCRIPT = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # where a shell runs it aside, it is ignored
import numpy as np
import calque
from calque.runtime.tiers import compiling_process

def f(x):
    return np.sum(np.tanh(x) * x)

fn = calque.jit(calque.grad(f))
print(fn(np.ones(9)).sum(), flush=True)
print(fn.cache_info().answered, compiling_process._process.pid, flush=True)
"""


def started(folder: Path, script: str) -> subprocess.Popen[str]:
    file = folder / "script.py"
    file.write_text(script)
    return subprocess.Popen(
        [sys.executable, file],
        env={**os.environ, "CALQUE_JIT": "tiered", "CALQUE_CACHE": "0"},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def is_gone(process: int) -> bool:
    """True if a process ends within ten seconds."""
    for _ in range(100):
        try:
            os.kill(process, 0)
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
            if state == "Z":
                return True  # ended; its new parent has not looked yet
        except OSError:
            return True
        time.sleep(0.1)
    return False


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="processes are looked up in /proc")
@pytest.mark.parametrize("end", ["exit", "interrupt", "kill"])
def test_no_process_is_left_behind(end, tmp_path):
    wait = "" if end == "exit" else "import time; time.sleep(60)"
    running = started(tmp_path, SCRIPT + wait)
    assert running.stdout is not None
    value = float(running.stdout.readline())
    answered, process = running.stdout.readline().split()
    assert answered == "numpy"
    assert abs(value - 9 * (np.tanh(1.0) + 1.0 / np.cosh(1.0) ** 2)) < 1e-12
    if end != "exit":
        running.send_signal(signal.SIGINT if end == "interrupt" else signal.SIGKILL)
    with running:
        running.wait(50)
    assert is_gone(int(process))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_forked_processes_have_one_of_their_own(tmp_path):
    forked = """
read, write = os.pipe()
child = os.fork()
if child == 0:
    assert compiling_process._process is None
    fn.wait()
    found = fn(np.ones(9))
    assert fn.cache_info().answered in ("numpy", "kernels"), fn.cache_info().answered
    os.write(write, repr(float(found.sum())).encode())
    os._exit(0)
_, status = os.waitpid(child, 0)
print(status, os.read(read, 100).decode(), flush=True)
fn.wait()
fn(np.ones(9))
print(fn.cache_info().answered)
"""
    running = started(tmp_path, SCRIPT + forked)
    lines = running.communicate(timeout=120)[0].splitlines()
    assert lines[2].split() == ["0", lines[0]]
    assert lines[3] == "kernels"


def test_what_the_compiler_is_given():
    from calque.runtime.tiers.compiling_child import Order

    given: list[Order] = []
    original = compiling_process.compile_elsewhere
    try:
        compiling_process.compile_elsewhere = lambda order: given.append(order) or original(order)
        fn = calque.jit(lambda x: np.sum(np.exp(x) - x), first="numpy")
        fn(np.full(3, 0.123456))
        fn.wait()
    finally:
        compiling_process.compile_elsewhere = original
    (order, *_) = given
    assert "0.123456" not in order.text
    assert all(isinstance(name, str) for name, _, _ in order.wanted)
    assert {type(t).__module__.partition(".")[0] for _, _, types in order.wanted for t in types} == {
        "numba"
    }


def test_threads_are_compiled_when_they_are_wanted():
    fn = calque.jit(lambda x: np.tanh(x) * x, first="numpy", parallel=True)
    x = np.linspace(0.0, 1.0, 100)
    fn(x)
    fn.wait()
    np.testing.assert_allclose(fn(x), np.tanh(x) * x, rtol=1e-14)
    assert fn.cache_info().answered == "kernels"
    for _ in range(300):
        np.testing.assert_allclose(fn(x), np.tanh(x) * x, rtol=1e-14)
        if {k.version for k in fn.cache_info().kernels} == {"serial", "parallel"}:
            break
        time.sleep(0.1)
    assert {k.version for k in fn.cache_info().kernels} == {"serial", "parallel"}
    assert not fn.cache_info().compiled


def test_the_source_is_that_of_the_kernels():
    fn = calque.jit(calque.grad(entropy), first="numpy")
    assert calque.source(fn, *data()) == calque.source(calque.jit(calque.grad(entropy)), *data())
    assert "@kernel" in fn.source(*data())
    np.testing.assert_allclose(fn(*data()), calque.grad(entropy)(*data()), rtol=1e-12)


def test_first_must_be_known():
    with pytest.raises(ValueError, match="first"):
        calque.jit(entropy, first="jax")


def test_errors_are_those_of_either():
    fn = calque.jit(lambda x, k: x[k] * 2.0, first="numpy")
    seen = []
    for _ in range(2):
        with pytest.raises(IndexError):
            fn(np.ones(3), 5)
        seen.append(fn.cache_info().answered)
        fn.wait()
    assert seen == ["numpy", "kernels"]


def test_the_answer_is_written_before_kernels_are_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """They share the interpreter: the first answer would wait for passes that it does not need."""
    from calque.runtime.tiers.numpy_first import NumPyFirst

    ready: list[bool] = []
    begin = NumPyFirst._begin

    def watched(self, *args):
        ready.append(any(plan.programs for plan in self.plain.plans.values()))
        begin(self, *args)

    monkeypatch.setattr(NumPyFirst, "_begin", watched)
    f = calque.jit(lambda x: np.sum(np.sin(x) * x), first="numpy")
    x = np.linspace(0.0, 1.0, 5)
    assert np.isclose(f(x), np.sum(np.sin(x) * x))
    assert ready == [True]
    f.wait()
