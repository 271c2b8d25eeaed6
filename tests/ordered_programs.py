"""Random programs of sums in loops that passes reorder or turn into products: `text(seed)`.

Each is `f(x, y, a, k)`: two vectors of n, an n by n matrix and n places. All that is computed is
arithmetic, so that kernels which keep the program's order give its bits.
"""

from __future__ import annotations

import random

import numpy as np

SCALARS = ["x[{i}]", "y[{i}]", "a[{i}, {j}]", "a[{j}, {i}]", "z[{i}]", "s", "0.3", "x[{i}] * y[{j}]", "1.7", "t"]
STATEMENTS = [
    *("s += {e}", "s = s + {e}", "s -= {e}", "s = 0.9 * s + {e}", "s = s * 0.5 + {e} * {e2}"),
    *("z[{i}] += {e}", "z[{i}] -= {e} * {e2}", "z[{i}] = {e} + {e2}", "z[{i}] = z[{i}] * 0.5 + {e}"),
    *("z[k[{i}]] += {e}", "w[{i}, {j}] += {e}", "w[{i}, {j}] += {e} * {e2}", "t = {e} - {e2}"),
    *("s += 2.0 * {e} * 3.0", "s += {e} / 3.0", "s += {e} ** 3", "s = s + {e} - {e2}", "t -= {e} / x.size"),
    *("z[{i}] *= {e}", "z[{i}] /= 2.0 + abs({e})", "s += ({e} + 1.1) - 1.1", "w[{i}, {j}] -= 0.1 * {e} * {e2}"),
    *("s += np.sqrt(abs({e}))", "s += {e} / (2.0 + abs({e2}))", "s = max(s, {e})", "t += {e} if {e2} > 0.0 else 0.1"),
]
SHIFTED = [
    *("z[{i} - 1] -= {e}", "z[{i} - 1] += {e}\nz[{i}] += {e2}", "z[{i}] = 0.5 * z[{i} - 1] + {e}"),
    "z[{i}] += x[{i}] * z[{i} - 1]",
]
WHOLE = [
    *("s += np.sum(x * y)", "z = z + x * y", "z = 0.3 * x + y * z", "s += np.dot(x, y)", "z = a @ x + z"),
    *("z = np.cumsum(x) + z", "s += np.mean(z)", "z += np.sum(a, axis=0)", "w = w + np.outer(x, y)"),
    *("z = z + np.sum(a * x, axis=1)", "s += z.sum()", "w += a * x", "s += np.sum(x[:k[0]] * y[:k[0]])"),
]
IN_LOOPS = ["s += np.dot(a[{i}], x)", "z[{i}] += np.sum(a[{i}] * y)", "z += a[{i}] * x[{i}]", "w[{i}] += a[{i}] * y",
            "z[{i}] += a[{i}] @ y", "s += a[{i}, :].sum()", "w += np.outer(a[{i}], x)"]


class Writer:
    """Writes one program; every choice comes from one seeded generator."""

    def __init__(self, seed: int):
        self.rng = random.Random(seed)
        self.lines: list[str] = []

    def line(self, depth: int, text: str) -> None:
        self.lines += ["    " * depth + part for part in text.split("\n")]

    def element(self, indices: list[str]) -> str:
        text = self.rng.choice(SCALARS)
        if self.rng.random() < 0.3:
            text = f"{text} * {self.rng.choice(SCALARS)}"
        return text.replace("{i}", self.rng.choice(indices)).replace("{j}", self.rng.choice(indices))

    def filled(self, text: str, indices: list[str]) -> str:
        i, j = self.rng.choice(indices), self.rng.choice(indices)
        text = text.replace("{e2}", f"({self.element(indices)})").replace("{e}", f"({self.element(indices)})")
        return text.replace("{i}", i).replace("{j}", j)

    def loop(self, depth: int, indices: list[str]) -> None:
        name = "ijl"[len(indices)]
        first = self.rng.choice(["0", "0", "1"])
        bounds = {"0": "x.size", "1": "1, x.size"}[first]
        if indices and self.rng.random() < 0.2:
            bounds = self.rng.choice([f"{indices[-1]} + 1", f"{indices[-1]}, x.size"])
            first = "0"
        self.line(depth, f"for {name} in range({bounds}):")
        inner = [*indices, name]
        for _ in range(self.rng.randint(1, 3)):
            kind = self.rng.random()
            if kind < 0.35 and len(inner) < 3:
                self.loop(depth + 1, inner)
            elif kind < 0.5 and first == "1":
                self.line(depth + 1, self.filled(self.rng.choice(SHIFTED).replace("{i}", name), inner))
            elif kind < 0.62 and len(inner) == 1:
                self.line(depth + 1, self.rng.choice(IN_LOOPS).replace("{i}", name))
            elif kind < 0.7:
                self.line(depth + 1, f"if {self.element(inner)} > 0.1:")
                self.line(depth + 2, self.filled(self.rng.choice(STATEMENTS), inner))
            else:
                self.line(depth + 1, self.filled(self.rng.choice(STATEMENTS), inner))

    def text(self) -> str:
        self.line(1, "s, t = 0.0, 0.0\nz, w = np.zeros_like(x), np.zeros_like(a)")
        for _ in range(self.rng.randint(2, 4)):
            if self.rng.random() < 0.7:
                self.loop(1, [])
            else:
                self.line(1, self.rng.choice(WHOLE))
        self.line(1, "return s, t, z, w")
        return "import numpy as np\n\n\ndef f(x, y, a, k):\n" + "\n".join(self.lines) + "\n"


def text(seed: int) -> str:
    """Program number `seed`."""
    return Writer(seed).text()


def arguments(seed: int, dtype: str) -> tuple:
    """Arguments of program number `seed`; values stay moderate."""
    rng = np.random.default_rng([seed, 3])
    n = int(rng.integers(6, 12))
    x, y, a = rng.uniform(-0.6, 0.6, n), rng.uniform(-0.6, 0.6, n), rng.uniform(-0.6, 0.6, (n, n))
    return x.astype(dtype), y.astype(dtype), a.astype(dtype), rng.integers(0, n, n)
