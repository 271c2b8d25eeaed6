"""Loops over columns, turned around where that is allowed: random ones keep their meaning."""

from __future__ import annotations

import linecache
import random
from typing import Any

import numpy as np
import pytest
from sampling import sampled

import calque
from calque.runtime.transformed import Transformed

RNG = np.random.default_rng(2)


def gram_schmidt(A):
    m, n = A.shape
    Q = np.zeros((m, n))
    R = np.zeros((n, n))
    for k in range(n):
        R[k, k] = np.sqrt(np.sum(A[:, k] ** 2))
        for i in range(m):
            Q[i, k] = A[i, k] / R[k, k]
        for j in range(k + 1, n):
            for i in range(m):
                R[k, j] += Q[i, k] * A[i, j]
            for i in range(m):
                A[i, j] -= Q[i, k] * R[k, j]
    return np.sum(Q * Q * Q) + np.sum(R * R)


def rank_one(A):
    """A column of one array is added into a row of another, again and again: as sums along rows."""
    n = A.shape[0]
    C = np.zeros((n, n))
    for i in range(n):
        for k in range(n):
            C[i, : i + 1] += 0.5 * A[i, k] * A[: i + 1, k]
    return np.sum(C * C)


def shifted(A):
    """Each column needs the one before: the order must stay."""
    n = A.shape[0]
    for _ in range(2):
        for j in range(1, n):
            for i in range(1, n):
                A[i, j] = A[i - 1, j - 1] * 0.5 + A[n - 1, j - 1]
    return np.sum(A * A)


def stored_behind(A):
    """The first inner loop reads the column that the second one has stored: the order stays."""
    n = A.shape[0]
    R = np.zeros((n, n))
    for _ in range(2):
        for j in range(1, n):
            for i in range(n):
                R[i, j] += 0.5 * A[i, j - 1]
            for i in range(n):
                A[i, j] = 0.5 * A[i, j] + R[i, j]
    return np.sum(A * R)


def taken_in_turns(A):
    """Two rows that depend on each other: in reverse, each sum needs the other's last iteration."""
    x, v = A[0], A[1]
    for r in range(2):
        for _ in range(5):
            x = x + 0.3 * v
            v = v - 0.3 * np.sin(x)
        x = x + np.sum(v)
    return np.sum((x * v) ** 2)


def gathered(A):
    """Sums over columns meet in one row, which is read before."""
    n = A.shape[0]
    out = np.zeros(n)
    for k in range(2):
        for j in range(n):
            for i in range(n):
                out[i] += A[i, j] * (k + 1)
            for i in range(n):
                A[i, j] = A[i, j] * 0.5 + out[0]
    return np.sum(out * out) + np.sum(A)


def lines_of_loops(source: str) -> list[str]:
    return [line.strip() for line in source.splitlines() if line.strip().startswith("for ")]


@pytest.mark.parametrize(
    "fn",
    [gram_schmidt, rank_one, shifted, stored_behind, gathered, taken_in_turns],
    ids=lambda fn: fn.__name__,
)
def test_programs(fn: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("CALQUE_JIT", "0")
    A, way = RNG.normal(size=(5, 5)), RNG.normal(size=(5, 5))
    assert np.isclose(calque.jit(fn)(A.copy()), fn(A.copy()), rtol=1e-12)
    slope = np.vdot(calque.jit(calque.grad(fn))(A), way)
    up, down = fn(A + 1e-6 * way), fn(A - 1e-6 * way)
    assert np.isclose(slope, (up - down) / 2e-6, rtol=1e-6)


def test_columns_become_rows() -> None:
    source = calque.jit(gram_schmidt).source(np.ones((4, 4)), stage="kernels")
    assert "for j in vrange(k + 1, n):\n                R[k, j] += Q_ik * A[i, j]" in source, source
    source = calque.jit(rank_one).source(np.ones((4, 4)), stage="kernels")
    assert lines_of_loops(source)[2].startswith("for k "), source


def columns(seed: int) -> str:
    """A random program with loops over rows within one over columns."""
    pick = random.Random(seed)

    def element(i: str) -> str:
        name = pick.choice(["A", "A", "B", "B", "C"])
        row = pick.choice([i, i, f"{i} - 1", f"{i} + 1", "k", "1"])
        column = pick.choice(["j", "j", "j", "j - 1", "j + 1", "k", "0"])
        if name == "C":
            return f"C[{pick.choice([row, column])}]"
        return f"{name}[{row}, {column}]"

    lines = ["def program(A, B, C, D):", "    n = A.shape[0]", "    for k in range(1, 3):"]
    lines.append(f"        for j in range({pick.choice(['1, n - 1', 'k, n - 1', 'n - 2, 0, -1'])}):")
    factor = "0.3"
    if pick.random() < 0.4:
        factor = "d"
        lines.append(f"            d = {pick.choice(['D[k, j]', 'D[j, k] * D[k, k]', 'D[j, j - 1]'])}")
    for _ in range(pick.randint(1, 3)):
        bounds = pick.choice(["1, n - 1", "2, n - 1", "n - 2, 0, -1"])
        lines.append(f"            for i in range({bounds}):")
        for _ in range(pick.randint(1, 2)):
            sign = pick.choice(["=", "+=", "+=", "-="])
            value = f"{factor} * {element('i')} + {pick.choice(['0.2', element('i')])} * {element('i')}"
            lines.append(f"                {element('i')} {sign} {value}")
    return "\n".join([*lines, "    return A, B, C"]) + "\n"


def turned(fn: Transformed, args: Any) -> bool:
    """True if the loop over columns is the inner loop."""
    loops = lines_of_loops(fn.source(*args, stage="kernels"))
    at = next(k for k, line in enumerate(loops) if line.startswith("for k "))
    return not loops[at + 1].startswith("for j ")


def test_random_columns(monkeypatch: Any) -> None:
    monkeypatch.setenv("CALQUE_JIT", "0")
    count = 0
    seeds = sampled(range(160), 3, 1)
    for seed in seeds:
        text = columns(seed)
        name = f"<columns {seed}>"
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        scope: dict[str, Any] = {}
        exec(compile(text, name, "exec"), scope)
        rng = np.random.default_rng(seed)
        args = *rng.normal(size=(2, 6, 6)), rng.normal(size=6), rng.normal(size=(6, 6))
        want = scope["program"](*(a.copy() for a in args))
        fn = calque.jit(scope["program"])
        found = fn(*(a.copy() for a in args))
        for w, f in zip(want, found, strict=True):
            np.testing.assert_allclose(f, w, rtol=1e-10, atol=1e-10, err_msg=text)
        count += turned(fn, args)
    assert count >= min(5, len(seeds) // 5), "too few programs with columns that may be rows"


def clipped_rows(A, B):
    """Iterations of the inner loop store into one row, which other iterations read."""
    n, m = A.shape
    for _ in range(3):
        for j in range(m - 1):
            for i in range(n - 1):
                c = min(i, 3)
                B[i, j] = B[i, j] + A[c, j + 1]
                B[i, j] = B[i, j] * 1.5
                A[c + 1, j] = A[c + 1, j] * 0.5 + 1.0


def clipped_columns(A, B):
    """A column that several iterations of the outer loop store into."""
    n, m = A.shape
    for _ in range(3):
        for j in range(m - 1):
            c = min(j, 2)
            for i in range(1, n):
                B[i, j] = B[i, j] * 1.5 + A[i - 1, j]
                B[i, j] = B[i, j] + A[i, j]
                A[i, c + 1] = A[i, c] * 0.5 + A[i - 1, c + 1] + B[i, j]


@pytest.mark.parametrize("fn", [clipped_rows, clipped_columns], ids=lambda fn: fn.__name__)
def test_places_by_other_numbers_than_counters(fn: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("CALQUE_JIT", "0")
    want = RNG.normal(size=(7, 9)), RNG.normal(size=(7, 9))
    found = tuple(a.copy() for a in want)
    fn(*want)
    calque.jit(fn)(*found)
    for w, f in zip(want, found, strict=True):
        np.testing.assert_allclose(f, w, rtol=1e-12)


def centred(data):
    """In the sweep back of a batch, a loop over rows carries an array that it only reads."""
    n, m = data.shape
    mean = np.zeros(m)
    for j in range(m):
        for i in range(n):
            mean[j] += data[i, j]
        mean[j] /= n
    for i in range(n):
        for j in range(m):
            data[i, j] -= mean[j]
    return np.sum(data**3)


def test_a_loop_that_carries_what_it_only_reads() -> None:
    data = RNG.normal(size=(2, 4, 3))
    found = calque.jit(calque.vmap(calque.grad(centred)))(data)
    away = data - data.mean(axis=1, keepdims=True)
    slopes = 3 * away**2
    np.testing.assert_allclose(found, slopes - slopes.mean(axis=1, keepdims=True), rtol=1e-10)


def halves(A, C, B):
    """Two iterations touch one row: each reads what the one before stored."""
    n, m = B.shape
    for _ in range(2):
        for k in range(n):
            d = k - k // 2
            total = np.float64(0.0)
            for i in range(m):
                total += A[i, k] * C[i, k] * B[d, i]
            B[d, 0] += 0.1 * total
    return np.sum(B * B)


def test_sums_that_read_what_iterations_before_store(monkeypatch: Any) -> None:
    monkeypatch.setenv("CALQUE_JIT", "0")
    args = RNG.normal(size=(4, 5)), RNG.normal(size=(4, 5)), RNG.normal(size=(5, 4))
    assert np.isclose(calque.jit(halves)(*(a.copy() for a in args)), halves(*(a.copy() for a in args)))
    found, want = (f(*args) for f in (calque.jit(calque.grad(halves)), calque.grad(halves)))
    np.testing.assert_allclose(found, want, rtol=1e-12)


def scaled_columns(A, v, k):
    n, m = A.shape
    for _ in range(2):
        for j in range(m):
            q = 1.0 / (2.0 * k)
            for i in range(n):
                A[i, j] += q * v[j]
    return A


def scaled_by_counters(A, v, k):
    n, m = A.shape
    for _ in range(2):
        for j in range(m):
            q = 1.0 / (j - k)
            for i in range(n):
                A[i, j] += q * v[j]
    return A


def chosen_columns(A, v, k):
    n, m = A.shape
    for _ in range(2):
        for j in range(m):
            q = v[abs(k)]
            for i in range(n):
                A[i, j] += q * v[j]
    return A


@pytest.mark.parametrize("fn", [scaled_columns, scaled_by_counters, chosen_columns])
def test_iterations_that_raise(fn: Any, monkeypatch: Any) -> None:
    """Also without elements; and a zero-trip loop raises nothing."""
    monkeypatch.setenv("CALQUE_JIT", "0")
    jitted = calque.jit(fn)
    for n, m in [(3, 4), (3, 0), (0, 4), (0, 0)]:
        for k in (0, 2, 8):
            A, v = RNG.normal(size=(n, m)), RNG.normal(size=m)
            try:
                want = fn(A.copy(), v, k)
            except (ZeroDivisionError, IndexError) as error:
                with pytest.raises(type(error)):
                    jitted(A, v, k)
            else:
                np.testing.assert_allclose(jitted(A, v, k), want, rtol=1e-12)


def test_numbers_that_all_iterations_share_are_before_them() -> None:
    source = calque.jit(scaled_columns).source(np.ones((4, 4)), np.ones(4), 2, stage="kernels")
    assert lines_of_loops(source)[1].startswith("for i ") and "if 0 < m:" in source, source
