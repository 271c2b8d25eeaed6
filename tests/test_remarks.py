"""Remarks: for each loop of the user's, what a pass did with it, or the reason why not."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from remark_programs import PROGRAMS

import calque
from calque import cli
from calque.transpiler import kernel_passes

TEXT = '''\
import numpy as np


def columns(A):
    n, m = A.shape
    Q = A.copy()
    R = np.zeros((m, m))
    for k in range(m):
        for j in range(k + 1, m):
            for i in range(n):
                Q[i, j] -= Q[i, k] * R[k, j]
    return Q


def scattered(x, k):
    y = np.zeros(10)
    for i in range(len(x)):
        y[k[i]] += x[i]
    for i in range(1, len(x)):
        x[i] = 0.5 * x[i - 1] + x[i]
    return y
'''


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(TEXT)
    return path


def function(file: Path, name: str) -> object:
    namespace: dict[str, object] = {"__name__": "program", "__file__": str(file)}
    exec(compile(TEXT, str(file), "exec"), namespace)
    return namespace[name]


def test_a_loop_that_is_interchanged_is_named(file: Path) -> None:
    text = calque.explain(function(file, "columns"), np.ones((5, 4)), why="interchange")
    assert "interchange: line 9, for j is rewritten" in text
    assert "9: for j in range(k + 1, m):" in text


def test_a_loop_that_stays_has_a_reason_and_the_line(file: Path) -> None:
    fn = calque.jit(function(file, "scattered"))
    text = calque.explain(fn, np.ones(5), np.arange(5), why="distribute")
    assert (
        "distribute: line 17, for i stays: line 18 has an index that is computed in the loop\n"
        "    17: for i in range(len(x)):\n"
        "    18: y[k[i]] += x[i]\n"
    ) in text


def test_all_passes_that_explain_themselves(file: Path) -> None:
    text = calque.explain(function(file, "scattered"), np.ones(5), np.arange(5), why="all")
    assert "mark_parallel: line 19, for i stays: line 20 reads x[i - 1]" in text
    assert "gather: line 17, for i stays" in text


def test_the_command(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["explain", f"{file}:columns", "--why", "interchange"]
    assert cli.main([*command, "--args", "f8[n,m]"]) == 0
    assert "interchange: line 9, for j is rewritten" in capsys.readouterr().out


def test_the_command_refuses_what_is_no_pass(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["explain", f"{file}:columns", "--why", "intrechange"]) == 2
    assert "calque: --why: why must be" in capsys.readouterr().err


def weighted_by(weights):
    def weighted(x):
        total = 0.0
        for i in range(len(weights)):
            total += weights[i] * x
        return total

    return weighted


def test_functions_made_anew_are_explained() -> None:
    """Functions of one code share programs, which read captured arrays from the function at hand."""
    for size in range(2, 14):
        fn = calque.jit(weighted_by(np.ones(size)))
        assert fn(3.0) == 3.0 * size
        text = calque.explain(fn, 3.0, why="mark_parallel")
        assert "for i stays" in text and "total" in text


def test_a_pass_without_reasons_is_refused(file: Path) -> None:
    with pytest.raises(ValueError, match='"all", or one of .*interchange'):
        calque.explain(function(file, "columns"), np.ones((5, 4)), why="remove_dead_code")


def test_remarks_are_printed_where_the_environment_asks(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CALQUE_REMARKS", "1")
    calque.source(calque.jit(function(file, "columns")), np.ones((5, 4)))
    assert "interchange: line 9, for j is rewritten" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "fn", "args", "words", "quoted"),
    PROGRAMS,
    ids=[f"{name}-{fn.__name__}" for name, fn, *_ in PROGRAMS],
)
def test_a_pass_says_why(
    name: str, fn: Callable[..., Any], args: tuple[Any, ...], words: str, quoted: str
) -> None:
    text = calque.explain(fn, *args, why=name)
    line = re.escape(f"{words}\n").replace(r"\*", r"line \d+")
    assert re.search(rf"^{name}: line \d+, [\w ]+ {line}", text, re.MULTILINE), text
    assert re.search(rf"^    \d+: {re.escape(quoted)}$", text, re.MULTILINE), text


def test_every_pass_that_explains_itself_gives_a_remark(file: Path) -> None:
    """A pass is not declared to explain itself without a remark on some loop of these programs."""
    asked = {each.name for each in kernel_passes.KERNEL_PASSES if each.explains}
    said = ""
    for name, args in (("columns", (np.ones((5, 4)),)), ("scattered", (np.ones(5), np.arange(5)))):
        fn = function(file, name)
        said += calque.explain(fn, *args, why="all")
        said += calque.explain(calque.grad(lambda *a, fn=fn: np.sum(fn(*a))), *args, why="all")
    said += "\n"
    said += "\n".join(calque.explain(fn, *args, why=name) for name, fn, args, *_ in PROGRAMS)
    assert asked <= {re.split(r":| \(", line)[0] for line in said.splitlines()}
