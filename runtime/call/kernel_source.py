"""Definitions that kernels call, as text: for saved modules, without calque, and for stepping."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from calque.runtime import vecmath
from calque.transpiler.codegen.numba.called_functions import HOMES, home_of

# what modules that stand alone carry
_FILES = (
    "linear_systems",
    "kernels/plain_helper",
    "kernels/kernel_errors",
    *(f"kernels/{name}" for name in ("complex_functions", "complex_power_functions")),
    *(f"kernels/{name}" for name in ("integer_functions", "kernel_functions")),
    *(f"kernels/{name}" for name in ("matrix_functions", "gamma_functions", "parameter_slopes")),
    "kernels/scipy_functions",
)
# with what kernels are decorated, and what is called before they are defined
_AHEAD = frozenset(
    """LARGE PROCESS kernel kernel_part vrange KernelError forms_errors in_kernels
    _UFUNCS _UfuncHead _tell_numba _tell_addresses _loop_symbol _exported_symbol _exported_address
    _ufunc_loop _call_exported _call_loop""".split()
)
_KEPT = ("numba", "llvmlite")  # packages that saved modules import, too


@dataclass(frozen=True)
class _Definition:
    """A top-level statement of one of the files: its text, what it defines and what it mentions."""

    text: str
    defines: frozenset[str]
    mentions: frozenset[str]
    is_function: bool


@functools.cache
def _definitions(decorator: str) -> tuple[dict[str, str], tuple[_Definition, ...]]:
    """The imports of what kernels need by the name they give, and its definitions in order."""
    found: list[_Definition] = []
    imports: dict[str, str] = {}
    here = Path(__file__).parents[1]
    for file in (f"kernels/{decorator}", *_FILES):
        text = (here / f"{file}.py").read_text(encoding="utf-8")
        lines, end = text.splitlines(), 0
        for node in ast.parse(text).body:
            match node:
                case ast.Import(names=names):
                    imports |= {a.asname or a.name: ast.unparse(ast.Import([a])) for a in names}
                case ast.ImportFrom(module=str(module), names=names) if module.startswith(_KEPT):
                    imports |= {a.name: ast.unparse(ast.ImportFrom(module, [a], 0)) for a in names}
                case ast.FunctionDef() | ast.ClassDef() | ast.Assign():
                    decorators = getattr(node, "decorator_list", [])
                    start = min([node.lineno, *(d.lineno for d in decorators)]) - 1
                    while start > end and lines[start - 1].startswith("#"):
                        start -= 1
                    found.append(_definition(node, "\n".join(lines[start : node.end_lineno])))
            end = node.end_lineno or end
    return imports, tuple(found)


def _definition(node: ast.FunctionDef | ast.ClassDef | ast.Assign, text: str) -> _Definition:
    """A definition for saved modules, with ``helper`` for ``register_jitable``."""
    mentions = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    if isinstance(node, ast.Assign):
        defined = {n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)}
        return _Definition(text, frozenset(defined), frozenset(mentions - defined), False)
    if "register_jitable" in mentions:
        text = re.sub(r"^@register_jitable.*", "@helper", text)
        mentions = mentions - {"register_jitable", "AS_WRITTEN"} | {"helper"}
    return _Definition(text, frozenset([node.name]), frozenset(mentions - {node.name}), True)


def embedded(names: Iterable[str]) -> tuple[list[str], str, str]:
    """Imports, and text before and behind the kernels, of a module that stands alone.

    >>> lines, ahead, behind = embedded(["kernel", "sign", "exp"])
    >>> sorted(set(lines))
    ['from numba import njit', 'import numpy as np']
    >>> "def kernel(" in ahead, "def exp(x):" in behind, "def cos(x):" in behind
    (True, True, False)
    """
    decorator = "plain_threads" if "prange" in names else "plain_decorator"
    imports, definitions = _definitions(decorator)
    used = frozenset().union(*HOMES.values()).intersection(names)
    vector = sorted(n for n in used if home_of(n) == "vecmath")
    by_name = {name: d for d in definitions for name in d.defines}
    wanted: set[str] = set()
    pending = [n for n in used if n in by_name]
    while pending:
        name = pending.pop()
        if name not in wanted:
            wanted.add(name)
            pending += [n for n in by_name[name].mentions if n in by_name]
    chosen = [d for d in definitions if d.defines & wanted]
    mentioned = {n for d in chosen for n in d.mentions} | used
    lines = [line for name, line in imports.items() if name in mentioned]
    lines += ["from numba import prange"] if "prange" in names else []
    behind = _joined([d for d in chosen if not d.defines <= _AHEAD])
    if vector:
        lines += [line for line in vecmath.imports_of(vector).splitlines() if line]
        text = vecmath.source_of(vector).rstrip()
        behind = f"{behind}\n\n\n{text}" if behind else text
    return lines, _joined([d for d in chosen if d.defines <= _AHEAD]), behind


def _joined(definitions: list[_Definition]) -> str:
    text = ""
    for before, d in zip([None, *definitions], definitions, strict=False):
        constants = before is not None and not (before.is_function or d.is_function)
        gap = "\n" if constants else "\n\n\n"
        gap += "\n" if constants and d.text.startswith("#") else ""
        text += (gap if text else "") + d.text
    return text


def uncompiled(names: Iterable[str]) -> tuple[list[str], str, str]:
    """The same under ``CALQUE_JIT=0``: NumPy's functions in place of the vector functions."""
    at = {home: sorted(known.intersection(names)) for home, known in HOMES.items()}
    vector = at.pop("vecmath")
    found = [(home, ", ".join(own)) for home, own in at.items() if own]
    lines = [f"from calque.runtime.{home} import {own}" for home, own in found]
    text = vecmath.plain_source_of(vector).rstrip() if vector else ""
    lines += ["import math"] if "math." in text else []
    lines += ["import numpy as np"] if "np." in text else []
    text += "\n\n\nprange = range" if "prange" in names else ""
    return lines, text.strip(), ""
