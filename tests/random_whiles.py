"""Random ``while`` loops that save values and fill lists, with branches and loops within, as text."""

from __future__ import annotations

import random

TESTS = ("t < end", "t < end and y < 5.0", "t * t + 0.1 < end", "(t < end) and total < 50.0")
STEPS = ("0.011", "0.05", "0.02 + 0.001 * np.sin(y)")


class Whiles:
    """One random function of a number, a vector of three and an end."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.names = ["y", *(f"s{k}" for k in range(self.random.randint(1, 4)))]
        self.lists = [f"values{k}" for k in range(self.random.randint(0, 3))]
        self.counters = 0

    def text(self) -> str:
        """The definition of ``program``."""
        choose = self.random.choice
        lines = ["def program(x, p, end):", "    y = x", "    v = p * x", "    t = total = 0.0"]
        lines += [f"    {name} = p[{k % 3}]" for k, name in enumerate(self.names[1:])]
        lines += [f"    {name} = []" for name in self.lists]
        lines += [f"    while {choose(TESTS)}:", *self._body(" " * 8, 0)]
        lines.append(f"        t = t + {choose(STEPS)}")
        if self.random.random() < 0.2:
            lines += ["        if t > 0.7:", "            break"]
        for name in self.lists:
            lines += [f"    for each in {name}:", "        total = total + each * each"]
        counts = "".join(f" + 0.1 * len({name})" for name in self.lists)
        lines.append(f"    return {' + '.join(self.names)} + total + np.sum(v * v){counts}")
        return "import numpy as np\n\n" + "\n".join(lines) + "\n"

    def _value(self) -> str:
        a, b = self.random.choice([*self.names, "t"]), self.random.choice(self.names)
        return self.random.choice(
            [
                f"np.sin({a}) * {b}",
                f"{a} * 0.5 + np.cos({b}) * 0.3",
                f"np.tanh({a} + {b})",
                f"0.9 * {a} - 0.1 * {b} * t",
                f"np.exp(-{a} * {a})",
            ]
        )

    def _body(self, indent: str, depth: int) -> list[str]:
        several = [self._statement(indent, depth) for _ in range(self.random.randint(1, 4))]
        return [line for lines in several for line in lines] or [f"{indent}pass"]

    def _statement(self, indent: str, depth: int) -> list[str]:
        which, choose = self.random.random(), self.random.choice
        within = indent + "    "
        if which < 0.5:
            return [f"{indent}{choose(self.names)} = {self._value()}"]
        if which < 0.65 and self.lists:
            return [f"{indent}{choose(self.lists)}.append({self._value()})"]
        if which < 0.72:
            return [f"{indent}{name}.append({self._value()})" for name in self.lists]
        if which < 0.8 and depth < 2:
            test = f"{choose(self.names)} > {choose(['0.1', '-0.2', '0.4'])}"
            lines = [f"{indent}if {test}:", *self._body(within, depth + 1)]
            rest = [f"{indent}else:", *self._body(within, depth + 1)]
            return lines + rest * (self.random.random() < 0.5)
        if which < 0.88 and depth < 2:
            self.counters += 1
            own = f"c{self.counters}"
            return [
                f"{indent}{own} = {choose(['0.0', '0.3', 't'])}",
                f"{indent}while {own} < {choose(['0.5', 't + 0.4', '1.0'])}:",
                f"{within}{own} = {own} + {choose(['0.05', '0.011', '0.3'])}",
                *self._body(within, depth + 1),
            ]
        if which < 0.93 and depth < 2:
            rounds = self.random.randint(0, 3)
            return [f"{indent}for i{depth} in range({rounds}):", *self._body(within, depth + 1)]
        return [
            choose(
                [
                    f"{indent}v = np.sin(v) * 0.9 + {choose(self.names)}",
                    f"{indent}total = total + {choose(self.names)}",
                ]
            )
        ]
