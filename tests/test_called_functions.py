"""Each function that kernels call is declared in one place only."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import calque
from calque.runtime import kernels, vecmath
from calque.transpiler.codegen.numba import called_functions, scalar_text, whole_array_calls
from calque.transpiler.codegen.numba.called_functions import FILES, HOMES, REFUSING, home_of
from calque.transpiler.codegen.numba.numba_target import NUMBA
from calque.transpiler.primitives.record import PRIMITIVES

ROOT = Path(calque.__file__).resolve().parent
OWN = {"decorator": {"start_threads", "uncompiled"}}  # for others
CALLED = re.compile(r"(?<![\w.])([a-z_]\w*)\(")
BUILT_IN = {"abs", "bool", "int", "float", "min", "max"}


def defined(file: str) -> set[str]:
    """The functions, and constants in small letters, that a file of `runtime/kernels` defines for others."""
    found = set()
    for node in ast.parse((ROOT / "runtime" / "kernels" / f"{file}.py").read_text(encoding="utf-8")).body:
        names = [node.name] if isinstance(node, ast.FunctionDef) else []
        if isinstance(node, ast.ClassDef) and [ast.unparse(b) for b in node.bases] == ["Exception"]:
            names = [node.name]
        if isinstance(node, ast.Assign):
            names = [n.id for n in node.targets if isinstance(n, ast.Name) and n.id.islower()]
        found |= {n for n in names if not n.startswith("_")}
    return found


@pytest.mark.parametrize("file", FILES)
def test_a_file_defines_what_is_said_of_it(file: str) -> None:
    assert defined(file) == set(FILES[file]) | OWN.get(file, set())


def test_a_kernels_function_is_got_by_its_name() -> None:
    for name in HOMES["kernels"]:
        assert callable(getattr(kernels, name))
    with pytest.raises(AttributeError, match="gamma is no function for kernels"):
        _ = kernels.gamma


def test_vector_functions_are_defined() -> None:
    assert set(vecmath.defined_by(HOMES["vecmath"])) >= HOMES["vecmath"]


def test_homes_are_apart() -> None:
    names = [name for known in HOMES.values() for name in known]
    assert len(names) == len(set(names))
    assert HOMES["kernels"] >= REFUSING
    assert NUMBA.words > set(names)


def test_texts_call_what_has_a_home() -> None:
    texts = [*scalar_text._SPELLINGS.values(), *(f"{name}(" for name in scalar_text._DIVISIONS.values())]
    texts += [r.numba or "" for r in PRIMITIVES.values()]
    texts += [*whole_array_calls._SAFE.values(), *whole_array_calls._RAISING.values()]
    texts += [r.scalar or "" for r in PRIMITIVES.values() if "{" in (r.scalar or "")]
    texts += [r.in_loops or "" for r in PRIMITIVES.values()]
    called = {name for text in texts for name in CALLED.findall(text)} - BUILT_IN
    assert [name for name in sorted(called) if home_of(name) is None] == []


def test_the_names_are_listed_once() -> None:
    """No other module of calque has as many of them in one of its texts or lists."""
    for file in [*ROOT.glob("transpiler/**/*.py"), *ROOT.glob("runtime/**/*.py")]:
        if file == Path(called_functions.__file__):
            continue
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.List | ast.Tuple | ast.Set):
                said = {e.value for e in node.elts if isinstance(e, ast.Constant) and isinstance(e.value, str)}
                assert len(said & HOMES["kernels"]) < 8, f"{file.name}:{node.lineno}"
