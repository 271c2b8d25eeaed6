"""What kernels may hold on one kind of machine, and how it is written there.

Passes ask what a kernel may hold and what may raise in it; printers ask for texts, in which ``{0}``
stands for the first operand. A ``Target`` itself is NumPy: it has no kernels, and all is written as
the primitives' records say.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.transpiler.ir.core import Apply, For, Kernel, Statement


class Target:
    """NumPy's answers, which each kind of kernel has its own for."""

    name = "numpy"
    words: frozenset[str] = frozenset()  # what its text calls: nothing of the user's is called so
    allocates = False  # whether arrays may be made within kernels
    has_parts = False  # whether a long kernel may call functions of its own
    grid = False  # whether thousands of threads share a kernel's one loop: no cost of a CPU's holds

    # what a kernel may hold

    def can_compile(self, s: Statement, looping: bool = False) -> bool:
        """Whether a kernel may hold a statement and all that is in it; ``looping``: in a loop."""
        return False

    def can_be_scalar(self, s: Apply) -> bool:
        """Whether an operation on arrays can be one on numbers, in a kernel's loop."""
        return False

    def is_inside(self, s: Apply, looping: bool) -> bool:
        """Whether the text of a statement, which is no line of its own, may stand in a kernel's."""
        return False

    def stands_alone(self, s: Statement) -> bool:
        """Whether a statement has a line of its own, however often what it makes is read."""
        return False

    # what may raise there

    def may_raise(self, s: Statement) -> bool:
        """Whether a statement refuses some values: no thread can."""
        return False

    def may_divide_by_zero(self, s: Statement) -> bool:
        """Whether a statement divides numbers as Python does, by what may be zero."""
        return False

    # how it is spelled

    def head(self, s: Kernel, options: dict[str, Any]) -> str:
        """What stands before a kernel's definition."""
        return ""

    def counter(self, s: For, depth: int, options: dict[str, Any]) -> str:
        """What a loop's counter goes through; the kernel's own loops are 1 deep."""
        return "range"

    def outside(self, s: Apply) -> str | None:
        """The text of a statement that is in no kernel; None for the record's."""
        return None

    def call(self, s: Apply) -> str | None:
        """The text of a statement whose operands stand as they are; None for the record's."""
        return None

    def operation(self, s: Apply) -> str | None:
        """The text of an operation on numbers; None for the record's."""
        return None

    def wrapped(self, s: Apply) -> str | None:
        """The text of a sum, or of one into an element, that its operator would not wrap around."""
        return None

    def operand_casts(self, s: Apply, text: str) -> list[np.dtype | None]:
        """The dtypes that an operation's operands are to be brought to, where it does not do so."""
        return [None] * len(s.args)

    def result_cast(self, s: Apply) -> np.dtype | None:
        """The dtype that an operation's result is to be brought to, if it has another."""
        return None

    def cast(self, dtype: np.dtype) -> str:
        """The text that brings a number to a dtype."""
        raise NotImplementedError(self.name)

    def literal(self, value: Any, dtype: np.dtype | None, s: Apply) -> tuple[Any, np.dtype | None]:
        """A known operand as a Python number, and the dtype that it must be brought to."""
        return value, dtype


NUMPY = Target()
