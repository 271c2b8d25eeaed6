"""Functions of a program that are called as something else in its text is."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calque
from calque.transpiler.outlining.sharing_policy import SharingPolicy

pytest.importorskip("numba")

X = np.random.default_rng(0).normal(size=5)
SOURCE = """
import numpy as np


def NAME(x, w):
    h = np.tanh(x) * w + np.sin(x)
    e = np.maximum(np.exp(-h) * x, 0.1)
    return e * h - np.cos(h) + np.sum(np.sqrt(np.abs(h)))


def part(x, w):
    h = np.exp(-x * x) * w + np.sin(x)
    return x + np.cumsum(h * h) * np.tanh(h)


def f(x, w):
    a = NAME(x, w)
    b = NAME(a, w)
    c = part(part(NAME(b, w), w), w)
    d = c.copy()
    d[0] = w
    return np.sum(c * b * d)
"""


@pytest.mark.parametrize(
    "name", ["exp", "maximum", "kernel", "vrange", "f_kernel", "part_kernel", "f_grad", "abs"]
)
def test_a_function_called_like_one_of_the_text(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALQUE_JIT", "0")
    always = SharingPolicy(3, 3, 2)
    monkeypatch.setattr("calque.transpiler.kernel_passes.to_compile", lambda builder: always)
    path = tmp_path / f"called_{name}.py"
    path.write_text(SOURCE.replace("NAME", name))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, path.stem, module)
    spec.loader.exec_module(module)
    np.testing.assert_allclose(calque.jit(module.f)(X, 0.7), module.f(X, 0.7), rtol=1e-12)
    found, wanted = calque.jit(calque.grad(module.f))(X, 0.7), calque.grad(module.f)(X, 0.7)
    np.testing.assert_allclose(found, wanted, rtol=1e-10)
    saved, names = tmp_path / "saved.py", {"__name__": "saved"}
    calque.save(calque.jit(module.f), saved, X, 0.7)
    exec(compile(saved.read_text(), str(saved), "exec"), names)
    np.testing.assert_allclose(names["f_jit"](X, 0.7), module.f(X, 0.7), rtol=1e-12)  # type: ignore[operator]
