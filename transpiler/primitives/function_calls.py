"""Calls of functions of the program: parts that repeat, and that are written once.

A ``FunctionCall`` is the record of one function, which is a program of its own beside the one that
calls it. All its calls share the record. To every pass of the caller a call is one operation, like
a call of a library::

    x, p, e = layer(x, w, b)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from calque.transpiler.ir import core
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.primitives.record import Primitive


class FunctionCall(Primitive):
    """The calls of one function, whose results are those of its body, in order."""

    def __init__(self, function: core.Function, shares_memory: bool = False):
        super().__init__(function.name, _never, self._types, self._text, aliases=shares_memory)
        self.callee = function

    def _types(self, *args: Any, **params: Any) -> tuple[ArrayType, ...]:
        return tuple(r.type for r in self.callee.body.results)

    def _text(self, args: Sequence[Any], params: dict[str, Any]) -> str:
        return f"{self.callee.name}({', '.join(f'{{{k}}}' for k in range(len(args)))})"


def called_by(function: core.Function) -> list[core.Function]:
    """The functions that a program calls itself, each once, in order."""
    calls = [s.primitive for s in core.walk(function.body) if isinstance(s, core.Apply)]
    found = {id(p.callee): p.callee for p in calls if isinstance(p, FunctionCall)}
    return list(found.values())


def program_functions(function: core.Function) -> Iterator[core.Function]:
    """Yield a program, and each function that it or one of these calls, once."""
    seen, pending = {id(function)}, [function]
    while pending:
        yield (found := pending.pop())
        new = [f for f in called_by(found) if id(f) not in seen]
        seen.update(map(id, new))
        pending += new


def _never(*args: Any, **params: Any) -> Any:
    raise AssertionError("a function of the program is run by the program's text")
