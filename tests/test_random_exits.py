"""Functions that are left in many places: right, and written in a time that does not double."""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from random_exits import Exits
from sampling import sampled

import calque
from calque.transpiler.frontend.control.branch import Branches


def named(text: str, name: str) -> Callable[..., Any]:
    """The function ``program`` that a text defines."""
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    namespace: dict[str, Any] = {}
    exec(compile(text, name, "exec"), namespace)
    return namespace["program"]  # type: ignore[no-any-return]


def made(seed: int) -> Callable[..., Any]:
    return named(Exits(seed).text(), f"<random exits {seed}>")


def points(seed: int) -> Any:
    return 2.0 * np.random.default_rng(seed).normal(size=(6, 4))


def slopes(f: Callable[[Any], Any], x: Any) -> tuple[Any, Any]:
    """The gradient by central differences, and how far two steps disagree about it."""
    both = [
        np.array([(f(x + h * e) - f(x - h * e)) / (2.0 * h) for e in np.eye(4)])
        for h in (1e-6, 5e-7)
    ]
    return both[1], np.abs(both[0] - both[1])


@pytest.mark.parametrize("seed", sampled(range(400), 6))
def test_gradients(seed):
    f = made(seed)
    both = calque.value_and_grad(f)
    for x in points(seed):
        value, gradient = both(x)
        assert value == f(x)
        expected, doubt = slopes(f, x)
        assert np.all(np.abs(gradient - expected) < 1e-4 * (1.0 + np.abs(expected)) + 10.0 * doubt)


@pytest.mark.parametrize("seed", sampled(range(400), 20, start=3))
def test_batches(seed):
    f, xs = made(seed), points(seed)
    np.testing.assert_allclose(calque.vmap(f)(xs), [f(x) for x in xs], rtol=1e-12, atol=1e-14)
    gradient = calque.grad(f)
    expected = [gradient(x) for x in xs]
    np.testing.assert_allclose(calque.vmap(gradient)(xs), expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("seed", sampled(range(400), 40, start=5))
def test_kernels(seed):
    f, xs = made(seed), points(seed)
    value, gradient, plain = calque.jit(f), calque.jit(calque.grad(f)), calque.grad(f)
    for x in xs:
        np.testing.assert_allclose(value(x), f(x), rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(gradient(x), plain(x), rtol=1e-9, atol=1e-11)


TWO_WAYS_ON = """\
    if x[0] > {k}:
        if x[1] > {k} + 3:
            return s * {k}.0
        s = s + x[2] * {k}.5
    else:
        s = s - x[0]
"""
CHAIN = """\
    if s > {k} + 10:
        s = s * 0.5
    elif s > {k} + 5:
        return s
    elif s > 2.0:
        s = s + x[1]
    else:
        s = s - x[2]
"""
IN_A_LOOP = """\
        if x[0] > {k}:
            if s > {k} + 30:
                continue
            s = s + x[2] * {k}.5
        else:
            if s < -{k} - 20:
                break
            s = s - x[3]
"""


@pytest.mark.parametrize("head, part", [("", TWO_WAYS_ON), ("", CHAIN), (3, IN_A_LOOP)])
def test_text_grows_with_the_program(head, part):
    lines = {}
    for count in (8, 16, 32):
        loop = f"    for _ in range({head}):\n" if head else ""
        body = "".join(part.format(k=k) for k in range(count))
        text = f"def program(x):\n    s = x[0]\n{loop}{body}    return s * s\n"
        f = named(text, f"<exits {head} {count} {len(part)}>")
        for x in points(count):
            value, gradient = calque.value_and_grad(f)(x)
            assert value == f(x)
            np.testing.assert_allclose(gradient, slopes(f, x)[0], rtol=1e-4, atol=1e-4)
        lines[count] = len(calque.source(calque.grad(f), np.ones(4)).splitlines())
    assert lines[16] < 2.4 * lines[8]
    assert lines[32] < 2.4 * lines[16]


def test_what_each_arm_knows_is_kept():
    """Joined arms would leave open which size, or which list, it is: then they stay apart."""

    def program(x):
        parts = [x[0]]
        if x[0] > 0.0:
            if x[1] > 3.0:
                return x[1]
            parts = [x[0], x[1]]
        if x[1] > 0.5:
            if x[2] > 3.0:
                return x[2]
            parts = [*parts, x[2]]
        if x[2] > 0.5:
            if x[3] > 3.0:
                return x[3]
            parts = [*parts, 2.0]
        return sum(p * p for p in parts)

    both = calque.value_and_grad(program)
    for x in points(3):
        value, gradient = both(x)
        assert value == program(x)
        np.testing.assert_allclose(gradient, slopes(program, x)[0], rtol=1e-5, atol=1e-5)


def test_two_are_written_twice(monkeypatch):
    def program(x):
        s = x[0]
        if x[0] > 0.0:
            if x[1] > 3.0:
                return s
            s = s * 2.0
        if x[1] > 0.0:
            if x[2] > 3.0:
                return s
            s = s * 3.0
        return s * s

    monkeypatch.setattr(Branches, "_join_arms", None)
    text = calque.source(program, np.ones(4))
    assert len(re.findall(r"\b(\w+) \*= \1\b|= (\w+) \* \2\b", text)) == 4


def test_matches_with_exits():
    def program(x):
        s = x[0]
        for k in range(6):
            match int(x[1]) + k:
                case 0:
                    s = s * 0.5
                case 1:
                    if s > 3.0:
                        return s
                    s = s + x[2]
                case 2:
                    s = s - x[3]
                case 3:
                    continue
                case _:
                    s = np.sin(s)
            s = s * 1.1
        return s * s

    both = calque.value_and_grad(program)
    for x in points(7):
        value, gradient = both(x)
        assert value == program(x)
        np.testing.assert_allclose(gradient, slopes(program, x)[0], rtol=1e-4, atol=1e-4)
    assert len(calque.source(program, np.ones(4)).splitlines()) < 200
