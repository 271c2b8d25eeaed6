"""The command `calque` shows its help, checks where derivatives are zero, and makes again what a name stands for."""

from __future__ import annotations

import glob
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import calque
from calque import cli


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, made the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    for module in ("zeros", "named", "model"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    return tmp_path


# help


def test_the_command_alone_says_how_to_begin(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 0
    out, err = capsys.readouterr()
    assert err == "" and "calque writes the derivative of a NumPy function as source code" in out
    assert len(examples(out)) == 3 and max(map(len, out.splitlines())) <= 98
    assert out.index("and type:") < out.index("show      Print the source of a function")
    assert all(f"\n    {command} " in out for command in COMMANDS)


COMMANDS = ["show", "check", "explain", "cache", "help", "verify"]


def examples(text: str) -> list[str]:
    """The lines of a help that are to be typed."""
    return re.findall(r"^  ((?:calque|echo) [^ C].*)$", text, re.MULTILINE)


def program(text: str) -> str:
    """The program that the command alone shows."""
    return textwrap.dedent(text.partition("into model.py:\n")[2].partition("\nand type:")[0])


def typed(line: str) -> None:
    """Run an example as a shell would."""
    if line.startswith("echo "):
        subprocess.run(line, shell=True, check=True)
        return
    words = [w for word in shlex.split(line)[1:] for w in (glob.glob(word) or [word])]
    assert cli.main(words) == 0, line


def test_first_steps_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main([])
    shown = capsys.readouterr().out
    (folder / "model.py").write_text(program(shown), encoding="utf-8")
    for line in examples(shown):
        typed(line)
    out, err = capsys.readouterr()
    assert err == "" and "def loss_grad(u, k):" in out and out.count("yes") == 2
    assert "def loss_grad_jit(" in (folder / "loss_grad.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("command", COMMANDS)
def test_the_examples_of_each_help_run(
    folder: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main([])
    (folder / "model.py").write_text(program(capsys.readouterr().out), encoding="utf-8")
    with pytest.raises(SystemExit):
        cli.main([command, "--help"])
    lines = examples(capsys.readouterr().out.rpartition("\nexample")[2])
    assert any(line.startswith(f"calque {command} ") for line in lines)
    for line in lines:
        typed(line)
    assert capsys.readouterr().err == ""


# check draws again


ZEROS = '''
import numpy as np


def gated(w: "f8[3]", x: "f8[3]"):
    return np.maximum(w @ x - 3.0, 0.0) * 2.0


def signs(x: "f8[n]", y: float):
    return np.sum(np.sign(x)) + y * y


def half(x: "f4[n]", k: int, p: float):
    return np.sum(np.maximum(x - 4.0, 0.0)) * k + p
'''


def test_check_draws_again_where_all_is_zero(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "zeros.py").write_text(ZEROS)
    for name in ("gated", "half"):
        assert cli.main(["check", f"zeros.py:{name}"]) == 0
        out = capsys.readouterr().out
        assert "all zero" not in out and "nothing was checked" not in out and out.count("yes") >= 2
    assert cli.main(["check", "zeros.py:signs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].endswith("all zero") and lines[2].endswith("yes")
    assert lines[3] == "By x nothing was checked: all derivatives are zero here."
    assert lines[4].startswith("So they are in 8 draws of arguments")


def test_a_report_says_that_nothing_was_checked() -> None:
    report = calque.check(lambda x, y: np.sum(np.sign(x)) * 1.0 + y, np.ones(3), 2.0)
    assert report.agrees and report.unchecked == ("x",)
    assert str(report).endswith("By x nothing was checked: all derivatives are zero here.")


# what has a name in its module


NAMED = '''
from functools import partial

import numpy as np

import calque


class Ridge:
    def __init__(self, weight):
        self.weight = weight

    def loss(self, x: "f8[n]"):
        return np.sum(self.weight * x * x)

    def __call__(self, x: "f8[n]"):
        return self.loss(x) * 2.0


fun = Ridge(5.0).loss
model = Ridge(4.0)
part = partial(Ridge(2.0).loss)
ready = calque.grad(lambda x: np.sum(x**3))
kept = calque.checkpoint(lambda x: np.sum(np.sin(np.sin(x))))
numbers = np.ones(3)


@calque.checkpoint(every=2)
def decorated(x: "f8[n]"):
    for _ in range(9):
        x = np.sin(x)
    return np.sum(x)


def loop(x: "f8[n]"):
    for _ in range(9):
        x = np.sin(x)
    return np.sum(x)
'''


@pytest.mark.parametrize(
    ("name", "transform"),
    [
        ("fun", "grad(f)"),
        ("model.loss", "grad(f)"),
        ("model", "jit(grad(f))"),
        ("part", "grad(f)"),
        ("ready", "f"),
        ("ready", "vjp(f)"),
        ("kept", "grad(f)"),
        ("decorated", "grad(f)"),
        ("loop", "grad(checkpoint(f, every=3))"),
        ("loop", "checkpoint(f)"),
    ],
)
def test_what_a_name_stands_for_is_made_again(
    folder: Path, name: str, transform: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "named.py").write_text(NAMED)
    command = ["show", f"named.py:{name}", "--transform", transform, "--args", "f8[n]"]
    assert cli.main([*command, "-o", "out.py"]) == 0
    header = (folder / "out.py").read_text().split('"""')[1]
    assert f"calque show named.py:{name} " in header, header
    assert cli.main(["verify", "out.py"]) == 0, capsys.readouterr()


def test_a_policy_of_checkpoint_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "named.py").write_text(NAMED)
    transform = "grad(checkpoint(f, policy='dots_saveable'))"
    assert cli.main(["show", "named.py:loop", "--transform", transform]) == 1
    err = capsys.readouterr().err
    assert "checkpoint: policy must be None" in err and "every=k saves a loop's values" in err
