"""When kernels run on threads: where that is quicker, and never in a child of a fork."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import calque

pytest.importorskip("numba")

from calque.runtime.call import blas_threads
from calque.runtime.kernels import pace as pace_module
from calque.runtime.kernels.pace import Pace


class Machine:
    """A clock, and a kernel's two forms with the seconds that each takes."""

    def __init__(self, serial: float, threads: float):
        self.now, self.seconds = 0.0, {"serial": serial, "threads": threads}
        self.runs: list[str] = []

    def form(self, name: str) -> Any:
        def run() -> str:
            self.now += self.seconds[name]
            self.runs.append(name)
            return name

        return run

    def call(self, pace: Pace, times: int) -> list[str]:
        before = len(self.runs)
        for _ in range(times):
            pace.run(self.form("serial"), self.form("threads"), ())
        return self.runs[before:]


@pytest.fixture
def machine(monkeypatch: Any) -> Any:
    def made(serial: float, threads: float) -> Machine:
        found = Machine(serial, threads)
        monkeypatch.setattr(pace_module, "time", SimpleNamespace(perf_counter=lambda: found.now))
        return found

    return made


def test_threads_run_where_they_are_quicker(machine: Any) -> None:
    busy, pace = machine(2e-3, 1e-3), Pace()
    first = busy.call(pace, 100)
    assert first[0] == "serial" and first[-1] == "threads"
    busy.seconds["threads"] = 20e-3  # another program takes the other core
    later = busy.call(pace, 1000)
    assert later[-1] == "serial" and 2 <= later.count("threads") < 40
    busy.seconds["threads"] = 1e-3
    assert busy.call(pace, 5000)[-1] == "threads"


def test_what_one_thread_takes_is_found_out_again(machine: Any) -> None:
    busy, pace = machine(30e-3, 20e-3), Pace()  # while another program runs
    assert busy.call(pace, 60)[-1] == "threads"
    busy.seconds["serial"] = 5e-3
    later = busy.call(pace, 1000)
    assert later[-1] == "serial" and later.count("threads") < 20
    busy.seconds |= {"serial": 30e-3, "threads": 15e-3}
    again = busy.call(pace, 5000)
    assert again[-1] == "threads" and again[-1000:].count("serial") < 50


def test_a_spell_of_other_load_is_forgotten(machine: Any) -> None:
    busy, pace = machine(8e-3, 20e-3), Pace()  # another program has the other core
    assert busy.call(pace, 5000).count("threads") < 100
    lost = 12e-3 * busy.runs.count("threads")
    assert lost < 0.03 * 5000 * 8e-3
    busy.seconds["threads"] = 4.8e-3
    assert "threads" in busy.call(pace, 500)
    assert busy.call(pace, 100).count("threads") > 80


def test_a_pause_of_the_machine_leads_to_no_threads(machine: Any) -> None:
    for before in range(4, 40):
        steady, pace = machine(5e-3, 25e-3), Pace()
        steady.call(pace, before)
        steady.seconds["serial"] = 200e-3
        steady.call(pace, 1)
        steady.seconds["serial"] = 5e-3
        assert steady.call(pace, 100).count("threads") <= 6


def test_no_call_waits_for_more_compiling_than_all_have_worked(machine: Any) -> None:
    slow, pace = machine(2.0, 1e-3), Pace()  # the first call is compiled
    slow.call(pace, 1)
    slow.seconds["serial"] = 2e-3
    assert slow.call(pace, 990).count("threads") == 0
    assert slow.call(pace, 50).count("threads") > 0


def test_little_work_is_never_tried(machine: Any) -> None:
    quick = machine(1e-4, 1e-5)
    assert set(quick.call(Pace(), 3000)) == {"serial"}


def work(x: Any) -> Any:
    return np.exp(x) * x


def test_both_forms_give_the_same() -> None:
    x = np.random.default_rng(0).normal(size=(300, 70))

    def rows(x: Any) -> Any:
        shifted = np.exp(x - np.max(x, axis=1, keepdims=True))
        return shifted / np.sum(shifted, axis=1, keepdims=True)

    for fn in (work, rows, calque.grad(lambda x: np.sum(rows(x) ** 2))):
        found = [calque.jit(fn, parallel=parallel)(x) for parallel in (False, True)]
        np.testing.assert_array_equal(*found)


FORKED = """
import multiprocessing
import numpy as np
import calque

def work(x):
    return np.exp(x) * x

def child(queue):
    queue.put(jitted(x)[:3])

x = np.linspace(0.0, 1.0, 100)
jitted = calque.jit(work, parallel=True)
np.testing.assert_allclose(jitted(x), work(x), rtol=1e-14)
context = multiprocessing.get_context("fork")
queue = context.Queue()
process = context.Process(target=child, args=(queue,))
process.start()
process.join(120)
assert process.exitcode == 0
np.testing.assert_allclose(queue.get(timeout=10), work(x)[:3], rtol=1e-14)
"""


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")
def test_a_child_runs_on_one_thread(tmp_path: Path) -> None:
    """In a process of its own: a fork is unsafe beside threads that other tests start (JAX's)."""
    (tmp_path / "forked.py").write_text(FORKED)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "forked.py")], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr


class FakeBlas:
    """A number of threads, as OpenBLAS keeps it."""

    def __init__(self) -> None:
        self.threads = 4

    def write(self, threads: int) -> None:
        self.threads = threads


@pytest.fixture
def blas(monkeypatch: Any) -> FakeBlas:
    found = FakeBlas()
    library = blas_threads.Library(lambda: found.threads, found.write)
    monkeypatch.setattr(blas_threads, "library", lambda: library)
    return found


def test_blas_runs_on_one_thread_where_that_is_quicker(machine: Any, blas: FakeBlas) -> None:
    busy = machine(2e-3, 1e-3)

    def program(x: Any) -> Any:
        return busy.form("serial" if blas.threads == 1 else "threads")()

    run = blas_threads.on_measured_threads(program)
    found = [run(np.ones(10_000)) for _ in range(100)]
    assert found[0] == "serial" and found[-1] == "threads" and blas.threads == 4
    busy.seconds["threads"] = 20e-3
    later = [run(np.ones(10_000)) for _ in range(1000)]
    assert later[-1] == "serial" and later.count("threads") < 40 and blas.threads == 4


def test_blas_has_its_threads_again_after_an_error(blas: FakeBlas) -> None:
    def program(x: Any) -> Any:
        assert blas.threads == 1
        raise np.linalg.LinAlgError("singular")

    with pytest.raises(np.linalg.LinAlgError):
        blas_threads.on_measured_threads(program)(np.ones(10_000))
    assert blas.threads == 4


def test_small_arrays_and_other_libraries_leave_blas_alone(
    blas: FakeBlas, monkeypatch: Any
) -> None:
    threads = blas_threads.on_measured_threads(lambda x: blas.threads)
    assert threads(np.ones(10)) == 4 and threads(np.ones(10_000)) == 1
    monkeypatch.setattr(blas_threads, "library", lambda: None)

    def program(x: Any) -> Any:
        return x

    assert blas_threads.on_measured_threads(program) is program


def test_calls_at_the_same_time_share_one_thread(blas: FakeBlas) -> None:
    library = blas_threads.library()
    with library.one_thread():
        with library.one_thread():
            assert blas.threads == 1
        assert blas.threads == 1
    assert blas.threads == 4


def test_numpys_own_blas_is_found_and_left_as_it_was() -> None:
    library = blas_threads.library()
    if library is None:
        pytest.skip("NumPy's BLAS is not OpenBLAS")
    before = library.read()
    x = np.random.default_rng(1).random((80, 80))
    product = calque.jit(lambda x: x @ x.T)
    for _ in range(5):
        np.testing.assert_allclose(product(x), x @ x.T)
    assert library.read() == before
