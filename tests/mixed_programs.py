"""Random programs in which paths meet with numbers of several classes: `text(seed)` is a program.

Each is `f(x, h, k, c, q, w, n)`: arrays of float64, float32, int64, int8 and bool, a Python float
and a Python int. Names `t0`, `t1`, ... are numbers whose class differs between the paths of
branches, loops, conditional expressions, early returns and lists; what is computed with them (in
one dtype or another, in arrays too) is what the function returns.
"""

from __future__ import annotations

import random

import numpy as np

LITERALS = [
    *("0", "1", "2", "1000", "-3", "0.0", "0.1", "0.3", "-2.5", "1e300", "True", "False"),
    *("-np.inf", "np.float32(0.7)", "np.int16(300)", "np.float64(0.1)", "2.0**60", "2**53 + 1"),
]
ELEMENTS = ["x[{}]", "h[{}]", "k[{}]", "c[{}]", "q[{}]"]
UNARY = ["-({})", "abs({})", "float({})", "np.sqrt(abs({}))", "np.float32({})", "({}) * 0.1", "+({})"]
BINARY = [
    *("({}) + ({})", "({}) - ({})", "({}) * ({})", "max({}, {})", "min({}, {})"),
    *("np.maximum({}, {})", "np.add({}, {})", "({}) * 0.5 + ({})"),
]
FIXED = ["({}) / 3", "({}) // 2", "({}) % 7", "({}) / np.float32(3.0)", "({}) ** 2", "2 * ({})", "({}) + 0.1"]
TESTS = ["{} > {}", "{} <= {}", "{} == {}", "x[{i}] > 0.0", "n > 2", "q[{i}]", "h[{i}] < {}", "w > 1.0"]


class Writer:
    """Writes one program; every choice comes from one seeded generator."""

    def __init__(self, seed: int):
        self.rng = random.Random(seed)
        self.lines: list[str] = []
        self.names: list[str] = []
        self.indices: list[str] = []
        self.depth = 1
        self.budget = self.rng.randint(4, 10)

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def place(self) -> str:
        return self.rng.choice([*self.indices, "0", "1", "-1"])

    def source(self) -> str:
        """A number of one class."""
        kind = self.rng.random()
        if kind < 0.45:
            return self.rng.choice(LITERALS)
        if kind < 0.9:
            return self.rng.choice(ELEMENTS).format(self.place())
        return self.rng.choice(["w", "n", *self.indices])

    def number(self, depth: int = 2) -> str:
        kind = self.rng.random()
        if depth == 0 or kind < 0.25:
            known = self.names and self.rng.random() < 0.7
            return self.rng.choice(self.names) if known else self.source()
        if kind < 0.45:
            return self.rng.choice(UNARY).format(self.number(depth - 1))
        if kind < 0.65:
            return self.rng.choice(FIXED).format(self.number(depth - 1))
        return self.rng.choice(BINARY).format(self.number(depth - 1), self.number(depth - 1))

    def test(self) -> str:
        text = self.rng.choice(TESTS)
        left, right = self.number(1), self.number(0)
        return text.format(left, right, i=self.place())

    def target(self) -> str:
        return self.rng.choice(self.names)

    def assign(self) -> None:
        name = self.target()
        kind = self.rng.random()
        if kind < 0.5:
            self.line(f"{name} = {self.source()}")
        elif kind < 0.75:
            self.line(f"{name} = {self.number()}")
        elif kind < 0.9:
            self.line(f"{name} += {self.source()}")
        else:
            self.line(f"{name} = {self.source()} if {self.test()} else {self.number(1)}")

    def block(self, size: int) -> None:
        self.depth += 1
        for _ in range(size):
            self.statement()
        self.depth -= 1

    def branch(self) -> None:
        self.line(f"if {self.test()}:")
        self.block(self.rng.randint(1, 2))
        if self.rng.random() < 0.4:
            self.line("else:")
            self.block(1)

    def loop(self) -> None:
        index = f"i{len(self.indices)}"
        bound = self.rng.choice(["x.size", "n", "x.shape[0] - 1", "3"])
        self.line(f"for {index} in range({bound}):")
        self.indices.append(index)
        self.block(self.rng.randint(1, 3))
        self.indices.pop()
        self.depth += 1
        if self.rng.random() < 0.25:
            self.line(f"if {self.test()}:")
            self.line("    break")
        self.depth -= 1

    def walk(self) -> None:
        array = self.rng.choice("xhkcq")
        self.line(f"for v in {array}:")
        self.indices.append("1")
        self.depth += 1
        self.line(self.rng.choice(["{0} = v", "{0} = {0} + v", "{0} = v if v > {1} else {0}"]).format(
            self.target(), self.number(0)))
        self.depth -= 1
        self.indices.pop()

    def store(self) -> None:
        array, place = self.rng.choice(["y", "g"]), self.rng.choice([*self.indices, "0", "1"])
        sign = self.rng.choice(["=", "+=", "="])
        self.line(f"{array}[{place}] {sign} {self.number(1)}")

    def statement(self) -> None:
        self.budget -= 1
        kind = self.rng.random()
        if self.depth > 3 or self.budget < 0 or kind < 0.45:
            self.assign()
        elif kind < 0.65:
            self.branch()
        elif kind < 0.8 and len(self.indices) < 2:
            self.loop()
        elif kind < 0.88 and not self.indices:
            self.walk()
        elif kind < 0.93 and self.depth == 1 and not self.indices:
            self.line(f"if {self.test()}:")
            self.line(f"    return {self.returned()}")
        else:
            self.store()

    def returned(self) -> str:
        a, b = self.target(), self.number(1)
        arrays = [f"x * {a}", f"h * {a}", f"np.where(x > 0.0, {a}, x)", f"np.array([{a}, 1.0])"]
        return f"{', '.join(self.names)}, {b}, {self.rng.choice(arrays)}, y, g"

    def text(self) -> str:
        for number in range(self.rng.randint(1, 3)):
            self.names.append(f"t{number}")
            self.line(f"t{number} = {self.source()}")
        while self.budget > 0:
            self.statement()
        self.line(f"return {self.returned()}")
        head = "def f(x, h, k, c, q, w, n):\n    y, g = np.zeros(x.size), np.zeros(x.size, np.float32)\n"
        return "import numpy as np\n\n\n" + head + "\n".join(self.lines) + "\n"


def text(seed: int) -> str:
    """Program number `seed`."""
    return Writer(seed).text()


def arguments(seed: int) -> tuple:
    """Arguments of program number `seed`."""
    rng = np.random.default_rng([seed, 5])
    size = int(rng.integers(3, 5))
    return (
        rng.uniform(-2.0, 2.0, size),
        rng.uniform(-2.0, 2.0, size).astype("f4"),
        rng.choice([3, -7, 2**53 + 1, 100], size),
        rng.choice([5, -100, 120], size).astype("i1"),
        rng.uniform(size=size) < 0.5,
        float(rng.choice([0.3, 1.7])),
        int(rng.integers(0, 4)),
    )
