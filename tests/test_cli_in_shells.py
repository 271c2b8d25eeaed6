"""Variables of the environment, completion in a shell, and the hook of pre-commit."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from test_cli import ROOT, made_folder, run

from calque import cli, targets
from calque.runtime.inlining import TRACE


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return made_folder(tmp_path, monkeypatch)


# the environment


def test_debugging_variables(folder: Path) -> None:
    command = ("show", "model.py:loss", "--transform", "grad(f)")
    plain = run(*command)
    assert plain.stderr == ""
    one, two = run(*command, CALQUE_DEBUG="1"), run(*command, CALQUE_DEBUG="2")
    assert "def loss_grad(" in one.stderr and "@@" not in one.stderr
    assert "--- loss before reverse" in two.stderr and "def loss_grad(" in two.stderr
    after = run(*command, CALQUE_PRINT_AFTER="reverse")
    assert after.stderr.startswith("# after reverse") and "def " not in after.stderr
    assert plain.stdout == one.stdout == two.stdout == after.stdout


def test_functions_of_a_file_are_offered(folder: Path) -> None:
    (folder / "broken.py").write_text("def f(:\n", encoding="utf-8")
    (folder / "sub").mkdir()
    (folder / "sub" / "inner.py").write_text("raise SystemExit\ndef g(x): pass\n", encoding="utf-8")
    found = targets.completions("model.py:")
    assert "model.py:loss" in found and "model.py:Model.energy" in found
    assert not any("__init__" in name for name in found)
    assert targets.completions("model.py:lo") == ["model.py:loss", "model.py:log_barrier"]
    assert targets.completions("mo") == ["model.py:"]
    assert targets.completions("su") == ["sub/"]
    assert targets.completions("sub/") == ["sub/inner.py:"]
    assert targets.completions("sub/inner.py:") == ["sub/inner.py:g"]
    for nothing in ("broken.py:", "absent.py:", "absent/", "zzz"):
        assert targets.completions(nothing) == []


def test_files_of_arguments_are_offered(folder: Path) -> None:
    (folder / "sub").mkdir()
    for name in ("a.json", "b.npz", "c.txt", "sub/d.json"):
        (folder / name).touch()
    assert targets.argument_completions("@") == ["@a.json", "@b.npz", "@sub/"]
    assert targets.argument_completions("@b") == ["@b.npz"]
    assert targets.argument_completions("@sub/") == ["@sub/d.json"]
    assert targets.argument_completions("f8[") == targets.argument_completions("@absent/") == []


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("calque sh", {"show"}),
        ("calque show --stage ", {"core", "numpy", "kernels", "cuda"}),
        ("calque explain model.py:mi", {"mixed"}),  # a colon parts words in bash, and so does @
        ("calque check model.py:mixed --args @ar", {"args.json", "args.npz"}),
    ],
)
def test_completion_as_a_shell_asks_for_it(folder: Path, line: str, wanted: set[str]) -> None:
    pytest.importorskip("argcomplete", reason="the extra `completion` is not installed")
    breaks = " \t\n\"'@><=;|&(:"
    for name in ("args.json", "args.npz", "arms.txt"):
        (folder / name).touch()
    answer = folder / "answer"
    asked = {"_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line))}
    asked |= {"_ARGCOMPLETE_COMP_WORDBREAKS": breaks, "_ARGCOMPLETE_STDOUT_FILENAME": str(answer)}
    environment = {**os.environ, "IFS": "\n", "_ARGCOMPLETE_IFS": "\n", **asked}
    subprocess.run([sys.executable, "-m", "calque"], env=environment, cwd=folder, check=False)
    found = answer.read_text(encoding="utf-8")
    assert {word.strip() for word in found.split("\n")} == wanted


def test_without_argcomplete_the_command_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_ARGCOMPLETE", "1")
    monkeypatch.setitem(sys.modules, "argcomplete", None)
    with pytest.raises(SystemExit) as end:
        cli.main(["--version"])
    assert end.value.code == 0


@pytest.mark.parametrize("file", ["cli.py", "__main__.py"])
def test_argcomplete_finds_its_mark(file: str) -> None:
    assert "PYTHON_ARGCOMPLETE_OK" in (ROOT / file).read_text(encoding="utf-8")[:1024]


# the hook of pre-commit


def hook() -> dict[str, str]:
    """The fields of the one hook that the checkout offers."""
    lines = (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8").splitlines()
    return dict(line.lstrip("- ").split(": ", 1) for line in lines)


def test_the_hook_takes_several_files(folder: Path) -> None:
    for name in ("loss", "log_barrier"):
        assert not run("show", f"model.py:{name}", "--transform", "grad(f)", "-o", f"{name}_grad.py").returncode
    entry, *words = hook()["entry"].split()
    assert entry == "calque"
    files = ["loss_grad.py", "log_barrier_grad.py"]
    done = run(*words, *files)
    assert done.returncode == 0 and done.stdout.count("up to date") == 2, done.stderr
    (folder / files[0]).write_text((folder / files[0]).read_text(encoding="utf-8") + "#\n", encoding="utf-8")
    done = run(*words, *files)
    assert done.returncode == 1 and "loss_grad.py: stale" in done.stderr
    assert f"{files[1]}: up to date" in done.stdout


def test_the_hook_sees_the_modules_by_their_names() -> None:
    kinds = {name for name in TRACE if name not in ("identity", "observed", "whole_batches")}
    for kind in kinds | {"pmap", "shard_map", "device"}:
        assert re.search(hook()["files"], f"models/loss_{kind}.py"), kind
    for name in ("models/grad.py", "models/loss.py", "loss_grad.txt"):
        assert not re.search(hook()["files"], name)
