"""Sums that become rows, so that columns can become rows: random loops keep their meaning."""

from __future__ import annotations

import linecache
import random
from typing import Any

import numpy as np
import pytest
from sampling import sampled

import calque
from calque.transpiler.loops.policies import interchange

RNG = np.random.default_rng(6)


@pytest.fixture
def splits(monkeypatch: Any) -> list[Any]:
    """The loops that are split in two, and turned around."""
    found: list[Any] = []

    class Counted(interchange.Expansion):
        def split(self):
            made = super().split()
            found.append(isinstance(made, tuple))
            return made

    monkeypatch.setattr(interchange, "Expansion", Counted)
    return found


def syrk(alpha, C, A):
    for i in range(A.shape[0]):
        C[i, : i + 1] *= 1.5
        for k in range(A.shape[1]):
            C[i, : i + 1] += alpha * A[i, k] * A[: i + 1, k]
    return np.sum(C * C)


def test_the_gradient_of_a_product_of_columns() -> None:
    args: list[Any] = [0.7, RNG.normal(size=(6, 6)), RNG.normal(size=(6, 4))]
    jitted = calque.jit(calque.grad(syrk, argnums=(0, 1, 2)))
    found = jitted(*args)
    source = jitted.source(*args)
    assert "for k in vrange(A.shape[1]):" in source and "total_row[k] += " in source, source
    for k, slope in enumerate(found):
        for place in np.ndindex(np.shape(slope)):
            ends = []
            for step in (1e-6, -1e-6):
                moved = [np.array(a, float) for a in args]
                moved[k][place] += step
                ends.append(syrk(float(moved[0]), *moved[1:]))
            assert abs(np.asarray(slope)[place] - (ends[0] - ends[1]) / 2e-6) < 1e-5


def program_text(seed: int) -> str:
    pick = random.Random(seed)
    shift = lambda: pick.choice(["", "", "", " - 1", " + 1"])  # noqa: E731
    names = ["A", "B", "C"]

    def element(name: str, row: str) -> str:
        return f"{name}[{row}{shift()}, k{shift()}]"

    ks = pick.choice(["1, n - 1", "n - 2, 0, -1", "1, i + 1"])
    lines = ["def program(A, B, C, D):", "    n, grand = A.shape[0], 0.0", "    for i in range(1, n - 1):"]
    lines += [f"        for k in range({ks}):", f"            first = {element(pick.choice(['D', 'D', 'A']), 'i')}"]
    sums = ["total"] + pick.choice([[], [], ["other"]])
    lines += [f"            {name} = {pick.choice(['0.0', '0.0', '1.0', 'first'])}" for name in sums]
    lines += [f"            for j in range({pick.choice(['1, n - 1', '1, i + 1', 'i, n - 1'])}):"]
    for name in sums:
        lines += [f"                {name} += {element(pick.choice(names), 'j')} * {element('D', 'j')}"]
    if pick.random() < 0.6:
        target = pick.choice(["A", "B"])
        value = f"0.1 * first * D[i, j{shift()}]"
        lines += [f"                {element(target, 'j')} {pick.choice(['+=', '+=', '='])} {value}"]
    for _ in range(pick.randint(1, 2)):
        value = f"0.1 * {pick.choice(sums)} * {pick.choice(['first', '0.5', element(pick.choice(names), 'i')])}"
        store = f"{element(pick.choice(names), 'i')} {pick.choice(['+=', '='])} {value}"
        lines += [f"            {pick.choice([store, store, f'grand += {value}'])}"]
    return "\n".join([*lines, "    return A, B, C, grand"]) + "\n"


def same(seed: int) -> None:
    text, name = program_text(seed), f"<row sums {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope: dict[str, Any] = {}
    exec(compile(text, name, "exec"), scope)
    compiled = calque.jit(scope["program"])
    for n in (7, 3, 2):
        args = np.random.default_rng(seed).normal(size=(4, n, n))
        want = scope["program"](*(a.copy() for a in args))
        found = compiled(*(a.copy() for a in args))
        for w, f in zip(want, found, strict=True):
            np.testing.assert_allclose(f, w, rtol=1e-9, atol=1e-9, err_msg=text)


def in_order(A, B, D, E):
    """Sums and their initial values read elements that earlier iterations have written."""
    n = A.shape[0]
    for i in range(1, n):
        for k in range(1, n):
            first = A[i, k - 1]
            total = 0.0
            for j in range(n):
                total += D[j, k] * E[j, k] * first
            A[i, k] = 0.1 * total
        for k in range(1, n):
            total = 0.0
            for j in range(n):
                total += D[j, k] * B[j, k - 1]
            B[i, k] = 0.1 * total
    return A, B


def test_iterations_that_wait_for_each_other(monkeypatch: Any) -> None:
    monkeypatch.setenv("CALQUE_JIT", "0")
    args = RNG.normal(size=(4, 6, 6))
    want = in_order(*(a.copy() for a in args))
    for w, f in zip(want, calque.jit(in_order)(*(a.copy() for a in args)), strict=True):
        np.testing.assert_allclose(f, w, rtol=1e-12)
    for seed in (10, 116, 151, 157):
        same(seed)


def test_random_programs(monkeypatch: Any, splits: list[bool]) -> None:
    monkeypatch.setenv("CALQUE_JIT", "0")
    seeds = sampled(range(240), 3)
    for seed in seeds:
        same(seed)
    assert sum(splits) >= len(seeds) // 6, "too few loops that are split"


@pytest.mark.parametrize("seed", [3, 30])
def test_compiled(seed: int) -> None:
    pytest.importorskip("numba")
    same(seed)
