"""benchmarks/autograd_suite.py: what it says of tests, and the page that it wrote."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TESTS = """
import autograd.numpy as np
import autograd.numpy.random as npr
from autograd import elementwise_grad, grad
from autograd.core import vspace
from autograd.extend import defvjp, primitive
from autograd.test_util import check_grads, combo_check


def test_passes():
    check_grads(lambda x, y: np.sin(x) * y, argnum=(0, 1))(npr.randn(3), 2)
    combo_check(np.sum, [0])([npr.randn(2, 3)], axis=[None, 0], keepdims=[True, False])
    assert np.allclose(elementwise_grad(np.sin)(np.ones(2)), np.cos(1.0))


def test_wrong():
    @primitive
    def double(x):
        return x * 2.0

    defvjp(double, lambda ans, x: lambda g: g * 2.001)
    check_grads(double, modes=["rev"])(1.0)


def test_refused():
    grad(lambda x: np.sum(x * npr.randn(3)))(np.ones(3))


def test_plain():
    check_grads(lambda x: np.make_diagonal(x))(np.ones(3))


def test_own():
    vspace(1.0)
"""
EXAMPLE = """
import autograd.numpy as np
from autograd import value_and_grad

for k in range(3):
    value_and_grad(lambda x: np.sum(np.sin(x)))(k * np.ones(3))
"""


def test_outcomes_of_tests_and_examples(tmp_path: Path) -> None:
    pytest.importorskip("autograd")
    pytest.importorskip("matplotlib")
    for name, text in {"tests/test_few.py": TESTS, "examples/sines.py": EXAMPLE}.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "autograd" / "misc").mkdir(parents=True)
    (tmp_path / "autograd" / "misc" / "optimizers.py").write_text("", encoding="utf-8")
    command = [sys.executable, str(ROOT / "benchmarks" / "autograd_suite.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = re.findall(r"^(\w+) +test_few.py::test_(\w+): ", done.stdout, re.M)
    assert said == [(kind, kind) for kind in ("wrong", "refused", "plain", "own")], done.stderr
    assert "'passes': 1" in done.stdout and "sines.py equal in 3 derivatives" in done.stdout
    assert "npr.randn(3)" in done.stdout  # (the line)
    assert done.returncode == 1


def test_no_test_is_wrong() -> None:
    page = (ROOT / "docs" / "autograd-suite.md").read_text(encoding="utf-8")
    assert "## Wrong" not in page and "**wrong**" not in page
    assert int(re.search(r"\((\d+)%\)", page)[1]) >= 95
