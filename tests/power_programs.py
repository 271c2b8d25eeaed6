"""Random programs with integer powers and shifts whose exponents have any sign: `text(seed)`.

Each is `f(x, e, m, k, n)`: arrays of float64, of int64 with negative elements and of int64 without,
and two Python integers of any sign. Exponents are made of counters, arguments, sizes and elements.
"""

from __future__ import annotations

import random

import numpy as np

BASES = ["2", "3", "10", "-2", "1", "True", "({i} + 1)", "(k + 2)", "m[0]", "({i} - 1)"]
EXPONENTS = [
    *("{i}", "-{i}", "k", "-k", "n - {i}", "{i} - n", "{i} - 1", "int(e[{i}])", "int(e[{i}] - 2)"),
    *("abs(k)", "n // 2", "n * n", "max(k, 0)", "-2", "3", "len(x)", "x.size - 3", "c", "c - 1"),
    *("m[{i}]", "e[{i}]", "{i} % 2", "(x[{i}] > 0.0)", "k + n"),
]
FORMS = [
    *("{b} ** ({e})", "{b} ** ({e})", "pow({b}, {e})", "x[{i}] * {b} ** ({e})", "{b} ** ({e}) / 3"),
    *("np.mean({b} ** ({e}))", "np.float_power({b}, {e})", "1 << ({e})", "64 >> ({e})"),
    *("np.power({b}, {e})", "round({b} ** ({e}))", "max({b} ** ({e}), 1)", "-({b} ** ({e}))"),
    *("({b} ** ({e})) // 2", "{b} ** ({e}) > 0.5", "sum([{b} ** ({e}), 1])", "math.pow(2, {e})"),
]
STEPS = [
    *("s += {v}", "s = s + ({v})", "s += x[{i}] * ({v})", "t = t + ({v})", "y[{i}] = {v}"),
    *("y[{i}] += 1.5 * ({v})", "t = max(t, {v})"),
]
HEADS = ["for i in range(x.size):", "for i in range(3):", "while i < x.size:"]


class Writer:
    """Writes one program; every choice comes from one seeded generator."""

    def __init__(self, seed: int):
        self.rng = random.Random(seed)

    def value(self, i: str) -> str:
        form = self.rng.choice(FORMS)
        base, exponent = self.rng.choice(BASES), self.rng.choice(EXPONENTS)
        text = form.replace("{b}", base).replace("{e}", exponent)
        return text.replace("{i}", i)

    def step(self, i: str) -> str:
        return self.rng.choice(STEPS).replace("{v}", self.value(i)).replace("{i}", i)

    def body(self) -> list[str]:
        lines = [self.step("i") for _ in range(self.rng.randint(1, 2))]
        kind = self.rng.random()
        if kind < 0.3:
            lines = [f"if {self.rng.choice(['k >= 0', 'e[i] > 0', 'x[i] > 0.0', 'i > 1'])}:",
                     *("    " + line for line in lines)]
        if self.rng.random() < 0.4:
            lines.append("c += 1")
        elif self.rng.random() < 0.3:
            lines += ["if x[i] > 0.0:", "    c += 1"]
        return lines

    def text(self) -> str:
        lines = ["s, t, c, y = 0.0, 0, 0, np.zeros(x.size)"]
        if self.rng.random() < 0.5:
            lines.append(self.step("0"))
        head = self.rng.choice(HEADS)
        lines += ["i = 0", head] if head.startswith("while") else [head]
        lines += ["    " + line for line in self.body()]
        lines += ["    i += 1"] if head.startswith("while") else []
        if self.rng.random() < 0.5:
            lines.append(self.step("1"))
        lines.append("return s, t, y")
        head = "import math\n\nimport numpy as np\n\n\ndef f(x, e, m, k, n):\n"
        return head + "".join(f"    {line}\n" for line in lines)


def text(seed: int) -> str:
    """Program number `seed`."""
    return Writer(seed).text()


def arguments(seed: int) -> list[tuple]:
    """Arguments of program number `seed`, for several calls."""
    rng = np.random.default_rng([seed, 7])
    made = []
    for k, n in ((2, 3), (-1, 1), (3, -2), (0, 0)):
        x = rng.uniform(-2.0, 2.0, 3)
        made.append((x, rng.integers(-2, 4, 3), rng.integers(0, 4, 3), k, n))
    return made
