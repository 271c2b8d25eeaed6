"""A type checker knows the parameters and results of transformed functions."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import calque

ROOT = Path(calque.__file__).resolve().parent
PROGRAM = Path(__file__).parent / "typed_program.py"


def wanted_errors(text: str) -> dict[int, str]:
    """The lines that a type checker must refuse, each with mypy's word for it."""
    lines = enumerate(text.splitlines(), 1)
    return {number: line.split("# error: ")[1] for number, line in lines if "# error: " in line}


def by_mypy(program: str, folder: Path) -> str:
    """All that mypy says of a program, in a folder."""
    pytest.importorskip("mypy", reason="mypy comes with the extra `dev`")
    (folder / "program.py").write_text(program, encoding="utf-8")
    (folder / "mypy.ini").write_text(
        f"[mypy]\npython_version = 3.11\nmypy_path = {ROOT.parent}\ncache_dir = {ROOT / '.mypy_cache'}\n"
        "[mypy-calque.*]\nfollow_imports = silent\nignore_errors = True\n"
        "[mypy-calque.transpiler.*]\nfollow_imports = skip\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "program.py"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    return done.stdout + done.stderr


def test_a_users_program_is_checked(tmp_path: Path) -> None:
    text = PROGRAM.read_text(encoding="utf-8")
    said = by_mypy(text, tmp_path)
    found = re.findall(r"program\.py:(\d+): error: .*\[([a-z-]+)\]", said)
    assert {int(number): word for number, word in found} == wanted_errors(text), said


def test_editors_check_it_in_the_same_way(tmp_path: Path) -> None:
    """Pyright, on which editors rely, refuses the same lines and takes each ``assert_type``."""
    pytest.importorskip("basedpyright", reason="basedpyright comes with the extra `dev`")
    text = PROGRAM.read_text(encoding="utf-8")
    (tmp_path / "program.py").write_text(text, encoding="utf-8")
    settings = {
        "include": ["program.py"],
        "typeCheckingMode": "standard",
        "extraPaths": [str(ROOT.parent)],
        "pythonVersion": "3.11",
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    asked = ["--pythonpath", sys.executable, "--outputjson"]
    command = [sys.executable, "-m", "basedpyright", *asked]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    found = [d for d in json.loads(done.stdout)["generalDiagnostics"] if d["severity"] == "error"]
    lines = sorted(d["range"]["start"]["line"] + 1 for d in found)
    assert lines == sorted(wanted_errors(text)), done.stdout


def test_results_are_revealed(tmp_path: Path) -> None:
    """The types are those that an editor shows where one points at a name."""
    wanted = {
        "value_and_grad(loss).__call__": "(w: float, b: float =) -> tuple[float, Any]",
        "jit(memory='1GB')(loss).__call__": "(w: float, b: float =) -> float",
        "vmap(calque.jit(loss)).__call__": "(w: float, b: float =) -> float",
        "checkpoint(loss, every=2)": "(w: float, b: float =) -> float",
    }
    program = "import calque\n\n\ndef loss(w: float, b: float = 0.0) -> float:\n    return w * b\n\n\n"
    program += "\n".join(f"reveal_type(calque.{call})" for call in wanted) + "\n"
    said = by_mypy(program, tmp_path)
    found = re.findall(r'Revealed type is "def (.*)"', said.replace("builtins.", ""))
    assert found == list(wanted.values()), said


@pytest.mark.parametrize(
    "transform",
    [
        *(calque.grad, calque.value_and_grad, calque.jit, calque.vmap, calque.checkpoint),
        *(calque.hessian, calque.jacfwd, calque.parallel, calque.custom_jvp, calque.pmap),
        *(calque.jit(memory="1GB"), calque.grad(argnums=1)),
    ],
)
def test_signature_and_docstring_are_the_functions(transform: Any) -> None:
    def loss(w, b: float = 0.0, *, k: int = 2) -> float:
        """The loss of a model."""
        return w * b**k

    made = transform(loss)
    assert inspect.signature(made) == inspect.signature(loss)
    assert (made.__doc__, made.__name__) == (loss.__doc__, "loss")
    assert inspect.unwrap(made) is loss


def test_other_arguments_are_in_the_signature() -> None:
    def loss(w, b=0.0):
        return w * b

    names = {kind: list(inspect.signature(kind(loss)).parameters) for kind in (calque.jvp, calque.vjp)}
    assert list(names.values()) == [["w", "b", "w_dot", "b_dot"], ["w", "b", "return_bar"]]
