"""Outward interchange: the same numbers, and only for loops over independent elements."""

from __future__ import annotations

import linecache
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sampling import sampled

import calque
from calque.transpiler.errors import CalqueError
from calque.transpiler.loops.policies import outward_interchange

pytest.importorskip("numba")

RNG = np.random.default_rng(5)


def leapfrog(x, v):
    for _ in range(7):
        x = x + 0.1 * v
        v = v - 0.1 * np.sin(x)
    return x * v


def two_ways(x, v):
    t = 0.0
    for k in range(6):
        if k % 2 == 0:
            x = x + 0.1 * v
        elif k % 3 == 0:
            x = x * 0.5
        else:
            x = x + t
        v = v - 0.1 * np.sin(x)
        t += 0.25
    return x + v


def smoothed(x):
    h = np.zeros(x.shape[1])
    out = np.empty_like(x)
    for t in range(x.shape[0]):
        h = 0.3 * h + 0.7 * x[t]
        out[t] = np.tanh(h)
    return out


def diffused(u):
    u = u.copy()
    for _ in range(4):
        u[:, 1:-1] = u[:, 1:-1] + 0.1 * (u[:, 2:] - 2 * u[:, 1:-1] + u[:, :-2])
    return u


def columns(u, w):
    """A tridiagonal system in each row: the iterations go along memory."""
    n = u.shape[1]
    upper, right = np.zeros_like(u), np.zeros_like(u)
    for k in range(n):
        below = 0.25 * w[:, k]
        if k == 0:
            upper[:, k] = below / 3.0
            right[:, k] = u[:, k] / 3.0
        else:
            pivot = 1.0 / (3.0 - upper[:, k - 1] * below)
            upper[:, k] = below * pivot
            right[:, k] = (u[:, k] - right[:, k - 1] * below) * pivot
    for k in range(n - 2, -1, -1):
        right[:, k] -= upper[:, k] * right[:, k + 1]
    return right


def levels(u, w):
    """The same with three axes: rows, then the elements of a row."""
    u, w = np.stack([u, 2.0 * u, u * w]), np.stack([w, w * w, 0.5 * w])
    right = np.zeros_like(u)
    for k in range(u.shape[2]):
        scaled = 0.25 * w[:, :, k]
        if k == 0:
            right[:, :, k] = u[:, :, k] / (2.0 + scaled)
        else:
            change = scaled * (u[:, :, k - 1] - u[:, :, k])
            right[:, :, k] = (u[:, :, k] - change - right[:, :, k - 1] * scaled) / 3.0
    return right


def escaped(x):
    iterations = np.zeros(x.shape, dtype=np.int64)
    z = np.zeros_like(x)
    for n in range(9):
        inside = np.abs(z) < 2.0
        iterations[inside] = n
        z[inside] = z[inside] ** 2 + x[inside]
    return z + iterations


def loops_within(x):
    c = np.zeros_like(x)
    for t in range(3):
        for u in range(t + 1):
            c = 0.5 * c + np.sin(x) * t + u
    return c


def running_rows(x):
    """A sum along each row in each iteration: rows are independent."""
    for _ in range(3):
        x = x - 0.1 * np.sum(x * x, axis=1, keepdims=True)
    return x


GOING_ALONE = {
    leapfrog: 1, two_ways: 1, smoothed: 2, diffused: 2, columns: 2, levels: 2, escaped: 2,
    loops_within: 2,
}  # with the rank of the arguments


def neighbours(x):
    for _ in range(3):
        x = x + 0.1 * np.roll(x, 1, axis=0)
    return x


def first_row(x):
    for _ in range(3):
        x = x * 0.5 + x[0]
    return x


def totals(x):
    s = 0.0
    for _ in range(3):
        x = x * 0.9
        s += np.sum(x)
    return x * s


def other_ends(x):
    """Fewer elements in each iteration, from the front."""
    for k in range(x.shape[0]):
        x[k:] = x[k:] * 0.5 + 1.0
    return x


def exchanged(x):
    y = x * 2.0
    for _ in range(3):
        x, y = y * 0.5 + x, x
    return x + y


def chosen_view(x):
    """A branch has chosen a view of the old array, whose memory the new array may not take."""
    s = 0.0
    for _ in range(3):
        y = x[:2] if x[0, 0] > 0.1 else x[2:4]
        x = x * 2.0
        s += np.sum(y * y)
    return s


def earlier(x):
    before = x
    for k in range(4):
        if k == 2:
            before = x
        x = x * 0.5 + before
    return x + before


STAYING = [running_rows, neighbours, first_row, totals, other_ends, exchanged, chosen_view, earlier]


def arguments(fn: Callable[..., Any], shape: tuple[int, ...]) -> list[np.ndarray]:
    return [RNG.normal(size=shape) for _ in range(fn.__code__.co_argcount)]


def loss_of(fn: Callable[..., Any]) -> Callable[..., Any]:
    def loss(*args):
        return np.sum(fn(*args) ** 2)

    return loss


@pytest.mark.parametrize("fn", GOING_ALONE, ids=lambda fn: fn.__name__)
def test_elements_go_alone(fn: Callable[..., Any], monkeypatch: Any) -> None:
    monkeypatch.setenv("CALQUE_JIT", "0")
    rank = GOING_ALONE[fn]
    kernels = calque.source(calque.jit(fn), *arguments(fn, (6, 5)[:rank]), stage="kernels")
    loops = [line.split()[1] for line in kernels.splitlines() if line.startswith("    for ")]
    assert set(loops) <= {"i", "part"}, kernels
    for shape in [(6, 5), (5, 6), (1, 4), (4, 3)] if rank == 2 else [(0,), (1,), (1024,), (2100,)]:
        args = arguments(fn, shape)
        given = [a.copy() for a in args]
        found = calque.jit(fn)(*args)
        np.testing.assert_allclose(found, fn(*[a.copy() for a in args]), rtol=1e-13, atol=1e-13)
        for a, b in zip(args, given, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("fn", STAYING, ids=lambda fn: fn.__name__)
def test_elements_that_need_others(fn: Callable[..., Any], monkeypatch: Any) -> None:
    monkeypatch.setenv("CALQUE_JIT", "0")
    x = RNG.normal(size=(5, 4))
    np.testing.assert_allclose(calque.jit(fn)(x.copy()), fn(x.copy()), rtol=1e-13)


@pytest.mark.parametrize("fn", [*GOING_ALONE, *STAYING], ids=lambda fn: fn.__name__)
def test_slopes(fn: Callable[..., Any], monkeypatch: Any) -> None:
    monkeypatch.setenv("CALQUE_JIT", "0")
    loss = loss_of(fn)
    args = arguments(fn, (5, 4)[: GOING_ALONE.get(fn, 2)])
    found = calque.jit(calque.grad(loss))(*[a.copy() for a in args])
    away = RNG.normal(size=args[0].shape)
    ahead, behind = (loss(args[0] + h * away, *args[1:]) for h in (1e-6, -1e-6))
    np.testing.assert_allclose(np.sum(found * away), (ahead - behind) / 2e-6, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("fn", [columns, two_ways], ids=lambda fn: fn.__name__)
def test_compiled(fn: Callable[..., Any], parallel: bool) -> None:
    args = arguments(fn, (70, 6) if GOING_ALONE[fn] == 2 else (3000,))
    found = calque.jit(fn, parallel=parallel)(*args)
    np.testing.assert_allclose(found, fn(*args), rtol=1e-13, atol=1e-13)


# divisions of Python's numbers, which raise ZeroDivisionError, also where there are no elements


def divided(x, n, iterations):
    for _ in range(iterations):
        x = x + 10 // n
    return x


def divided_in_arms(x, n, iterations):
    for k in range(iterations):
        if k == 0:
            x = x * (1.0 / n)
        else:
            x = x + 1.0 / n
    return x


def divided_late(x, n, iterations):
    for k in range(iterations):
        if k == 2:
            x = x * (1.0 / n)
        else:
            x = x + 1.0
    return x


@pytest.mark.parametrize("fn", [divided, divided_in_arms, divided_late], ids=lambda f: f.__name__)
def test_divisions_by_zero(fn: Callable[..., Any], monkeypatch: Any) -> None:
    monkeypatch.setenv("CALQUE_JIT", "0")
    kind = int if fn is divided else float
    for size in (0, 3):
        for n in (0, 4):
            for iterations in (0, 2, 3):
                x = RNG.normal(size=size)
                try:
                    expected = fn(x, kind(n), iterations)
                except ZeroDivisionError:
                    with pytest.raises(ZeroDivisionError):
                        calque.jit(fn)(x, kind(n), iterations)
                else:
                    np.testing.assert_allclose(calque.jit(fn)(x, kind(n), iterations), expected)


def test_a_division_by_zero_on_threads() -> None:
    def scaled(x, dt):
        y = np.empty_like(x)
        for i in range(x.shape[0]):
            y[i] = x[i] * (1.0 / dt) if x[i] > 0 else x[i]
        return y

    fn = calque.jit(scaled, parallel=True)
    np.testing.assert_array_equal(fn(np.ones(5), 0.5), np.full(5, 2.0))
    with pytest.raises(ZeroDivisionError):
        fn(np.ones(5), 0.0)


# random programs: arrays of two axes and of one, which iterations change in all kinds of ways

VALUES = [
    *("0.5 * a + b", "a - 0.1 * np.sin(b)", "a * w", "np.where(a > b, a, b)", "a + t", "a[::-1]"),
    *("a + v[:, None]", "a * np.sum(b, axis=1, keepdims=True)", "a + np.sum(b, axis=0)"),
    *("np.roll(a, 1, axis=1)", "np.roll(b, 1, axis=0)", "a.copy()", "np.zeros_like(a)"),
]
STORES = [
    *("a[:, {j}] = b[:, {k}] * 0.5 + v", "a[:, 1:] = a[:, :-1] + b[:, 1:]", "a[:, 1:] += b[:, :-1]"),
    *("a[{j}] = b[{k}]", "a[1:] = a[1:] * 0.5 + b[:-1]", "a *= 0.5", "v[:] = a[:, {j}]", "v += t"),
    *("v = v * 0.5 + a[:, {k}]", "v = np.sum(a * b, axis=1)", "a[b > 0.3] = t", "w = a * b + w"),
]
TESTS = ["r % 2 == 0", "r == 0", "t > 1.0", "r + 1 < a.shape[1]"]


def statements(draw: random.Random, depth: int) -> list[str]:
    lines = []
    for _ in range(draw.randint(1, 3)):
        kind = draw.random()
        if kind < 0.5 or depth > 2:
            j, k = draw.choice(["r", "0", "-1", "(r + 1) % 3"]), draw.choice(["r", "1", "2"])
            lines.append(draw.choice(STORES).format(j=j, k=k))
        elif kind < 0.75:
            lines.append(f"{draw.choice('ab')} = {draw.choice(VALUES)}")
        elif kind < 0.8:
            lines.append("t += 0.5")
        elif kind < 0.93:
            lines += [f"if {draw.choice(TESTS)}:", *indented(statements(draw, depth + 1))]
            if draw.random() < 0.5:
                lines += ["else:", *indented(statements(draw, depth + 1))]
        else:
            lines += ["for q in range(2):", *indented(statements(draw, depth + 1))]
    return lines


def indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def random_program(seed: int) -> tuple[Callable[..., Any], str]:
    draw = random.Random(seed)
    lines = ["def program(a, b, v):", "    a, b, v = a.copy(), b.copy(), v.copy()"]
    lines += ["    t = 0.25", "    w = a * b"]
    for _ in range(draw.randint(1, 2)):
        iterations = draw.choice(["range(3)", "range(2, -1, -1)", "range(a.shape[1])"])
        lines += [f"    for r in {iterations}:", *indented(indented(statements(draw, 0)))]
    lines += ["    return np.sum(a * a) + np.sum(a * b) + np.sum(v * v * v) + t * np.sum(w)"]
    text = "\n".join(lines) + "\n"
    name = f"<outward {seed}>"
    linecache.cache[name] = len(text), None, text.splitlines(True), name
    space: dict[str, Any] = {"np": np}
    exec(compile(text, name, "exec"), space)
    return space["program"], text


# 4269: an adjoint that is one of two arrays, made before and in the iterations, gets other axes
@pytest.mark.parametrize("seed", [*sampled(range(300), 30), 4269])
def test_random_programs(seed: int, monkeypatch: Any) -> None:
    monkeypatch.setenv("CALQUE_JIT", "0")
    monkeypatch.setattr(outward_interchange, "PART", 2 if seed % 2 else 1024)
    program, text = random_program(seed)
    rng = np.random.default_rng(seed)
    a, b, v, *away = (rng.normal(size=shape) for shape in [(5, 3), (5, 3), 5] * 2)
    with np.errstate(all="ignore"):
        expected = program(a, b, v)
        slopes = calque.grad(program, argnums=(0, 1, 2))
        try:
            found, jitted = calque.jit(program)(a, b, v), calque.jit(slopes)(a, b, v)
        except CalqueError:
            return  # stores through what a branch chose, and sizes that a sweep back cannot know
        np.testing.assert_allclose(found, expected, rtol=1e-10, err_msg=text)
        for found, plain in zip(jitted, slopes(a, b, v), strict=True):
            np.testing.assert_allclose(found, plain, rtol=1e-8, atol=1e-10, err_msg=text)
        ahead, behind = (
            program(*(x + h * w for x, w in zip((a, b, v), away, strict=True)))
            for h in (1e-6, -1e-6)
        )
        slope = sum(np.sum(g * w) for g, w in zip(jitted, away, strict=True))
        size = sum(np.sum(np.abs(g * w)) for g, w in zip(jitted, away, strict=True))
        noise = 1e-8 * max(1.0, abs(expected))
        np.testing.assert_allclose(slope, (ahead - behind) / 2e-6, atol=1e-5 * size + noise)
