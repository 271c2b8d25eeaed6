"""A file that is edited after its import is refused: what runs is not what it says."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calque
from calque.transpiler.errors import SourceNotFound

BEFORE = "import numpy as np\n\n\ndef loss(x):\n    return np.sum(x * x * 0.5)\n"
EDITS = {
    "a number": BEFORE.replace("0.5", "9.5"),
    "an operator": BEFORE.replace("x * x", "x + x"),
    "a name": BEFORE.replace("np.sum", "np.max"),
    "a line before": "\n" + BEFORE,
    "a sign of zero": BEFORE.replace("0.5", "0.5 + -0.0"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_refused(edit: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    name = f"edited_{list(EDITS).index(edit)}"
    path = tmp_path / f"{name}.py"
    path.write_text(BEFORE)
    module = importlib.import_module(name)
    path.write_text(EDITS[edit])
    with pytest.raises(SourceNotFound, match="has changed since"):
        calque.grad(module.loss)(np.ones(2))


def test_what_did_not_change_is_taken(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    text = BEFORE + "\n\nclass Model:\n    c = 2.0\n\n    def loss(self, x):\n"
    text += "        def inner(y):\n            return y * self.c\n\n        return loss(inner(x))\n"
    (tmp_path / "written_now.py").write_text(text + "\n\nsquare = lambda x: x * x\n")
    module = importlib.import_module("written_now")
    np.testing.assert_array_equal(calque.grad(module.loss)(np.ones(2)), [1.0, 1.0])
    np.testing.assert_array_equal(calque.grad(module.Model().loss)(np.ones(2)), [4.0, 4.0])
    assert calque.grad(module.square)(3.0) == 6.0
    with open(tmp_path / "written_now.py", "a") as file:
        file.write("\n# a comment at the end changes nothing\n")
    np.testing.assert_array_equal(calque.grad(module.Model().loss)(np.ones(3)), [4.0, 4.0, 4.0])


def windows() -> Any:
    return np.lib.stride_tricks.sliding_window_view(np.arange(4.0), 2, writeable=True)


def carried(m: Any) -> Any:
    for i in range(1, 3):
        m[i, 0] += m[i - 1, 1]
    return np.sum(m * m)


@pytest.mark.parametrize("transform", [calque.jit, calque.grad, lambda f: calque.jit(calque.grad(f))])
def test_an_argument_that_overlaps_itself(transform: Any) -> None:
    function = transform(carried)
    for _ in range(3):
        function(np.ones((3, 2)))
        with pytest.raises(calque.transpiler.errors.AliasUndecided, match="pass a copy"):
            function(windows())
    read_only = calque.grad(lambda m: np.sum(m * m))
    np.testing.assert_array_equal(read_only(windows()), 2.0 * windows())
