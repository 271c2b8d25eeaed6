"""Generated kernels that we are proud of, pinned: what `calque show` prints for `jit`.

The numbers are tested elsewhere (tests/test_jit.py); these files are for reading. To write them
anew: `CALQUE_GOLDEN=write pytest tests/test_golden_kernels.py`.
"""

from __future__ import annotations

import ast
import os
import sys
from pathlib import Path

import pytest

import calque
from calque import cli

ROOT = Path(calque.__file__).resolve().parent
GOLDEN = Path(__file__).resolve().parent / "golden" / "kernels"
PROGRAMS = "tests/golden_programs.py"

# name of the golden file: file, function, transformation, and the types if the function has none
CASES: dict[str, tuple[str, ...]] = {
    "selu": ("examples/selu.py", "selu", "jit(f)"),
    "logistic": ("examples/logistic_regression.py", "loss", "jit(grad(f, argnums=(0, 1)))"),
    "cross_entropy": (PROGRAMS, "cross_entropy", "jit(grad(f))"),
    "jacobi": ("examples/stencils.py", "jacobi", "jit(grad(f))", "f8[n], f8[n]"),
    "seidel": ("examples/stencils.py", "seidel", "jit(grad(f))", "f8[n,m]"),
    "heat": ("examples/stencils.py", "heat", "jit(f)", "f8[n,m]"),
    "newton_batch": ("examples/newton_batch.py", "kepler", "jit(vmap(f))", "f8[n], f8[n]"),
}
OWN = ("numpy", "numba", "math", "calque.runtime.kernels", "calque.runtime.vecmath")


@pytest.fixture(autouse=True)
def _at_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "path", sys.path.copy())


def generated(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the output of `calque show` for a case."""
    file, function, transform, *types = CASES[name]
    given = ["--args", *types] if types else []
    assert cli.main(["show", f"{file}:{function}", "--transform", transform, *given]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", CASES)
def test_golden(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = generated(name, capsys)
    path = GOLDEN / f"{name}.py"
    if os.environ.get("CALQUE_GOLDEN") == "write":
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("name", CASES)
def test_it_imports_numpy_numba_and_what_kernels_call(name: str) -> None:
    tree = ast.parse((GOLDEN / f"{name}.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules = [node.module] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
            assert set(modules) <= set(OWN)


def test_no_golden_file_is_left_over() -> None:
    assert {path.stem for path in GOLDEN.glob("*.py")} == set(CASES)
