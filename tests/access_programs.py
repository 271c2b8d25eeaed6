"""Random programs over arrays of several lengths: each access is in range, or raises IndexError.

Loops may have no iterations, arrays no elements; slices, stores that later iterations read, counters,
branches, early exits of loops and statements on whole arrays stand side by side.
"""

from __future__ import annotations

import random

VECTORS = ("x", "y", "z")
LENGTH = {"x": "n", "y": "m", "z": "n"}
STARTS = ("0", "0", "1", "m", "n - 1", "n // 2", "m - 1")
TESTS = (
    *("{v} > 0.6", "{v} < 0.3", "{i} > 0", "{i} < n - 1", "{i} < m", "{i} != {j}", "{i} + 1 < m"),
    *("k < n", "0 < k < m", "k >= m", "n > m", "m > 2", "k < p", "h > k", "{i} == m", "not {i} == k"),
)
VALUES = ("{v}", "0.5 * {v}", "{v} * {w}", "{v} - {w}", "0.3 * {v} + 0.2 * {w}", "s * {v}", "{v} + 0.1 * k")


class Accesses:
    """The text of ``f(x, y, A)`` for vectors of n and m elements and a matrix of p rows, q columns."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.choice = self.random.choice
        self.counters: list[str] = []
        self.moves = True
        self.lines = [
            *("def f(x, y, A):", "    n, m = len(x), len(y)", "    p, q = A.shape"),
            f"    k, h, s, t = {self.choice(STARTS)}, {self.choice(STARTS)}, 0.0, 1.0",
            f"    z = {self.choice(['np.zeros(n)', '1.0 * x', 'np.zeros(n)', 'x[::-1] + 0.5'])}",
        ]
        for _ in range(self.choice([2, 3, 4])):
            self._part("    ", 3)
        self.lines.append(f"    return {self._end()}")
        self.text = "\n".join(self.lines) + "\n"

    def _end(self) -> str:
        return "x, y, z, A, s, t, k, h"

    # what indices are made of

    def _index(self, length: str) -> str:
        """An index of an axis, which fits more often than not."""
        own = [*self.counters, *self.counters[-1:]]
        made = ["k", "h", "k - 1", f"{length} - 1 - k", "0", "-1", f"{length} - 1", "k // 2", "m", "n // 2"]
        for c in own:
            made += [c, c, c, f"{c} - 1", f"{c} + 1", f"{length} - 1 - {c}", f"{c} // 2"]
        if len(set(own)) > 1:
            made += [f"{own[0]} - {own[1]}", f"abs({own[0]} - {own[1]})", f"{own[0]} + {own[1]}"]
        if own and self.random.random() < 0.1:
            made += [f"min({own[0]}, {length} - 1)", f"max({own[0]} - 1, 0)", f"({own[0]} + k) % {length}"]
        return self.choice(made)

    def _element(self, stored: bool = False) -> str:
        array = self.choice([*VECTORS, "A", "A"] if len(self.counters) > 1 else [*VECTORS, *VECTORS, "A"])
        if array == "A":
            return f"A[{self._index('p')}, {self._index('q')}]"
        return f"{array}[{self._index(LENGTH[array])}]"

    def _value(self) -> str:
        return self.choice(VALUES).format(v=self._element(), w=self._element())

    def _test(self) -> str:
        i, j = (self.choice(self.counters or ["k"]) for _ in range(2))
        one, two = (self.choice(TESTS).format(v=self._element(), i=i, j=j) for _ in range(2))
        return self.choice([one, one, f"{one} and {two}", f"{one} or {two}", f"not ({one})"])

    def _span(self) -> tuple[str, str]:
        """Two slices of one length, most often, of two vectors."""
        left, right = self.choice(VECTORS), self.choice(VECTORS)
        c = self.choice([*self.counters, "k", "1"])
        forms = [("1:", ":-1"), (":-1", "1:"), ("1:-1", "2:"), (":", "::-1"), ("::2", "::2"), ("::-1", ":")]
        forms += [(f"{c}:", f"{c}:"), (f":{c}", f":{c}"), (f"{c}:m", f"{c}:m"), ("1:2", "0:1"), ("2:", ":-2")]
        forms += [(f"{c}:{c} + 2", ":2"), (f":{c}", f"-{c}:")]
        one, two = self.choice(forms)
        if self.random.random() < 0.75:
            right = left if self.random.random() < 0.6 else {"x": "z", "z": "x"}.get(left, left)
        if self.random.random() < 0.2:
            row = f"A[{self._index('p')}, {one}]"
            return row, self.choice([f"A[{self._index('p')}, {two}]", f"{right}[{two}]"])
        return f"{left}[{one}]", f"{right}[{two}]"

    # statements

    def _part(self, pad: str, room: int) -> None:
        forms = ["store", "store", "whole", "sum", "move"]
        if room:
            forms += ["for", "for", "if", "while"] if self.counters else ["for"] * 5 + ["if", "while"]
        getattr(self, f"_{self.choice(forms)}")(pad, room)

    def _block(self, pad: str, room: int) -> None:
        for _ in range(self.choice([1, 1, 2, 3])):
            self._part(pad, room)

    def _store(self, pad: str, room: int) -> None:
        target = self._element()
        sign = self.choice(["=", "+=", "+=", "-=", "*="])
        self.lines.append(f"{pad}{target} {sign} {self._value()}")

    def _whole(self, pad: str, room: int) -> None:
        left, right = self._span()
        e = self._element()
        forms = [f"{left} = {right}", f"{left} += 0.5 * {right}", f"{left} = {right} * {e}", f"{left} *= {e}"]
        forms += [f"s += np.sum({right})", f"t = np.sum({left} * {right})", f"{self.choice(VECTORS)}[:] += {e}"]
        forms += [f"{left} = {left} + {right}", f"z = z + {e}", f"z = x * {e}", f"A[:, {self._index('q')}] *= {e}"]
        forms += [f"s += np.max({left}, initial=0.0)", "y = y + s", f"x = np.where(x > {e}, x, z)"]
        self.lines.append(pad + self.choice(forms))

    def _sum(self, pad: str, room: int) -> None:
        forms = [f"s += {self._value()}", f"s = {self._value()}", f"t = 0.5 * t + {self._element()}"]
        self.lines.append(pad + self.choice(forms))

    def _move(self, pad: str, room: int) -> None:
        if not self.moves:
            return self._sum(pad, room)
        c = self.choice(self.counters or ["0"])
        name = self.choice("kh")
        forms = ["+= 1", "+= 1", "-= 1", "+= 2", f"= {c}", f"= {c} + 1", "= 0", "= n - 1", f"= (k + {c}) // 2"]
        forms += ["= min(k, m)", "= max(k - 1, 0)", "= m", "= k"]
        self.lines.append(f"{pad}{name} {self.choice(forms)}")

    def _for(self, pad: str, room: int) -> None:
        name = "ijl"[len(self.counters)]
        ends = ["n", "m", "1, n", "0, n - 1", "m, n", "n, m", "p", "q", "1, m - 1", "0, n, 2", "1, n, 3"]
        ends += ["n - 1, -1, -1", "m - 1, 0, -1", "n - 1, m - 1, -1", "k, n", "k", "-1, m", "2", "0, m + 1", "n - m"]
        for c in self.counters:
            ends += [c, f"{c}, n", f"{c} + 1, m", f"{c} - 1, -1, -1", f"{c} - 1, {c} + 2", f"{c}, -1, -1", f"m - {c}"]
        self.lines.append(f"{pad}for {name} in range({self.choice(ends)}):")
        self.counters.append(name)
        self._block(pad + "    ", room - 1)
        self._leave(pad + "    ")
        self.counters.pop()

    def _leave(self, pad: str) -> None:
        if self.random.random() < 0.15:
            at = len(self.lines) if self.random.random() < 0.5 else self._first(pad)
            self.lines[at:at] = [f"{pad}if {self._test()}:", f"{pad}    {self.choice(['break', 'continue'])}"]

    def _first(self, pad: str) -> int:
        """Return the number of the first line of the block that is being written."""
        at = len(self.lines)
        while self.lines[at - 1].startswith(pad):
            at -= 1
        return at

    def _if(self, pad: str, room: int) -> None:
        self.lines.append(f"{pad}if {self._test()}:")
        self._block(pad + "    ", room - 1)
        if self.choice([True, False]):
            self.lines.append(f"{pad}else:")
            self._block(pad + "    ", room - 1)

    def _while(self, pad: str, room: int) -> None:
        if not self.moves:
            return self._store(pad, room)
        going, move = self.choice(
            [("k < n", "k += 1"), ("k >= 0", "k -= 1"), ("k > 0", "k //= 2"), ("k < m", "k += 2"), ("h > 0", "h -= 1")]
        )
        more = self.choice(["", "", f" and ({self._test()})"])
        self.lines.append(f"{pad}while {going}{more}:")
        self.moves = False
        self._block(pad + "    ", room - 1)
        self.moves = True
        self.lines.append(f"{pad}    {move}")
