"""Random programs that copy, alias, pass and return arrays, some of them twice."""

from __future__ import annotations

import random


class Sharing:
    """The text of ``f(x, y, k)``, of two arrays of n elements: branches and loops that go by ``k``."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.choice = self.random.choice
        self.names = ["x", "y"]
        self.lines = ["def f(x, y, k):"]
        for _ in range(self.choice([1, 2, 2])):
            self._new("    ")
        for _ in range(self.choice([2, 3, 4, 5])):
            self._part("    ", 2)
        results = self.random.choices(self.names, k=self.choice([1, 2, 3, 4]))
        self.lines.append(f"    return {', '.join(results)},")
        self.text = "\n".join(self.lines) + "\n"

    def _new(self, pad: str) -> None:
        name = "abcdefgh"[len(self.names) - 2]
        self.lines.append(f"{pad}{name} = {self._array()}")
        self.names.append(name)

    def _array(self) -> str:
        one, other = self.choice(self.names), self.choice(self.names)
        forms = ["{0}.copy()", "{0}.copy()", "{0}.copy()", "{0}", "0.5 * {0}", "{0} * {1}", "{0}[::-1]"]
        return self.choice([*forms, "np.where({0} > {1}, {0}, {1})", "{0} @ {1} * {0}"]).format(one, other)

    def _block(self, pad: str, room: int) -> None:
        for _ in range(self.choice([1, 1, 2])):
            self._part(pad, room)

    def _part(self, pad: str, room: int) -> None:
        one, other = self.random.sample(self.names, 2)
        kind = self.choice(["hand on", "hand on", "hand on", "swap", "store", "say", *["if", "for"] * (room > 0)])
        if kind == "hand on":
            self.lines.append(f"{pad}{one} = {self._array()}")
        elif kind == "swap":
            self.lines.append(f"{pad}{one}, {other} = {other}, {self.choice([one, f'{one}.copy()', f'0.5 * {one}'])}")
        elif kind == "store":
            forms = ["{0}[0] = 0.5 * {1}[1]", "{0}[:] = 0.5 * {1}", "{0}[1:] += {1}[:-1]", "{0} *= 0.5"]
            self.lines.append(pad + self.choice(forms).format(one, other))
        elif kind == "say":
            self.lines.append(f"{pad}print({len(self.lines)}{self.choice(['', f', np.round({one}, 6)'])})")
        elif kind == "for":
            self.lines.append(f"{pad}for i{len(pad)} in range({self.choice(['k', 'k', '2', 'k - 1'])}):")
            self._block(pad + "    ", room - 1)
        else:
            self.lines.append(f"{pad}if {self.choice(['k > 0', 'k > 1', 'k == 1'])}:")
            self._block(pad + "    ", room - 1)
            if self.choice([True, False]):
                self.lines.append(f"{pad}else:")
                self._block(pad + "    ", room - 1)
