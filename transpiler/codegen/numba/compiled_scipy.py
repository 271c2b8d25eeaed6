"""Functions of ``scipy.special`` in kernels: the text of a call, and of what makes it possible.

SciPy's functions of arrays are NumPy's ufuncs, of whose compiled loops a kernel calls one for one
element (``runtime/kernels/scipy_functions.py``). No table says which they are: SciPy does.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from calque.transpiler.codegen.text.spelling import template
from calque.transpiler.ir.core import Apply
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.primitives.record import Primitive

_CALL = re.compile(r"special\.(\w+)\(\{\d\}(?:, \{\d\})*\)(?:\[\d\])?")
_PYTHON_TYPES: dict[str, Any] = {"b": np.dtype(bool), "i": int, "f": float, "c": complex}
_IN_KERNELS = "fdFDlq?"  # the types of numbers
# functions that warn of an order that is no integer; a warning, which may be an error, needs Python
_WARNING = frozenset("expn kn yn".split())
_KERNELS = ("kernel", "kernel_part")  # the decorators of what Numba compiles


def is_scipys(primitive: Primitive) -> bool:
    """True if an operation is a function of ``scipy.special``."""
    return primitive.name.startswith("special.")


def call_of(s: Apply, types: list[ArrayType]) -> tuple[str, list[np.dtype]] | None:
    """The text of a call of one function of ``scipy.special``, and the dtypes that it takes.

    None of an operation that is no such call, or of types for which SciPy has no loop.
    """
    if not is_scipys(s.primitive) or len(types) != len(s.args):
        return None
    text = template(s.primitive, s.args, s.params)
    if (found := _CALL.fullmatch(text)) is None:
        return None
    given = [_PYTHON_TYPES[t.dtype.kind] if t.weak else t.dtype for t in types]
    loop = _loop(found[1], *given)
    if loop is None or any(d.char not in _IN_KERNELS for d in loop):
        return None
    if found[1] in _WARNING and loop[0].kind != "i":
        return None
    return (text, loop[: len(types)]) if s.out.type.dtype in loop[len(types) :] else None


@lru_cache(maxsize=1024)
def _loop(name: str, *given: Any) -> list[np.dtype] | None:
    ufunc = _ufunc(name, len(given))
    if ufunc is None:
        return None
    try:
        return list(ufunc.resolve_dtypes((*given, *[None] * ufunc.nout)))
    except TypeError:  # no loop takes these
        return None


def _ufunc(name: str, count: int) -> np.ufunc | None:
    """The ufunc that a function of so many numbers is, or that its Python calls."""
    return next((f for f in _ufuncs(name) if f.nin == count), None)


def _ufuncs(name: str) -> Iterator[np.ufunc]:
    special = importlib.import_module("scipy.special")
    found = [inspect.unwrap(getattr(special, name, None))]  # type: ignore[arg-type]
    found += [getattr(special._ufuncs, n, None) for n in (f"_{name}", f"_riemann_{name}")]
    return (f for f in found if isinstance(f, np.ufunc))


def declaration(text: str, imports: dict[str, str]) -> str:
    """The statement by which kernels may call what they call of ``scipy.special``, or none.

    >>> declaration("@kernel\\ndef f(x):\\n    return special.j0(x[0])", {"special": "scipy"})
    'in_kernels(special.j0)'
    """
    own = [n for n, place in imports.items() if place in ("scipy", "scipy:special")]
    alias = next((n for n in own if n == "special" or imports[n] == "scipy:special"), None)
    if alias is None or f"{alias}." not in text:
        return ""
    names = sorted({*_called(ast.parse(text), alias)})
    if not names:
        return ""
    line = f"in_kernels({', '.join(e for n in names for e in _entries(n, alias))})"
    return line if len(line) <= 100 else _wrapped(line)


def _entries(name: str, alias: str) -> list[str]:
    plain = f"{alias}.{name}"
    found = list(_ufuncs(name))
    if found and found[0] is inspect.unwrap(
        getattr(importlib.import_module("scipy.special"), name)
    ):
        return [plain]
    return [f"({plain}, {alias}._ufuncs.{f.__name__})" for f in found]


def _wrapped(line: str) -> str:
    head, rest = line[:-1].split("(", 1)
    parts = re.findall(r"\([^)]*\)|[\w.]+", rest)
    return f"{head}(\n" + "".join(f"    {p},\n" for p in parts) + ")"


def _called(tree: ast.Module, alias: str) -> Iterable[str]:
    """The functions that kernels call of the module of a name."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and any(map(_is_kernel, node.decorator_list)):
            for inner in ast.walk(node):
                match inner:
                    case ast.Attribute(value=ast.Name(id=found), attr=attr) if found == alias:
                        yield attr


def _is_kernel(decorator: ast.expr) -> bool:
    named = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(named, ast.Name) and named.id in _KERNELS
