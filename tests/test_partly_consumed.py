"""Iterators of which a part is consumed: the rest stays, as in Python; what cannot be told is refused."""

from __future__ import annotations

import itertools
from collections import deque
from typing import Any

import numpy as np
import pytest

import calque
from calque.transpiler.errors import UnsupportedSyntax

X = np.array([0.2, 1.7, 0.4, 2.9, 1.1])


def batches(x):
    it, total = iter(x), 0.0
    while batch := list(itertools.islice(it, 2)):
        total += sum(batch) * len(batch)
    return total


def head_and_rest(x):
    it = iter(list(x))
    head = tuple(itertools.islice(it, 2))
    return 3.0 * head[0] + sum(it)


def sliding(x):
    def windows(values):
        it = iter(values)
        window = deque(itertools.islice(it, 3), maxlen=3)
        yield tuple(window)
        for value in it:
            window.append(value)
            yield tuple(window)

    return sum(a * b - c for a, b, c in windows(list(x)))


def growing_parts(x):
    it, total = iter(range(9)), 0.0
    for k in range(3):
        total += sum(itertools.islice(it, k + 1)) * x[k]
    return total


def stepped(x):
    it = iter(range(9))
    return sum(itertools.islice(it, 1, 6, 2)) * x[0] + next(it) * x[1]


def while_small(x):
    it = iter(range(6))
    return sum(itertools.takewhile(lambda k: k < 3, it)) * x[0] + sum(it) * x[1]


def zip_ends_with_the_list(x):
    it = iter(range(6))
    pairs = list(zip([1, 2], it))
    return sum(it) * x[0] + len(pairs)


def zip_takes_one_more(x):
    it = iter(x)
    pairs = list(zip(it, [1.0, 2.0]))
    return sum(it) + sum(a * b for a, b in pairs)


def pairs_of_words(x):
    words = iter("a b c d".split())
    table = dict(zip(words, words))
    return len(table) * x[0] + (table["a"] == "b") * x[1]


def up_to_a_value(x):
    it = iter([1, 2, 3, 4])
    return (sum(it) if 2 in it else 1.0) * x[0]


def named_and_spent(x):
    it = iter(range(6))
    part = itertools.islice(it, 3)
    return sum(part) * x[0] + 10 * sum(it) * x[1]


@pytest.mark.parametrize(
    "fn",
    [batches, head_and_rest, sliding, growing_parts, stepped, while_small, zip_ends_with_the_list]
    + [zip_takes_one_more, pairs_of_words, up_to_a_value, named_and_spent],
)
def test_the_rest_stays(fn: Any) -> None:
    for x in (X, np.append(X, [0.7, -0.3])):
        assert calque.value_and_grad(fn)(x)[0] == pytest.approx(fn(x), rel=1e-14)
        assert calque.jit(fn)(x) == pytest.approx(fn(x), rel=1e-14)


def left_by_break(x):
    it = iter(range(6))
    for k in it:
        if k == 1:
            break
    return sum(list(it)) * x[1]


def part_left_by_break(x):
    it = iter(range(6))
    for k in itertools.islice(it, 3):
        if k == 1:
            break
    return list(it)[0] * x[1]


def read_between(x):
    it = iter(range(6))
    part = itertools.islice(it, 3)
    return next(it) * x[0] + sum(part)


def counted_by_another(x):
    it = iter(range(6))
    counted = enumerate(it)
    place, _ = next(counted)
    return list(it)[0] * x[1] + place


def mapped_by_another(x):
    it = iter(range(6))
    doubled = map(lambda k: 2 * k, it)
    return next(doubled) * x[0] + list(it)[0]


@pytest.mark.parametrize(
    "fn", [left_by_break, part_left_by_break, read_between, counted_by_another, mapped_by_another]
)
def test_it_goes_on_where_another_left_it(fn: Any) -> None:
    assert calque.value_and_grad(fn)(X)[0] == pytest.approx(fn(X), rel=1e-14)


def left_by_a_loop_of_the_program(x):
    y = np.concatenate([x] * 20)
    it, total = iter(y), 0.0
    for v in it:
        total += v
        if total > 3.0:
            break
    return total * next(it)


def test_where_it_stands_is_not_told() -> None:
    with pytest.raises(UnsupportedSyntax, match="is read again") as caught:
        calque.grad(left_by_a_loop_of_the_program)(X)
    assert "make a list of it first" in str(caught.value)
