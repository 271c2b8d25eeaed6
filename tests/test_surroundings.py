"""Without a home folder, a usable cache or a writable file there is a warning or a message only."""

from __future__ import annotations

import errno
import os
import stat
import warnings
from pathlib import Path

import numpy as np
import pytest

import calque
from calque import cli
from calque.runtime.call import disk_cache, loading
from calque.runtime.saving import writing


def wave(x):
    return np.sum(np.maximum(np.exp(-x), 0.5) * x)


def result() -> float:
    vars(wave).clear()  # as in a process that has not seen it
    loading._modules.clear()
    return calque.jit(wave)(np.ones(5))


def no_entry(*_: object) -> None:
    raise KeyError("getpwuid(): uid not found")


def nowhere() -> str:
    raise FileNotFoundError(errno.ENOENT, "No such file or directory")


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "_refused", set())
    monkeypatch.setattr(loading, "_modules", {})


@pytest.mark.parametrize("size", ["much", "nan", "inf", "-1", "1e400", "M", "5X", "0x10", "-inf"])
def test_a_bad_size(size: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALQUE_CACHE", str(tmp_path / "kernels"))
    monkeypatch.setenv("CALQUE_CACHE_SIZE", size)
    with pytest.warns(RuntimeWarning, match="CALQUE_CACHE_SIZE is .*; write 500M, or 2G: kernels"):
        assert result() == 2.5
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once said, not again
        assert result() == 2.5
    assert not (tmp_path / "kernels").exists()
    assert cli.main(["cache", "info"]) == 0 and cli.main(["cache", "clear"]) == 0


@pytest.mark.parametrize(
    "named", ["~nosuchuser/x", "/dev/null", "/dev/null/x", "a" * 300, "."], ids=range(5)
)
def test_a_bad_folder(named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o777)  # others may write into "."
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CALQUE_CACHE", named)
    with pytest.warns(RuntimeWarning, match="the cache folder .*: kernels are compiled anew"):
        assert result() == 2.5


def test_a_folder_whose_place_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALQUE_CACHE", "here")
    monkeypatch.setattr(os, "getcwd", nowhere)
    with pytest.warns(RuntimeWarning, match="the cache folder here cannot be found"):
        assert disk_cache.folder() is None


def test_no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    pwd = pytest.importorskip("pwd")
    for name in ("CALQUE_CACHE", "HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", no_entry)
    with pytest.warns(RuntimeWarning, match="the cache folder of this user cannot be found"):
        assert result() == 2.5


# saved modules


def test_a_saved_module_has_the_usual_rights_and_leaves_nothing(tmp_path: Path) -> None:
    target = tmp_path / "wave.py"
    before = os.umask(0o027)
    try:
        calque.save(wave, target, np.ones(3))
        assert stat.S_IMODE(target.stat().st_mode) == 0o640
        target.chmod(0o755)
        calque.save(wave, target, np.ones(3))  # a file that is there keeps its own
        assert stat.S_IMODE(target.stat().st_mode) == 0o755
    finally:
        os.umask(before)
    assert os.listdir(tmp_path) == ["wave.py"]


def test_what_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(writing.os, "replace", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*wave\.py'"):
        calque.save(wave, tmp_path / "wave.py", np.ones(3))
    assert os.listdir(tmp_path) == []


def test_another_file_of_a_near_name_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "wave.py.partial").write_text("mine")
    calque.save(wave, tmp_path / "wave.py", np.ones(3))
    assert (tmp_path / "wave.py.partial").read_text() == "mine"


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "link.py").symlink_to(tmp_path / "wave.py")
    calque.save(wave, tmp_path / "link.py", np.ones(3))
    assert (tmp_path / "link.py").is_symlink() and (tmp_path / "wave.py").is_file()


def test_what_is_no_file_is_written_into(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    writing.write_whole(pipe, "x = 1\n")
    assert os.read(reading, 100) == b"x = 1\n" and stat.S_ISFIFO(pipe.stat().st_mode)
    os.close(reading)


@pytest.mark.parametrize("stage", ["core", "numpy", "kernels"])
@pytest.mark.parametrize("output", ["nowhere/wave.py", ".", "file/wave.py"])
def test_an_output_that_cannot_be(
    stage: str, output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    (tmp_path / "short.py").write_text("def f(x: float):\n    return x * x\n")
    assert cli.main(["show", "short.py:f", "--stage", stage, "-o", output]) == 2
    assert capsys.readouterr().err.startswith(f"calque: {output} cannot be written: ")
    assert sorted(os.listdir(tmp_path)) in (["file", "short.py"], ["__pycache__", "file", "short.py"])
