"""Random loops over slices that shrink or grow with each iteration, as source text."""

from __future__ import annotations

import random

RANGES = ("n", "n", "n - 1", "1, n", "n - 1, -1, -1", "n - 2, -1, -1", "n - 1, 0, -1", "k, n", "3")
SLICES = ("i:", "i:n", "i + 1 :", "i + 1 : n", ": i + 1", ":i", "i - 1 :", ": i - 1", "n - i :")
INDICES = ("i", "i", "i", "i", "i", "i - 1", "n - 1 - i", "0", "k")


class Triangles:
    """One random function of two matrices of m x n, one of n x n, and an integer k."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)

    def text(self) -> str:
        """The definition of ``program``."""
        lines = [
            "def program(x, w, g, k):",
            "    m, n = x.shape",
            "    y, z, c = np.zeros((m, n)), 0.5 * w, g.copy()",
            "    r, b = x.T.copy(), np.zeros((n, m))",
            "    s, t = 1.0, np.zeros(m)",
        ]
        for _ in range(self.random.choice([1, 1, 2])):
            lines.append(f"    for i in range({self.random.choice(RANGES)}):")
            part = self.random.choice(SLICES)
            for _ in range(self.random.randint(1, 4)):
                lines.append("        " + self.random.choice(self._kinds(part)))
        lines.append("    total = np.sum(np.sin(y)) + np.sum(z * z) + np.sum(c * c) + s")
        lines.append("    return total + np.sum(r * r) + np.sum(np.cos(b)) + np.sum(t)")
        return "import numpy as np\n\n" + "\n".join(lines) + "\n"

    def _kinds(self, part: str) -> list[str]:
        if self.random.random() < 0.15:
            part = self.random.choice(SLICES)
        pick = self.random.choice
        i, j, sign = pick(INDICES), pick(INDICES), pick(["+=", "+=", "+=", "-=", "="])
        matrix, target = pick(["x", "x", "w", "z", "b.T"]), pick(["y", "y", "z"])
        rows, into = pick(["x.T", "w.T", "r", "b"]), pick(["b", "b", "r"])
        vector = self._vector(part)
        return [
            f"{target}[:, {part}] += 0.3 * np.outer({matrix}[:, {i}], {vector})",
            f"{target}[:, {part}] += np.outer({matrix}[:, {i}], {vector})",
            f"{target}[:, {j}] {sign} {matrix}[:, {part}] @ {vector}",
            f"{into}[{part}] += np.outer({vector}, {rows}[{i}])",
            f"{into}[{part}, :] {sign} np.outer({vector}, {rows}[{i}])",
            f"{into}[{j}] {sign} {vector} @ {rows}[{part}]",
            f"c[i, {part}] = {matrix}[:, {i}] @ {matrix}[:, {part}]",
            f"c[{part}, i] = c[i, {part}] = 0.3 * np.dot({matrix}[:, {i}], {matrix}[:, {part}])",
            f"s = s + 0.1 * np.sum({matrix}[:, {part}] @ {vector})",
            f"t = np.tanh(t + {matrix}[:, {part}] @ {vector})",
        ]

    def _vector(self, part: str) -> str:
        return self.random.choice(
            [
                f"g[i, {part}]",
                f"np.sin(s * g[i, {part}])",
                f"c[i, {part}]",
                f"(0.5 * c[{part}, i])",
                f"(x[0, {part}] + t[0])",
                f"y[0, {part}]",
                f"r[{part}, 0]",
            ]
        )
