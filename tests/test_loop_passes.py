"""Loops as kernels keep their meaning: random nests, every offset and direction."""

import linecache

import numpy as np
import pytest
from random_loops import Nest
from sampling import sampled

import calque

SEEDS = sampled(range(150), 10)


def made(seed):
    text = Nest(seed).text()
    name = f"<nest {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope = {}
    exec(compile(text, name, "exec"), scope)
    return scope["program"], text


def arguments(seed, n):
    rng = np.random.default_rng(seed)
    return rng.normal(size=n), rng.normal(size=n), rng.normal(size=(n, n)), 2.0


def slope(program, args, direction, step):
    """Along a direction of the three arrays, by differences of the plain function."""
    sides = [
        program(*(a + s * d for a, d in zip(args, direction)), args[-1]) for s in (step, -step)
    ]
    return (sides[0] - sides[1]) / (2.0 * step)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_nests_against_differences(seed, monkeypatch):
    monkeypatch.setenv("CALQUE_JIT", "0")
    program, text = made(seed)
    args = arguments(seed, 8)
    direction = [np.cos(np.arange(a.size, dtype=float) + k).reshape(a.shape) for k, a in enumerate(args[:3])]
    found = calque.jit(calque.grad(program, argnums=(0, 1, 2)))(*args)
    got = sum(np.vdot(f, d) for f, d in zip(found, direction, strict=True))
    # two steps show how far differences are to be trusted: a program may be steep
    wide, narrow = (slope(program, args, direction, step) for step in (2e-5, 1e-5))
    want = (4.0 * narrow - wide) / 3.0
    assert np.isclose(got, want, rtol=1e-6, atol=10.0 * abs(want - narrow) + 1e-6), text


@pytest.mark.parametrize("seed", SEEDS)
def test_random_nests(seed, monkeypatch):
    monkeypatch.setenv("CALQUE_JIT", "0")
    program, text = made(seed)
    args = arguments(seed, 9)
    plain = calque.grad(program, argnums=(0, 1, 2))
    value, gradient = calque.jit(program), calque.jit(plain)
    for n in (9, 6, 7, 12):
        args = arguments(seed + n, n)
        assert np.allclose(value(*args), program(*args), rtol=1e-11, atol=1e-11), text
        for found, expected in zip(gradient(*args), plain(*args), strict=True):
            assert np.allclose(found, expected, rtol=1e-10, atol=1e-10), (
                text + gradient.source(*args)
            )


@pytest.mark.parametrize("seed", range(150)[::30])
def test_random_nests_compiled(seed):
    program, text = made(seed)
    plain = calque.grad(program, argnums=(0, 1, 2))
    gradient = calque.jit(plain)
    for n in (9, 40):
        args = arguments(seed + n, n)
        for found, expected in zip(gradient(*args), plain(*args), strict=True):
            assert np.allclose(found, expected, rtol=1e-9, atol=1e-9), text


def said_in_turn(x, y):
    """The sum joins the loop of ``a``, which therefore waits for the sorting."""
    a = x * 2.0
    print("a", a)
    if y[0] > 5.0:
        raise ValueError("large")
    print("b")
    for k in range(2):
        print("round", k)
    assert x[0] > 0.0, "first"
    assert a[0] > 2.0, "second"
    return a + np.sort(y)


@pytest.mark.parametrize("jitted", [False, True])
def test_prints_and_assertions_keep_their_order(jitted, capsys, monkeypatch):
    monkeypatch.setenv("CALQUE_JIT", "0")
    fn = calque.jit(said_in_turn) if jitted else said_in_turn
    start = "a [2. 4. 6.]\n"
    x, y = np.arange(1.0, 4.0), np.array([3.0, 1.0, 2.0])
    with pytest.raises(AssertionError, match="second"):
        fn(x, y)
    assert capsys.readouterr().out == start + "b\nround 0\nround 1\n"
    with pytest.raises(AssertionError, match="first"):
        fn(-x, y)
    assert capsys.readouterr().out == "a [-2. -4. -6.]\nb\nround 0\nround 1\n"
    with pytest.raises(ValueError, match="large"):
        fn(x, y + 5.0)
    assert capsys.readouterr().out == start
