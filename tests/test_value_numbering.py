"""Value numbering: expensive terms are computed once in kernels, with the same numbers."""

from __future__ import annotations

import re

import numpy as np
import pytest

import calque


def warmed(s, t):
    rate = 0.1 * t
    if np.max(s) > 1.0:
        rate = rate + (1.0 - t) * s
    elif np.min(s) < 0.2:
        rate = rate - s * t
    return rate


def program(s, t):
    for _ in [None] * 3:
        t = t + warmed(s, t)
        if np.max(s) > 0.5:
            t = t * s
    return np.sum(t * t)


def changed_between(s, t):
    s = s.copy()
    first = np.max(s)
    s[0] = 3.0 * t[0]
    if np.max(s) > first:
        return np.sum(s * t)
    return first * np.max(s)


def in_loops(s, t):
    total = 0.0
    for k in range(s.shape[0]):
        if np.max(t) > 0.5:
            total += s[k] / np.max(t)
        s = s * 0.9
        if np.max(s) > 0.5:
            total += np.max(s) * s[k]
    return total


def arguments(low, high, n=7, dtype=float):
    rng = np.random.default_rng(3)
    return rng.uniform(low, high, n).astype(dtype), rng.random(n).astype(dtype)


def test_a_reduction_is_made_once():
    text = calque.source(calque.jit(calque.grad(program)), *arguments(0.3, 0.9))
    assert len(re.findall(r"= maximum\(", text)) == 1
    assert len(re.findall(r"= minimum\(", text)) == 1  # three arms of one name ask for it


def test_the_numpy_text_is_as_it_was_written():
    text = calque.source(calque.grad(program), *arguments(0.3, 0.9))
    code = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    assert sum("np.max(s)" in line for line in code) == 6


@pytest.mark.parametrize("function", [program, changed_between, in_loops])
@pytest.mark.parametrize("low_and_high", [(0.3, 0.9), (0.3, 1.5), (0.0, 0.4), (0.6, 0.9)])
def test_numbers_are_those_of_numpy(function, low_and_high):
    call = calque.jit(calque.grad(function, argnums=(0, 1)))
    value = calque.jit(function)
    for n, dtype in ((7, float), (1, float), (13, np.float32)):
        s, t = arguments(*low_and_high, n, dtype)
        rtol = 1e-12 if dtype is float else 2e-5
        np.testing.assert_allclose(value(s, t), function(s, t), rtol=rtol)
        plain = calque.grad(function, argnums=(0, 1))(s, t)
        for found, want in zip(call(s, t), plain, strict=True):
            np.testing.assert_allclose(found, want, rtol=rtol, atol=rtol)


def test_what_no_number_is_and_views():
    s, t = arguments(0.3, 1.5, 14)
    call, plain = calque.jit(calque.grad(program)), calque.grad(program)
    np.testing.assert_allclose(call(s[::-2], t[::2]), plain(s[::-2], t[::2]), rtol=1e-12)
    s[3] = np.nan
    np.testing.assert_allclose(call(s, t), plain(s, t), rtol=1e-12)
    s[3] = np.inf
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(call(s, t), plain(s, t), rtol=1e-12)


def test_batches_choose_for_each_example():
    s, t = (np.stack(pair) for pair in zip(arguments(0.3, 0.9), arguments(0.3, 1.5), strict=True))
    call = calque.jit(calque.vmap(calque.grad(program)))
    wanted = [calque.grad(program)(*pair) for pair in zip(s, t, strict=True)]
    np.testing.assert_allclose(call(s, t), wanted, rtol=1e-12)


calls: list[float] = []


@calque.opaque(result=np.sum)
def counted(x):
    calls.append(1.0)
    return x.sum()


def test_functions_of_the_users_are_called_each_time():
    def twice(s, t):
        return counted(s) * counted(s) * np.sum(t)

    calls.clear()
    calque.jit(twice)(*arguments(0.3, 0.9))
    assert len(calls) == 2


def test_a_function_with_effects_is_called_each_time(capsys):
    def noted(s, t):
        total = np.sum(s)
        print("total", np.sum(s) > 0.0)
        print("total", np.sum(s) > 0.0)
        return total * np.sum(s) * np.sum(t)

    calque.jit(noted)(*arguments(0.3, 0.9))
    assert capsys.readouterr().out.count("total True") == 2
