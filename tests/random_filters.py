"""Random filters, scans and recurrences: loops that store elements and read them, here or later.

`text(seed)` is a program `f(x, k)` of a vector and of as many integers between 0 and its size. Some
loops write each element once; others write one again: by an index of data, in an inner loop, under
a test, from the end, or in a loop behind. `gradient` is the oracle: complex steps in plain Python.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

SIZE = 7
NEAR = ("i", "i", "i", "i - 1", "i - 1", "i - 2", "i + 1", "i + 2")
FAR = ("-1", "0", "3", "i - 7", "-i", "6 - i", "k[i]", "k[i] - 7", "k[i - 1]", "i // 2")
HEADS = (
    *("for i in range(2, 5):", "for i in range(2, 5):", "for i in range(2, n - 2):"),
    *("for i in range(n - 3, 1, -1):", "for i in range(2, n - 2, 2):"),
    *("i = 1", "i = n - 2"),  # of a while
)
TESTS = ("k[i] > 2", "i > 2", "k[i] == i", "x[i].real > 0.1", "i % 2 == 0", "v[i].real > 0.2")


class Writer:
    """Writes one program; every choice comes from one seeded generator."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.choice = self.random.choice
        self.lines = ["def f(x, k):", "    n = x.shape[0]"]
        self.lines += ["    v, y = x.copy(), 0.5 * x", "    u = np.outer(x, x)"]
        self.lines += ["    s, h, c = 0.0, x[0], 0"]
        if self.random.random() < 0.3:
            self.lines.append("    z = v")
        self.arrays = ["v", "y"] if self.random.random() < 0.7 else ["v"]
        self.wild = self.random.random() < 0.5
        for _ in range(self.random.choice([1, 1, 1, 2])):
            under = self.random.random() < 0.15
            if under:
                self.lines.append(f"    if k[0] > {self.choice('24')}:")
            self._loop("        " if under else "    ")
        if self.random.random() < 0.2:
            self.lines += ["    if k[1] > 2:", f"        v[{self.choice('234')}] = np.sin(v[1])"]
        self.lines.append("    return s + h + np.sum(v * v) + np.sum(np.sin(y)) + np.sum(u * u)")
        self.text = "\n".join(self.lines) + "\n"

    def _loop(self, pad: str) -> None:
        head, inside = self.choice(HEADS), pad + "    "
        if head.startswith("for"):
            self.lines.append(pad + head)
        else:
            up = head == "i = 1"
            test = "i < n - 3" if up else "i > 2"
            if self.random.random() < 0.3:
                test += f" and {self.choice(['s', 'v[i]'])}.real < 9.0"
            self.lines += [pad + head, f"{pad}while {test}:"]
            self.lines.append(f"{inside}i {'+' if up else '-'}= 1")
        for _ in range(self.random.randint(1, 4)):
            self._statement(inside, 2)

    def _statement(self, pad: str, room: int) -> None:
        kind = self.random.random()
        if room and kind < 0.15:
            self.lines.append(f"{pad}if {self.choice(TESTS)}:")
            self._statement(pad + "    ", room - 1)
            if self.wild and self.random.random() < 0.3:
                self.lines.append(f"{pad}    {self.choice(['break', 'continue'])}")
            elif self.random.random() < 0.4:
                self.lines.append(f"{pad}else:")
                self._statement(pad + "    ", room - 1)
        elif room and kind < 0.25:
            self.lines.append(f"{pad}for j in range({self.choice(['2', 'i', 'i, n', 'k[i]'])}):")
            self._inner(pad + "    ")
        elif room and kind < 0.35:
            self._named(pad)
        else:
            self.lines += [pad + line for line in self._simple()]

    def _named(self, pad: str) -> None:
        """A value that is stored on some paths, and needed on all."""
        self.lines.append(f"{pad}w = np.{self.choice(['sin', 'tanh'])}(h + {self.choice('sh')} * x[i])")
        head = self.choice([f"if {self.choice(TESTS)}:", "for j in range(k[i] - 2):", ""])
        inside = pad + "    " if head else pad
        self.lines += [pad + head] if head else []
        self.lines.append(f"{inside}{self.choice(self.arrays)}[{self._index()}] = w")
        self.lines.append(f"{pad}s = 0.5 * s + {self.choice(['w * w', 'np.exp(w)', 'w * x[i]'])}")

    def _index(self) -> str:
        return self.choice(FAR if self.wild and self.random.random() < 0.3 else NEAR)

    def _read(self) -> str:
        element = f"{self.choice(self.arrays)}[{self._index()}]"
        return self.choice([*[element] * 4, "x[i]", "h", f"u[i, {self._index()}]"])

    def _value(self) -> str:
        a, b = self._read(), self._read()
        forms = ("np.tanh({a} + 0.5 * {b})", "0.3 * np.sin({a})", "{a} * {b}", "0.5 * {a} + x[i]")
        forms += ("0.4 * {a} * {a}", "np.exp(0.1 * {a}) * np.cos({b})")
        forms += ("0.3 * np.dot({v}[i - 2:i], {v}[i - 2:i])", "np.sum({v}[:i] * x[:i])")
        forms += ("0.1 * np.sum(np.sin({v}[i:]))", "np.sum({v}[max(i - 2, 0):i])")
        forms += ("0.2 * np.sum({v}[1:min(i + 1, 4)] * x[1:min(i + 1, 4)])",)
        return self.choice(forms).format(a=a, b=b, v=self.choice(self.arrays))

    def _simple(self) -> list[str]:
        array, index, value = self.choice(self.arrays), self._index(), self._value()
        kinds: list[list[str]] = [
            [f"{array}[{index}] = {value}"],
            [f"{array}[i] = {value}", f"s += {array}[i] * {array}[i]"],
            [f"{array}[{index}] += {value}"],
            [f"{array}[i] *= np.cos({self._read()})"],
            [f"s += {value}"],
            [f"h = np.tanh(0.5 * h + {value})", f"{array}[{index}] = h"],
            [f"u[i] = np.sin(u[i - 1]) * {self._read()}"],
            [f"u[i, {index}] = {value}"],
            [f"{array}[c] = {value}", self.choice(["c += 1", "c += 1 if k[i] > 2 else 0"])],
        ]
        if self.wild:
            kinds += [["v, y = y, v"], [f"{array}[i - 2:i] *= 0.5"], [f"{array}[1:3] = {value}"]]
            kinds += [[f"u[:, i] = {array} * 0.3"], ["y = v.copy()"]]
            kinds += [[f"np.add.at({array}, k, 0.1 * h)"]]
        return self.choice(kinds)

    def _inner(self, pad: str) -> None:
        array = self.choice(self.arrays)
        self.lines += [
            pad + line
            for line in self.choice(
                [
                    [f"u[i, j] = np.tanh({self._read()} + u[i - 1, j])"],
                    [f"{array}[i] += 0.1 * {array}[j] * x[j]"],
                    [f"u[i, j] = {array}[i] * x[j]", "s += u[i, j] * u[i, j - 1]"],
                    [f"{array}[j] = np.sin({array}[j]) + 0.1 * {array}[i]"],
                    [f"s += np.sin({array}[j]) * {self._read()}"],
                ]
            )
        ]


def text(seed: int) -> str:
    """The program of a seed."""
    return Writer(seed).text


def arguments(seed: int) -> tuple[Any, Any]:
    """A vector, and integers that name some elements twice."""
    rng = np.random.default_rng(seed)
    return rng.uniform(-0.9, 0.9, SIZE), rng.integers(0, SIZE, SIZE)


def gradient(f: Callable[..., Any], x: Any, k: Any) -> Any:
    """Derivatives by complex steps of what Python computes."""
    found = np.empty(x.size)
    for place in range(x.size):
        moved = x.astype(complex)
        moved[place] += 1e-30j
        found[place] = np.imag(f(moved, k)) / 1e-30
    return found
