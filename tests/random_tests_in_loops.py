"""Random programs with stores, and lists that grow, under nested tests in loops that may break."""

from __future__ import annotations

import random

HEAD = """import numpy as np


def program(x):
    n = {length}
    y, m, l = x.copy(), np.outer(x, x), {list}
    s = {start}
"""


class Program:
    """One random function of a vector of five elements."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.list = self.random.random() < 0.6
        self.leaves = 0

    def text(self) -> str:
        """The module."""
        length = self._pick("len(x)", "len(x)", "4", "x.shape[0] - 1")
        start = self._pick("0.1", "x[0]", "1.0", "0.0")
        first = self._pick("[]", "[]", "[x[1]]", "[0.5, x[0]]") if self.list else "[]"
        if self.random.random() < 0.8:
            self.lines.append("    for i in range(n):")
        else:
            self.lines += ["    i = -1", "    while i < n - 1 and s < 20.0:", "        i += 1"]
        for _ in range(self.random.randint(2, 4)):
            self._statement(2, False)
        self.lines.append(
            "        s = np.tanh(s)" if self.random.random() < 0.7 else "        s *= 0.5"
        )
        whole = " + sum(l)" if self.list else ""
        self.lines.append(f"    return s + np.sum(y * y) + np.sum(m * x){whole}")
        return HEAD.format(length=length, list=first, start=start) + "\n".join(self.lines) + "\n"

    def _pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def _slice(self) -> str:
        return self._pick(":i", "i:", ":i + 1", "i + 1:", "1:i", ":n - i", "::2")

    def _value(self, inner: bool) -> str:
        values = ["s", "x[i]", "0.3 * s * x[i]", "y[i]", "np.sin(s)", "x[0] - y[i]"]
        values += ["0.2 * np.sum(y[:i] * y[:i])", "m[i, 1]", "0.1 * np.sum(m[i, :i])"]
        if inner:
            values += ["y[j]", "m[j, i]", "x[j] * s"]
        if self.list:
            values += ["0.1 * sum(l)", "0.1 * len(l) * s"]
        return self.random.choice(values)

    def _test(self) -> str:
        tests = ["x[1] > 0", "x[i] > 0.1", "s > 0.3", "i > 1", "i % 2 == 0", "y[i] < s"]
        tests += ["np.sum(y[:i]) > 0.2", "x[0] > -1.0", "s * s < 0.5"]
        if self.list:
            tests += ["len(l) > 2", "len(l) < 3", "sum(l) < 1.0"]
        return self.random.choice(tests)

    def _simple(self, inner: bool) -> str:
        value, part = self._value(inner), self._slice()
        found = [
            f"y[{part}] *= {self._pick('0.9', 's', 'x[i]')}",
            f"y[{part}] += {value}",
            f"y[{part}] = 0.5 * y[{part}]",
            f"y[i] = {value}",
            f"m[i, {part}] = {value}",
            f"m[i, {part}] += y[{part}]",
            f"s += 0.3 * {value}",
            f"s = 0.5 * s + {value}",
            f"s += 0.1 * np.sum(y[{part}] * y[{part}])",
        ]
        if self.list:
            found += [f"l.append({value})"] * 3 + ["s += 0.2 * sum(l)", "s += 0.1 * max(l + [0.0])"]
        return self.random.choice(found)

    def _statement(self, level: int, inner: bool) -> None:
        pad = "    " * level
        kind = self.random.random()
        if kind < 0.45 or level > 4:
            self.lines.append(pad + self._simple(inner))
        elif kind < 0.9 or inner:
            self.lines.append(f"{pad}if {self._test()}:")
            for _ in range(self.random.randint(1, 2)):
                self._statement(level + 1, inner)
            if self.random.random() < 0.25 and self.leaves < 2:
                self.leaves += 1  # what follows one is written in both arms
                self.lines.append(f"{pad}    {self._pick('break', 'break', 'continue')}")
            if self.random.random() < 0.3:
                self.lines.append(f"{pad}else:")
                self._statement(level + 1, inner)
        else:
            self.lines.append(f"{pad}for j in range({self._pick('i', '3', 'i, n')}):")
            self._statement(level + 1, True)
            self.lines.append(f"{pad}    s += 0.1 * y[j]")
