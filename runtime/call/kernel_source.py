"""What kernels call, as text: for saved modules, which import no calque, and for stepping."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from calque.runtime import vecmath
from calque.transpiler.codegen.numba.called_functions import FILES, HOMES, home_of

_FILES = [*FILES]  # and before the decorator what it compiles integers with
_FILES.insert(-1, "integer_functions")


@dataclass(frozen=True)
class _Definition:
    """A top-level statement of one of the files: its text, what it defines and what it mentions."""

    text: str
    defines: frozenset[str]
    mentions: frozenset[str]
    extends: str = ""  # the function whose compiled form it is


@functools.cache
def _definitions() -> tuple[dict[str, str], tuple[_Definition, ...]]:
    """The imports of what kernels need by the name they give, and its definitions in order."""
    found: list[_Definition] = []
    imports: dict[str, str] = {}
    here = Path(__file__).parents[1]
    for file in [here / "linear_systems.py", *(here / "kernels" / f"{name}.py" for name in _FILES)]:
        text = file.read_text(encoding="utf-8")
        lines, end = text.splitlines(), 0
        for node in ast.parse(text).body:
            match node:
                case ast.Import(names=names):
                    imports |= {a.asname or a.name: ast.unparse(ast.Import([a])) for a in names}
                case ast.ImportFrom(module=str(module), names=names):
                    if not module.startswith("calque."):
                        imports |= {
                            a.asname or a.name: ast.unparse(ast.ImportFrom(module, [a], 0))
                            for a in names
                        }
                case ast.FunctionDef() | ast.ClassDef() | ast.Assign():
                    decorators = getattr(node, "decorator_list", [])
                    start = min([node.lineno, *(d.lineno for d in decorators)]) - 1
                    while start > end and lines[start - 1].startswith("#"):
                        start -= 1
                    found.append(_definition(node, "\n".join(lines[start : node.end_lineno])))
            end = node.end_lineno or end
    return imports, tuple(found)


def _definition(node: ast.FunctionDef | ast.ClassDef | ast.Assign, text: str) -> _Definition:
    mentions = frozenset(n.id for n in ast.walk(node) if isinstance(n, ast.Name))
    if isinstance(node, ast.Assign):
        defined = {n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)}
        return _Definition(text, frozenset(defined), mentions - defined)
    extended = ""
    for decorator in node.decorator_list:
        match decorator:
            case ast.Call(func=ast.Name(id="overload"), args=[ast.Name(id=extended)]):
                pass
    return _Definition(text, frozenset([node.name]), mentions - {node.name}, extended)


def embedded(names: Iterable[str]) -> tuple[list[str], str]:
    """The import lines and the text of what kernels call, for a module that stands alone.

    >>> lines, text = embedded(["kernel", "sign", "exp"])
    >>> "from numba import njit" in lines, "def exp(x):" in text, "import calque" in text
    (True, True, False)
    """
    imports, definitions = _definitions()
    known = {name for d in definitions for name in d.defines}
    vector = sorted(n for n in names if home_of(n) == "vecmath")
    wanted: set[str] = set()
    pending = [n for n in names if n in known]
    while pending:
        name = pending.pop()
        if name not in wanted:
            wanted.add(name)
            for d in definitions:
                if name in d.defines or d.extends == name:
                    pending += [n for n in (*d.mentions, *d.defines) if n in known]
    used = [d for d in definitions if d.defines & wanted]
    mentioned = {n for d in used for n in d.mentions}
    lines = [line for name, line in imports.items() if name in mentioned]
    lines += ["from numba import prange"] if "prange" in names else []
    text = ""
    for before, d in zip([None, *used], used, strict=False):
        constants = before is not None and not (_is_function(before) or _is_function(d))
        gap = "\n" if constants else "\n\n\n"
        text += (gap if text else "") + d.text
    if vector:
        lines += vecmath.imports_of(vector).splitlines()
        text += "\n\n\n" + vecmath.source_of(vector).rstrip()
    return [line for line in lines if line], text


def _is_function(definition: _Definition) -> bool:
    return "def " in definition.text or "class " in definition.text


def uncompiled(names: Iterable[str]) -> tuple[list[str], str]:
    """The same for ``CALQUE_JIT=0``: NumPy's functions under the names of the vector functions."""
    at = {home: sorted(known.intersection(names)) for home, known in HOMES.items()}
    vector = at.pop("vecmath")
    found = [(home, ", ".join(own)) for home, own in at.items() if own]
    lines = [f"from calque.runtime.{home} import {own}" for home, own in found]
    text = vecmath.plain_source_of(vector).rstrip() if vector else ""
    lines += ["import math"] if "math." in text else []
    lines += ["import numpy as np"] if "np." in text else []
    text += "\n\n\nprange = range" if "prange" in names else ""
    return lines, text.strip()
