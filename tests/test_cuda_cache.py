"""Compiled kernels of CUDA C on disk: a second process does not compile, and no file is trusted."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_emulator import building, compiling, standin

import calque
from calque import cli
from calque.runtime.call import disk_cache, sharing
from calque.runtime.cuda import kept_kernels

pytestmark = pytest.mark.skipif(building.MISSING is not None, reason=str(building.MISSING))
POSIX = pytest.mark.skipif(not hasattr(os, "getuid"), reason="files have no owner here")
TESTS = Path(__file__).resolve().parent
X = np.linspace(-1.0, 2.0, 9)


def halves(x):
    return np.sum(0.5 * np.exp(x))


def thirds(x):
    return np.exp(x) / 3.0


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    place = tmp_path / "kernels"
    monkeypatch.setenv("CALQUE_CACHE", str(place))
    compiling.compilations.clear()
    compiling.loads.clear()
    monkeypatch.setattr(kept_kernels, "_modules", {})
    with standin.installed():
        yield place


def run_fresh(function: Any = halves, device: int = 0) -> Any:
    """Call a function as in a process that has loaded nothing; what it gives, and how it was made."""
    kept_kernels._modules.clear()
    vars(function).clear()
    sharing._by_code.clear()
    before = len(compiling.compilations)
    with standin.cuda.Device(device):
        result = standin.asnumpy(calque.jit(function)(standin.asarray(X)))
    np.testing.assert_allclose(result, function(X), rtol=1e-12)
    return len(compiling.compilations) - before


def code_of(folder: Path) -> Path:
    (found,) = folder.glob("*.cubin")
    return found


def test_a_second_process_does_not_compile(folder: Path) -> None:
    assert run_fresh() == 1  # one text, with two kernels in it
    assert code_of(folder).stat().st_mode & 0o077 == 0
    assert [run_fresh(), run_fresh()] == [0, 0]
    assert run_fresh(thirds) == 1


SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
import numpy as np
from cuda_emulator import compiling, standin
import calque

def halves(x):
    return np.sum(0.5 * np.exp(x))

with standin.installed():
    print(float(calque.jit(halves)(standin.asarray(np.ones(3))).get()), len(compiling.compilations))
"""


def test_processes_of_their_own(folder: Path, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(SCRIPT.format(tests=str(TESTS)), encoding="utf-8")
    said = [
        subprocess.run([sys.executable, script], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    first, second = (line.split() for line in said)
    assert first[0] == second[0] and (first[1], second[1]) == ("1", "0")


class Bomb:
    def __reduce__(self) -> Any:
        return os.mkdir, (os.environ["BOMB"],)


def test_damaged_files_are_made_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOMB", str(folder / "exploded"))
    run_fresh()
    file = code_of(folder)
    data = file.read_bytes()
    middle = len(data) // 2
    flipped = data[:middle] + bytes([data[middle] ^ 4]) + data[middle + 1 :]
    bomb = data[: len(disk_cache.MAGIC) + 32] + pickle.dumps(Bomb())
    for bad in (b"", data[:middle], data[:-1], flipped, bomb, b"raise SystemExit\n"):
        file.write_bytes(bad)
        assert run_fresh() == 1 and file.read_bytes() == data
    assert not (folder / "exploded").exists()


def test_what_the_driver_refuses_is_made_again(folder: Path) -> None:
    run_fresh()
    file = code_of(folder)
    good, loads = file.read_bytes(), len(compiling.loads)
    start = len(disk_cache.MAGIC) + 32
    size = int.from_bytes(good[start : start + 8], "little")
    key = good[start + 8 : start + 8 + size].decode()
    assert disk_cache.write_entry(file.name, key, b"\x7fELF of nobody's machine")
    assert run_fresh() == 1 and file.read_bytes() == good
    assert len(compiling.loads) == loads + 1


@POSIX
def test_files_that_others_may_write_are_not_loaded(folder: Path, tmp_path: Path) -> None:
    run_fresh()
    file = code_of(folder)
    file.chmod(0o666)
    assert run_fresh() == 1
    data = file.read_bytes()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(data)
    file.unlink()
    file.symlink_to(elsewhere)
    assert run_fresh() == 1 and elsewhere.read_bytes() == data
    assert not file.is_symlink()


@pytest.mark.parametrize(("name", "value"), [("capability", "80"), ("version", (13, 0))])
def test_another_gpu_or_compiler_has_its_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: Any
) -> None:
    assert run_fresh() == 1
    kept_kernels._compiler.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr(compiling, name, value)
        assert [run_fresh(), run_fresh()] == [1, 0]
    kept_kernels._compiler.cache_clear()
    assert run_fresh() == 0
    assert len([*folder.glob("*.cubin")]) == 2


def test_each_device_loads_what_one_compiled(folder: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(standin, "device_count", 2)
    fn = calque.jit(halves)
    for device in (0, 1, 0):
        with standin.cuda.Device(device):
            result = fn(standin.asarray(X))
            np.testing.assert_allclose(standin.asnumpy(result), halves(X), rtol=1e-12)
    assert len(compiling.compilations) == 1 and len(compiling.loads) == 2


def test_widths_of_indices_are_texts_of_their_own(folder: Path) -> None:
    run_fresh()
    (module,) = kept_kernels._modules
    assert module[2] == ("-DIndex=int",)


def test_without_a_folder_cupy_keeps_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALQUE_CACHE", "0")
    assert run_fresh() == 0 and not compiling.loads  # RawKernel's
    assert not folder.exists()


def test_a_cupy_that_compiles_otherwise_keeps_them(folder: Path, monkeypatch: Any) -> None:
    monkeypatch.delattr(standin.cuda, "compiler")
    assert run_fresh() == 0 and not compiling.loads


def test_threads_at_once(folder: Path) -> None:
    fn = calque.jit(halves)
    wrong: list[Any] = []

    def call() -> None:
        found = standin.asnumpy(fn(standin.asarray(X)))
        if not np.allclose(found, halves(X)):
            wrong.append(found)

    threads = [threading.Thread(target=call) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong and code_of(folder)


def test_the_limit_and_the_command_know_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    run_fresh()
    assert cli.main(["cache", "info"]) == 0
    assert "1 compiled kernels" in capsys.readouterr().out
    monkeypatch.setenv("CALQUE_CACHE_SIZE", "1")
    disk_cache.evict(folder)
    assert not [*folder.glob("*.cubin")]
    assert run_fresh() == 1
