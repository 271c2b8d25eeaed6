"""Sums that stencils add to their neighbours in the sweep back, gathered: random ones keep their meaning."""

from __future__ import annotations

import linecache
import random
from typing import Any

import numpy as np
import pytest
from sampling import sampled

import calque
from calque.transpiler.loops import place_loops

RNG = np.random.default_rng(4)


def blurred(A, B):
    n, m = A.shape
    for i in range(1, n - 1):
        for j in range(1, m - 1):
            B[i, j] = 0.2 * (A[i, j] + A[i, j - 1] + A[i, j + 1] + A[i + 1, j] + A[i - 1, j])
    return np.sum(B * B * A)


def neighbours(x):
    y = np.zeros_like(x)
    for _ in range(2):
        for i in range(2, x.size - 2):
            y[i] = 0.5 * x[i - 2] - 0.25 * x[i + 2] + x[i] * x[i]
    return np.sum(y * y)


def fields(a, b, c):
    """Two loops with other bounds add to one array."""
    n, m = c.shape
    for _ in range(3):
        for i in range(1, n):
            for j in range(m):
                a[i, j] = a[i, j] - 0.5 * (c[i, j] - c[i - 1, j])
        for i in range(n):
            for j in range(1, m):
                b[i, j] = b[i, j] - 0.5 * (c[i, j] - c[i, j - 1])
        for i in range(n - 1):
            for j in range(m - 1):
                c[i, j] = c[i, j] - 0.7 * (b[i, j + 1] - b[i, j] + a[i + 1, j] - a[i, j])
    return np.sum(c * c)


def sliced(u):
    for _ in range(2):
        u[1:-1, 1:-1, 1:-1] += 0.1 * (
            u[2:, 1:-1, 1:-1] + u[:-2, 1:-1, 1:-1] + u[1:-1, 2:, 1:-1] - u[1:-1, :-2, 1:-1]
            + u[1:-1, 1:-1, 2:] - 2.0 * u[1:-1, 1:-1, :-2]
        )
    return np.sum(u * u)


def read_between(A, D):
    """The sweep back reads what one loop adds, before the other one adds more."""
    n, m = A.shape
    B, C = np.zeros_like(A), np.zeros_like(A)
    for _ in range(2):
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                B[i, j] = A[i - 1, j] + 0.5 * A[i, j + 1]
        A += 2.0 * D * D
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                C[i, j] = A[i, j - 1] - 0.3 * A[i + 1, j]
    return np.sum(B * B * C) + np.sum(A * A)


def seidel(A):
    """Each iteration needs the one before: nothing may be gathered."""
    n, m = A.shape
    for i in range(1, n - 1):
        for j in range(1, m - 1):
            A[i, j] = 0.25 * (A[i - 1, j] + A[i + 1, j] + A[i, j - 1] + A[i, j + 1])
    return np.sum(A * A)


def rows(A):
    """A row needs the one before: sums are gathered along rows alone."""
    n, m = A.shape
    B = np.zeros_like(A)
    for i in range(1, n):
        for j in range(1, m - 1):
            B[i, j] = A[i, j - 1] + 0.5 * A[i, j + 1] + 0.3 * B[i - 1, j]
    return np.sum(B * B)


def triangle(A):
    """The bounds of a row follow the other counter, and it may be too short."""
    n = A.shape[0]
    B = np.zeros_like(A)
    for i in range(1, n - 1):
        for j in range(i, n - 1):
            B[i, j] = A[i, j - 1] + 0.5 * A[i, j + 1] + A[i - 1, j] * A[i + 1, j]
    return np.sum(B * B)


def handed_on(x, y, z):
    """In the sweep back the second sum's terms read what the first loop's other sum leaves."""
    for _ in range(2):
        for i in range(1, x.size - 1):
            x[i] += y[i - 1] + y[i + 1]
        for i in range(1, x.size - 1):
            z[i] += 0.5 * z[i - 1] + x[i - 1] + 0.3 * x[i + 1] + y[i - 1] + 0.25 * y[i + 1]
    return np.sum(z * z)


SHAPES = {
    blurred: [(7, 8), (7, 8)],
    neighbours: [(11,)],
    fields: [(6, 7)] * 3,
    sliced: [(6, 7, 8)],
    read_between: [(6, 7), (6, 7)],
    seidel: [(6, 7)],
    rows: [(6, 7)],
    triangle: [(7, 7)],
    handed_on: [(9,)] * 3,
}
TERMS = {  # of the longest sum
    blurred: 5,
    neighbours: 3,
    fields: 4,
    sliced: 6,
    read_between: 2,
    seidel: 0,
    rows: 2,
    triangle: 0,
    handed_on: 4,
}


@pytest.fixture
def sums(monkeypatch: Any) -> list[int]:
    """A list that gets the number of terms of each gathered sum."""
    found: list[int] = []
    write = place_loops.PlaceLoops.write

    def noted(self: Any, version: Any) -> Any:
        found.append(len(self.terms))
        return write(self, version)

    monkeypatch.setattr(place_loops.PlaceLoops, "write", noted)
    monkeypatch.setenv("CALQUE_JIT", "0")
    return found


def same_gradient(fn: Any, *several: Any, note: str = "") -> None:
    """Compiled and plain gradients agree for several arguments; the plain ones gather nothing."""
    plain = calque.grad(fn, argnums=tuple(range(len(several[0]))))
    compiled = calque.jit(plain)
    for args in several:
        for f, w in zip(compiled(*args), plain(*args), strict=True):
            np.testing.assert_allclose(f, w, rtol=1e-10, atol=1e-10, err_msg=note)


@pytest.mark.parametrize("fn", SHAPES, ids=lambda fn: fn.__name__)
def test_programs(fn: Any, sums: list[int]) -> None:
    args = [RNG.normal(size=shape) for shape in SHAPES[fn]]
    same_gradient(fn, args)
    ways = [RNG.normal(size=shape) for shape in SHAPES[fn]]
    found = calque.jit(calque.grad(fn, argnums=tuple(range(len(args)))))(*args)
    slope = sum(np.vdot(f, w) for f, w in zip(found, ways, strict=True))
    sides = [fn(*(a + h * w for a, w in zip(args, ways, strict=True))) for h in (1e-6, -1e-6)]
    assert np.isclose(slope, (sides[0] - sides[1]) / 2e-6, rtol=1e-6)
    assert max(sums, default=0) == TERMS[fn]


@pytest.mark.parametrize("shape", [(3, 3), (2, 5), (4, 3), (5, 5), (3, 9), (1, 1)])
def test_small_grids(shape: tuple[int, int], sums: list[int]) -> None:
    """If a row is so short that both of its borders meet, the program without gathers runs."""
    args = [RNG.normal(size=shape) for _ in range(2)]
    same_gradient(blurred, args)


def test_text() -> None:
    source = calque.jit(calque.grad(neighbours)).source(np.ones(9), stage="kernels")
    assert "for i in vrange(4, x.size - 4):" in source, source
    assert "        x_bar[x.size - 1] -= 0.25 * y_bar" in source, source


def test_not_a_number_stays_where_it_is(sums: list[int]) -> None:
    """A border value that no iteration reads must not reach its neighbours."""
    A, B = RNG.normal(size=(7, 8)), RNG.normal(size=(7, 8))
    B[0, :] = B[:, 0] = np.nan
    found = calque.jit(calque.grad(blurred))(A, B)
    want = calque.grad(blurred)(A, B)
    np.testing.assert_allclose(found, want, rtol=1e-12)
    assert np.isnan(found).sum() == np.isnan(want).sum() == 14


def stencil(seed: int) -> tuple[str, int]:
    """A random program with stencils, and the rank of its arrays."""
    pick = random.Random(seed)
    rank = pick.choice([1, 2, 2, 2, 3])
    counters = "ijk"[:rank]
    names = pick.choice(["AB", "ABC", "ABC"])

    def element(name: str, most: int) -> str:
        shifts = [pick.choice([0, 0, *range(-most, most + 1)]) for _ in counters]
        index = [c if not s else f"{c} + {s}" if s > 0 else f"{c} - {-s}" for c, s in zip(counters, shifts)]
        if pick.random() < 0.05:
            index[pick.randrange(rank)] = "1"
        if pick.random() < 0.03:
            index.reverse()
        return f"{name}[{', '.join(index)}]"

    def value(source: str) -> str:
        parts = []
        for _ in range(pick.randint(2, 5)):
            read = element(source, pick.choice([1, 1, 2]))
            kind = pick.random()
            if kind < 0.6:
                parts.append(f"{pick.choice([0.5, 0.25, 0.3])} * {read}")
            elif kind < 0.8:
                parts.append(read)
            elif kind < 0.9:
                parts.append(f"{read} * {element(pick.choice(names), 1)}")
            else:
                parts.append(f"0.1 * np.sin({read})")
        return pick.choice([" + ", " - "]).join(parts)

    lines = [f"def program({', '.join(names)}):", f"    n = {names[0]}.shape[0]", "    for _ in range(2):"]
    for _ in range(pick.randint(1, 3)):
        pad = "        "
        for k, c in enumerate(counters):
            bounds = pick.choice(["2, n - 2", "2, n - 2", "n - 3, 1, -1", "3, n - 2", "2, n - 3"])
            if k and pick.random() < 0.1:
                bounds = pick.choice([f"2, {counters[k - 1]}", f"{counters[k - 1]}, n - 2"])
            if pick.random() < 0.05:
                bounds = "2, n - 2, 2"
            lines.append(f"{pad}for {c} in range({bounds}):")
            pad += "    "
        for _ in range(pick.choice([1, 1, 2])):
            target = pick.choice(names)
            source = pick.choice(names.replace(target, "")) if pick.random() < 0.85 else target
            sign = pick.choice(["=", "=", "+=", "-="])
            shift = 0 if pick.random() < 0.7 else 1
            lines.append(f"{pad}{element(target, shift)} {sign} {value(source)}")
    total = " + ".join(f"np.sum({name} * {name})" for name in names)
    return "import numpy as np\n\n" + "\n".join([*lines, f"    return {total}"]) + "\n", rank


def test_random_stencils(sums: list[int]) -> None:
    seeds = sampled(range(40), 3)
    for seed in seeds:
        text, rank = stencil(seed)
        name = f"<stencil {seed}>"
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        scope: dict[str, Any] = {}
        exec(compile(text, name, "exec"), scope)
        program = scope["program"]
        rng = np.random.default_rng(seed)
        several = [
            [rng.normal(size=(n,) * rank) for _ in range(program.__code__.co_argcount)]
            for n in ((9, 5) if rank < 3 else (7, 5))
        ]
        with np.errstate(all="ignore"):
            same_gradient(program, *several, note=text)
    assert len(sums) >= len(seeds), "too few stencils that are gathered"


def penalty(x, c):
    """One of the terms that meet is a number from outside of the loop."""
    return np.sum(x[:2]) * c[0] + np.sum(x[:2] ** 2)


def penalty_of_row(w, c):
    return c[0] * np.sum(w[0]) + np.sum(w[0] ** 2)


def test_a_term_from_outside_of_the_loop() -> None:
    x, c = np.arange(1.0, 4.0), np.arange(2.0, 5.0)
    np.testing.assert_allclose(calque.jit(calque.grad(penalty))(x, c), [4.0, 6.0, 0.0])
    w = np.arange(6.0).reshape(2, 3)
    expected = [2.0 * w[0] + c[0], np.zeros(3)]
    np.testing.assert_allclose(calque.jit(calque.grad(penalty_of_row))(w, c), expected)
