"""Saved modules of kernels: sizes that they are not written for are refused before memory is read."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import calque

pytest.importorskip("numba")

W = np.array([2.0, -1.0, 0.5, 3.0])


def product(x, y):
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i] * y[i]
    return total


def summed(x, y):
    return np.sum(np.tanh(x) * y)


def three_rows(x, y):
    a, b, c = x
    return a * b + c * y


def every_other(x, y):
    return np.sum(x[::2] * 2.0 * y)


def next_to(x, y):
    z = np.zeros_like(x)
    for i in range(1, y.shape[0] - 1):
        z[i] = x[i - 1] - x[i + 1] + y[i]
    return z


def in_a_dict(model, y):
    total = 0.0
    for i in range(y.shape[0]):
        total += model["w"][i] * y[i] * model["rows"][0, 1]
    return total


def captured(x, y):
    total = 0.0
    for i in range(x.shape[0]):
        total += W[i] * x[i] * y[i]
    return total


def one_column(x, y):
    return np.exp(x) * y


def ones(*shape: int) -> np.ndarray:
    return np.linspace(0.1, 1.0, int(np.prod(shape))).reshape(shape)


def model(n: int, m: int) -> dict[str, np.ndarray]:
    return {"w": ones(n), "rows": ones(2, m)}


# a function, arguments to save it for, others that fit, and others that do not
CASES: list[tuple[Any, tuple, list[tuple], list[tuple]]] = [
    (product, (ones(4), ones(5)), [(ones(3), ones(3))], [(ones(6), ones(5))]),
    (summed, (ones(3, 4), ones(4)), [(ones(2, 5), ones(5))], [(ones(3, 4), ones(3))]),
    (three_rows, (ones(3, 4), 2.0), [(ones(3, 2), 1.0)], [(ones(2, 4), 2.0), (ones(4, 4), 2.0)]),
    (every_other, (ones(7), ones(4)), [(ones(9), ones(5))], [(ones(6), ones(4))]),
    (next_to, (ones(5), ones(5)), [(ones(9), ones(4))], [(ones(4), ones(5)), (ones(5), ones(6))]),
    (one_column, (ones(4, 1), ones(4, 3)), [(ones(2, 1), ones(2, 5))], [(ones(4, 3), ones(4, 3))]),
    (in_a_dict, (model(4, 3), ones(4)), [(model(9, 2), ones(3))], [(model(3, 3), ones(4))]),
]


def loaded(path: Path, name: str) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


@pytest.fixture(autouse=True)
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)


@pytest.mark.parametrize("function, args, fitting, others", CASES)
def test_other_sizes(tmp_path: Path, function, args, fitting, others) -> None:
    path = tmp_path / "saved.py"
    calque.save(calque.jit(function), path, *args)
    saved = loaded(path, f"{function.__name__}_jit")
    for given in [args, *fitting]:
        np.testing.assert_allclose(saved(*given), function(*given), rtol=1e-13)
    for given in others:
        with pytest.raises(ValueError, match=rf"^{function.__name__}_jit needs .*\.shape\["):
            saved(*given)


def test_sizes_of_one_letter_are_the_same(tmp_path: Path) -> None:
    path = tmp_path / "saved.py"
    calque.save(calque.jit(product), path, calque.spec("f8[n]"), calque.spec("f8[n]"))
    saved = loaded(path, "product_jit")
    assert saved(W, W) == product(W, W)
    with pytest.raises(ValueError, match=r"needs x\.shape\[0\] == y\.shape\[0\]"):
        saved(W, W[:3])


def test_captured_arrays_are_asked_too(tmp_path: Path) -> None:
    path = tmp_path / "saved.py"
    calque.save(calque.jit(captured), path, ones(4), ones(4))
    saved = loaded(path, "captured_jit")
    np.testing.assert_allclose(saved(ones(3), ones(3), W=W), captured(ones(3), ones(3)), rtol=1e-13)
    with pytest.raises(ValueError, match=r"needs W\.shape\[0\] >= x\.shape\[0\]"):
        saved(ones(5), ones(5), W=W)


def test_what_runs_in_process_asks_nothing_twice() -> None:
    """``jit`` asks when it dispatches: the source it shows and runs is without these lines."""
    assert "ValueError" not in calque.source(calque.jit(product), ones(4), ones(4))
