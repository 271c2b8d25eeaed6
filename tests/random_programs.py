"""Random differentiable NumPy programs as source text: `text(seed)` is the same on every machine.

Every program is `f(s, x, a)` of a scalar, a vector of n and an n by n matrix, with n known only at
run time. Values stay bounded because whatever is assigned is squashed. Names called `b` and `c` are
buffers that are stored into; all other arrays are never stored into, so no alias is undecidable.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

SQUASHES = ["np.sin({})", "np.tanh({})", "np.arctan({})", "np.cos({})", "({0}) / (1.0 + ({0}) ** 2)"]
SCALAR_UNARY = [
    *SQUASHES, "np.exp(np.sin({}))", "np.sqrt(1.0 + ({}) ** 2)", "np.log(1.5 + np.cos({}))",
    "abs({})", "({}) ** 2", "-({})", "1.0 / (1.5 + np.sin({}))", "np.log1p(np.exp({}))",
]
VECTOR_UNARY = [
    *SQUASHES, "np.exp(np.sin({}))", "np.sqrt(1.0 + ({}) ** 2)", "np.abs({})", "({}) ** 2", "-({})",
    "({})[::-1]", "np.roll({}, 1)", "np.cumsum({}) / n", "np.clip({}, -0.6, 0.7)", "np.sort({})",
    "np.flip({})", "np.maximum({}, 0.0)", "np.concatenate([({0})[1:], ({0})[:1]])",
    "np.where(({0}) > 0.1, {0}, 0.3)", "({})[[0, 2, 0, 1] + list(range(4, n))]",
]
MATRIX_UNARY = [*SQUASHES, "({}).T", "({0}) @ ({0}) / n", "np.abs({})", "np.tril({})", "-({})",
                "np.cumsum({}, axis=0) / n", "np.roll({}, 1, axis=1)"]
BINARY = ["{} + {}", "{} - {}", "({}) * ({})", "({0}) / (2.0 + ({1}) ** 2)", "0.5 * ({}) + {}"]


@dataclass
class Index:
    """A loop index i with `low <= i` and `i < n - high`."""

    name: str
    low: int = 0
    high: int = 0

    def texts(self) -> list[str]:
        found = [self.name, f"n - 1 - {self.name}", f"({self.name} + 1) % n", f"(2 * {self.name}) % n"]
        if self.low >= 1:
            found += [f"{self.name} - 1"] * 2
        if self.high >= 1:
            found += [f"{self.name} + 1"] * 2
        return found


@dataclass
class Scope:
    """The names that may be read here, and what may be written."""

    scalars: list[str]
    vectors: list[str]
    matrices: list[str]
    assignable: list[str] = field(default_factory=list)
    assignable_vectors: list[str] = field(default_factory=list)
    vector_buffers: list[str] = field(default_factory=list)
    matrix_buffers: list[str] = field(default_factory=list)
    indices: list[Index] = field(default_factory=list)
    lists: list[str] = field(default_factory=list)
    loops: int = 0
    top: bool = True

    def inner(self, **changes: object) -> Scope:
        lists = {
            name: list(value) for name, value in vars(self).items() if isinstance(value, list)
        }
        return replace(self, **{**lists, "top": False, **changes})


class Writer:
    """Writes one program; every choice comes from one seeded generator."""

    def __init__(self, seed: int):
        self.rng = random.Random(seed)
        self.lines: list[str] = []
        self.depth = 1
        self.used: dict[str, int] = {}
        self.helpers: list[str] = []
        self.budget = self.rng.randint(6, 16)

    # Small tools

    def new(self, stem: str) -> str:
        self.used[stem] = self.used.get(stem, 0) + 1
        return f"{stem}{self.used[stem]}"

    def write(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    @contextlib.contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.write(head)
        self.depth += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.write("pass")
        self.depth -= 1

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def number(self) -> str:
        return f"{self.rng.choice([0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.1, 1.3])}"

    # Expressions

    def index(self, scope: Scope) -> str:
        if scope.indices and self.chance(0.75):
            return self.rng.choice(self.rng.choice(scope.indices).texts())
        return self.rng.choice(["0", "1", "2", "-1", "n - 1", "n // 2"])

    def scalar_atom(self, scope: Scope) -> str:
        vectors = scope.vectors + scope.vector_buffers
        matrices = scope.matrices + scope.matrix_buffers
        kind = self.rng.randrange(10)
        if kind < 4:
            return self.rng.choice(scope.scalars)
        if kind < 7:
            return f"{self.rng.choice(vectors)}[{self.index(scope)}]"
        if kind == 7:
            return f"{self.rng.choice(matrices)}[{self.index(scope)}, {self.index(scope)}]"
        if kind == 8 and scope.indices:
            return f"{self.number()} * {self.rng.choice(scope.indices).name}"
        return self.number()

    def scalar(self, scope: Scope, depth: int = 2) -> str:
        if depth <= 0:
            return self.scalar_atom(scope)
        kind = self.rng.randrange(12)
        if kind < 3:
            return self.rng.choice(SCALAR_UNARY).format(self.scalar(scope, depth - 1))
        if kind < 7:
            operands = self.scalar(scope, depth - 1), self.scalar(scope, depth - 1)
            return self.rng.choice(BINARY).format(*operands)
        if kind == 7:
            reduction = self.rng.choice(["np.sum({}) / n", "np.max({})", "np.mean({})", "min({})"])
            return reduction.format(self.vector(scope, depth - 1))
        if kind == 8:
            left, right = self.vector(scope, depth - 1), self.vector(scope, depth - 1)
            return f"np.dot({left}, {right}) / n"
        if kind == 9:
            pair = f"{self.scalar(scope, depth - 1)}, {self.scalar(scope, depth - 1)}"
            return self.rng.choice(["max({})", "min({})", "np.maximum({})"]).format(pair)
        if kind == 10 and self.helpers:
            arguments = f"{self.scalar(scope, depth - 1)}, {self.scalar(scope, 0)}"
            return f"{self.rng.choice(self.helpers)}({arguments})"
        if kind == 11:
            arms = self.scalar(scope, depth - 1), self.scalar(scope, 0)
            return f"({arms[0]} if {self.condition(scope, 0)} else {arms[1]})"
        return self.scalar_atom(scope)

    def vector(self, scope: Scope, depth: int = 2) -> str:
        vectors = scope.vectors + scope.vector_buffers
        matrices = scope.matrices + scope.matrix_buffers
        if depth <= 0:
            return self.rng.choice(vectors)
        kind = self.rng.randrange(10)
        if kind < 3:
            return self.rng.choice(VECTOR_UNARY).format(self.vector(scope, depth - 1))
        if kind < 6:
            operands = self.vector(scope, depth - 1), self.vector(scope, depth - 1)
            return self.rng.choice(BINARY).format(*operands)
        if kind == 6:
            return f"({self.vector(scope, depth - 1)}) * ({self.scalar(scope, depth - 1)})"
        if kind == 7:
            return f"{self.rng.choice(matrices)} @ ({self.vector(scope, depth - 1)}) / n"
        if kind == 8:
            form = self.rng.choice(["{}[{}]", "{}[:, {}]"])
            return form.format(self.rng.choice(matrices), self.index(scope))
        reduction = self.rng.choice(["np.sum({}, axis=1) / n", "np.max({}, axis=0)", "np.diag({})"])
        return reduction.format(self.matrix(scope, depth - 1))

    def matrix(self, scope: Scope, depth: int = 2) -> str:
        if depth <= 0:
            return self.rng.choice(scope.matrices + scope.matrix_buffers)
        kind = self.rng.randrange(7)
        if kind < 2:
            return self.rng.choice(MATRIX_UNARY).format(self.matrix(scope, depth - 1))
        if kind < 4:
            operands = self.matrix(scope, depth - 1), self.matrix(scope, depth - 1)
            return self.rng.choice(BINARY).format(*operands)
        if kind == 4:
            return f"np.outer({self.vector(scope, depth - 1)}, {self.vector(scope, depth - 1)})"
        if kind == 5:
            return f"({self.matrix(scope, depth - 1)}) * ({self.vector(scope, depth - 1)})"
        return f"{self.matrix(scope, depth - 1)} + ({self.vector(scope, depth - 1)})[:, None]"

    def squashed(self, text: str) -> str:
        return self.rng.choice(SQUASHES).format(text)

    def condition(self, scope: Scope, depth: int = 1) -> str:
        left, limit = self.scalar(scope, depth), self.scalar(scope, 0)
        if self.chance(0.7):
            limit = self.rng.choice(["0.0", "0.13", "-0.21", "0.57"])
        test = f"{left} {self.rng.choice(['>', '<', '>=', '<='])} {limit}"
        if self.chance(0.12):
            test = f"-2.0 < {left} < 0.4"
        if depth and self.chance(0.2):
            test = f"{test} {self.rng.choice(['and', 'or'])} {self.condition(scope, 0)}"
        return f"not ({test})" if self.chance(0.07) else test

    # Statements

    def statements(self, scope: Scope, count: int) -> None:
        for _ in range(count):
            self.statement(scope)

    def statement(self, scope: Scope) -> None:
        self.budget -= 1
        choices = [self.assign_scalar] * 3 + [self.assign_vector] * 2 + [self.store_vector] * 4
        choices += [self.store_matrix] * 3 + [self.assign_matrix]
        if self.budget > 0 and self.depth < 4:
            choices += [self.branch] * 2 + [self.for_loop] * (4 if scope.loops < 2 else 0)
            choices += [self.while_loop] * (2 if scope.loops < 1 else 0)
            choices += [self.growing_list] * (2 if scope.top else 0)
        if scope.loops:
            choices += [self.leave_iteration]
        if self.chance(0.04):
            choices = [self.early_return]
        self.rng.choice(choices)(scope)

    def assign_scalar(self, scope: Scope) -> None:
        value = self.squashed(self.scalar(scope))
        if scope.assignable and self.chance(0.7):
            name = self.rng.choice(scope.assignable)
            form = self.rng.choice([
                "{0} = {1}", "{0} = 0.5 * {0} + 0.4 * {1}", "{0} += 0.2 * {1}", "{0} *= np.cos({1})",
                "{0} -= 0.3 * {1}", "{0} = {0} * {1}", "{0} /= 1.5 + {1} ** 2",
            ])
            self.write(form.format(name, value))
        elif len(scope.assignable) > 1 and self.chance(0.3):
            left, right = self.rng.sample(scope.assignable, 2)
            self.write(f"{left}, {right} = {right}, {self.squashed(left)}")
        else:
            name = self.new("t")
            self.write(f"{name} = {value}")
            scope.scalars.append(name)
            scope.assignable.append(name)

    def assign_vector(self, scope: Scope) -> None:
        value = self.squashed(self.vector(scope))
        if scope.assignable_vectors and self.chance(0.5):
            name = self.rng.choice(scope.assignable_vectors)
            form = self.rng.choice(["{0} = {1}", "{0} = 0.5 * {0} + 0.4 * {1}", "{0} = {0} * {1}"])
            self.write(form.format(name, value))
        elif self.chance(0.35) and scope.top:
            name = self.new("b")
            self.write(f"{name} = {self.rng.choice(['x.copy()', 'np.zeros(n)', value])}")
            scope.vector_buffers.append(name)
        else:
            name = self.new("v")
            self.write(f"{name} = {value}")
            scope.vectors.append(name)
            scope.assignable_vectors.append(name)

    def assign_matrix(self, scope: Scope) -> None:
        value = self.squashed(self.matrix(scope, 1))
        if self.chance(0.5) and scope.top:
            name = self.new("c")
            self.write(f"{name} = {self.rng.choice(['a.copy()', 'np.zeros((n, n))', value])}")
            scope.matrix_buffers.append(name)
        else:
            name = self.new("m")
            self.write(f"{name} = {value}")
            scope.matrices.append(name)

    def store_vector(self, scope: Scope) -> None:
        if not scope.vector_buffers:
            return self.assign_scalar(scope)
        name = self.rng.choice(scope.vector_buffers)
        i, j = self.index(scope), self.index(scope)
        s, v = self.squashed(self.scalar(scope)), self.squashed(self.vector(scope, 1))
        old = self.vector(scope, 0)
        view = self.new("w")
        self.write(self.rng.choice([
            f"{name}[{i}] = {s}", f"{name}[{i}] = {s}", f"{name}[{i}] += 0.3 * {s}",
            f"{name}[{i}] *= {s}", f"{name}[{i}] -= 0.2 * {s}",
            f"{name}[1:] = {self.squashed(old + '[:-1]')}", f"{name}[1:-1] = 0.5 * ({old}[2:] + {old}[:-2])",
            f"{name}[:-1] += 0.3 * ({v})[1:]", f"{name}[:] = {v}", f"{name}[::2] *= np.cos({s})",
            f"{name} *= {v}", f"{name} += 0.2 * {v}", f"{name}[{name} > 0.3] = {s}",
            f"{name}[[0, 2]] = ({v})[:2]", f"{name}[[1, 1]] += 0.3 * ({v})[:2]",
            f"np.add.at({name}, [0, 2, 0], 0.3 * ({v})[:3])",
            f"{name}[{i}], {name}[{j}] = {name}[{j}], {name}[{i}]", f"np.multiply({name}, {v}, out={name})",
            f"{view} = {name}[1:]; {view}[0] = {s}; {view} *= 0.9", f"{view} = {name}; {view}[{i}] = {s}",
            f"{view} = {name}[::-1]; {view}[1:3] *= {s}; {name}[0] += 0.1 * {view}[0]",
            f"{view} = {name}[{i}]; {name}[{i}] = {s}; {name}[{j}] += 0.3 * {view}",
        ]).replace("; ", "\n" + "    " * self.depth))

    def store_matrix(self, scope: Scope) -> None:
        if not scope.matrix_buffers:
            return self.assign_scalar(scope)
        name = self.rng.choice(scope.matrix_buffers)
        i, j = self.index(scope), self.index(scope)
        s, v = self.squashed(self.scalar(scope)), self.squashed(self.vector(scope, 1))
        view = self.new("w")
        self.write(self.rng.choice([
            f"{name}[{i}, {j}] = {s}", f"{name}[{i}, {j}] += 0.3 * {s}", f"{name}[{i}] = {v}",
            f"{name}[:, {j}] = {v}", f"{name}[:, {j}] += 0.3 * {v}", f"{name}[{i}] *= {v}",
            f"{name}[1:, :-1] = 0.9 * {name}[:-1, 1:]", f"{name}[1:] += 0.2 * {name}[:-1]",
            f"{view} = {name}[{i}]; {view}[1:] *= {s}; {name}[{i}, 0] += 0.1 * {view}[1]",
            f"{view} = {name}.T; {view}[{i}] = {v}", f"{name}[{name} < -0.4] *= 0.5",
            f"{view} = {name}.reshape(-1); {view}[1] = {s}; {view}[::3] *= 0.8",
            f"{name}[[0, 1], [1, 2]] = ({v})[:2]", f"{name}[{i}], {name}[{j}] = {v}, {name}[{i}] * {s}",
            f"np.add.at({name}, ([0, 0, 1], [1, 1, 2]), 0.2 * {s})",
        ]).replace("; ", "\n" + "    " * self.depth))

    def branch(self, scope: Scope) -> None:
        with self.block(f"if {self.condition(scope)}:"):
            self.statements(scope.inner(), self.rng.randint(1, 2))
        if self.chance(0.25):
            with self.block(f"elif {self.condition(scope, 0)}:"):
                self.statements(scope.inner(), 1)
        if self.chance(0.6):
            with self.block("else:"):
                self.statements(scope.inner(), self.rng.randint(1, 2))

    def loop_head(self, scope: Scope, inner: Scope) -> str:
        name = self.new("i")
        form = self.rng.randrange(9)
        if form < 5:
            ranges = [("range(n)", 0, 0), ("range(1, n)", 1, 0), ("range(n - 1)", 0, 1),
                      ("range(1, n - 1)", 1, 1), ("range(n - 1, -1, -1)", 0, 0), ("range(3)", 0, 0),
                      ("range(n - 2, 0, -1)", 1, 1), ("range(0, n, 2)", 0, 0)]
            text, low, high = self.rng.choice(ranges)
            if scope.indices and self.chance(0.25):
                text, low = f"range({scope.indices[-1].name}, n)", 0
                high = 0
            inner.indices.append(Index(name, low, high))
            return f"for {name} in {text}:"
        source = self.vector(scope, 1)
        if form == 5:
            inner.scalars.append(name)
            return f"for {name} in {source}:"
        if form == 6:
            value = self.new("e")
            inner.indices.append(Index(name))
            inner.scalars.append(value)
            return f"for {name}, {value} in enumerate({source}):"
        if form == 7:
            other = self.new("e")
            inner.scalars += [name, other]
            return f"for {name}, {other} in zip({source}, {self.vector(scope, 0)}):"
        inner.vectors.append(name)
        return f"for {name} in {self.rng.choice(scope.matrices + scope.matrix_buffers)}:"

    def for_loop(self, scope: Scope) -> None:
        if not scope.assignable:
            self.assign_scalar(scope)
        inner = scope.inner(loops=scope.loops + 1)
        with self.block(self.loop_head(scope, inner)):
            self.statements(inner, self.rng.randint(1, 3))
            self.assign_scalar(inner)
        if self.chance(0.08):
            with self.block("else:"):
                self.assign_scalar(scope.inner())

    def while_loop(self, scope: Scope) -> None:
        counter = self.new("k")
        self.write(f"{counter} = 0")
        inner = scope.inner(loops=scope.loops + 1)
        extra = f" and ({self.condition(scope, 1)})" if self.chance(0.5) else ""
        with self.block(f"while {counter} < {self.rng.choice(['n', '3', 'n - 1'])}{extra}:"):
            inner.indices.append(Index(f"({counter} - 1)"))
            self.write(f"{counter} += 1")
            self.statements(inner, self.rng.randint(1, 3))

    def leave_iteration(self, scope: Scope) -> None:
        with self.block(f"if {self.condition(scope)}:"):
            if self.chance(0.4):
                self.statement(scope.inner(loops=0))
            self.write(self.rng.choice(["break", "continue"]))

    def early_return(self, scope: Scope) -> None:
        with self.block(f"if {self.condition(scope)}:"):
            self.write(f"return {self.squashed(self.scalar(scope))} + 0.1 * s")

    def growing_list(self, scope: Scope) -> None:
        name, total = self.new("out"), self.new("t")
        self.write(f"{name} = []")
        inner = scope.inner(loops=1)
        with self.block(self.loop_head(scope, inner)):
            if self.chance(0.6):
                self.statement(inner)
            self.write(f"{name}.append({self.squashed(self.scalar(inner))})")
        array = self.new("v")
        self.write(f"{array} = np.array({name})")
        self.write(f"{total} = np.sum({array} * {array}) + np.sum(np.sin({array}))")
        scope.scalars.append(total)

    # The whole program

    def helper(self) -> list[str]:
        name = self.new("h")
        self.lines, self.depth = [], 1
        scope = Scope(["p", "q"], ["np.array([p, q, 0.5])"], [], assignable=["p", "q"])
        forms = [
            f"if {self.rng.choice(['p', 'q', 'p * q'])} > {self.number()}:\n        return np.sin(p) * q",
            f"for i in range(3):\n        p = {self.squashed('p + 0.3 * i * q')}",
            f"q = {self.squashed('p * q')}",
            f"r = {self.squashed('p - q')}\n    if r > p:\n        p, q = q, r",
            "k = 0\n    while k < 3 and p < 0.9:\n        p = 0.5 * p + 0.6\n        k += 1",
        ]
        for form in self.rng.sample(forms, 2):
            self.write(form)
        self.write(f"return {self.rng.choice(SCALAR_UNARY).format('p + 0.5 * q')}")
        assert scope.scalars
        self.helpers.append(name)
        return [f"def {name}(p, q):", *self.lines, "", ""]

    def program(self) -> str:
        helpers = [line for _ in range(self.rng.randint(0, 2)) for line in self.helper()]
        self.lines, self.depth = [], 1
        scope = Scope(["s"], ["x"], ["a"], assignable=["s"])
        self.write("n = x.shape[0]")
        if self.chance(0.7):
            self.write(f"b1 = {self.rng.choice(['x.copy()', 'np.zeros(n)', 'np.sin(x) + s'])}")
            self.used["b"] = 1
            scope.vector_buffers.append("b1")
        if self.chance(0.4):
            self.write(f"c1 = {self.rng.choice(['a.copy()', 'np.zeros((n, n))', 'a * x'])}")
            self.used["c"] = 1
            scope.matrix_buffers.append("c1")
        if self.chance(0.15):
            scope.vector_buffers.append("x")
            scope.vectors.remove("x")
            scope.vectors.append("np.ones(n)")
        if self.chance(0.5):
            self.write(f"t1 = {self.rng.choice(['0', '0.0', '1.0'])}")
            self.used["t"] = 1
            scope.scalars.append("t1")
            scope.assignable.append("t1")
        while self.budget > 0:
            self.statement(scope)
        terms = [f"{self.number()} * {name}" for name in scope.scalars]
        arrays = scope.vectors + scope.matrices + scope.vector_buffers + scope.matrix_buffers
        terms += [f"{self.number()} * np.sum({name} * {name})" for name in arrays]
        self.write("return " + " + ".join(dict.fromkeys(terms)))
        return "\n".join(["import numpy as np", "", "", *helpers, "def f(s, x, a):", *self.lines, ""])


def text(seed: int) -> str:
    """The source text of program number `seed`."""
    return Writer(seed).program()
