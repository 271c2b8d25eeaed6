"""What the process and its surroundings hold is refused, with the user's line: it would be frozen."""

from __future__ import annotations

import datetime
import os
import os.path
import pathlib
import platform
import sys
import time
import uuid
from collections.abc import Callable
from os import environ
from typing import Any

import numpy as np
import pytest

import calque
from calque.transpiler.errors import ImpureFunction

READS: list[Callable[[Any], Any]] = [
    lambda x: np.sum(x) * float(os.environ["CALQUE_TEST_SCALE"]),
    lambda x: np.sum(x) * float(os.environ.get("CALQUE_TEST_SCALE", "1")),
    lambda x: np.sum(x) * float(environ["CALQUE_TEST_SCALE"]),
    lambda x: np.sum(x) * float("CALQUE_TEST_SCALE" in os.environ),
    lambda x: np.sum(x) * float(os.getenv("CALQUE_TEST_SCALE", "1")),
    lambda x: np.sum(x) * (10.0 if os.path.exists("flag") else 1.0),
    lambda x: np.sum(x) * (10.0 if pathlib.Path("flag").exists() else 1.0),
    lambda x: np.sum(x) * len(os.listdir(".")),
    lambda x: np.sum(x) * len(os.getcwd()),
    lambda x: np.sum(x) * os.getpid(),
    lambda x: np.sum(x) * len(sys.argv),
    lambda x: np.sum(x) * sys.getrecursionlimit(),
    lambda x: np.sum(x) * time.perf_counter(),
    lambda x: np.sum(x) * time.time(),
    lambda x: np.sum(x) * datetime.datetime.now().timestamp(),
    lambda x: np.sum(x) * datetime.date.today().day,
    lambda x: np.sum(x) * int.from_bytes(os.urandom(4), "little"),
    lambda x: np.sum(x) * uuid.uuid4().int,
    lambda x: np.sum(x) * len(platform.node()),
    lambda x: np.sum(x) * (10.0 if np.geterr()["over"] == "raise" else 1.0),
]


@pytest.mark.parametrize("number", range(len(READS)))
@pytest.mark.parametrize("compiled", [False, True])
def test_refused_with_the_line(number: int, compiled: bool, monkeypatch: Any) -> None:
    monkeypatch.setenv("CALQUE_TEST_SCALE", "1")
    gradient = calque.grad(READS[number])
    with pytest.raises(ImpureFunction, match="pass the values in") as caught:
        (calque.jit(gradient) if compiled else gradient)(np.ones(2))
    assert "lambda x: np.sum(x)" in str(caught.value)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.sum(x) * len(os.path.join("a", "b")),
        lambda x: np.sum(x) * len(os.path.splitext("a.txt")[1]),
        lambda x: np.sum(x) * datetime.date(2024, 2, 29).day,
        lambda x: np.sum(x) * datetime.timedelta(minutes=2).total_seconds(),
        lambda x: np.sum(x) * sys.float_info.epsilon,
        lambda x: np.sum(x) * len(os.sep),
    ],
)
def test_what_is_the_same_in_each_call_is_taken(function: Callable[[Any], Any]) -> None:
    slope = function(np.ones(1))
    np.testing.assert_allclose(calque.grad(function)(np.ones(2)), [slope, slope])
