"""Loops that are left early, and what they leave behind: plain Python is the oracle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
from calque.transpiler import errors

X = np.array([0.31, -0.72, 0.63, 0.24])
Y = np.array([0.31, 0.72, 0.63, 0.24])


@pytest.fixture(autouse=True)
def stepped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels run as plain Python."""
    monkeypatch.setenv("CALQUE_JIT", "0")


def gauss_seidel(x):
    b = x * 2 + 1
    y = np.zeros_like(b)
    for _ in range(50):
        old = y.copy()
        for i in range(len(b)):
            y[i] = (b[i] - 0.2 * np.sum(y) * x[i]) / (2 + x[i])
        if np.abs(y - old).max() < 1e-10:
            return y
    return y


def stored_into_before_and_after(x):
    y = x * 1
    for i in range(x.shape[0]):
        y[i] = y[i - 1] * x[i]
        if y[i] < -0.1:
            return y * y
        y[i] += 1.0
    y[0] = 5.0
    return y


def a_view_is_returned(x):
    y = x * x
    z = x + 1
    while True:
        y[0] -= 0.3 * x[1] ** 2
        z[1:] *= y[0]
        if y[0] < -2.0:
            return z[1:], y[0]


def one_of_two(x):
    y, z = x * x, x * 3
    for i in range(4):
        y[i] *= z[i]
        z[i] += y[0]
        if y[i] < 0:
            return z
        if z[i] > 2.5:
            return y
    return y + z


def from_a_nest(x):
    y = x * 1
    for i in range(x.shape[0]):
        for j in range(i):
            y[j] += x[i] * y[i]
            if y[j] < -0.5:
                return y
        y[i] *= 2
    return y * 3


def over_known_weights(x):
    y = x * 1
    for weight in (0.5, 0.7, 0.9):
        y[1:-1] += weight * (y[2:] - y[1:-1])
        if y[1] < 0.2:
            return y
    return y * 2


def a_smaller_one(x):
    y = x * 1
    for weight in (0.5, 0.7, 0.9):
        y[1:-1] += weight * (y[2:] - y[1:-1])
        if y[1] < 0.2:
            return y[1:] * y[0], y[1]
    return y[1:] * 2, y[0]


def used_by_the_caller(x):
    y = gauss_seidel(x)
    y[0] = y[1] ** 2
    return y


def fill(y, x):
    for i in range(len(y)):
        if y[i] < 0:
            return
        y[i] = 7 * x[0]


def halve(y):
    i = 0
    while True:
        if y[i] < 0.1 or i == 3:
            return None
        y[i] *= 0.5
        i += 1


def fill_a_triangle(y, x):
    for i in range(4):
        for j in range(i):
            if y[j] > 0.9:
                return
            y[j] += x[i] * x[j]


def procedures(x):
    y = x * 2
    fill(y, x)
    halve(y)
    fill_a_triangle(y, x)
    return y


@pytest.mark.parametrize("given", [X, Y], ids=["left", "run through"])
@pytest.mark.parametrize(
    "fn",
    [
        gauss_seidel,
        stored_into_before_and_after,
        a_view_is_returned,
        one_of_two,
        from_a_nest,
        over_known_weights,
        a_smaller_one,
        used_by_the_caller,
        procedures,
    ],
)
def test_what_is_returned_from_within_a_loop(fn: Callable[..., Any], given: np.ndarray) -> None:
    def total(x):
        parts = fn(x)
        return np.sum(parts[0]) + parts[1] if isinstance(parts, tuple) else np.sum(parts * x)

    for got, want in zip(calque.jit(fn)(given), fn(given), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-13)
    slopes = [(total(given + s) - total(given - s)) / 2e-6 for s in 1e-6 * np.eye(4)]
    np.testing.assert_allclose(calque.grad(total)(given), slopes, rtol=1e-5, atol=1e-7)


def test_a_procedure_changes_the_caller_s_array() -> None:
    for given in (X, Y):
        got, want = given.copy(), given.copy()
        assert calque.jit(fill)(got, given) is None
        fill(want, given)
        np.testing.assert_allclose(got, want, rtol=1e-13)


def a_finally_that_stores(x):
    try:
        y = np.sum(x)
    finally:
        x[0] = 0.0
    return y


def test_what_a_finally_leaves_to_the_caller() -> None:
    with pytest.raises(errors.UnsupportedSyntax):
        calque.jit(a_finally_that_stores)(X.copy())
    np.testing.assert_allclose(calque.grad(a_finally_that_stores)(X.copy()), np.ones(4))


def none_on_one_path(x):
    y = differences(x * 1)
    return x[0] if y is None else np.sum(y)


def differences(y):
    for i in range(1, 3):
        if y[i] == 0:
            return None
        y[i] -= y[i - 1]
    return y * 2


@pytest.mark.parametrize("place", [None, 1, 2])
def test_none_on_one_path_is_not_none_on_all(place: int | None) -> None:
    x = X.copy()
    if place is not None:
        x[place] = x[place - 1] * (place - 1)  # where a difference before is taken off, 0
    expected = none_on_one_path(x)
    assert (expected == x[0]) == (place == 1)
    np.testing.assert_allclose(calque.jit(none_on_one_path)(x), expected)
    np.testing.assert_allclose(calque.vmap(none_on_one_path)(np.stack([x, X]))[0], expected)
    found = calque.jit(calque.grad(none_on_one_path))(x)
    wanted = [1.0, 0.0, 0.0, 0.0] if place == 1 else [2.0, 0.0, 2.0, 2.0]
    np.testing.assert_allclose(found, wanted)


def returned_and_kept(x):
    y = x * 1
    kept = [y]
    for i in range(3):
        y = y * x[i]
        if y[0] < 0.01:
            return y
        kept.append(y)
    return kept[0]


def words_and_functions(x):
    settings = {}
    for i in range(x.shape[0]):
        method = "sine"
        settings["function"] = np.sin
        last = x[i]
    return last * 2 if method == "sine" else settings["function"](last) * 3


def known_to_run(x):
    it, err = 0, 1.0
    while it < 10 and err > 1e-3:
        s = x * err
        err = err * np.exp(-x[0])
        it += 1
    return s * it


def with_known_names(x):
    return settings_of(x)["function"](x)


def settings_of(x):
    settings = {}
    for _ in range(x.shape[0]):
        settings["function"] = np.sin
    return settings


@pytest.mark.parametrize(
    "fn", [returned_and_kept, words_and_functions, known_to_run, with_known_names]
)
def test_what_a_loop_binds(fn: Callable[..., Any]) -> None:
    np.testing.assert_allclose(calque.jit(fn)(X), fn(X), rtol=1e-13)
    total = lambda x: np.sum(fn(x))
    slopes = [(total(X + s) - total(X - s)) / 2e-6 for s in 1e-6 * np.eye(4)]
    np.testing.assert_allclose(calque.grad(total)(X), slopes, rtol=1e-6, atol=1e-8)


def a_key_with_a_value(x):
    found, s = {}, x[0]
    while s < 0:
        found["s"] = s
        s = s + 1.0
    return s * 2 if "s" in found else s * 3


def a_key_with_a_word(x):
    found, s = {}, x[0]
    while s < 0:
        found["s"] = "here"
        s = s + 1.0
    return s * 2 if "s" in found else s * 3


@pytest.mark.parametrize("fn", [a_key_with_a_value, a_key_with_a_word])
def test_a_key_that_a_loop_may_not_make(fn: Callable[..., Any]) -> None:
    with pytest.raises(errors.BranchMismatch, match="and it may not run"):
        calque.jit(fn)(X)
