"""The cache on disk: shared by processes, private, limited, and never trusted."""

from __future__ import annotations

import os
import pickle
import stat
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import calque
from calque import cli
from calque.runtime.call import disk_cache, loading, machine_code, sharing
from calque.runtime.kernels.decorator import PARALLEL_FROM
from calque.transpiler.ir import debug

ROOT = Path(calque.__file__).resolve().parent
POSIX = pytest.mark.skipif(not hasattr(os, "getuid"), reason="files have no owner here")


def wave(x):
    return np.sum(np.maximum(np.exp(-x), 0.5) * x)


def wave_alone(x):
    return float(sum(max(np.exp(-v), 0.5) * v for v in x))


X = np.linspace(-1.0, 2.0, 7)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "kernels"
    monkeypatch.setenv("CALQUE_CACHE", str(place))
    monkeypatch.setattr(loading, "_modules", {})
    vars(wave).clear()
    return place


def run_fresh(function=wave, x=X):
    """Jit and call a function as in a process that has not seen it."""
    loading._modules.clear()
    vars(function).clear()
    sharing._by_code.clear()
    compiled = calque.jit(function)
    return compiled(x), compiled.cache_info()


def code_of(folder: Path) -> Path:
    (found,) = folder.glob("*.code")
    return found


# one process after another


SCRIPT = """
import sys, time
import numba, numpy as np
import calque
from kernels_user import selu, x
jitted = calque.jit(selu)
before = time.process_time()
value = jitted(x)
spent = time.process_time() - before
info = jitted.cache_info()
print(float(value[0]), info.compiled, info.loaded, spent)
if "more" in sys.argv:
    print(jitted(x.astype("f4")).dtype, jitted.cache_info().compiled)
"""
USER = """
import numpy as np
x = np.linspace(-2.0, 2.0, 9)
def selu(x, alpha=1.67, scale=1.05):
    return scale * np.where(x > 0, x, alpha * np.exp(x) - alpha)
"""


def script(folder: Path, *args: str, code: str = SCRIPT, **more: str) -> subprocess.Popen[str]:
    (folder.parent / "kernels_user.py").write_text(USER, encoding="utf-8")
    path = os.pathsep.join([str(folder.parent), str(ROOT.parent)])
    environment = {**os.environ, "PYTHONPATH": path, "CALQUE_CACHE": str(folder), **more}
    command = [sys.executable, "-c", code, *args]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def output(started: subprocess.Popen[str]) -> str:
    out, err = started.communicate(timeout=300)
    assert started.returncode == 0, err
    return out


def test_a_second_process_compiles_nothing(folder: Path) -> None:
    value, compiled, loaded, _ = output(script(folder)).split()
    assert (int(compiled), int(loaded)) == (1, 0)
    np.testing.assert_allclose(float(value), 1.05 * (1.67 * np.exp(-2.0) - 1.67), rtol=1e-15)
    first, second = output(script(folder, "more")).splitlines()
    again, compiled, loaded, spent = first.split()
    assert (again, int(compiled), int(loaded)) == (value, 0, 1)
    assert float(spent) < 0.3  # seconds over the imports
    assert second.split() == ["float32", "1"]  # compiles after having loaded


def test_many_processes_and_threads_at_once(folder: Path) -> None:
    code = """
import threading
import numpy as np
import calque
from kernels_user import selu, x
expected = {d: selu(x.astype(d)) for d in ("f8", "f4")}
shared = {name: calque.jit(selu) for name in expected}
wrong = []
def work():
    for dtype, value in expected.items():
        for jitted in (shared[dtype], calque.jit(selu)):
            if not np.allclose(jitted(x.astype(dtype)), value, rtol=1e-6):
                wrong.append(dtype)
threads = [threading.Thread(target=work) for _ in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]
assert not wrong, wrong
made = shared["f8"].cache_info().kernels  # which the other one shares
assert len(made) == 2, made  # one compilation or load for each dtype, however many threads
"""
    for started in [script(folder, code=code) for _ in range(4)]:
        output(started)
    assert not list(folder.glob("*.partial"))
    assert len(list(folder.glob("*.code"))) == 2
    value, compiled, loaded, _ = output(script(folder)).split()
    assert (int(compiled), int(loaded)) == (0, 1)


def test_one_text_is_one_module(folder: Path) -> None:
    first, second = calque.jit(wave), calque.jit(wave)
    assert first(X) == second(X)
    assert first.program(X).call is second.program(X).call
    vars(wave).clear()
    second = calque.jit(wave)
    assert first(X) == second(X)
    assert first.program(X).call is second.program(X).call
    assert len(second.cache_info().kernels) == 1


OWN_ERROR = """
import numpy as np
import calque

class TooLarge(ValueError):
    pass

@calque.jit
def total(x):
    s = 0.0
    for i in range(x.size):
        s += x[i]
        if s > 10.0:
            raise TooLarge("too large")
    return s

assert total(np.ones(3)) == 3.0
try:
    total(np.ones(30))
except TooLarge as error:
    print("raised", error)
"""


def test_the_users_own_exceptions_are_raised_in_every_process(folder: Path) -> None:
    for _ in range(2):
        file = folder.parent / "own_error.py"
        file.write_text(OWN_ERROR, encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": str(ROOT.parent), "CALQUE_CACHE": str(folder)}
        done = subprocess.run(
            [sys.executable, str(file)], env=environment, capture_output=True, text=True
        )
        assert done.stdout.splitlines() == ["raised too large"], done.stderr


# what is kept


def test_a_module_is_a_file_that_tracebacks_show(folder: Path) -> None:
    program = calque.jit(wave).program(X)
    file = Path(program.call.__code__.co_filename)
    assert file.parent == folder and file.read_text(encoding="utf-8") == program.text
    assert file.name.startswith("wave_jit-")


@POSIX
def test_folder_and_files_are_private(folder: Path) -> None:
    run_fresh()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(f.stat().st_mode) for f in folder.iterdir()} == {0o600}


@pytest.mark.parametrize("off", ["", "0"])
def test_no_cache(folder: Path, monkeypatch: pytest.MonkeyPatch, off: str) -> None:
    monkeypatch.setenv("CALQUE_CACHE", off)
    value, info = run_fresh()
    assert np.isclose(value, wave_alone(X), rtol=1e-14) and info.compiled == 1
    assert not folder.exists()


def test_kernels_with_every_helper_are_kept(folder: Path) -> None:
    def helpers(x):
        y = np.maximum(x, 0.1) + np.minimum(x, 0.9) + np.sign(x) + np.heaviside(x, 0.5)
        y = y + np.exp(x) + np.log(x + 3.0) + np.sin(x) + np.tanh(x) + np.arctan2(x, y)
        return y + x**1.5

    for dtype in ("f8", "f4"):
        x = np.linspace(0.1, 2.0, 9).astype(dtype)
        value, info = run_fresh(helpers, x)
        assert info.compiled == 1
        again, info = run_fresh(helpers, x)
        assert (info.compiled, info.loaded) == (0, 1)
        np.testing.assert_array_equal(value, again)
        np.testing.assert_allclose(value, helpers(x), rtol=1e-13 if dtype == "f8" else 1e-5)


def test_parallel_kernels_are_kept(folder: Path) -> None:
    x = np.linspace(0.0, 1.0, PARALLEL_FROM)
    for compiled, loaded in ((1, 0), (0, 1)):
        value, info = run_fresh(lambda x: np.exp(x) * x, x)
        assert (info.compiled, info.loaded) == (compiled, loaded)
        assert [k.version for k in info.kernels] == ["parallel"]
        np.testing.assert_allclose(value, np.exp(x) * x, rtol=1e-14)


# nothing damaged or foreign is used


def test_an_entry_is_whole_or_missing(folder: Path) -> None:
    assert disk_cache.write_entry("a.code", "key", b"payload")
    assert disk_cache.read_entry("a.code", "key") == b"payload"
    whole = (folder / "a.code").read_bytes()
    damaged = [whole[:k] for k in range(len(whole))] + [whole + b"\0"]
    for k, byte in enumerate(whole):
        damaged += [whole[:k] + bytes([byte ^ bit]) + whole[k + 1 :] for bit in (1, 0x80)]
    for data in damaged:
        (folder / "a.code").write_bytes(data)
        assert disk_cache.read_entry("a.code", "key") is None
    assert not (folder / "a.code").exists()


def test_an_entry_for_something_else_is_not_taken(folder: Path) -> None:
    disk_cache.write_entry("a.code", "key", b"payload")
    assert disk_cache.read_entry("a.code", "kez") is None
    disk_cache.write_entry("a.code", "key", b"payload")
    assert disk_cache.read_entry("a.code", "ke") is None
    assert disk_cache.read_entry("b.code", "key") is None


class Bomb:
    def __reduce__(self):
        return os.mkdir, (os.environ["BOMB"],)


def test_damaged_files_are_made_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOMB", str(folder / "exploded"))
    monkeypatch.setattr(debug, "verifying", False)  # else no text is kept
    value, _ = run_fresh()
    whole = {file: file.read_bytes() for file in folder.iterdir()}
    assert {file.suffix for file in whole} == {".py", ".code", ".text"}
    for file, data in whole.items():
        middle = len(data) // 2
        flipped = data[:middle] + bytes([data[middle] ^ 4]) + data[middle + 1 :]
        bomb = data[: len(disk_cache.MAGIC) + 32] + pickle.dumps(Bomb())
        for bad in (b"", data[:middle], data[:-1], flipped, bomb, b"raise SystemExit\n"):
            file.write_bytes(bad)
            again, info = run_fresh()
            assert again == value
            assert (info.compiled, info.loaded) == ((1, 0) if file.suffix == ".code" else (0, 1))
            assert file.suffix == ".code" or file.read_bytes() == data
    again, info = run_fresh()
    assert (again, info.loaded) == (value, 1)
    assert not (folder / "exploded").exists()


def test_code_that_cannot_be_loaded_is_made_again(folder: Path) -> None:
    value, _ = run_fresh()
    file = code_of(folder)
    head = file.read_bytes()[len(disk_cache.MAGIC) + 32 :]
    size = int.from_bytes(head[:8], "little")
    disk_cache.write_entry(file.name, head[8 : 8 + size].decode(), pickle.dumps(("no", "code")))
    again, info = run_fresh()
    assert (again, info.compiled, info.loaded) == (value, 1, 0)


@POSIX
def test_files_that_others_may_write_are_not_read(folder: Path) -> None:
    disk_cache.write_entry("a.code", "key", b"payload")
    for mode, expected in ((0o620, None), (0o602, None), (0o640, b"payload")):
        disk_cache.write_entry("a.code", "key", b"payload")
        (folder / "a.code").chmod(mode)
        assert disk_cache.read_entry("a.code", "key") == expected
    (folder / "a.code").rename(folder / "b.code")
    (folder / "a.code").symlink_to(folder / "b.code")
    assert disk_cache.read_entry("a.code", "key") is None
    (folder / "a.code").unlink()
    os.mkfifo(folder / "a.code")
    assert disk_cache.read_entry("a.code", "key") is None


@POSIX
def test_a_foreign_folder_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir(mode=0o700)
    monkeypatch.setattr(os, "getuid", lambda: folder.stat().st_uid + 1)
    with pytest.warns(RuntimeWarning, match="belongs to somebody else"):
        value, info = run_fresh()
    assert np.isclose(value, wave_alone(X)) and info.compiled == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run_fresh()  # one warning is enough
    assert not list(folder.iterdir())


@POSIX
def test_a_folder_that_others_may_write_is_refused(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.warns(RuntimeWarning, match="others may write"):
        assert disk_cache.folder() is None


def test_a_file_in_place_of_the_folder(folder: Path) -> None:
    folder.write_text("no folder", encoding="utf-8")
    with pytest.warns(RuntimeWarning, match="is no folder"):
        assert run_fresh()[1].compiled == 1


# the key


def test_the_key_holds_all_that_the_code_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [machine_code.module_key("@kernel\n")]
    assert keys[0] == machine_code.module_key("@kernel\n")
    keys.append(machine_code.module_key("@kernel \n"))
    monkeypatch.setenv("NUMBA_OPT", "1")
    keys.append(machine_code.module_key("@kernel\n"))
    monkeypatch.setattr(machine_code, "_helpers", lambda: "other vector functions")
    keys.append(machine_code.module_key("@kernel\n"))
    monkeypatch.setattr(machine_code, "_numba_version", lambda: "another numba")
    keys.append(machine_code.module_key("@kernel\n"))
    assert len(set(keys)) == len(keys)
    monkeypatch.setenv("NUMBA_NUM_THREADS", "2")
    assert keys[-1] == machine_code.module_key("@kernel\n")


def test_the_helpers_are_read_from_their_files(tmp_path, monkeypatch) -> None:
    inner = machine_code._helpers.__wrapped__
    before = inner()
    copy = tmp_path / "call" / "machine_code.py"
    for source in [f for r in ("kernels", "vecmath") for f in (ROOT / "runtime" / r).glob("*.py")]:
        target = tmp_path / source.relative_to(ROOT / "runtime")
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(source.read_bytes())
    monkeypatch.setattr(machine_code, "__file__", str(copy))
    assert inner() == before
    with open(tmp_path / "vecmath/powers.py", "a", encoding="utf-8") as file:
        file.write("#\n")
    assert inner() != before


def test_another_machine_has_entries_of_its_own() -> None:
    class Machine:
        def __init__(self, features):
            self.features = features

        def magic_tuple(self):
            return "x86_64", "cpu", self.features

    kernel = machine_code.KernelCache("module", "kernel", "serial", "key")
    one, other = (kernel._entry(("float64",), Machine(f)) for f in ("+avx2", "+avx512f"))
    assert one[0] != other[0] and one[1] != other[1]


# the limit


def test_what_was_not_used_for_longest_goes(folder, monkeypatch) -> None:
    monkeypatch.setenv("CALQUE_CACHE_SIZE", "1K")
    now = time.time()
    for k in range(5):
        disk_cache.write_entry(f"{k}.code", "key", b"x" * 100)
        os.utime(folder / f"{k}.code", (now - 1000 + k, now - 1000 + k))
    assert disk_cache.read_entry("0.code", "key") is not None  # used now
    disk_cache.write_entry("5.code", "key", b"x" * 500)
    kept = sorted(entry.path.name for entry in disk_cache.entries(folder))
    assert kept == ["0.code", "4.code", "5.code"] or kept == ["0.code", "5.code"], kept
    assert sum(entry.size for entry in disk_cache.entries(folder)) <= 1024
    monkeypatch.setenv("CALQUE_CACHE_SIZE", "0")
    disk_cache.write_entry("6.code", "key", b"x")
    assert disk_cache.entries(folder) == []


def test_other_files_are_left_alone(folder, monkeypatch) -> None:
    folder.mkdir(mode=0o700)
    (folder / "mine.txt").write_text("x" * 5000, encoding="utf-8")
    monkeypatch.setenv("CALQUE_CACHE_SIZE", "0")
    disk_cache.write_entry("0.code", "key", b"x")
    assert [f.name for f in folder.iterdir()] == ["mine.txt"]


def test_half_written_files_of_the_dead_go(folder) -> None:
    disk_cache.write_entry("0.code", "key", b"x")
    for name, age in (("old.partial", 7200), ("new.partial", 10)):
        (folder / name).write_bytes(b"x")
        os.utime(folder / name, (time.time() - age,) * 2)
    disk_cache.evict(folder)
    assert {f.name for f in folder.iterdir()} == {"0.code", "new.partial"}


@pytest.mark.parametrize(
    "text, size",
    [("", 1 << 30), ("500M", 500 << 20), ("2GB", 2 << 30), ("1.5k", 1536), ("100", 100)],
)
def test_limit(monkeypatch, text: str, size: int) -> None:
    monkeypatch.setenv("CALQUE_CACHE_SIZE", text)
    assert disk_cache.limit() == size


def test_a_limit_that_is_no_size(monkeypatch) -> None:
    monkeypatch.setenv("CALQUE_CACHE_SIZE", "much")
    with pytest.raises(ValueError, match="CALQUE_CACHE_SIZE is 'MUCH'; write 500M, or 2G"):
        disk_cache.limit()


def test_calque_cache(folder: Path, monkeypatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(debug, "verifying", False)  # else no text is kept
    run_fresh()
    assert cli.main(["cache", "info"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == str(folder) and second.startswith("1 modules, 1 compiled kernels, 0.")
    assert cli.main(["cache", "clear"]) == 0
    assert capsys.readouterr().out == "3 files removed\n"
    assert list(folder.iterdir()) == []
    monkeypatch.setenv("CALQUE_CACHE", "0")
    assert cli.main(["cache", "info"]) == 0
    assert capsys.readouterr().out == "nothing is kept on disk\n"
