"""Modules that are saved for arrays are those that the types in their headers make."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import calque
from calque import cli, targets

TEXT = '''
import numpy as np


def misfit(a, b):
    return np.sum((a - b) ** 2)


def turned(a, b):
    return np.sum((b - a) ** 2)


def shifted(p, a, b, c):
    return p * np.sum((a[1:] - b) ** 2) + np.sum(c * b)


def product(m, v, w):
    return np.sum((m @ v - w) ** 2)


def swept(a, b):
    y = np.zeros(a.size)
    for i in range(1, a.size):
        y[i] = a[i] * b[i] + y[i - 1]
    return np.sum(y * b)


def held(d, t):
    return np.sum((d["x"] * t - d["y"]) ** 2)


def chained(z, y, x, w):
    return np.sum((y - x) ** 2) + np.sum((x - w) ** 2) + np.sum((w - z) ** 2)


def many(a, b, c, d, e, f, g, h, i, j, k, l):
    return np.sum(a * b + c * l) + np.sum((k - j) ** 2) + np.sum(k * (d + e + f) - g * h * i)
'''
X = np.linspace(0.5, 1.5, 4)
PROGRAMS = {
    "misfit": (X, X),
    "turned": (X, X),
    "shifted": (2.0, X, X[1:], X[:3]),
    "product": (np.ones((3, 4)), X, X[1:]),
    "swept": (X, X),
    "held": ({"x": X, "y": X}, X),
    "chained": (X, X, X, X),
    "many": (X,) * 12,
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("transform", [lambda f: f, calque.jit, calque.grad, lambda f: calque.jit(calque.grad(f)), lambda f: calque.jit(calque.grad(f, argnums=1))])
def test_a_saved_module_is_up_to_date(name, transform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sized.py").write_text(TEXT, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    monkeypatch.delitem(sys.modules, "sized", raising=False)
    function = targets.load_function(f"sized.py:{name}")
    calque.save(transform(function), "sized_saved.py", *PROGRAMS[name])
    assert cli.main(["verify", "sized_saved.py"]) == 0
