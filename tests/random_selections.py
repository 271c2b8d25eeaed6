"""Random programs that compute values with infinite slopes and use them on some paths only.

`text(seed)` is a program `f(x, v, w, k)` of a number, a vector whose elements may be zero, a vector
of ordinary numbers, and an integer. `slopes` is the oracle: dual numbers through plain Python.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np

STEEP = ("np.sqrt({})", "1.0 / {}", "np.log({})", "{} ** 0.5", "np.sqrt(np.maximum({}, 0.0))")
TESTS = (
    *("x > 0.5", "x > 2.0", "w[0] > 0.0", "w[1] < 0.3", "np.sum(v) > 2.0", "k > 1", "k == 0"),
    *("x > 0.5 and k > 0", "x > 2.0 or w[0] > 0.5", "not w[0] > 0.0"),
)
INNER = ("v[i] > 0.5", "w[i] > 0.0", "i > 1", "v[i] > 0.5 and i < k", "i != k", "s < 3.0")
GATES = ("v > 0.5", "w > 0.0", "(v > 0.5) & (w > -0.5)", "v != 0.0")


class Writer:
    """Writes one program; every choice comes from one seeded generator."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.choice = self.random.choice
        self.lines = ["def f(x, v, w, k):", "    s = 0.5 * x + np.sum(w * v)"]
        self.numbers = [self._steep("x", f"r{n}") for n in range(2)]
        self.numbers.append(self._steep("np.sum(v * v)", "q"))
        self.vectors = [self._steep("v", f"a{n}") for n in range(2)]
        for _ in range(self.random.randint(2, 4)):
            self._statement("    ", 3, False)
        self.lines.append("    return s")
        self.text = "\n".join(self.lines) + "\n"

    def _steep(self, of: str, name: str) -> str:
        self.lines.append(f"    {name} = {self.choice(STEEP).format(of)}")
        return name

    def _statement(self, pad: str, room: int, looping: bool) -> None:
        kind = self.choice(
            ["number", "number", "gate", "mask", "matrix", "if", "if", "chain", "loop", "ternary"]
            + (["element"] * 4 + ["leave"] if looping else ["return"])
        )
        if kind in ("if", "chain", "loop", "return", "leave") and not room:
            kind = "number"
        getattr(self, f"_{kind}")(pad, room, looping)

    def _test(self, looping: bool) -> str:
        tests = (*TESTS, f"{self.choice(self.numbers)} > 1.5")
        return self.choice((*INNER, *INNER, *tests) if looping else tests)

    def _number(self, pad: str, room: int, looping: bool) -> None:
        r, p = self.choice(self.numbers), self.choice(self.numbers)
        given = self.choice([r, f"np.tanh({r})", f"{r} * {p}", f"0.3 * {r}", "x * x", "0.1 * s"])
        test = self._test(looping)
        if given in ("x * x", "0.1 * s"):
            self.lines.append(f"{pad}s = s + {given}")
        else:
            self.lines += [f"{pad}if {test}:", f"{pad}    s = s + {given}"]

    def _element(self, pad: str, room: int, looping: bool) -> None:
        a = self.choice(self.vectors)
        given = self.choice([f"{a}[i]", f"np.tanh({a}[i]) * w[i]", f"{a}[i] * {a}[i]"])
        if self.choice([True, False]):
            self.lines += [f"{pad}if {self.choice(INNER[:1])}:", f"{pad}    s = s + {given}"]
        else:
            self.lines.append(f"{pad}s = s + np.where(v[i] > 0.5, {given}, 0.1 * w[i])")

    def _gate(self, pad: str, room: int, looping: bool) -> None:
        a, other = self.choice(self.vectors), self.choice(["0.0", "v * w", "w"])
        self.lines.append(f"{pad}s = s + np.sum(np.where({self.choice(GATES)}, {a}, {other}))")

    def _mask(self, pad: str, room: int, looping: bool) -> None:
        a, gate = self.choice(self.vectors), self.choice(GATES)
        match self.choice(["read", "store", "positions"]):
            case "read":
                self.lines.append(f"{pad}s = s + np.sum(np.tanh({a}[{gate}]))")
            case "store":
                self.lines += [f"{pad}y = {a}.copy()", f"{pad}y[~({gate})] = 0.3"]
                self.lines.append(f"{pad}s = s + np.sum(y * w)")
            case _:
                self.lines.append(f"{pad}s = s + np.sum({a}[np.nonzero({gate})[0]])")

    def _matrix(self, pad: str, room: int, looping: bool) -> None:
        self.lines.append(f"{pad}u = v + 3.0 * np.arange(v.size)")
        self.lines.append(f"{pad}m = np.sqrt((u[:, None] - u) ** 2)")
        given = self.choice(["np.triu(m, 1)", "np.tril(m, -1)", "np.where(np.eye(v.size) > 0, 0.0, m)"])
        fill = [f"{pad}np.fill_diagonal(m, 1.0)"] if self.choice([True, False]) else []
        self.lines += fill or [f"{pad}m = {given}"]
        self.lines.append(f"{pad}s = s + 0.1 * np.sum(m * w)")

    def _if(self, pad: str, room: int, looping: bool) -> None:
        self.lines.append(f"{pad}if {self._test(looping)}:")
        self._statement(pad + "    ", room - 1, looping)
        if self.choice([True, False]):
            self.lines.append(f"{pad}else:")
            self._statement(pad + "    ", room - 1, looping)

    def _chain(self, pad: str, room: int, looping: bool) -> None:
        for word in ("if", "elif", "elif"):
            self.lines.append(f"{pad}{word} {self._test(looping)}:")
            self._statement(pad + "    ", room - 1, looping)

    def _ternary(self, pad: str, room: int, looping: bool) -> None:
        r, p = self.choice(self.numbers), self.choice(self.numbers)
        tests = self._test(looping), self._test(looping)
        self.lines.append(
            f"{pad}s = s + ({r} if {tests[0]} else (0.2 * x if {tests[1]} else np.tanh({p})))"
        )

    def _return(self, pad: str, room: int, looping: bool) -> None:
        given = self.choice(["s", "0.0 * s + 1.0", f"s * {self.choice(self.numbers)}"])
        self.lines += [f"{pad}if {self._test(False)}:", f"{pad}    return {given}"]

    def _leave(self, pad: str, room: int, looping: bool) -> None:
        word = self.choice(["continue", "break"])
        self.lines += [f"{pad}if {self._test(True)}:", f"{pad}    {word}"]

    def _loop(self, pad: str, room: int, looping: bool) -> None:
        if looping:
            self._if(pad, room, looping)
            return
        self.lines.append(f"{pad}for i in range({self.choice(['k', 'v.size', 'v.size'])}):")
        for _ in range(self.random.randint(1, 3)):
            self._statement(pad + "    ", room - 1, True)


def text(seed: int) -> str:
    """The source of one program."""
    return Writer(seed).text


def arguments(seed: int) -> tuple[Any, ...]:
    """Arguments at which some slopes are infinite."""
    rng = np.random.default_rng(seed)
    v = np.where(rng.random(4) < 0.4, 0.0, rng.uniform(0.6, 2.0, 4))
    x = np.float64(rng.choice([0.0, 0.0, 0.7, 3.0]))
    return x, v, rng.normal(size=4), int(rng.integers(0, 4))


class Dual:
    """A number and its derivative along one direction; None if the direction does not reach it."""

    def __init__(self, value: float, slope: float | None = None):
        self.value, self.slope = float(value), slope

    def _made(self, value: float, *terms: tuple[Dual, Callable[[], float]]) -> Dual:
        """A result whose slope is the sum of those terms that the direction reaches."""
        found = [d.slope * by() for d, by in terms if d.slope is not None]
        return Dual(value, sum(found) if found else None)

    def __add__(self, other: Any) -> Any:
        if np.ndim(other):
            return NotImplemented
        b = dual(other)
        return self._made(self.value + b.value, (self, lambda: 1.0), (b, lambda: 1.0))

    def __mul__(self, other: Any) -> Any:
        if np.ndim(other):
            return NotImplemented
        b = dual(other)
        return self._made(self.value * b.value, (self, lambda: b.value), (b, lambda: self.value))

    def __truediv__(self, other: Any) -> Dual:
        b = dual(other)
        with np.errstate(all="ignore"):
            over = float(np.float64(1.0) / b.value)
            quotient = float(np.float64(self.value) / b.value)
        return self._made(quotient, (self, lambda: over), (b, lambda: -quotient * over))

    def __pow__(self, power: float) -> Dual:
        with np.errstate(all="ignore"):
            by = float(power * np.float64(self.value) ** (power - 1))
            value = float(np.float64(self.value) ** power)
        return self._made(value, (self, lambda: by))

    def sqrt(self) -> Dual:
        return self**0.5

    def log(self) -> Dual:
        with np.errstate(all="ignore"):
            value, by = float(np.log(self.value)), float(np.float64(1.0) / self.value)
        return self._made(value, (self, lambda: by))

    def tanh(self) -> Dual:
        value = math.tanh(self.value)
        return self._made(value, (self, lambda: 1.0 - value * value))

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Dual:
        return self._made(-self.value, (self, lambda: -1.0))

    def __sub__(self, other: Any) -> Dual:
        return self + -dual(other)

    def __rsub__(self, other: Any) -> Dual:
        return dual(other) - self

    def __rtruediv__(self, other: Any) -> Dual:
        return dual(other) / self

    def __lt__(self, other: Any) -> bool:
        return self.value < dual(other).value

    def __gt__(self, other: Any) -> bool:
        return self.value > dual(other).value

    def __le__(self, other: Any) -> bool:
        return self.value <= dual(other).value

    def __ge__(self, other: Any) -> bool:
        return self.value >= dual(other).value

    def __eq__(self, other: object) -> bool:
        return self.value == dual(other).value

    def __ne__(self, other: object) -> bool:
        return self.value != dual(other).value

    __hash__ = None  # type: ignore[assignment]


def dual(value: Any) -> Dual:
    """A number as one that does not change."""
    value = value.item() if isinstance(value, np.ndarray) else value
    return value if isinstance(value, Dual) else Dual(value)


class _DualNumPy:
    """NumPy on arrays of dual numbers: its functions of objects, but for what gives plain ones."""

    maximum = staticmethod(
        np.frompyfunc(lambda a, b: dual(a) if dual(a).value >= dual(b).value else dual(b), 2, 1)
    )

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


def slopes(text: str, args: tuple[Any, ...]) -> tuple[float, np.ndarray]:
    """The derivatives of the program ``f(x, v, w, k)`` by x and by the elements of v."""
    x, v, *rest = args
    names: dict[str, Any] = {"np": _DualNumPy()}
    exec(text, names)
    f = names["f"]

    def along(moved: int) -> float:
        numbers = [Dual(value, 1.0 if k == moved else None) for k, value in enumerate((x, *v))]
        found = dual(f(numbers[0], np.array(numbers[1:], dtype=object), *rest)).slope
        return 0.0 if found is None else found

    return along(0), np.array([along(k + 1) for k in range(v.size)])
