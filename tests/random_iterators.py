"""Random programs that make iterators, store into what they run over, and consume them later."""

from __future__ import annotations

import random

HEAD = """import functools
import itertools

import numpy as np


def program(x):
    y, m = x.copy(), np.outer(x, x)
    z = 2.0 * x
    values = [x[0], x[1] * x[2], x[3]]
    table = {"a": x[0], "b": x[1], "c": 0.5 * x[2]}
    s = 0.1

    def same(v):
        return v

    def keeps(v):
        y[1] = 0.5 * v + 0.1
        return 0.9 * v

    def both(a, b):
        z[2] = a - b
        return 0.5 * a + b

    def each(data):
        for v in data:
            yield 1.1 * v
        yield x[0]

"""


class Program:
    """One random function of a vector of five elements."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.named: list[str] = []

    def text(self) -> str:
        """The module."""
        for _ in range(self.random.randint(3, 7)):
            self._statement(1)
        self.lines.append(
            "    return s + np.sum(y * z) + np.sum(m) + sum(values) + sum(table.values())"
        )
        return HEAD + "\n".join(self.lines) + "\n"

    def _pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def _source(self) -> str:
        return self._pick("y", "y", "z", "values", "table.values()", "m[1]", "y[::-1]", "m.flat")

    def _iterator(self, depth: int) -> str:
        """An expression that gives an iterator over numbers."""
        if depth == 0:
            if self.named and self.random.random() < 0.2:
                return self.random.choice(self.named)
            return self._source()
        a = self._iterator(depth - 1)
        b = self._iterator(self.random.randint(0, depth - 1))
        f = self._pick("same", "keeps")
        return self._pick(
            f"iter({a})",
            f"map({f}, {a})",
            f"map(both, {a}, {b})",
            f"map(lambda p: p[0] + p[1], enumerate({a}))",
            f"map(lambda p: p[0] * p[1], zip({a}, {b}))",
            f"map(lambda p: p[0] - p[1], zip({a}, [1.0, 2.0, 3.0]))",
            f"itertools.chain({a}, {b})",
            f"itertools.chain.from_iterable([{a}, {b}])",
            f"itertools.islice({a}, {self._pick('2', '3', '1, 4', '0, None, 2')})",
            f"itertools.accumulate({a})",
            f"itertools.accumulate({a}, both, initial=x[4])",
            f"(p * q for p, q in itertools.pairwise({a}))",
            f"map(lambda p: sum(p), itertools.zip_longest({a}, {b}, fillvalue=0.25))",
            f"itertools.starmap(both, zip({a}, {b}))",
            f"filter(lambda v: {f}(v) is not None, {a})",
            f"itertools.takewhile(lambda v: {f}(v) is not None, {a})",
            f"itertools.dropwhile(lambda v: {f}(v) is None, {a})",
            f"itertools.filterfalse(lambda v: {f}(v) is None, {a})",
            f"itertools.compress({a}, [1, 0, 1, 1])",
            f"itertools.islice(itertools.cycle({a}), 7)",
            f"itertools.tee({a})[1]",
            f"(3.0 * v for v in {a})",
            f"({f}(v) for v in {a} if v is not None)",
            f"each({a})",
            f"reversed(list({a}))",
            f"map(lambda g: sum(g[1]), itertools.groupby({a}, lambda v: v is None))",
            f"iter(functools.partial(next, iter({a}), None), None)",
        )

    def _store(self, value: str) -> str:
        k = self.random.randint(0, 2)
        return self._pick(
            f"y[{k}] = {value}",
            f"y[{k + 2}] += {value}",
            f"z[{k}] = {value}",
            f"m[1, {k}] = {value}",
            f"values[{k}] = {value}",
            f"table['{'abc'[k]}'] = {value}",
            f"y *= 1.1; z[0] = {value}",
        )

    def _statement(self, level: int) -> None:
        pad = "    " * level
        value = self._pick("s", "0.3 * x[1]", "x[2] - 1.0", "0.2 * s * s")
        kind = self.random.randint(0, 9 if level < 3 else 5)
        depth = self.random.randint(1, 2)
        if kind <= 1:
            self.lines.append(pad + self._store(value))
        elif kind == 2 and level == 1:
            name = f"it{len(self.named)}"
            self.lines.append(f"{pad}{name} = {self._iterator(depth)}")
            self.named.append(name)
        elif kind <= 4 and self.named:
            name = self.random.choice(self.named)
            taken = self._pick(
                f"next({name}, 0.5)", f"sum(itertools.islice({name}, 2))", f"next({name}, x[0])"
            )
            self.lines.append(f"{pad}s += {taken}")
        elif kind <= 5:
            a = self._iterator(depth)
            whole = self._pick(
                f"sum({a})",
                f"functools.reduce(both, {a}, s)",
                f"max({a}, key=keeps, default=0.0)",
                f"float(any(v is None for v in {a}))",
                f"list({a})[0]",
                f"sum(p * q for p, q in zip({a}, [s, 0.5]))",
            )
            self.lines.append(f"{pad}s = 0.5 * s + 0.1 * {whole}")
        elif kind == 6:
            self.lines.append(f"{pad}if {self._pick('x[0] > 0.1', 's > 0.3', 'len(values) > 2')}:")
            self._statement(level + 1)
        elif kind == 7:
            self.lines.append(f"{pad}for k in range({self._pick('2', '3', 'len(y)')}):")
            self.lines.append(f"{pad}    s += 0.1 * y[k]")
            self._statement(level + 1)
        else:
            self.lines.append(f"{pad}for v in {self._iterator(depth)}:")
            self.lines.append(f"{pad}    s += 0.1 * v")
            self.lines.append(f"{pad}    {self._store(self._pick('v', '0.5 * s', 'v * x[1]'))}")
            if self.random.random() < 0.3:
                stop = self._pick("s > 0.4", "len(values) > 2", "v > 0.5")
                self.lines.append(f"{pad}    if {stop}:\n{pad}        break")
