"""Generators, consumed where they are made: plain Python and differences are the oracle."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
from calque.transpiler import errors

X = np.array([0.31, -0.72, 0.63, 0.24, -0.15])
SMALL = np.array([0.31, -0.52, 0.43, 0.24, -0.15])


def squares(x):
    for v in x:
        yield v * v


def positive(x):
    for v in x:
        if v > 0:
            yield v


def pairs(x, n):
    for i in range(n):
        yield i, x[i]
    yield 0, x[0]


def fibonacci(a, b):
    while True:
        yield a
        a, b = b, a + b


def halves(v):
    while v > 0.01:
        yield v
        v = v / 2


def delegating(x):
    yield from squares(x)
    yield x[0]
    yield from (v * x[1] for v in x)


def up_to_a_large_one(x):
    for v in x:
        if v > 0.5:
            return
        yield v


def tree_sum(x, low, high):
    if high - low == 1:
        yield x[low] ** 2
        return
    middle = (low + high) // 2
    yield from tree_sum(x, low, middle)
    yield from tree_sum(x, middle, high)


def of_rows(x):
    total = 0.0
    for s in squares(x):
        total += s * s
    return total


def of_known_iterations(x):
    total = 0.0
    for i, s in pairs(x, 2):
        total += s * s * (i + 1)
    return total


def into_sum_and_max(x):
    return sum(squares(x)) + max(squares(x)) * 2 + min(positive(x))


def into_all_and_any(x):
    return x[0] if all(v < 0.5 for v in squares(x)) and any(v > 0.3 for v in x) else x[1] ** 2


def into_lists(x):
    both = [v * 2 for v in squares(x)]
    return np.sum(np.array(list(positive(x))) ** 2) + both[1] + len(list(positive(x)))


def into_an_array(x):
    return np.sum(np.array([v * 2 for v in positive(x)]) ** 2) + np.sum(sorted(squares(x))[1:3])


def kept_expression(x):
    scale = x[0]
    terms = (v * v * scale for v in x if v > -0.5)
    scale = x[2]
    return sum(terms)


def left_by_break(x):
    total = 0.0
    for s in squares(x):
        if s > 0.35:
            break
        total += s
    else:
        total = total * x[0]
    return total


def left_by_break_of_a_branch(x):
    total = 0.0
    for v in positive(x):
        if v > 0.5:
            break
        total += v * v
    return total


def left_by_return(x):
    total = 0.0
    for i, s in pairs(x, 5):
        if s > 0.5:
            return s * total
        total += s * (i + 1)
    return total


def endless(x):
    total = 0.0
    for v in fibonacci(x[0], x[2]):
        if abs(v) > 50:
            break
        total += v
    return total


def nested_loops(x):
    total = 0.0
    for i in range(x.shape[0]):
        for v in halves(x[i]):
            if v < 0.05:
                continue
            total += v**2 * (i + 1)
    return total


def delegated(x):
    total = 0.0
    for i, v in pairs(list(delegating(x)), 4):
        total += v * (i + 1)
    return total + sum(delegating(x))


def ended_by_return(x):
    total = 1.0
    for v in up_to_a_large_one(x):
        total = total * (1.0 + v)
    return total


def recursive(x):
    total = 0.0
    for v in tree_sum(x, 0, 5):
        total = total * 0.5 + v
    return total


def of_a_closure(x):
    scale = x[1]

    def scaled():
        for v in x:
            yield v * scale

    total = 0.0
    for v in scaled():
        total += v
        scale = scale + total
    return total


def interleaved(x):
    """The generator reads elements that its consumer has stored."""
    x = x.copy()
    total = 0.0
    for i, v in pairs(x, 4):
        x[i + 1] = x[i + 1] * v
        total += v
    return total * x[0]


def a_step(u):
    for _ in range(4):
        u[0] = u[0] * 0.5 + u[1]
        yield u


def yields_what_it_changes(x):
    total = 0.0
    for u in a_step(x.copy()):
        total += u @ x
        u[1] = total
    return total


def expression_over_what_changes(x):
    x = x.copy()
    total = 0.0
    for v in (x[i] * 2 for i in range(5)):
        x[3] = x[3] + v
        total += v
    return total


def given_to_a_function(x):
    def total_of(values):
        total = 0.0
        for v in values:
            total += v
        return total

    return total_of(squares(x)) * total_of(v * 3 for v in x)


def enumerated(x):
    total = 0.0
    for i, v in enumerate(positive(x), 2):
        total += v * i
    for i, v in enumerate(halves(x[0])):
        total += v / (i + 1)
    return total + sum(i * v for i, v in enumerate(squares(x), start=1))


def zipped(x):
    total = 0.0
    for i, v, w in zip(range(4), positive(x), np.array([1.0, 2.0, 3.0])):
        total += v * w * i
    for v, w in zip(squares(x), [3.0, 2.0, 1.0]):
        total += v * w
    for v, (i, w) in zip(x[:3], enumerate(halves(x[0] * 2))):
        total += v * w * i
        if total > 9.0:
            break
    return total + sum(v for (v,) in zip(squares(x)))


def zip_of_two(x):
    return sum(a * b for a, b in zip(squares(x), squares(x)))


def mapped_and_filtered(x):
    total = sum(map(lambda v: np.sin(v), squares(x)))
    for v in filter(lambda v: v > 0.1, squares(x)):
        total += v
    return total * max(itertools.chain(positive(x), x, squares(x)))


def taken_of_an_endless_one(x):
    total = sum(itertools.islice(fibonacci(x[0], x[1]), 7))
    for v in itertools.islice(halves(x[0]), 1, None, 2):
        total += v * v
    return total + sum(itertools.takewhile(lambda v: v < 2.0, fibonacci(0.1, x[0])))


PROGRAMS = [
    *(of_rows, of_known_iterations, into_sum_and_max, into_all_and_any, into_lists, into_an_array),
    *(kept_expression, left_by_break, left_by_break_of_a_branch, left_by_return, endless),
    *(nested_loops, delegated, ended_by_return, recursive, of_a_closure, interleaved),
    *(yields_what_it_changes, expression_over_what_changes, given_to_a_function),
    *(enumerated, zipped, zip_of_two, mapped_and_filtered, taken_of_an_endless_one),
]


@pytest.mark.parametrize("fn", PROGRAMS)
def test_as_plain_python(fn: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALQUE_JIT", "0")
    for x in (X, SMALL):
        value, gradient = calque.value_and_grad(fn)(x)
        np.testing.assert_allclose(value, fn(x.copy()), rtol=1e-13)
        slopes = [(fn(x + s) - fn(x - s)) / 2e-6 for s in 1e-6 * np.eye(x.size)]
        np.testing.assert_allclose(gradient, slopes, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(calque.jit(calque.grad(fn))(x), gradient, rtol=1e-12)
    both = np.stack([X, SMALL])
    np.testing.assert_allclose(calque.vmap(fn)(both), [fn(X), fn(SMALL)], rtol=1e-13)


def test_compiled() -> None:
    for fn in (nested_loops, left_by_break_of_a_branch):
        np.testing.assert_allclose(calque.jit(fn)(X), fn(X), rtol=1e-13)


def consumed_twice(x):
    terms = squares(x)
    return sum(terms) + sum(terms)


def consumed_in_a_loop(x):
    terms = squares(x)
    total = 0.0
    for _ in range(x.shape[0]):
        for v in terms:
            total += v
            break
    return total


def consumed_on_one_path(x):
    terms = squares(x)
    total = 0.0
    if x[0] > 0:
        total = sum(terms)
    return total + sum(terms)


def answers():
    got = yield 1.0
    yield got


def sent_to(x):
    return sum(answers()) * x[0]


def texts_at_places_of_the_data(x):
    return sum(len(a) * b for a, b in zip(["a", "bb", "ccc"], positive(x)))


def lists_at_places_of_the_data(x):
    return sum(len(a) * b for a, b in zip([[1], [2, 2], []], positive(x)))


def test_texts_in_a_zip() -> None:
    assert calque.jit(texts_at_places_of_the_data)(X) == texts_at_places_of_the_data(X)
    h = 1e-6 * np.eye(len(X))
    slopes = [
        (texts_at_places_of_the_data(X + e) - texts_at_places_of_the_data(X - e)) / 2e-6 for e in h
    ]
    np.testing.assert_allclose(calque.grad(texts_at_places_of_the_data)(X), slopes, atol=1e-8)


def test_an_error_within_a_zip_is_at_its_line() -> None:
    with pytest.raises(errors.CalqueError, match=r"zip\(\[\[1\], \[2, 2\], \[\]\], positive") as caught:
        calque.grad(lists_at_places_of_the_data)(X)
    assert caught.value.origin.file == __file__


REFUSED = {
    consumed_twice: "is consumed a second time, or in a loop",
    consumed_in_a_loop: "is consumed a second time, or in a loop",
    consumed_on_one_path: "is consumed a second time, or in a loop",
    sent_to: "The value of a `yield` is used",
}


@pytest.mark.parametrize("fn", REFUSED)
def test_refused(fn: Callable[..., Any]) -> None:
    with pytest.raises(errors.UnsupportedSyntax, match=REFUSED[fn]):
        calque.grad(fn)(X)


def test_a_generator_does_not_leave_the_function() -> None:
    for fn in (squares, lambda x: (x, squares(x)), lambda x: {"a": (v for v in x)}):
        with pytest.raises(errors.UnsupportedSyntax, match="leaves the function"):
            calque.jit(fn)(X)
