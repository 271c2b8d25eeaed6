"""Length does not matter: long sums, chains of calls, many arguments; what never ends is refused."""

from __future__ import annotations

import importlib.util
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calque
from calque.transpiler.errors import CalqueError


def written(folder: Path, text: str) -> Any:
    """The module of a text, from a file."""
    path = folder / "long_program.py"
    path.write_text("import numpy as np\n\n\n" + text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_sum_of_2000_terms(tmp_path: Path) -> None:
    terms = " + ".join(f"x[{i}]" for i in range(2000))
    gradient = calque.grad(written(tmp_path, f"def f(x):\n    return {terms}\n").f)
    np.testing.assert_array_equal(gradient(np.ones(2000)), np.ones(2000))


def test_300_nested_calls(tmp_path: Path) -> None:
    text = "def f0(x):\n    return np.sum(x * x)\n\n\n"
    text += "".join(f"def f{i}(x):\n    return f{i - 1}(x) * 1.0\n\n\n" for i in range(1, 300))
    x, gradient = np.arange(3.0), calque.grad(written(tmp_path, text).f299)
    limit = sys.getrecursionlimit()
    np.testing.assert_array_equal(gradient(x), 2 * x)
    assert sys.getrecursionlimit() == limit


def test_500_arguments(tmp_path: Path) -> None:
    names = [f"a{i}" for i in range(500)]
    lines = "".join(f"    s = s + {n} * {n}\n" for n in names)
    f = written(tmp_path, f"def f({', '.join(names)}):\n    s = 0.0\n{lines}    return s\n").f
    assert calque.grad(f, tuple(range(500)))(*[1.5] * 500) == (3.0,) * 500


def endless(x: Any) -> Any:
    return endless(x * 2.0) + 1.0


def first(x: Any) -> Any:
    return second(x) + 1.0


def second(x: Any) -> Any:
    return first(x) * 2.0


@pytest.mark.parametrize("function", [endless, first])
def test_what_never_ends_is_refused_in_any_thread(function: Any) -> None:
    found: list[BaseException] = []

    def call() -> None:
        try:
            calque.grad(function)(1.0)
        except CalqueError as error:
            found.append(error)

    call()
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert len(found) == 2
    for error in found:
        assert "calls itself more than 200 times" in str(error) and "test_long_programs.py" in str(error)
