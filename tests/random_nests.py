"""Random nests of up to three loops over matrices, one of them the program's own, as source text."""

from __future__ import annotations

import random

ENDS = ("np.sum(A * A) + np.sum(np.sin(B)) + s + np.sum(v * v)", "np.sum(A * B) + np.sum(P * B) + s")


class Nests:
    """One random function of two matrices and a vector: counters meet, elements are chosen."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.inner: set[str] = set()  # counters that keep away from the borders

    def text(self) -> str:
        """The definition of ``program``."""
        own = "np.zeros((n, n))" if self.random.random() < 0.7 else "1.0 * A"
        self.lines = [
            "def program(A, B, v):",
            "    A, B, v = A.copy(), B.copy(), v.copy()",
            "    n = v.size",
            f"    P = {own}",
            "    s = 0.0",
        ]
        for _ in range(self.random.choice([1, 2])):
            self._loops(1, [], self.random.choice([2, 2, 3]))
        self.lines.append(f"    return {self.random.choice(ENDS)}")
        return "import numpy as np\n\n" + "\n".join(self.lines) + "\n"

    def _loops(self, indent: int, outer: list[str], depth: int) -> None:
        name = "ijk"[len(outer)]
        bounds = ["n", "n", "n", "n - 1, -1, -1"]
        if outer:
            bounds += [f"{outer[-1]} + 1, n", outer[-1], f"{outer[0]}, n"]
        chosen = self.random.choice(bounds)
        self.inner = self.inner - {name}
        if self.random.random() < 0.5:
            chosen = self.random.choice(["1, n - 1", "n - 2, 0, -1"])
            self.inner = self.inner | {name}
        self.lines.append(f"{'    ' * indent}for {name} in range({chosen}):")
        counters = [*outer, name]
        if depth == 1 or self.random.random() < 0.3:
            self._statements(indent + 1, counters)
        if depth > 1:
            self._loops(indent + 1, counters, depth - 1)
            if self.random.random() < 0.3:
                self._loops(indent + 1, counters, 1)

    def _statements(self, indent: int, counters: list[str]) -> None:
        for _ in range(self.random.choice([1, 1, 2])):
            lines = self._statement(self._element(counters), counters)
            self.lines += [f"{'    ' * indent}{line}" for line in lines]

    def _statement(self, target: str, counters: list[str]) -> list[str]:
        value = self._value(counters)
        return self.random.choice(
            [
                [f"{target} = 0.3 * ({value})"],
                [f"{target} += 0.1 * ({value})"],
                [f"s += 0.01 * ({value})"],
                [f"{target} = min({target}, {value})"],
                [f"if {self._element(counters)} > 0.0:", f"    {target} = {value}"],
                [f"v[{self._index(counters)}] += 0.1 * ({value})"],
            ]
        )

    def _value(self, counters: list[str], depth: int = 0) -> str:
        if depth > 2 or self.random.random() < 0.4:
            return self.random.choice(
                [self._element(counters), self._element(counters), f"v[{self._index(counters)}]"]
            )
        left, right = (self._value(counters, depth + 1) for _ in range(2))
        forms = [f"0.5 * {left}", f"({left} + {right})", f"({left} - {right})", f"np.sin({left})"]
        forms += [f"min({left}, {right})", f"({left} if {self._element(counters)} > 0.1 else {right})"]
        return self.random.choice(forms)

    def _element(self, counters: list[str]) -> str:
        array = self.random.choice("ABP")
        return f"{array}[{self._index(counters)}, {self._index(counters)}]"

    def _index(self, counters: list[str]) -> str:
        counter = self.random.choice([*counters, *counters, "0"])
        if counter in self.inner and self.random.random() < 0.5:
            return counter + self.random.choice([" - 1", " + 1"])
        return counter
