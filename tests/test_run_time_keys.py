"""Keys of dicts and elements of sets that run-time data decide: asked by value, or refused."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import calque
from calque.transpiler.errors import NeedsKnownValue, UnsupportedFunction

X = np.array([0.2, 1.7, 0.4, 2.9, 1.1])


class Cell(NamedTuple):
    row: int
    column: int


@dataclass(frozen=True)
class Place:
    row: int
    column: int


def stored_by_a_pair(x):
    cells = {}
    for v in x:
        cells[int(v), 0] = v
    return sum(cells.values())


def appended_by_a_pair(x):
    cells = defaultdict(list)
    for i in range(len(x)):
        cells[(int(x[i]), 1)].append(i)
    total = 0.0
    for members in cells.values():
        total += x[members[0]]
    return total


def read_by_a_pair(x):
    return {(0, 1): 3.0, (1, 1): 5.0}[(int(x[0]), 1)] * x[0]


def asked_by_a_named_tuple(x):
    return {Cell(int(x[0]), 1): x[0]}.get(Cell(0, 1), x[1])


def asked_by_a_dataclass(x):
    return {Place(int(x[0]), 1): x[0]}.get(Place(0, 1), x[1])


def updated_by_pairs(x):
    cells = {}
    cells.update([((int(x[0]), 1), x[0]), ((int(x[2]), 1), x[1])])
    return sum(cells.values())


def displayed_set(x):
    return len({(int(x[0]), 1), (int(x[2]), 1)}) * x[0]


def united_sets(x):
    return len({1, 2}.union([int(x[0]), int(x[2])])) * x[0]


def updated_set(x):
    seen = {1, 2}
    seen.update([int(x[0])])
    seen.add((int(x[2]),))
    return len(seen) * x[0]


@pytest.mark.parametrize(
    "fn",
    [stored_by_a_pair, appended_by_a_pair, read_by_a_pair, asked_by_a_named_tuple]
    + [asked_by_a_dataclass, updated_by_pairs, displayed_set, united_sets, updated_set],
)
@pytest.mark.parametrize("made", [calque.jit, calque.grad])
def test_keys_of_data_are_refused(fn: Any, made: Any) -> None:
    with pytest.raises(NeedsKnownValue, match=r"(A key|An element of a set).* must be known"):
        made(fn)(X)


def counted_values(x):
    return Counter([int(v) for v in x])[1] * x[0]


def counted_pairs_of_a_generator(x):
    return Counter((int(v), 0) for v in x)[1, 0] * x[0]


def counts_updated(x):
    counts = Counter()
    counts.update([int(v) for v in x])
    return counts[1] * x[0]


@pytest.mark.parametrize("fn", [counted_values, counted_pairs_of_a_generator, counts_updated])
def test_python_is_not_given_a_list_kept_in_arrays(fn: Any) -> None:
    """It would see an empty one."""
    with pytest.raises(UnsupportedFunction, match="has no rule for run-time values"):
        calque.grad(fn)(X)


def in_a_dict(x):
    table = {(0, 1): 3.0, (2, 1): 1.0}
    return x[0] if (int(x[0]), 1) in table else x[1]


def not_in_a_set(x):
    return x[0] if (int(x[0]), 1) not in {(0, 1), (1, 1)} else x[1]


def in_a_list(x):
    return x[0] if (int(x[0]), 1) in [(0, 1), (3, 1)] else x[1]


def place_in_a_list(x):
    return [(5, 1), (0, 1), (1, 1)].index((int(x[0]), 1)) * x[0]


@pytest.mark.parametrize("fn", [in_a_dict, not_in_a_set, in_a_list, place_in_a_list])
@pytest.mark.parametrize("made", [calque.jit, lambda fn: calque.value_and_grad(fn)])
def test_membership_is_by_value(fn: Any, made: Any) -> None:
    for x in (X, X + 1.0):
        found = made(fn)(x)
        assert np.ravel(found[0] if isinstance(found, tuple) else found)[0] == fn(x)


def pairs_of_counters(x):
    table = defaultdict(float)
    for i in range(len(x)):
        for j in range(len(x)):
            table[i, j] += x[i] * x[j]
    return table[1, 2] + table[2, 1] + len(table)


def test_counters_of_loops_are_keys() -> None:
    for x in (X, X[:3]):
        assert calque.value_and_grad(pairs_of_counters)(x)[0] == pairs_of_counters(x)


def empty_or_not(x):
    return x[0] if bool([v for v in x if v > 1.0]) else x[1]


def not_empty(x):
    return bool([2.0 * v for v in x]) * x[0]


@pytest.mark.parametrize("fn", [empty_or_not, not_empty])
def test_the_truth_of_a_list(fn: Any) -> None:
    for x in (X, np.array([0.5, 0.2])):
        assert calque.value_and_grad(fn)(x)[0] == fn(x)
        assert calque.jit(fn)(x) == fn(x)
