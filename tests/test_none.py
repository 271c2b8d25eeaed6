"""Values that are None on some paths: set by a search, by the first iteration, by an arm."""

from __future__ import annotations

import numpy as np
import pytest

import calque
from calque.transpiler.errors import BranchMismatch, CalqueError

X = np.random.default_rng(7).permutation(np.linspace(-2.0, 7.0, 90))


def smallest(x):
    best, at = None, None
    for i in range(x.shape[0]):
        if best is None or x[i] ** 2 < best:
            best, at = x[i] ** 2, i
    return best * (at + 1)


def first_above(x):
    k = None
    for i in range(len(x)):
        if x[i] > 3.0:
            k = i
            break
    if k is None:
        return -1.0 * x[0]
    return x[k] * 2.0 + k


def look(x, bound):
    for i in range(len(x)):
        if x[i] > bound:
            return i
    return None


def by_a_function(x):
    one, two = look(x, 4.0), look(x, 40.0)
    total = 0.0 if one is None else x[one] ** 3
    if two is not None:
        total += 1000.0 * x[two]
    return total


def neighbours(x):
    previous, total = None, 0.0
    for v in x:
        if previous is not None:
            total += (v - previous) ** 2
        previous = v
    return total


def forgetting(x):
    previous, total = None, 0.0
    for v in x:
        total += v if previous is None else v * previous
        previous = v if v > 0.5 else None
    return total


def last_of(x):
    last = None
    for v in x:
        if v > 5.0:
            last = v
    scaled = 0.0
    if last is not None and last > 0.0:
        scaled = last * 2.0
    return scaled


def descending(x):
    last, i = None, 0
    while i < len(x) and (last is None or x[i] < last + 3.0):
        last = x[i] if last is None else 0.5 * (last + x[i])
        i += 1
    return last * i if last is not None else 0.0


def pair(x):
    best = None
    for i in range(1, len(x)):
        distance = abs(x[i] - x[i - 1])
        if best is None or distance < best[0]:
            best = (distance, i)
    return best[0] * best[1]


def rows(x):
    table, total = x.reshape(-1, 3), None
    for i in range(table.shape[0]):
        row = np.tanh(table[i]) * i
        total = row if total is None else total + row * total
        total = total / (1.0 + np.sum(total * total))
    return np.sum(total)


def of_an_arm(x):
    scale = None
    if np.sum(x) > 1.0:
        scale = x[3]
    shift = x[2] if scale is None else scale * x[1]
    return shift * 2.0


def one_by_one(x):
    """Two values that are not None at the same time."""
    low, high = None, None
    for v in x:
        if v < 0.0:
            if low is None or v > low:
                low = v
        elif high is None or v < high:
            high = v
    if low is None or high is None:
        return x[0] * 0.5
    return high - low


def within_loops(x):
    table, total = x.reshape(9, 10), 0.0
    for i in range(table.shape[0]):
        best = None
        for j in range(table.shape[1]):
            if best is None or table[i, j] > best:
                best = table[i, j]
        total += best * i
    return total


def over_loops(x):
    table, best = x.reshape(9, 10), None
    for i in range(table.shape[0]):
        for j in range(table.shape[1]):
            if best is None or table[i, j] ** 2 > best:
                best = table[i, j] ** 2
    return best


PROGRAMS = [
    *(smallest, first_above, by_a_function, neighbours, forgetting, last_of, descending, pair),
    *(rows, of_an_arm, one_by_one, within_loops, over_loops),
]


@pytest.fixture(autouse=True)
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALQUE_JIT", "0")


@pytest.mark.parametrize("function", PROGRAMS)
@pytest.mark.parametrize("data", [X, np.abs(X) * 0.31 - 0.1 + np.arange(90) * 1e-3, X - 20.0])
def test_value_and_gradient(function, data) -> None:
    expected = function(data)
    np.testing.assert_allclose(calque.jit(function)(data), expected, rtol=1e-12)
    for gradient in (calque.grad(function)(data), calque.jit(calque.grad(function))(data)):
        for way in np.random.default_rng(2).normal(size=(3, len(data))):
            step = 1e-6 * way
            slope = (function(data + step) - function(data - step)) / 2e-6
            np.testing.assert_allclose(gradient @ way, slope, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("function", PROGRAMS)
def test_lanes(function) -> None:
    batch = np.stack([X, np.abs(X) * 0.31 - 0.1 + np.arange(90) * 1e-3, X - 20.0])
    expected = [function(x) for x in batch]
    np.testing.assert_allclose(calque.vmap(function)(batch), expected, rtol=1e-12)
    np.testing.assert_allclose(calque.jit(calque.vmap(function))(batch), expected, rtol=1e-12)


def test_other_lengths_make_no_program() -> None:
    jitted = calque.jit(smallest)
    for n in (5, 90, 17, 1):
        assert jitted(X[:n]) == pytest.approx(smallest(X[:n]))
    assert jitted.cache_info().programs <= 2  # a length of 1 is another one


@pytest.mark.parametrize("n", [0, 1, 2])
def test_without_an_iteration(n: int) -> None:
    def searched(x):
        best = None
        for i in range(x.shape[0]):
            if best is None or x[i] < best:
                best = x[i]
        return -1.0 if best is None else best

    jitted = calque.jit(searched)
    for x in (X, X[:n], X):
        assert jitted(x) == searched(x)


def test_the_flag_has_a_name() -> None:
    source = calque.source(first_above, X)
    assert "has_k = False" in source and "if not has_k" in source
    assert "if has_previous:" in calque.source(neighbours, X)


def computed_with(x):
    k = None
    for i in range(len(x)):
        if x[i] > 3.0:
            k = i
    return x[k] * k


def in_a_loop(x):
    k, total = None, 0.0
    for i in range(len(x)):
        if x[i] > 2.0:
            k = i
        total += x[i] * (k + 1)
    return total


def returned(x):
    k = None
    for i in range(len(x)):
        if x[i] > 3.0:
            k = x[i]
    return k


def half_sure(x):
    low, high = None, None
    for v in x:
        if v < 0.0:
            low = v
        else:
            high = v
    return 0.0 if low is None else low + high


@pytest.mark.parametrize("function, name", [(computed_with, "k"), (half_sure, "high"), (in_a_loop, "k")])
def test_none_is_not_computed_with(function, name: str) -> None:
    """Python raises TypeError, and so does the generated code: once, before the first use."""
    assert calque.source(function, X).count("raise") == 1
    for transformed in (calque.jit(function), calque.jit(calque.value_and_grad(function))):
        found = transformed(X)
        assert (found[0] if isinstance(found, tuple) else found) == pytest.approx(function(X))
        with pytest.raises(TypeError):
            function(X - 20.0)
        with pytest.raises(TypeError, match=f"{name} is None"):
            transformed(X - 20.0)


def test_a_result_is_one_thing() -> None:
    with pytest.raises(BranchMismatch, match=r"return k[^$]*result is None on one path"):
        calque.jit(returned)(X)
    with pytest.raises(CalqueError, match=r"(?i)none"):
        calque.grad(returned)(X)
