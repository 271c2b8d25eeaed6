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

import numpy as np

from calque.transpiler.ir import core
from calque.transpiler.primitives.base import Primitive
from calque.transpiler.primitives.record import Lacking

_FEW = 100  # elements of an array that is written down


def is_literal(value: Any) -> bool:
    """True if ``literal_text`` can write a value down."""
    if isinstance(value, dict):
        return all(isinstance(k, str) and is_literal(v) for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return all(map(is_literal, value))
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "biuf" and value.size <= _FEW
    return value is None or isinstance(value, (bool, int, float, str, np.number, np.bool_))


def literal_text(value: Any) -> str:
    """The text of a number, a string, an array, or of a container of these.

    >>> literal_text({"bounds": (0.0, float("inf")), "at": np.array([1.0, 2.0])})
    "{'bounds': (0.0, np.inf), 'at': np.array([1.0, 2.0])}"
    """
    if isinstance(value, dict):
        return f"{{{', '.join(f'{k!r}: {literal_text(v)}' for k, v in value.items())}}}"
    if isinstance(value, (list, tuple)):
        inner = ", ".join(map(literal_text, value))
        if isinstance(value, list):
            return f"[{inner}]"
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, np.ndarray):
        return f"np.array({literal_text(value.tolist())})"
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float) and not np.isfinite(value):
        return "np.nan" if np.isnan(value) else "np.inf" if value > 0 else "-np.inf"
    return repr(value)


@dataclass(eq=False)
class CalledBack:
    """A function that a host calls; the last ``captured`` of its parameters stay the same."""

    function: core.Function
    captured: int


class HostCall(Primitive):
    """One call; ``infer`` gives the types of its results from the host's operands."""

    def __init__(
        self,
        name: str,
        host: Callable[..., Any],
        callees: Sequence[CalledBack],
        infer: Callable[..., Any],
        modules: Sequence[str],
    ):
        super().__init__(name, host, infer, self.text)
        self.host, self.callees, self.modules = host, tuple(callees), tuple(modules)
        self.cupy = Lacking("compute it on the host: SciPy calls the function back there")

    def text(self, args: Sequence[Any], params: dict[str, Any]) -> str:
        """``host(callee, {0}, ({1}, {2}), option='value')``, names of callees in brackets."""
        count = len(args) - sum(c.captured for c in self.callees)
        parts = [f"<{k}>" for k in range(len(self.callees))]
        parts += [f"{{{k}}}" for k in range(count)]
        for callee in self.callees:
            taken = [f"{{{count + k}}}, " for k in range(callee.captured)]
            parts.append(f"({''.join(taken).rstrip() if len(taken) == 1 else ''.join(taken)[:-2]})")
            count += callee.captured
        parts += [f"{name}={literal_text(value)}" for name, value in params.items()]
        return f"{self.host.__name__}({', '.join(parts)})"
