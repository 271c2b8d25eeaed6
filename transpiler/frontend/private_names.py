"""Private names: within a class, Python writes ``self.__x`` as ``self._Class__x``.

Before, in a class ``Rod``::

    return self.__length * self.width

After::

    return self._Rod__length * self.width
"""

from __future__ import annotations

import ast
from typing import Any

import gast

from calque.transpiler.ir.pytrees import private_name

_NAMES = {
    gast.Name: ("id",),
    gast.Attribute: ("attr",),
    gast.FunctionDef: ("name",),
    gast.AsyncFunctionDef: ("name",),
    gast.alias: ("asname",),
    gast.Global: ("names",),
    gast.Nonlocal: ("names",),
    gast.MatchAs: ("name",),
    gast.MatchStar: ("name",),
    gast.MatchMapping: ("rest",),
}


def write_private_names(node: Any, tree: ast.Module, original: ast.AST) -> None:
    """Write the private names of a function as Python does, in place.

    ``tree`` is its file, in which it is ``original``.
    """
    if any(_is_private(name) for n in gast.walk(node) for name in _names(n)):
        around = _class_around(tree, original)
        for child in gast.iter_child_nodes(node):
            _write(child, around)


def _is_private(name: str) -> bool:
    return name.startswith("__") and not name.endswith("__")


def _names(node: Any) -> list[str]:
    found: list[str] = []
    for place in _NAMES.get(type(node), ()):
        given = getattr(node, place)
        found += given if isinstance(given, list) else [given] if given else []
    return found


def _class_around(tree: ast.Module, node: ast.AST) -> str:
    """The innermost class in which a node stands; an empty name if in none."""
    pending: list[tuple[ast.AST, str]] = [(tree, "")]
    while pending:
        at, around = pending.pop()
        if at is node:
            return around
        within = at.name if isinstance(at, ast.ClassDef) else around
        own = at.body if isinstance(at, ast.ClassDef) else ()
        pending += [(c, within if c in own else around) for c in ast.iter_child_nodes(at)]
    return ""


def _write(node: Any, around: str) -> None:
    for place in _NAMES.get(type(node), ()):
        given = getattr(node, place)
        if isinstance(given, list):
            setattr(node, place, [private_name(name, around) for name in given])
        elif given:
            setattr(node, place, private_name(given, around))
    for child in gast.iter_child_nodes(node):
        _write(child, around)
