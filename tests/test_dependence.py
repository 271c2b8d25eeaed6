"""The dependence test: iterations that share no element, by inequalities, may run on threads."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from sampling import sampled
from test_access_programs import stepped

import calque
from calque.transpiler.ir.builder import Builder
from calque.transpiler.ir.types import symbol
from calque.transpiler.loops.dependence import may_alias_across_iterations

pytest.importorskip("numba")

RNG = np.random.default_rng(1)


def affine(pick: random.Random, names: list[str]):
    dim = pick.choice([0, 0, 1, 2])
    for name in names:
        dim = dim + pick.choice([0, 0, 1, 1, -1, 2]) * symbol(name)
    return dim


def value(dim, given: dict[str, int]) -> int:
    if isinstance(dim, int):
        return dim
    return dim.const + sum(c * given[s] for s, c in dim.terms)


def touched(places, bounds, n: int, i: int) -> list[set[tuple[int, ...]]]:
    """The elements that iteration ``i`` touches by each access."""
    low, high = (value(d, {"n": n, "i": i}) for d in bounds)
    iterations = [{"n": n, "i": i, "j": j} for j in range(low, high + 1)]
    return [{tuple(value(d, given) for d in place) for given in iterations} for place in places]


@pytest.mark.parametrize("seed", sampled(range(400), 100))
def test_iterations_that_never_meet_do_not(seed: int) -> None:
    """Against all iterations of small loops, one by one."""
    pick = random.Random(seed)
    builder, n, i = Builder(["n"]), symbol("n"), symbol("i")
    bounds = pick.choice([(0, i - 1), (i + 1, n - 1), (0, n - 1), (i, n - 1), (0, n - 1 - i)])
    builder.dims.ranges["i"] = (0, n - 1)
    builder.dims.ranges["j"] = bounds
    places = [tuple(affine(pick, ["i", "j", "n"]) for _ in range(2)) for _ in range(2)]
    if may_alias_across_iterations(*places, "i", frozenset(["n"]), builder):
        return
    for size in range(1, 6):
        iterations = [touched(places, bounds, size, k) for k in range(size)]
        for one, other in itertools.permutations(iterations, 2):
            assert not one[0] & other[1], (places, bounds, size)


def test_it_tells_iterations_apart() -> None:
    builder, n, i, j = Builder(["n"]), symbol("n"), symbol("i"), symbol("j")
    builder.dims.ranges |= {"i": (0, n - 1), "j": (0, i - 1)}
    steady = frozenset(["n"])
    assert not may_alias_across_iterations((i, j), (j, i), "i", steady, builder)
    assert not may_alias_across_iterations((n - 1 - i,), (n - 1 - i,), "i", steady, builder)
    assert may_alias_across_iterations((j,), (j,), "i", steady, builder)
    assert may_alias_across_iterations((i, j), (j, n - 1 - i), "i", steady, builder)
    assert may_alias_across_iterations((i, -1), (j, i), "i", steady, builder)  # -1 is n - 1
    assert may_alias_across_iterations((i, None), (i + 1, None), "i", steady, builder)


def distances(x):
    n = x.shape[0]
    found = np.zeros((n, n))
    for i in range(n):
        for j in range(i):
            total = 0.0
            for k in range(x.shape[1]):
                total += (x[i, k] - x[j, k]) ** 2
            found[i, j] = total + 1.0 / (1.0 + total)
            found[j, i] = found[i, j]
    return found


def mirrored(a):
    for i in range(a.shape[0]):
        for j in range(i + 1, a.shape[0]):
            a[i, j] = a[j, i] * 0.5
    return a


def transposed(a):
    for i in range(a.shape[0]):
        for j in range(i):
            kept = a[i, j]
            a[i, j] = a[j, i] * 3.0
            a[j, i] = kept
    return a


def turned(a):
    n = a.shape[0]
    for i in range(n // 2):
        a[i, 0], a[n - 1 - i, 0] = a[n - 1 - i, 0] * 2.0, a[i, 0]
    return a


def across(a):
    """Iteration i reads what a later, or an earlier, iteration stores."""
    n = a.shape[0]
    for i in range(n):
        for j in range(i, n):
            a[i, j] += a[j, n - 1 - i]
    return a


@pytest.mark.parametrize(
    "function, apart",
    [(distances, True), (mirrored, True), (transposed, True), (turned, True), (across, False)],
)
def test_loops(function, apart: bool) -> None:
    """On arrays that refuse indices out of range, with parallel iterations in another order."""
    for n in (7, 2, 1):
        a = RNG.normal(size=(n, n))
        jitted = calque.jit(function)
        assert ("for i in prange(" in jitted.source(a)) == apart or n == 1
        run = stepped(jitted, f"{function.__name__}_jit", (a,))
        np.testing.assert_allclose(run(a.copy()), function(a.copy()), rtol=1e-12)

        def total(x):
            return np.sum(function(x * 1.0) ** 2)

        gradient = calque.jit(calque.grad(total))
        found = stepped(gradient, "total_grad_jit", (a,))(a.copy())
        way = RNG.normal(size=a.shape)
        slope = (total(a + 1e-6 * way) - total(a - 1e-6 * way)) / 2e-6
        np.testing.assert_allclose(np.sum(found * way), slope, rtol=1e-6, atol=1e-7)
