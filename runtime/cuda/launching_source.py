"""Definitions that launchers of CUDA C call, as text: for saved modules, without calque."""

from __future__ import annotations

import ast
import inspect
from types import ModuleType
from typing import Any

from calque.runtime.cuda import faults, launching


def embedded(names: frozenset[str]) -> tuple[list[str], str, str]:
    """The import lines, and the definitions of the functions of these names; nothing behind them.

    >>> lines, text, _ = embedded(frozenset(["blocks"]))
    >>> lines, text.splitlines()[0]
    ([], 'def blocks(size: int, *, most: int = 16384) -> tuple[int, ...]:')
    """
    checks = names & {"checked_index", "outside", "raise_if_outside"}
    found = [inspect.getsource(f).rstrip() for f in _called(names - checks)]
    if "kernel" in names:
        found.insert(0, _assignment("_TYPES"))
    lines = _imports(launching, "\n".join(found))
    if checks:
        own = inspect.getsource(faults).partition("import numpy as np\n\n")[2].rstrip()
        lines += [line for line in _imports(faults, own) if line not in lines]
        found.append(own)
    return lines, "\n\n\n".join(found), ""


def _called(names: frozenset[str]) -> list[Any]:
    """The functions of these names, then those of the module that they call."""
    pending, found = sorted(names), dict[str, Any]()
    while pending:
        name = pending.pop(0)
        found[name] = getattr(launching, name)
        used = {n.id for n in ast.walk(_tree(found[name])) if isinstance(n, ast.Name)}
        known = (n for n in sorted(used) if inspect.isfunction(getattr(launching, n, None)))
        pending += [n for n in known if n not in found and n not in pending]
    return list(found.values())


def _tree(function: Any) -> ast.Module:
    return ast.parse(inspect.getsource(function))


def _imports(module: ModuleType, text: str) -> list[str]:
    """The imports of a module that a part of its text needs, one name a line."""
    used = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
    lines = []
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                if (alias.asname or alias.name) in used:
                    node.names = [alias]
                    lines.append(ast.unparse(node))
    return lines


def _assignment(name: str) -> str:
    """The text of a table of the module."""
    text = inspect.getsource(launching)
    start = text.index(f"{name} = ")
    return text[start : text.index("\n\n", start)].rstrip()
