"""Calls of functions that call back functions of the program, as SciPy's solvers do.

A ``HostCall`` is the record of one call, not of a function. Its ``host`` is a function in Python
whose text goes into the generated module; its callees are programs of their own there, to which the
host gives what they capture as further arguments::

    def solved(equation, x0, captured): ...  # the host

    def residual(x, a): ...  # the callee

    x = solved(residual, x0, (a,))

The operands of a call are those of the host, then what each of the callees captures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from calque.transpiler.ir import core
from calque.transpiler.primitives.base import Primitive


@dataclass(eq=False)
class Callee:
    """A function that a host calls; the last ``captured`` of its parameters stay the same."""

    function: core.Function
    captured: int


class HostCall(Primitive):
    """One call; ``infer`` gives the types of its results from the host's operands."""

    def __init__(
        self,
        name: str,
        host: Callable[..., Any],
        callees: Sequence[Callee],
        infer: Callable[..., Any],
        modules: Sequence[str],
    ):
        super().__init__(name, host, infer, self.text)
        self.host, self.callees, self.modules = host, tuple(callees), tuple(modules)

    def text(self, args: Sequence[Any], params: dict[str, Any]) -> str:
        """``host(callee, {0}, ({1}, {2}), option='value')``, names of callees in brackets."""
        count = len(args) - sum(c.captured for c in self.callees)
        parts = [f"<{k}>" for k in range(len(self.callees))]
        parts += [f"{{{k}}}" for k in range(count)]
        for callee in self.callees:
            taken = [f"{{{count + k}}}, " for k in range(callee.captured)]
            parts.append(f"({''.join(taken).rstrip() if len(taken) == 1 else ''.join(taken)[:-2]})")
            count += callee.captured
        parts += [f"{name}={value!r}" for name, value in params.items()]
        return f"{self.host.__name__}({', '.join(parts)})"
