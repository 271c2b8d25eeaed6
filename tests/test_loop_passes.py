"""Loops as kernels keep their meaning: random nests, every offset and direction."""

import linecache

import numpy as np
import pytest
from random_loops import Nest

import calque

SEEDS = range(150)


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


@pytest.mark.parametrize("seed", SEEDS[::15])
def test_random_nests_compiled(seed):
    program, text = made(seed)
    plain = calque.grad(program, argnums=(0, 1, 2))
    gradient = calque.jit(plain)
    for n in (9, 40):
        args = arguments(seed + n, n)
        for found, expected in zip(gradient(*args), plain(*args), strict=True):
            assert np.allclose(found, expected, rtol=1e-9, atol=1e-9), text
