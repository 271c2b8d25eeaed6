"""Random steps over time whose buffers trade places, as source text."""

from __future__ import annotations

import random


class Swaps:
    """One random function of a vector, a matrix and a number: two or three buffers go around."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.choice = self.random.choice
        self.planes = self.random.random() < 0.4  # buffers are matrices
        self.names = ["u", "v", "w"][: self.choice([2, 2, 3])]

    def text(self) -> str:
        """The definition of ``program``."""
        own = "A" if self.planes else "x"
        starts = [f"{own}.copy()", f"np.zeros_like({own})", f"0.5 * {own}", f"np.sin({own})"]
        lines = ["def program(x, A, c):"]
        lines += [f"    {name} = {self.choice(starts)}" for name in self.names]
        lines += ["    s, r = 0.0, x.copy()", f"    for t in range({self.choice(['3', '4', 'x.size'])}):"]
        for _ in range(self.choice([1, 2, 2, 3])):
            lines += [f"        {line}" for line in self._statement()]
        lines.append(f"        {self._trade()}")
        if self.random.random() < 0.2:
            lines += [f"        {line}" for line in self._statement()]
        returned = " + ".join(f"np.sum({self.choice(['{0}', '{0} * {0}']).format(n)})" for n in self.names)
        lines.append(f"    return {returned} + s + np.sum(r * r)")
        return "import numpy as np\n\n" + "\n".join(lines) + "\n"

    def _trade(self) -> str:
        around = self.names[1:] + self.names[:1]
        if self.random.random() < 0.4:
            around = around[::-1] if len(around) == 2 else [self.names[2], *self.names[:2]]
        if len(around) == 3 and self.random.random() < 0.3:
            around = [self.names[1], self.names[0], self.names[2]]
        traded = f"{', '.join(self.names)} = {', '.join(around)}"
        return self.choice([traded, traded, traded, f"if c > 0.0:\n            {traded}"])

    def _statement(self) -> list[str]:
        new, old = self.random.sample(self.names, 2)
        other = self.choice([*self.names, "x" if not self.planes else "A"])
        forms = self._of_planes(new, old, other) if self.planes else self._of_vectors(new, old, other)
        forms += [[f"{new}[...] = 0.7 * {old} + 0.1 * {other}"], [f"s += np.sum({old} * {other})"]]
        forms += [[f"{new} += 0.3 * np.sin({old})"], [f"{new} = 0.5 * {old} + c * {other}"]]
        return self.choice(forms)

    def _of_vectors(self, new: str, old: str, other: str) -> list[list[str]]:
        return [
            [f"{new}[1:-1] = 0.4 * ({old}[:-2] + {old}[2:]) + 0.1 * {other}[1:-1]"],
            [f"{new}[1:] = 0.6 * {old}[:-1]", f"{new}[0] = 0.3 * {old}[0]"],
            [f"{new}[0] = c * {old}[-1]"],
            ["for i in range(1, x.size - 1):", f"    {new}[i] = 0.5 * {old}[i - 1] - 0.2 * {other}[i + 1]"],
            ["for i in range(x.size):", f"    {new}[i] = {old}[i] + 0.1 * {new}[i]"],
            [f"{new}[::2] += 0.2 * {old}[::2]"],
            [f"r[1:] += 0.1 * {old}[:-1]"],
        ]

    def _of_planes(self, new: str, old: str, other: str) -> list[list[str]]:
        inner = f"{new}[1:-1, 1:-1]"
        around = f"{old}[:-2, 1:-1] + {old}[2:, 1:-1] + {old}[1:-1, :-2] + {old}[1:-1, 2:]"
        return [
            [f"{inner} = 0.2 * ({around})"],
            [f"{inner} = 0.2 * ({around}) - 0.1 * {other}[1:-1, 1:-1]"],
            [f"{new}[1:, 1:] = 0.3 * {old}[:-1, :-1]"],
            [f"{new}[0] = {old}[-1] * c", f"{new}[:, 0] = 0.2 * {old}[:, 1]"],
            ["for i in range(1, x.size - 1):", f"    {new}[i] = 0.5 * {old}[i - 1] - 0.2 * {other}[i + 1]"],
            [f"r += 0.1 * np.sum({old}, axis=1)"],
        ]
