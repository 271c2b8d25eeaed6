"""Random nests of scalar statements that sum products, as source text."""

from __future__ import annotations

import itertools
import random


class ScalarProducts:
    """A program of ``a``, ``b`` and ``c``: sums of products over one counter, in one nest."""

    def __init__(self, seed: int):
        self.rng = random.Random(seed)

    def text(self) -> str:
        rng = self.rng
        left = rng.choice(["a[i, k]", "a[i, k]", "d[k, i]"])
        right = rng.choice(["b[k, j]", "b[k, j]", "e[j, k]", "(2.0 * b[k, j])"])
        product = rng.choice([f"{left} * {right}", f"{right} * {left}", f"w * {left} * {right}"])
        body = rng.choice([self._added, self._added, self._summed, self._summed, self._by_rows])
        lines = body(product)
        before = rng.choice(["c = c.copy()", "c = np.zeros((n, p))", "c = 0.5 * c"])
        return "\n".join([
            "import numpy as np",
            "",
            "",
            "def program(a, b, c):",
            "    n, m = a.shape",
            "    p = c.shape[1]",
            "    d, e, w = a.T, b.T, np.sin(a[0, 0])",
            f"    {before}",
            *(f"    {line}" for line in lines),
            "    return np.sum(np.sin(c))",
            "",
        ])

    def _span(self, name: str) -> str:
        size = {"i": "n", "j": "p", "k": "m"}[name]
        start = self.rng.choice(["", "", "", "1, "])
        if self.rng.random() < 0.2:
            return f"for {name} in range({size} - 1, -1, -1):"
        return f"for {name} in range({start}{size}):"

    def _added(self, product: str) -> list[str]:
        """Add in a nest whose loops have any order."""
        order = self.rng.choice([*itertools.permutations("ijk")])
        sign = self.rng.choice(["+", "+", "-"])
        target = f"c[i, j] {sign}= {product}"
        if self.rng.random() < 0.3:
            target = f"c[i, j] = c[i, j] {sign} {product}"
        if order == ("k", "i", "j") and self.rng.random() < 0.5:
            target = "c[i, j] = 0.5 * c[i, j] + " + product  # each k reads what the one before added
        return [f"{'    ' * depth}{self._span(name)}" for depth, name in enumerate(order)] + [f"            {target}"]

    def _summed(self, product: str) -> list[str]:
        """Sum in a scalar, and store it."""
        outer = self.rng.choice([("i", "j"), ("j", "i")])
        first = self.rng.choice(["0.0", "0.0", "c[i, j]", "w"])
        sign = self.rng.choice(["+", "+", "-"])
        last = self.rng.choice([
            "c[i, j] = s", "c[i, j] = s", "c[i, j] += s", "c[i, j] = 0.5 * s + c[i, j]", "c[i, j] = s / (n + 1.0)",
            "c[i, 0] = s", "c[i, j - 1] = s",
        ])
        return [
            self._span(outer[0]),
            f"    {self._span(outer[1])}",
            f"        s = {first}",
            f"        {self._span('k')}",
            f"            s {sign}= {product}",
            f"        {last}",
        ]

    def _by_rows(self, product: str) -> list[str]:
        """Dot products, or rows times scalars."""
        return self.rng.choice([
            [self._span("i"), f"    {self._span('j')}", "        c[i, j] = np.dot(a[i], b[:m, j])"],
            [self._span("i"), f"    {self._span('j')}", "        c[i, j] += a[i] @ e[j, :m]"],
            [self._span("i"), f"    {self._span('k')}", "        c[i] += a[i, k] * b[k]"],
            [self._span("i"), f"    {self._span('k')}", "        c[i] -= b[k] * a[i, k]"],
            ["for i in range(n):", "    s = np.zeros(p)", "    for k in range(m):", "        s += a[i, k] * b[k]", "    c[i] = s"],
        ])
