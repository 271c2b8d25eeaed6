"""Public functions about programs, which interpreted code cannot call."""

from __future__ import annotations

from typing import Any, TypeVar

from calque.transpiler.errors import UnsupportedFunction
from calque.transpiler.frontend.library.python_builtins import builtin
from calque.transpiler.frontend.machine import Args, Kwargs, Machine

Public = TypeVar("Public")


def outside(public: Public) -> Public:
    """Declare a public function or class that is refused in a function that is transformed."""

    @builtin(public)
    def refuse(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
        raise UnsupportedFunction(
            f"calque.{public.__name__} is called in a function that is transformed.",  # type: ignore[attr-defined]
            hint="call it outside",
        )

    return public
