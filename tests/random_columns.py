"""Random loops over columns whose indices also use other numbers than counters, as source text."""

from __future__ import annotations

import random

NUMBERS = (
    *("{k} // 2", "{k} - {k} // 2", "min({k}, 2)", "max({k} - 1, 0)", "(2 * {k}) // 3", "n - 1 - {k}"),
    *("x[:{k}].shape[0]", "np.sin(x[{k}:]).shape[0] - 1", "(c + {k}) % n", "c", "{k}", "{k} % 3"),
)
ENDS = ("np.sum(A * A) + np.sum(x * x * y)", "np.sum(A * B) + np.sum(B * C * C) + np.sum(x * y)")


class Columns:
    """One random function of two vectors and two matrices of n rows and columns."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.choice = self.random.choice
        self.counters: list[str] = []
        self.lines: list[str] = []

    def text(self) -> str:
        """The definition of ``program``."""
        self.lines = [
            "def program(x, y, A, B):",
            "    x, y, A, B = x.copy(), y.copy(), A.copy(), B.copy()",
            f"    C, n, c = {self.choice(['A * B', 'np.zeros_like(A)'])}, x.shape[0], 0",
            f"    for _ in range({self.choice('122')}):",
        ]
        for _ in range(self.choice([1, 1, 2])):
            self._columns("        ")
        self.lines.append(f"    return {self.choice(ENDS)}")
        return "import numpy as np\n\n" + "\n".join(self.lines) + "\n"

    def _columns(self, pad: str) -> None:
        bounds = self.choice(["n", "n", "1, n", "n - 1, -1, -1", "n - 2, 0, -1", "2, n"])
        self.lines.append(f"{pad}for k in range({bounds}):")
        pad += "    "
        self.counters = ["k"]
        self.lines.append(f"{pad}d = {self.choice(NUMBERS).format(k='k')}")
        if self.random.random() < 0.1:
            self.lines.append(f"{pad}c = (c + 1) % n")
        for _ in range(self.choice([1, 1, 1, 2])):
            self._rows(pad)
        for _ in range(self.choice([0, 0, 1])):
            self.lines.append(pad + self._store(""))

    def _rows(self, pad: str) -> None:
        bounds = ["n", "n", "n", "1, n", "n - 1, -1, -1", "k", "k + 1, n", "d", "1, d", "d, n"]
        total = "total" if self.random.random() < 0.5 else ""
        if total:
            self.lines.append(f"{pad}total = np.float64(0.0)")
        self.lines.append(f"{pad}for i in range({self.choice(bounds)}):")
        self.counters = ["k", "i"]
        if total:
            value = f"{self._column()} * {self._column()} * {self._element()}"
            self.lines.append(f"{pad}    total += {value}")
        for _ in range(self.choice([0, 0, 0, 1] if total else [1, 1, 2])):
            self.lines.append(f"{pad}    {self._store('')}")
        self.counters = ["k"]
        if total:
            self.lines.append(pad + self._store("total"))

    def _store(self, total: str) -> str:
        value = f"{total or 0.3} * {self.choice(['0.2', self._element()])}"
        if not total:
            read = self._element()
            value += " + " + self.choice([f"0.2 * {read} * {read}", f"0.5 * {self._element()}"])
        target = self._element()
        return f"{target} " + self.choice(["+=", "=", "-=", f"= 0.5 * {target} +"]) + f" {value}"

    def _column(self) -> str:
        return f"{self.choice('ABC')}[{self.counters[-1]}, k]"

    def _element(self) -> str:
        if self.random.random() < 0.4:
            return f"{self.choice('xy')}[{self._index()}]"
        if "i" in self.counters and self.random.random() < 0.3:
            return self._column()
        return f"{self.choice('ABC')}[{self._index()}, {self._index()}]"

    def _index(self) -> str:
        return self.choice([*self.counters, *self.counters, "d", "d", "0"])
