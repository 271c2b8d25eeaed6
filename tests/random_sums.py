"""Random nests whose loops of every depth add, count, multiply and compare, as source text."""

from __future__ import annotations

import random

SUMS = ("s", "s", "t", "t", "n", "count", "p", "most", "least")


class Sums:
    """One random function of a vector, a matrix, a cube and places: numbers at each depth, stores."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.choice = self.random.choice
        self.lines: list[str] = []

    def text(self) -> str:
        """The definition of ``program``."""
        self.lines = [
            "def program(v, A, B, k):",
            "    rows, histogram = np.zeros(A.shape[0]), np.zeros(4)",
            "    C, counts = A.copy(), np.zeros(4, dtype=np.int64)",
            "    s, t, n, count, p, most, least = 0.5, v[0], 2, 0, 1.0, -1.0, v[0]",
        ]
        for _ in range(self.choice([1, 1, 2])):
            self._loop(1, [], self.choice([2, 2, 2, 3]))
        self.lines.append("    return s, t, n, count, p, most, least, rows, histogram, C, counts")
        return "import numpy as np\n\n" + "\n".join(self.lines) + "\n"

    def _loop(self, indent: int, outer: list[str], depth: int) -> None:
        counter = "ijh"[len(outer)]
        axis = len(outer)
        bounds = [f"{'AAB'[axis]}.shape[{axis}]"] * 5 + [f"1, {'AAB'[axis]}.shape[{axis}]"]
        if axis == 0:
            bounds += ["v.size", "v.size - 1, -1, -1"]
        if axis == 1:
            bounds += ["3", "i", "i, A.shape[1]"]
        self.lines.append(f"{'    ' * indent}for {counter} in range({self.choice(bounds)}):")
        counters = [*outer, counter]
        if depth == 1:
            self._statements(indent + 1, counters, self.choice([1, 1, 2]))
            return
        self._statements(indent + 1, counters, self.choice([0, 1, 1, 2]))
        self._loop(indent + 1, counters, depth - 1)
        if self.random.random() < 0.2:
            self._loop(indent + 1, counters, 1)
        self._statements(indent + 1, counters, self.choice([0, 0, 0, 1]))

    def _statements(self, indent: int, counters: list[str], number: int) -> None:
        pad = "    " * indent
        for _ in range(number):
            lines = self._stored(counters) if self.random.random() < 0.2 else self._added(counters)
            self.lines += [f"{pad}{line}" for line in lines]

    def _added(self, counters: list[str]) -> list[str]:
        value = self._value(counters)
        line = {
            "s": self.choice([f"s += {value}", f"s = s + {value}", f"s += {value} + 0.25"]),
            "t": self.choice([f"t -= {value}", f"t += {value}"]),
            "n": "n += 1",
            "count": f"count += k[{counters[0]}]",
            "p": f"p *= 1.0 + 0.01 * {value}",
            "most": f"most = max(most, {value})",
            "least": f"least = np.minimum(least, {value})",
        }[self.choice(SUMS)]
        if self.random.random() < 0.2:
            return [f"if {self._value(counters)} > 0.1:", f"    {line}"]
        return [line]

    def _stored(self, counters: list[str]) -> list[str]:
        value, i = self._value(counters), counters[0]
        stores = [f"rows[{i}] = {value}", f"rows[{i}] += {value}", f"histogram[k[{i}]] += {value}"]
        stores += [f"counts[k[{i}]] += 1"]
        if len(counters) > 1:
            stores += [f"C[{i}, {counters[1]}] = {value}", f"C[{i}, {counters[1]}] += {value}"]
        return [self.choice(stores)]

    def _value(self, counters: list[str]) -> str:
        read = self._element(counters)
        return self.choice([read, read, f"{read} * {self._element(counters)}", f"np.sin({read})"])

    def _element(self, counters: list[str]) -> str:
        i, j, h = [*counters, "0", "0"][:3]
        return self.choice([f"v[{i}]", f"A[{i}, {j}]", f"A[{i}, {j}]", f"B[{i}, {j}, {h}]"])
