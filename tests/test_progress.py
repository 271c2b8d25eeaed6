"""Long work is reported: on a terminal, once in a notebook, and in the log."""

from __future__ import annotations

import fcntl
import logging
import os
import re
import struct
import subprocess
import sys
import termios
import threading
import time

import numpy as np
import pytest

import calque
from calque.runtime.call import progress
from calque.transpiler.frontend.library.python_builtins import Interpreter
from calque.transpiler.transformations import derivatives


@pytest.fixture
def hurried(monkeypatch):
    monkeypatch.setattr(progress, "_LONG", 0.02)
    monkeypatch.setattr(progress, "_AGAIN", 0.02)


def work() -> None:
    with progress.watched(lambda: "f_grad", lambda: "compiling, 1 of 2 kernels are ready"):
        time.sleep(0.3)


def test_a_line_that_goes_when_all_is_made(hurried, monkeypatch, capsys):
    monkeypatch.setattr(progress, "is_terminal", lambda: True)
    work()
    text = capsys.readouterr().err
    lines = [line for line in text.split("\r") if line]
    assert lines[0].startswith("calque: f_grad: compiling, 1 of 2 kernels are ready (0.")
    assert len(lines) > 2
    assert not lines[-1].strip()
    assert len(lines[-1]) >= len(lines[0])
    assert "\n" not in text


def test_nothing_in_a_pipe(hurried, capsys):
    before = threading.active_count()
    work()
    assert capsys.readouterr().err == ""
    assert threading.active_count() == before


def test_one_line_in_a_notebook(hurried, monkeypatch, capsys):
    monkeypatch.setattr(progress, "_is_notebook", lambda: True)
    work()
    assert capsys.readouterr().err == "calque: f_grad: compiling, 1 of 2 kernels are ready\n"


def test_nothing_for_what_is_quick(monkeypatch, capsys):
    monkeypatch.setattr(progress, "is_terminal", lambda: True)
    with progress.watched(lambda: "f", lambda: "compiling"):
        pass
    assert capsys.readouterr().err == ""


def test_a_stream_that_is_closed_is_no_terminal(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    assert not progress.is_terminal()


@pytest.fixture
def logged(monkeypatch):
    monkeypatch.setattr(progress, "_LOGGED", 0.05)


def test_a_line_in_the_log_wherever_it_goes(logged, caplog, capsys):
    work()
    lines = [r.getMessage() for r in caplog.records]
    assert lines[0].startswith("calque: f_grad: compiling, 1 of 2 kernels are ready (0 s so far)")
    assert 1 < len(lines) < 5  # after twice the time each
    assert {(r.name, r.levelname) for r in caplog.records} == {("calque", "WARNING")}
    assert capsys.readouterr().err == ""


def test_the_log_is_apart_from_the_line_on_a_terminal(hurried, logged, monkeypatch, capsys):
    monkeypatch.setattr(progress, "is_terminal", lambda: True)
    handler = logging.StreamHandler(sys.stderr)
    logging.getLogger("calque").addHandler(handler)
    try:
        work()
    finally:
        logging.getLogger("calque").removeHandler(handler)
    text = capsys.readouterr().err
    assert "\rcalque: f_grad: compiling, 1 of 2 kernels are ready (0 s so far)\n" in text


def test_the_log_has_the_stage_and_the_line(logged, monkeypatch, caplog):
    def slow(x):
        return np.sin(x[0])

    def steps(x):
        return slow(x) * 2.0

    before = Interpreter.exec_Return

    def waiting(self, node):
        if self.call.frame.parent is not None and len(self.calls) > 1:
            time.sleep(0.2)
        return before(self, node)

    monkeypatch.setattr(Interpreter, "exec_Return", waiting)
    calque.grad(steps)(np.ones(2))
    line = caplog.records[0].getMessage()
    assert line.startswith("calque: steps_grad: writing its program, reading the function, at ")
    place = f"test_progress.py, line {slow.__code__.co_firstlineno + 1}, in slow"
    assert f"{place}: return np.sin" in line


def test_the_log_names_the_pass(logged, monkeypatch, caplog):
    before = derivatives.reverse
    slow = lambda *args: time.sleep(0.2) or before(*args)
    monkeypatch.setattr(derivatives, "reverse", slow)
    calque.grad(lambda x: np.sin(x))(1.0)
    assert "writing its program, in the pass reverse" in caplog.records[0].getMessage()


def test_nothing_is_logged_of_what_runs(logged, caplog):
    fn = calque.jit(lambda x: x * 2.0)
    fn(np.ones(3))
    caplog.clear()
    with progress.watched(lambda: "f", lambda: ""):
        time.sleep(0.2)
    assert not caplog.records


def test_a_first_call_says_how_far_it_is(hurried, monkeypatch, capsys):
    monkeypatch.setattr(progress, "is_terminal", lambda: True)

    def steps(x):
        for i in range(1, x.size):
            x[i] += np.sin(x[i - 1]) * np.exp(-x[i])
        y = np.sort(x)
        for i in range(1, y.size):
            y[i] += np.cos(y[i - 1])
        return y.sum()

    calque.jit(calque.grad(steps))(np.ones(8))
    text = capsys.readouterr().err
    assert "calque: steps_grad_jit: compiling, 0 of " in text
    capsys.readouterr()
    calque.jit(steps)(np.ones(8))
    time.sleep(0.1)


def test_kernels_that_took_over_say_so(monkeypatch, capsys):
    monkeypatch.setattr(progress, "is_terminal", lambda: True)
    fn = calque.jit(lambda x: np.sum(x * np.tanh(x)), first="numpy")
    fn(np.ones(3))
    fn.wait()
    fn(np.ones(3))
    fn(np.ones(3))
    assert capsys.readouterr().err.count("kernels answer") == 1


# the command


PROGRAM = """
import numpy as np


def slow(x: "f8[n]"):
    for k in range(3):
        x = np.sin(x) * k
    return np.sum(x)
"""
COMMAND = """
import sys, time
from calque import cli
from calque.runtime.call import progress
from calque.transpiler.ir import pass_manager
from calque.transpiler.transformations import derivatives

progress._LONG = progress._AGAIN = 0.01
progress._LOGGED = 0.05
for module, name in ((derivatives, "reverse"), (pass_manager, "watched")):
    before = getattr(module, name)
    setattr(module, name, lambda *args, before=before: time.sleep(0.03) or before(*args))
sys.exit(cli.main(sys.argv[1:]))
"""
SHOW = ["show", "slow.py:slow", "--transform", "grad(f)"]


@pytest.fixture
def command(tmp_path):
    """The command, which takes its time and says so soon, in a folder with slow.py."""
    (tmp_path / "slow.py").write_text(PROGRAM, encoding="utf-8")
    return {"args": [sys.executable, "-c", COMMAND, *SHOW], "cwd": tmp_path}


def test_the_command_says_its_steps_on_a_terminal(command):
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(**command, stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    shown, printed = read_all(ours), process.communicate()[0].decode()
    assert process.returncode == 0 and "def slow_grad(x):" in printed and "calque:" not in printed
    lines = [line.rstrip() for line in shown.split("\r")]
    assert max(map(len, lines)) < 80 and "\n" not in shown and lines[-1] == ""
    steps = "|".join(lines)
    assert re.search(r"slow_grad: writing its program, in the pass \w+", steps)
    assert re.search(r"in the pass reverse[^|]*\(\d\.\d s\)", steps)


def read_all(terminal: int) -> str:
    """All that is written to a terminal until its other end is closed."""
    found = b""
    while True:
        try:
            more = os.read(terminal, 4096)
        except OSError:  # so Linux says that it is closed
            more = b""
        if not more:
            os.close(terminal)
            return found.decode()
        found += more


def test_the_command_says_nothing_in_a_pipe(command):
    done = subprocess.run(**command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "") and "def slow_grad(x):" in done.stdout
