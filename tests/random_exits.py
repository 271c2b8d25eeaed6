"""Random functions of branches and loops that are left in many places, as text."""

from __future__ import annotations

import random

TESTS = ("s > {a}", "x[{i}] > {b}", "s * x[{i}] < {b}", "u < s", "u > {b}")
VALUES = (
    *("s = s + x[{i}] * {c}", "u = np.sin(s) + {c}", "s = 0.7 * s + u", "k = {k}", "u = u * k"),
    *("v = np.array([s, u])", "s = s + 0.1 * v[0] * v[1]", "v[1] = 0.3 * s", "s = nested(s, u)"),
    *("m = None", "m = s", "m = 1.5", "s = s + (0.0 if m is None else m)", "d['a'] += 0.2 * s"),
)
EXITS = ("return s * {c}", "return u", "return v[0] + s")
LOOPS = (
    *("for w, kind in [(1.0, 'a'), (0.5, 'b'), (2.0, 'a')]:", "for w in (0.5, s, u):"),
    *("for w in range(3):", "for w in range(n):"),
)


class Exits:
    """One random function of a vector of four numbers and a count."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)

    def text(self) -> str:
        """The definition of ``program``, and of a function that it calls."""
        lines = ["def nested(a, b):", "    if a > b:", "        if a > 3.0:"]
        lines += ["            return 0.5 * a", "        a = a - b", "    return 0.1 + a * b", ""]
        lines += ["def program(x, n=2):", "    s, u, k, m = x[0], x[1], 1, None"]
        lines += ["    v = np.array([s, u])", "    d = {'a': 0.0}"]
        for _ in range(3):
            self.left = self.random.randint(6, 16)
            lines += self._block("    ", 0, False)
        lines.append("    return s + u * 0.5 + v[0] * v[1] + d['a'] + k")
        return "import numpy as np\n\n" + "\n".join(lines) + "\n"

    def _filled(self, texts: tuple[str, ...]) -> str:
        uniform, integer = self.random.uniform, self.random.randint
        numbers = {"a": uniform(-2.0, 4.0), "b": uniform(-1.5, 1.5), "c": uniform(0.2, 1.5)}
        rounded = {name: f"{number:.2f}" for name, number in numbers.items()}
        return self.random.choice(texts).format(**rounded, i=integer(0, 3), k=integer(1, 3))

    def _block(self, indent: str, depth: int, looping: bool) -> list[str]:
        lines: list[str] = []
        for _ in range(self.random.randint(1, 4)):
            if self.left <= 0:
                break
            self.left -= 1
            which = self.random.random()
            if which < 0.12 and depth:
                exits = EXITS + ("break", "continue", "continue") * looping
                return [*lines, indent + self._filled(exits)]
            if which < 0.24 and depth < 3:
                lines.append(indent + self.random.choice(LOOPS))
                lines.append(f"{indent}    s = s + 0.1 * w")
                lines += self._block(indent + "    ", depth + 1, True)
            elif which < 0.7 and depth < 4:
                lines += self._branch(indent, depth, looping)
            else:
                lines.append(indent + self._filled(VALUES))
        return lines or [f"{indent}pass"]

    def _branch(self, indent: str, depth: int, looping: bool) -> list[str]:
        heads = [f"if {self._filled(TESTS)}:"]
        heads += [f"elif {self._filled(TESTS)}:"] * (self.random.random() < 0.25)
        heads += ["else:"] * (self.random.random() < 0.5)
        lines: list[str] = []
        for head in heads:
            lines += [indent + head, *self._block(indent + "    ", depth + 1, looping)]
        return lines
