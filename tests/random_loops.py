"""Random nests of loops with affine reads and stores, as source text."""

from __future__ import annotations

import random

EDGE = 3  # the largest offset; loops keep this far from the borders


class Nest:
    """One random function of two vectors and a matrix, with loops over them."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.lines: list[str] = []

    def text(self) -> str:
        """The definition of ``program``."""
        self.lines = [
            "def program(x, y, A, c):",
            "    x, y, A = x.copy(), y.copy(), A.copy()",
            "    n = x.shape[0]",
            "    s = 0.5",
        ]
        for _ in range(self.random.randint(1, 2)):
            depth = self.random.choice([1, 1, 2])
            if self.random.random() < 0.3:
                self.lines.append("    for _ in range(2):")
                self._loops(2, depth, [])
            else:
                self._loops(1, depth, [])
        self.lines.append("    return np.sum(x * x) + np.sum(y) * s + np.sum(A * A)")
        return "import numpy as np\n\n" + "\n".join(self.lines) + "\n"

    def _loops(self, indent: int, depth: int, counters: list[str]) -> None:
        name = "ij"[len(counters)]
        ranges = [f"{EDGE}, n - {EDGE}", f"n - {EDGE + 1}, {EDGE - 1}, -1"]
        if counters:
            ranges += [f"{EDGE}, {counters[0]}", f"{counters[0]} - 1, {EDGE - 1}, -1"]
        self.lines.append(f"{'    ' * indent}for {name} in range({self.random.choice(ranges)}):")
        inner = [*counters, name]
        if depth > 1:
            if self.random.random() < 0.4:
                self._statements(indent + 1, inner, 1)
            self._loops(indent + 1, depth - 1, inner)
            if self.random.random() < 0.4:
                self._statements(indent + 1, inner, 1)
        else:
            self._statements(indent + 1, inner, self.random.randint(1, 4))

    def _statements(self, indent: int, counters: list[str], count: int) -> None:
        for _ in range(count):
            pad = "    " * indent
            if self.random.random() < 0.1:
                self.lines.append(f"{pad}s = s + 0.01 * {self._element(counters)}")
                continue
            sign = self.random.choice(["=", "=", "+=", "+=", "-=", "*="])
            value = self._value(counters)
            self.lines.append(f"{pad}{self._element(counters)} {sign} {value}")

    def _value(self, counters: list[str]) -> str:
        kind = self.random.random()
        first, second = self._element(counters), self._element(counters)
        if kind < 0.1:
            return "0.0"
        if kind < 0.3:
            return f"0.3 * {first}"
        if kind < 0.5:
            return f"0.2 * np.sin({first})"
        if kind < 0.7:
            return f"0.1 * {first} * {second}"
        return f"0.3 * ({first} - {second}) + 0.1 * {self._element(counters)}"

    def _element(self, counters: list[str]) -> str:
        array = self.random.choice("xyA" if len(counters) > 1 else "xxyA")
        if array == "A":
            return f"A[{self._index(counters)}, {self._index(counters)}]"
        return f"{array}[{self._index(counters)}]"

    def _index(self, counters: list[str]) -> str:
        kind = self.random.random()
        if kind < 0.1:
            return str(self.random.choice([0, 2, -1, EDGE]))
        if kind < 0.15:
            return f"n - 1 - {counters[-1]}"
        counter = counters[-1] if self.random.random() < 0.7 else counters[0]
        offset = self.random.choice([0, 0, 0, 1, -1, 2, -2, EDGE, -EDGE])
        return counter if not offset else f"{counter} {'+' if offset > 0 else '-'} {abs(offset)}"
