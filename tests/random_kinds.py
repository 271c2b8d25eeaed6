"""Random programs whose names are of several kinds, or unset, on some paths."""

from __future__ import annotations

import random
import textwrap

NAMES = ("a", "b", "r")
HEAD = """\
import numpy as np


def number(v):
    if v is None:
        return 0.5
    if isinstance(v, str):
        return 0.75
    if callable(v):
        return 0.125
    return np.sum(v)


"""
VALUES = ("1.5", "x", "x * 2.0", "x[:2]", "t * 3.0", "'up'", "None", "np.sin")
TESTS = ("t > 0.3", "t > 0.6", "s > 0.5", "s < 0.2", "t + s > 0.8", "np.sum(x) > 2.0")
READS = (
    "total = total + number({0}) * 3.0",
    "total = total + ({0}(t) if callable({0}) else 0.25)",
    "if {0} is None:\n    total = total + 1.0",
    "if isinstance({0}, float):\n    total = total + {0}",
    "if isinstance({0}, str) and {0} == 'up':\n    total = total * 2.0",
)


class Program:
    """One random function of a vector, two numbers, and a number of iterations."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)

    def text(self) -> str:
        """The module."""
        first = [f"{name} = {self._value()}" for name in NAMES if self.random.random() < 0.7]
        blocks = [self._block(0) for _ in range(3)]
        lines = ["total = 0.0", *first, *blocks, "a = b = r = 0.0", "return total"]
        return HEAD + "def program(x, t, s, n):\n" + textwrap.indent("\n".join(lines), "    ")

    def _value(self) -> str:
        return self.random.choice((*VALUES, *NAMES[:1]))

    def _block(self, depth: int) -> str:
        return "\n".join(self._statement(depth) for _ in range(self.random.randint(1, 3)))

    def _statement(self, depth: int) -> str:
        kind = self.random.randrange(10)
        name = self.random.choice(NAMES)
        if kind < 3:
            return f"{name} = {self._value()}"
        if kind < 6 or depth > 2:
            return self.random.choice((*READS, f"{self.random.choice(NAMES)} = {{0}}")).format(name)
        inner = textwrap.indent(self._block(depth + 1), "    ")
        if kind == 9:
            return f"for i in range(n):\n{inner}"
        orelse = textwrap.indent(self._block(depth + 1), "    ")
        rest = f"\nelse:\n{orelse}" if self.random.random() < 0.5 else ""
        return f"if {self.random.choice(TESTS)}:\n{inner}{rest}"
