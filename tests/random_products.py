"""Random loops with products of rows and sums of outer products, as source text."""

from __future__ import annotations

import random

RANGES = (
    "T",
    "T",
    "1, T",
    "T - 1",
    "2, T - 1",
    "T - 1, -1, -1",
    "T - 1, 0, -1",
    "T - 2, 1, -1",
    "k, T",
    "k",
)
LOW = {"1, T": 1, "T - 1, 0, -1": 1, "2, T - 1": 2, "T - 2, 1, -1": 2}  # else 0
HIGH = {"T - 1": -1, "2, T - 1": -1, "T - 2, 1, -1": -1}  # the last iteration, from T - 1


class Products:
    """One random function of three matrices of n x n, rows x of T x n, and an integer k."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.range = "T"

    def text(self) -> str:
        """The definition of ``program``."""
        self.lines = [
            "def program(x, W, U, k):",
            "    T, n = x.shape",
            "    h = 0.1 * x[0]",
            "    y, z = x.copy(), np.zeros((n, T))",
            "    S, R = np.zeros((n, n)), 0.5 * W",
            "    columns = 1.5 * x.T",
            "    s = 0.0",
        ]
        for _ in range(self.random.choice([1, 1, 2])):
            self._loop()
        self.lines.append(
            "    return np.sum(h * h) + np.sum(y * y) + np.sum(z) + np.sum(S * S) + np.sum(R) + s"
        )
        return "import numpy as np\n\n" + "\n".join(self.lines) + "\n"

    def _loop(self) -> None:
        self.range = self.random.choice(RANGES)
        self.lines.append(f"    for t in range({self.range}):")
        self._statements("        ", self.random.randint(1, 5))

    def _statements(self, pad: str, count: int) -> None:
        for _ in range(count):
            kind = self.random.random()
            if kind < 0.08:
                self.lines.append(f"{pad}if s < 2.0:")
                self._statements(pad + "    ", 1)
            elif kind < 0.14:
                self.lines.append(f"{pad}for u in range(2):")
                self._statements(pad + "    ", 1)
            else:
                self.lines.append(pad + self.random.choice(self._kinds()))

    def _kinds(self) -> list[str]:
        row, other = self._row(), self._row()
        vector, matrix = self.random.choice(["h", row, f"({row} + h)"]), self._matrix()
        sign = self.random.choice(["+=", "+=", "-=", "="])
        place = self.random.choice(["S", "R"])
        return [
            f"h = np.tanh({row} @ {matrix} + 0.3 * h @ U)",
            f"h = np.tanh({matrix} @ {row} - h)",
            f"h = np.sin(np.dot({row}, {matrix}) + {other})",
            f"{place} += 0.1 * np.outer({row}, {vector})",
            f"{place} += np.outer({vector}, {other})",
            f"{place} -= np.outer({row}, {other})",
            f"{place} = np.outer({vector}, np.sin(h)) + {place}",
            f"y[t] {sign} {vector} @ {matrix}",
            f"y[{self._index()}] += {matrix} @ {vector}",
            f"z[:, t] {sign} {matrix} @ {vector}",
            f"z[:, {self._index()}] += h",
            f"s += 0.01 * np.sum({row} * h)",
            f"s = s + 0.01 * {row} @ ({matrix} @ {vector})",
            f"h = 0.5 * h + {self.random.choice(['S', 'R'])}[0] * 0.1",
        ]

    def _row(self) -> str:
        name = self.random.choice(["x[{}]", "x[{}]", "x[{}, :]", "columns[:, {}]", "y[{}]"])
        return name.format(self._index())

    def _matrix(self) -> str:
        return self.random.choice(["W", "U", "W", "U.T", "(0.2 * W)", "S", "R"])

    def _index(self) -> str:
        low, high = LOW.get(self.range, 0), HIGH.get(self.range, 0)
        down = [f"t - {d}" for d in range(1, low + 2)]  # one more: -1 is the last row
        up = [f"t + {d}" for d in range(1, 1 - high)]
        return self.random.choice(["t", "t", "t", "t", *down, *up, "T - 1 - t", "0", "k"])
