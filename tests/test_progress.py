"""What takes long is said on a terminal: never in a pipe, and once in a notebook."""

from __future__ import annotations

import sys
import threading
import time

import numpy as np
import pytest

import calque
from calque.runtime.call import progress


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
