"""Random nests of loops whose iterations multiply rows by matrices, as source text."""

from __future__ import annotations

import random


class RowNests:
    """One random function of two arrays of p x q x n, two matrices of n x n, and a vector of n."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.odd = self.random.random() < 0.4  # with what must keep the loops

    def text(self) -> str:
        """The definition of ``program``."""
        stores = self.random.random() < 0.3
        lines = [
            "def program(A, B, C, D, v):",
            "    p, q, n = A.shape",
            *(["    A = A.copy()"] if not stores else []),
            "    E, F, S = 0.5 * B, np.zeros((p, n)), np.zeros((n, n))",
        ]
        for _ in range(self.random.choice([1, 1, 2])):
            lines += self._nest()
        lines.append("    total = np.sum(np.sin(A)) + np.sum(E * E) + np.sum(F * F)")
        lines.append("    return total + np.sum(np.cos(S)) + np.sum(v * v)")
        return "import numpy as np\n\n" + "\n".join(lines) + "\n"

    def _nest(self) -> list[str]:
        pick = self.random.choice
        outer = pick(["range(p)", "range(p)", "range(p - 1, -1, -1)", "range(A.shape[0])"])
        inner = pick(["range(q)", "range(q)", "range(q - 1, -1, -1)", "range(B.shape[1])"])
        if self.odd and self.random.random() < 0.3:
            outer = pick(["range(1, p)", "range(p - 1)", "range(0, p, 2)"])
        if self.odd and self.random.random() < 0.3:
            inner = pick(["range(1, q)", "range(r, q)", "range(min(r + 1, q))"])
        if self.random.random() < 0.25:
            return [f"    for r in {outer}:", *self._statements(8, ["r"])]
        before = self._statements(8, ["r"]) if self.random.random() < 0.2 else []
        body = self._statements(12, ["r", "k"])
        after = self._statements(8, ["r"]) if self.random.random() < 0.1 else []
        return [f"    for r in {outer}:", *before, f"        for k in {inner}:", *body, *after]

    def _statements(self, pad: int, counters: list[str]) -> list[str]:
        count = self.random.randint(1, 4)
        made = [f"{' ' * pad}w = {'B[r, k]' if len(counters) == 2 else 'F[r]'}"]
        return made + [" " * pad + self._statement(counters) for _ in range(count)]

    def _statement(self, counters: list[str]) -> str:
        pick = self.random.choice
        target, row, other = self._target(counters), self._row(counters), self._row(counters)
        matrix, sign = self._matrix(), pick(["=", "=", "=", "+=", "-="])
        return pick(
            [
                f"{target} {sign} {row} @ {matrix}",
                f"{target} {sign} {row} @ {matrix}",
                f"{target} {sign} np.dot({matrix}, {row})",
                f"{target} {sign} 0.3 * {row} - np.sin({other})",
                f"{target} {sign} np.tanh({row} @ {matrix} + {other})",
                f"S += 0.1 * np.outer({row}, {other})" if pick("ab") == "a" else "w = 0.5 * w",
                f"S += np.outer({row}, {other})",
                f"S -= np.outer({row}, {other})",
                f"w = np.cos({row}) @ {matrix}",
                f"w = {row}.copy()",
            ]
        )

    def _target(self, counters: list[str]) -> str:
        if len(counters) == 1:
            return self.random.choice(["F[r]", "F[r, :]"])
        return self.random.choice(["A[r, k]", "A[r, k, :]", "E[r, k]"])

    def _row(self, counters: list[str]) -> str:
        if self.odd and self.random.random() < 0.15:
            return self.random.choice(["A[r, 0]", "A[0, 0]", "F[0]", "F[r]", "A[r - 1, 0]", "v"])
        if len(counters) == 1:
            return self.random.choice(["F[r]", "F[r, :]", "F[r]"])
        return self.random.choice(["A[r, k]", "A[r, k, :]", "B[r, k]", "E[r, k]", "w"])

    def _matrix(self) -> str:
        matrices = ["C", "C", "D", "C.T", "D.T"]
        return self.random.choice([*matrices, "S", "(C * 0.5)"] if self.odd else matrices)
