"""Errors raised in kernels with run-time values: the host builds them from the values.

Numba can neither format a text nor create an error of a user's class. Before::

    raise ValueError(f"below by {v:.2f} at {k!r}")

After, in the kernel, and beside it::

    raise KernelError("checked_error", v, k)

    def checked_error(v, k):
        return ValueError(f"below by {v:.2f} at {int(k)!r}")

A kernel returns Python numbers; where NumPy's scalars print differently they are converted back.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterator
from typing import Any

import gast

from calque.transpiler.codegen.text.spelling import (
    attribute,
    call,
    constant,
    dtype_name,
    fill,
    name,
    parsed,
    without_quotes,
)
from calque.transpiler.ir.core import Atom, Effect, Var
from calque.transpiler.ir.types import ArrayType

_PYTHONS = {"b": "bool", "i": "int", "u": "int", "f": "float", "c": "complex"}
_CLASSES_SEEN = re.compile(r"%(\(\w*\))?[^%a-zA-Z]*[sra]")  # formats that show a number's class


class KernelErrors:
    """The functions that create the errors of a program's kernels."""

    def __init__(self, stem: str):
        self.stem = stem
        self.functions: dict[str, gast.FunctionDef] = {}
        self._known: dict[Any, str] = {}
        self.used: list[str] = []  # the functions of the kernel that is being written

    def statement(self, s: Effect, operands: list[Any]) -> gast.stmt:
        """The statement in a kernel for a ``raise`` or an ``assert``."""
        if _is_plain(parsed(s.template)):
            return without_quotes(fill(s.template, operands))
        slots = [name(f"slot_{k}_") for k in range(len(operands))]
        made = fill(s.template, slots)
        test = made.test if isinstance(made, gast.Assert) else None
        error = made.exc if test is None else call(name("AssertionError"), made.msg)
        refused = gast.Raise(self._call(error, s.args, operands), None)
        if test is None:
            return refused
        wrong = gast.UnaryOp(gast.Not(), fill(s.template, operands).test)
        return gast.If(wrong, [refused], [])

    def _call(self, error: Any, args: tuple[Atom, ...], operands: list[Any]) -> gast.Call:
        """``KernelError`` with the name of the function that creates the error, and arguments."""
        if not isinstance(error, gast.Call):
            error = call(error)
        read = {node.id for node in gast.walk(error) if isinstance(node, gast.Name)}
        asked = [k for k in range(len(operands)) if f"slot_{k}_" in read]
        given = {args[k]: operands[k] for k in asked if isinstance(args[k], Var)}
        names = dict(zip(given, _parameters(list(given.values()), read), strict=True))
        told = [names.get(args[k], args[k]) for k in asked]
        types = [getattr(args[k], "type", None) for k in asked]
        key = gast.dump(error), *map(repr, told), *types
        if key not in self._known:
            title = self._known[key] = self._title()
            params = {f"slot_{k}_": names[args[k]] for k in asked if args[k] in given}
            values = {f"slot_{k}_": operands[k] for k in asked}
            values |= {slot: name(n) for slot, n in params.items()}
            numbers = {
                f"slot_{k}_": of_its_class(args[k].type, values[f"slot_{k}_"])
                for k in asked
                if args[k] in given and not args[k].type.ndim
            }
            body = gast.Return(without_quotes(Shown(values, numbers).visit(error)))
            taken = [gast.Name(n, gast.Param(), None, None) for n in names.values()]
            arguments = gast.arguments(taken, [], None, [], [], None, [])
            self.functions[title] = gast.FunctionDef(title, arguments, [body], [], None, None, [])
        self.used.append(self._known[key])
        return call(name("KernelError"), constant(self._known[key]), *given.values())

    def _title(self) -> str:
        count = len(self._known) + 1
        return f"{self.stem}_error" + (f"_{count}" if count > 1 else "")


def _is_plain(made: Any) -> bool:
    """True if Numba can compile a raise: a built-in error with constant arguments."""
    if isinstance(made, gast.Assert):
        return made.msg is None or isinstance(made.msg, gast.Constant)
    kind, args = made.exc, []
    if isinstance(kind, gast.Call):
        kind, args = kind.func, [*kind.args, *kind.keywords]
    own = isinstance(kind, gast.Name) and hasattr(builtins, kind.id)
    return own and all(isinstance(a, gast.Constant) for a in args)


def _parameters(operands: list[Any], read: set[str]) -> list[str]:
    """A parameter name for each value: the user's, unless the error's text reads that name."""
    found: list[str] = []
    for operand in operands:
        wish = operand.id if isinstance(operand, gast.Name) else "value"
        wish = "value" if wish in read or hasattr(builtins, wish) else wish
        taken = [*found, *read]
        found.append(next(w for w in _numbered(wish) if w not in taken))
    return found


def _numbered(wish: str) -> Iterator[str]:
    yield wish
    number = 2
    while True:
        yield f"{wish}_{number}"
        number += 1


def on_host(s: Effect, operands: list[Any], device: set[Var]) -> gast.stmt:
    """The statement of an effect that shows scalars on a GPU, converted to the host."""
    slots = {f"slot_{k}_": tree for k, tree in enumerate(operands)}
    numbers = {
        f"slot_{k}_": of_its_class(a.type, operands[k], True)
        for k, a in enumerate(s.args)
        if isinstance(a, Var) and a in device
    }
    made = fill(s.template, list(map(name, slots)))
    if isinstance(made, gast.Assert):
        made.test = fill(s.template, operands).test
    return without_quotes(Shown(slots, numbers).visit(made))


def of_its_class(t: ArrayType, tree: Any, from_device: bool = False) -> Any:
    """A number converted to the class it has in plain Python; ``from_device``: read from a GPU."""
    pythons = name(_PYTHONS[t.dtype.kind])
    if t.weak:
        return call(pythons, tree)
    tree = call(pythons, tree) if from_device else tree
    return call(attribute(name("np"), dtype_name(t.dtype)), tree)


class Shown(gast.NodeTransformer):
    """Inserts values into a text; those of ``numbers`` where the class of a number shows."""

    def __init__(self, values: dict[str, Any], numbers: dict[str, Any]):
        self.values, self.numbers = values, numbers
        self.classes_seen = True

    def visit_Name(self, node: Any) -> Any:
        """Replace a name that stands for a value."""
        seen = self.numbers if self.classes_seen else {}
        return seen.get(node.id, self.values.get(node.id, node))

    def visit_FormattedValue(self, node: Any) -> Any:
        """Replace in ``{v:.2f}``: with a format, NumPy's numbers print as Python's."""
        if node.conversion == -1 and isinstance(node.value, gast.Name):
            return self._unseen(node)
        return self.generic_visit(node)

    def visit_BinOp(self, node: Any) -> Any:
        """Replace in ``"%.2f" % v``: with such formats NumPy's numbers print as Python's."""
        pattern = getattr(node.left, "value", None) if isinstance(node.op, gast.Mod) else None
        if isinstance(pattern, str) and not _CLASSES_SEEN.search(pattern):
            return self._unseen(node)
        return self.generic_visit(node)

    def _unseen(self, node: Any) -> Any:
        before, self.classes_seen = self.classes_seen, False
        try:
            return self.generic_visit(node)
        finally:
            self.classes_seen = before
