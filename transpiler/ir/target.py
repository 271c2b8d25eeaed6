"""The interface of compilation targets: the statements their kernels may hold, and their texts.

Passes ask what a kernel may hold and what may raise in it; printers ask for texts, in which ``{0}``
stands for the first operand. The base class ``Target`` is NumPy: it has no kernels, and every text
is that of the primitive's record.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.transpiler.ir.core import Apply, For, Kernel, Statement


class Target:
    """The answers for plain NumPy, which each kind of kernel overrides."""

    name = "numpy"
    words: frozenset[str] = frozenset()  # what its text calls: nothing of the user's is called so
    allocates = False  # whether arrays may be made within kernels
    has_parts = False  # whether a long kernel may call functions of its own
    grid = False  # whether thousands of threads share a kernel's one loop: no cost of a CPU's holds

    # what a kernel may hold

    def can_compile(self, s: Statement, looping: bool = False) -> bool:
        """True if a kernel may hold a statement and its blocks; ``looping``: within a loop."""
        return False

    def can_be_scalar(self, s: Apply) -> bool:
        """True if an operation on arrays can become one on numbers in a kernel's loop."""
        return False

    def is_inside(self, s: Apply, looping: bool) -> bool:
        """True if the text of a statement may be part of another statement's line in a kernel."""
        return False

    def stands_alone(self, s: Statement) -> bool:
        """True if a statement gets a line of its own, however often its result is read."""
        return False

    # what may raise there

    def may_raise(self, s: Statement) -> bool:
        """True if a statement raises for some values, which a thread cannot do."""
        return False

    def may_divide_by_zero(self, s: Statement) -> bool:
        """True if a statement divides numbers as Python does, and the divisor may be zero."""
        return False

    # how it is spelled

    def head(self, s: Kernel, options: dict[str, Any]) -> str:
        """The text before a kernel's definition."""
        return ""

    def counter(self, s: For, depth: int, options: dict[str, Any]) -> str:
        """The name of a loop's range function; the kernel's outermost loops have depth 1."""
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
        """The text of a sum, or an addition to an element, whose operator would not wrap around."""
        return None

    def operand_casts(self, s: Apply, text: str) -> list[np.dtype | None]:
        """The dtypes to which operands must be converted where the operation does not do it."""
        return [None] * len(s.args)

    def result_cast(self, s: Apply) -> np.dtype | None:
        """The dtype to which an operation's result must be converted, if it has another."""
        return None

    def cast(self, dtype: np.dtype) -> str:
        """The text that converts a number to a dtype."""
        raise NotImplementedError(self.name)

    def literal(self, value: Any, dtype: np.dtype | None, s: Apply) -> tuple[Any, np.dtype | None]:
        """A known operand as a Python number, and the dtype to which it must be converted."""
        return value, dtype


NUMPY = Target()
