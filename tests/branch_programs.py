"""Random programs whose indices the tests of branches and loops keep in range, or do not."""

from __future__ import annotations

import random

TESTS = (
    *("i > 0", "i < n - 1", "i >= 1", "i != 0", "i == 0", "i + 1 < n", "not i == n - 1", "k > i"),
    *("k < n", "k >= 0", "0 < k < n - 1", "k != n", "k <= i", "k - 1 >= 0", "n > 3", "k // 2 > 0"),
)
INDICES = ("i", "i - 1", "i + 1", "k", "k - 1", "k + 1", "n - 1 - i", "n - 1 - k", "k // 2", "n - 2")
LOOPS = (("k < n", "k = k + 1"), ("k >= 0", "k = k - 1"), ("k > 0", "k = k // 2"))
MOVES = ("k = k + 1", "k = k - 1", "k = k + 2", "k = i", "k = i - 1", "k = n - 1", "k = (k + n) // 2")


class Program:
    """The text of ``f(x, y)``, of two arrays of n elements: a loop with branches and loops in it."""

    def __init__(self, seed: int):
        self.choice = random.Random(seed).choice
        bounds = self.choice(["0, n", "1, n", "0, n - 1", "-1, n + 1"])
        start = self.choice(["0", "1", "n - 1", "n", "n // 2"])
        self.lines = ["def f(x, y):", "    n = len(x)", f"    k = {start}"]
        self.lines.append(f"    for i in range({bounds}):")
        for _ in range(2):
            self._part("        ", 2, True)
        self.lines += [f"        y[{self.choice(INDICES)}] += k", "    return y"]
        self.text = "\n".join(self.lines) + "\n"

    def _test(self) -> str:
        one, two = self.choice(TESTS), self.choice(TESTS)
        return self.choice([one, f"{one} and {two}", f"{one} or {two}", f"not ({one})"])

    def _part(self, pad: str, room: int, moves: bool) -> None:
        """A statement; blocks in it to a depth of ``room``. What it does in a loop keeps k."""
        match self.choice(["store", "store", "move", "if", "if", "while"]):
            case "if" if room:
                self.lines.append(f"{pad}if {self._test()}:")
                self._part(pad + "    ", room - 1, moves)
                if self.choice([True, False]):
                    self.lines.append(f"{pad}else:")
                    self._part(pad + "    ", room - 1, moves)
            case "while" if room and moves:
                going, move = self.choice(LOOPS)
                more = self.choice(["", f" and ({self._test()})"])
                self.lines.append(f"{pad}while {going}{more}:")
                self._part(pad + "    ", room - 1, False)
                self.lines.append(f"{pad}    {move}")
            case "move" if moves:
                self.lines.append(f"{pad}{self.choice(MOVES)}")
            case _:
                left, right = self.choice(INDICES), self.choice(INDICES)
                self.lines.append(f"{pad}y[{left}] = y[{left}] * 0.5 + x[{right}]")
