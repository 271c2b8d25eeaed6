"""`calque verify` is a gate: nothing passes but what calque writes, made from files of the checkout."""

from __future__ import annotations

import functools
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calque
from calque import cli, verifying

MODEL = '''
import functools
import numpy as np


class Model:
    def __init__(self, rate=0.5):
        self.rate = rate

    def loss(self, x: "f8[n]"):
        return self.rate * np.sum(x * x)


model = Model(3.0)
square = lambda x: x * x
scaled = functools.partial(lambda a, x: a * x * x, 3.0)


def odd(p, x):
    return p["it's"] * x + p['q"u'] * x + p["b\\\\s"] * x


def steps(x, n=3, *, scale=2.0, how=None):
    return x**n * scale


def chosen(x, mode):
    return x * x if mode == """a'b"c$d`e\\\\f!""" else x


def made():
    def inner(x):
        return x * x
    return inner


inner = made()
'''
PLAIN = "def f(x: float):\n    return x * x\n"


def load(path: Path) -> Any:
    found = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(found)
    sys.modules[path.stem] = module
    found.loader.exec_module(module)
    return module


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "checkout"
    place.mkdir()
    (place / "verified.py").write_text(MODEL)
    (place / "plain.py").write_text(PLAIN)
    monkeypatch.chdir(place)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    for name in ("verified", "plain"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return place


SAVED = {
    "a bound method": lambda m: (calque.grad(m.model.loss), np.ones(3)),
    "a method of a fresh object": lambda m: (calque.grad(m.Model().loss), np.ones(3)),
    "a lambda": lambda m: (calque.grad(m.square), 1.0),
    "a partial": lambda m: (calque.grad(m.scaled), 1.0),
    "an inner function": lambda m: (calque.grad(m.inner), 1.0),
    "quotes in names": lambda m: (
        calque.grad(m.odd, argnums=1),
        {"it's": 1.0, 'q"u': 2.0, "b\\s": 3.0},
        1.0,
    ),
    "quotes in values": lambda m: (calque.grad(m.chosen), 1.0, "a'b\"c$d`e\\f!"),
    "defaults": lambda m: (calque.jit(calque.grad(m.steps)), 1.0),
}


@pytest.mark.parametrize("kind", SAVED)
def test_a_header_that_makes_it_again(kind: str, folder: Path, capsys: Any) -> None:
    fn, *args = SAVED[kind](load(folder / "verified.py"))
    calque.save(fn, "saved.py", *args)
    assert cli.main(["verify", "saved.py"]) == 0
    assert capsys.readouterr().out == "saved.py: up to date\n"
    text = (folder / "saved.py").read_text()
    words = verifying.provenance(text)
    assert cli.main([*words, "-o", "again.py"]) == 0
    assert (folder / "again.py").read_text() == text


LOST = {
    "the object whose loss it is": lambda m: (calque.grad(m.Model(7.0).loss), np.ones(3)),
    "this lambda": lambda m: (calque.grad((lambda s: lambda x: s(x))(m.square)), 1.0),
    "this partial": lambda m: (calque.grad(functools.partial(m.steps, scale=3.0)), 1.0),
    "inner": lambda m: (calque.grad(m.made()), 1.0),
}


@pytest.mark.parametrize("what", LOST)
def test_an_honest_line_where_no_command_makes_it(what: str, folder: Path, capsys: Any) -> None:
    fn, *args = LOST[what](load(folder / "verified.py"))
    calque.save(fn, "saved.py", *args)
    header = " ".join((folder / "saved.py").read_text().split('"""')[1].split())
    assert "No command makes it again: no name in " in header and f"stands for {what}." in header
    assert cli.main(["verify", "saved.py"]) == 2
    assert "saved.py cannot be made again by a command: no name" in capsys.readouterr().err


def test_defaults_are_told(folder: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    m = load(folder / "verified.py")
    written = (folder / "verified.py").stat()
    calque.save(calque.grad(m.steps), "saved.py", 1.0)
    assert "\nDefaults: n=3, scale=2.0" in (folder / "saved.py").read_text()
    calque.save(calque.grad(m.steps), "given.py", 1.0, 2)
    assert "\nDefaults: scale=2.0" in (folder / "given.py").read_text()
    calque.save(calque.grad(m.square), "none.py", 1.0)
    assert "Defaults" not in (folder / "none.py").read_text()
    (folder / "verified.py").write_text(MODEL.replace("n=3", "n=4"))
    os.utime(folder / "verified.py", ns=(written.st_atime_ns, written.st_mtime_ns))
    del sys.modules["verified"]
    assert cli.main(["verify", "saved.py"]) == 1
    assert "+Defaults: n=4, scale=2.0" in capsys.readouterr().out


def saved(folder: Path) -> str:
    assert cli.main(["show", "plain.py:f", "--transform", "grad(f)", "-o", "saved.py"]) == 0
    return (folder / "saved.py").read_text()


def with_command(text: str, command: str) -> str:
    lines = text.splitlines(True)
    at = next(k for k, line in enumerate(lines) if line.startswith("    calque show"))
    return "".join([*lines[:at], f"    calque {command}\n", *lines[at + 1 :]])


@pytest.mark.parametrize(
    "command",
    [
        *("--help", "--version", "show --help", "show -h", "show plain.py:f --help"),
        *("show plain.py:f -o x.py", "show plain.py:f -ox.py", "show plain.py:f --version"),
        *("show plain.py:f --stage core", "show plain.py:f --hel", "verify --help", "cache clear"),
        *("show plain.py:f --transf grad(f)", "show plain.py:f --args=float", "show", ""),
        *("show plain.py:f --args float --args --help", "show plain.py:f --args '"),
        *("show plain.py:nothing", "show gone.py:f", "check plain.py:f", "show -- plain.py:f"),
        *("show plain.py:f", "show plain.py:f --transform jit(f) --args float"),
    ],
)
def test_other_commands_fail(command: str, folder: Path, capsys: Any) -> None:
    text = saved(folder)
    (folder / "bad.py").write_text(with_command(text, command))
    (folder / "worse.py").write_text(
        with_command(text.partition("def ")[0] + "import this\n", command)
    )
    assert cli.main(["verify", "bad.py", "worse.py"]) in (1, 2)
    out, err = capsys.readouterr()
    assert "up to date" not in out and "bad.py" in out + err and "worse.py" in out + err


EDITS = (
    lambda t: t + "\n",
    lambda t: t + "import os\n",
    lambda t: t.rstrip("\n"),
    lambda t: t.replace("\n", "\r\n"),
    lambda t: "\ufeff" + t,
    lambda t: "# coding: utf-7\n" + t,
    lambda t: t.replace("2.0 * x", "3.0 * x"),
    lambda t: t.replace("def f_grad", "def  f_grad"),
    lambda t: t.replace("    return", "\x0c    return"),
    lambda t: t.replace('"""\n', '"""\x0b\n'),
    lambda t: t.partition("def ")[0],
)


def test_other_bodies_fail(folder: Path, capsys: Any) -> None:
    text = saved(folder)
    for number, edit in enumerate(EDITS):
        assert edit(text) != text
        (folder / f"bad_{number}.py").write_bytes(edit(text).encode())
    names = [f"bad_{number}.py" for number in range(len(EDITS))]
    assert cli.main(["verify", *names]) in (1, 2)
    out, err = capsys.readouterr()
    assert "up to date" not in out
    reasons = "{0}: stale", "calque: {0} has no header", "calque: {0} is no Python: line "
    assert all(any(reason.format(name) in err for reason in reasons) for name in names)


def test_only_files_of_the_checkout_are_run(folder: Path, tmp_path: Path, capsys: Any) -> None:
    outside = tmp_path / "outside.py"
    outside.write_text(f"import os\nos.mkdir({str(tmp_path / 'ran')!r})\n{PLAIN}")
    text = saved(folder)
    (folder / "inside.py").symlink_to(outside)
    for name in (str(outside), "../outside.py", "inside.py"):
        changed = with_command(text, f'show {name}:f --transform "grad(f)" --args "float"')
        (folder / "bad.py").write_text(changed)
        assert cli.main(["verify", "bad.py"]) == 2
        assert "is not in this checkout and would be run" in capsys.readouterr().err
    assert not (tmp_path / "ran").exists()
    outside.write_text(PLAIN)
    command = ["show", "../outside.py:f", "--transform", "grad(f)"]
    assert cli.main([*command, "-o", "theirs.py"]) == 0
    assert cli.main(["verify", "theirs.py"]) == 2
    for given in (str(outside), "..", "../outside.py"):
        assert cli.main(["verify", "theirs.py", "--source", given]) == 0
    near = tmp_path / "checkout2"
    near.mkdir()
    (near / "m.py").write_text(PLAIN)
    (folder / "bad.py").write_text(with_command(text, "show ../checkout2/m.py:f --args float"))
    assert cli.main(["verify", "bad.py"]) == 2


def test_a_folder_of_a_checkout_may_name_its_neighbours(folder: Path, monkeypatch: Any) -> None:
    (folder / ".git").mkdir()
    (folder / "made").mkdir()
    monkeypatch.chdir(folder / "made")
    assert cli.main(["show", "../plain.py:f", "-o", "saved.py"]) == 0
    assert cli.main(["verify", "saved.py"]) == 0


BROKEN = (
    *("import sys\nsys.exit(0)", "raise SystemExit", "def f(x: float):\n    import nowhere"),
    *("class f:\n    def __init__(self): exit(0)", "def f(x: float):\n    return open(x)"),
    *("def f(x: float):\n    raise KeyError(x)", "1 +", "f = 3", "", "raise RuntimeError('no')"),
)
ENDING = (
    "import os\nprint('bad.py: up to date', flush=True)\nos._exit(0)",
    "import os\ndef __getattr__(name):\n    os._exit(0)",
    "import os\nos.kill(os.getpid(), 9)",
    "class Own(BaseException): pass\nraise Own",
    "import os\nos.closerange(0, 99)\nos._exit(0)",
)


def bad_files(folder: Path, programs: tuple[str, ...]) -> list[str]:
    """Modules whose headers name these programs."""
    text = saved(folder)
    names = []
    for number, program in enumerate(programs):
        (folder / f"broken_{number}.py").write_text(program)
        changed = text.replace("show plain.py", f"show broken_{number}.py")
        (folder / f"bad_{number}.py").write_text(changed)
        names.append(f"bad_{number}.py")
    return names


def test_a_file_after_a_bad_one_is_verified(folder: Path, capsys: Any) -> None:
    bad = bad_files(folder, BROKEN)
    mixed = [name for one in bad for name in (one, "saved.py")]
    assert cli.main(["verify", "nowhere.py", "plain.py", *mixed]) == 2
    out, err = capsys.readouterr()
    assert out == "saved.py: up to date\n" * len(bad)
    assert all(f"calque: {name} cannot be made again: " in err for name in bad)


def test_a_program_that_ends_python_fails(folder: Path) -> None:
    """The exit status of what is imported says nothing: its text has to arrive."""
    bad = bad_files(folder, ENDING)
    run = [sys.executable, "-m", "calque", "verify", *bad, "saved.py"]
    done = subprocess.run(run, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stdout == "saved.py: up to date\n"
    for name in bad:
        assert f"calque: {name} cannot be made again: Python ended (exit status" in done.stderr
    assert subprocess.run([*run[:4], bad[0]], capture_output=True).returncode == 1


def test_packages_of_one_name_are_told_apart(folder: Path, tmp_path: Path, capsys: Any) -> None:
    for place, number in (("one", "2.0"), ("two", "3.0")):
        package = folder / place / "shared_name"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("")
        (package / "part.py").write_text(f"def f(x: float):\n    return x * {number}\n")
        run = [sys.executable, "-m", "calque", "show", f"{place}/shared_name/part.py:f"]
        subprocess.run([*run, "-o", f"{place}.py"], check=True)
    assert cli.main(["verify", "one.py", "two.py"]) == 2
    out, err = capsys.readouterr()
    assert out == "one.py: up to date\n" and "two/shared_name/part.py cannot be imported" in err
