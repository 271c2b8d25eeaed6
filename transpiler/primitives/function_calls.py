"""Calls of functions of the program: parts that repeat, and that are written once.

A ``FunctionCall`` is the record of one function, which is a program of its own beside the one that
calls it. All its calls share the record. To every pass of the caller a call is one operation, like
a call of a library::

    x, p, e = layer(x, w, b)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeGuard

from calque.transpiler.ir import core
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.primitives.record import Primitive


class FunctionCall(Primitive):
    """The calls of one function, whose results are those of its body, in order.

    In a text, a list may stand for several arguments, at the places ``starred_at``, and for the
    last results, if ``starred_outs``.
    """

    def __init__(
        self,
        function: core.Function,
        shares_memory: bool = False,
        starred_at: frozenset[int] = frozenset(),
        starred_outs: bool = False,
    ):
        super().__init__(function.name, _never, self._types, self._text, aliases=shares_memory)
        self.callee, self.starred_at, self.starred_outs = function, starred_at, starred_outs

    def given_in_list(self, at: int, count: int) -> FunctionCall:
        """The record of a call that takes a list in place of ``count`` arguments."""
        others = {k if k < at else k - count + 1 for k in self.starred_at}
        places = frozenset({at, *others})
        return FunctionCall(self.callee, self.aliases, places, self.starred_outs)

    def with_list(self) -> FunctionCall:
        """The record of a call that gives its last results as a list."""
        return FunctionCall(self.callee, self.aliases, self.starred_at, True)

    def _types(self, *args: Any, **params: Any) -> tuple[ArrayType, ...]:
        return tuple(r.type for r in self.callee.body.results)

    def _text(self, args: Sequence[Any], params: dict[str, Any]) -> str:
        given = [f"*{{{k}}}" if k in self.starred_at else f"{{{k}}}" for k in range(len(args))]
        return f"{self.callee.name}({', '.join(given)})"


def is_call(s: object) -> TypeGuard[core.Apply]:
    """True for a call of a function of the program."""
    return isinstance(s, core.Apply) and isinstance(s.primitive, FunctionCall)


def called_by(function: core.Function) -> list[core.Function]:
    """The functions that a program calls itself, each once, in order."""
    called = [s.primitive.callee for s in core.walk(function.body) if is_call(s)]
    return list({id(callee): callee for callee in called}.values())


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
