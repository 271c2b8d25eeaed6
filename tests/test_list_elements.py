"""Lists and dicts within lists that loops fill, changed afterwards: plain Python is the oracle."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
from calque.transpiler import errors

X = np.array([0.31, -0.72, 0.63, 0.24])


@pytest.fixture(autouse=True)
def stepped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels run as plain Python."""
    monkeypatch.setenv("CALQUE_JIT", "0")


def a_table(x):
    t = [[0.0] * 2 for _ in range(2)]
    for i in range(2):
        for j in range(2):
            t[i][j] = x[i] * x[j + 1]
    return t[0][1] + t[1][0] * t[1][1]


def empty_lists(x):
    bins = [[] for _ in range(2)]
    bins[0].append(x[0])
    bins[1].append(x[1])
    bins[0].append(x[2] ** 2)
    return sum(bins[0]) * len(bins[1])


def dicts(x):
    cells = [{"sum": 0.0, "count": 0} for _ in range(3)]
    for i in range(4):
        cells[i % 3]["sum"] += x[i] ** 2
        cells[i % 3]["count"] += 1
    return cells[0]["sum"] * cells[0]["count"] + cells[1]["sum"]


def the_longest_path(x):
    n = x.shape[0]
    best = [[0.0] * (n + 1) for _ in range(n + 1)]
    for i in range(1, n + 1):
        for j in range(1, n + 1):
            best[i][j] = x[i - 1] * x[j - 1] + max(best[i - 1][j], best[i][j - 1])
    return best[n][n]


def changed_after_it_was_put(x):
    rows = []
    for i in range(x.shape[0]):
        r = [x[i], 0.0]
        rows.append(r)
        r[1] = x[i] ** 2
    return np.sum(np.array(rows) ** 2)


def changed_an_iteration_later(x):
    rows = []
    r = [1.0, 1.0]
    for i in range(x.shape[0]):
        r[0] = x[i]
        r = [x[i] * 2, 1.0]
        rows.append(r)
    return np.sum(np.array(rows) ** 2)


def one_list_put_many_times(x):
    rows = []
    r = [0.0, 0.0]
    for i in range(x.shape[0]):
        r[i % 2] += x[i]
        rows.append(r)
    return np.sum(np.array(rows) ** 2)


def changed_after_the_loop(x):
    rows = []
    for i in range(x.shape[0]):
        r = [x[i], 0.0]
        rows.append(r)
    r[1] = x[0] ** 2
    return np.sum(np.array(rows) ** 2)


def changed_on_one_path(x):
    rows = []
    for i in range(x.shape[0]):
        r = [x[i], 0.0]
        if x[i] > 0.0:
            r = [x[i], 1.0]
        rows.append(r)
    if x[0] > 0.0:
        r[1] = x[0] ** 2
    return np.sum(np.array(rows) ** 2)


def changed_by_a_walk(x):
    rows = []
    for i in range(x.shape[0]):
        rows.append([x[i], 1.0])
    for r in rows:
        r[1] = r[0] ** 2
    return sum(r[1] for r in rows)


def changed_in_a_copy_of_the_list(x):
    rows = []
    for i in range(x.shape[0]):
        rows.append([x[i], 1.0])
    other = list(rows)
    other[0][1] = x[1] ** 2
    other.append([x[0], x[0]])
    return sum(r[0] * r[1] for r in rows) + len(other)


def filled_by_a_while(x):
    rows = []
    i = 0
    while i < 3:
        rows.append([x[i], 1.0])
        i += 1
    rows[1][1] = x[0] ** 2
    return sum(r[0] * r[1] for r in rows)


def copies_are_apart(x):
    rows = []
    r = [0.0, 1.0]
    for i in range(x.shape[0]):
        r[0] += x[i]
        rows.append(r.copy())
    return np.sum(np.array(rows) ** 3)


def deep_copies(x):
    t = [[0.0, 1.0] for _ in range(2)]
    shallow, deep = copy.copy(t), copy.deepcopy(t)
    shallow[0][0] = x[0] ** 2
    deep[1][0] = x[1] ** 2
    return t[0][0] * 3 + t[1][0] + deep[0][0] + deep[1][0]


class Cell:
    def __init__(self, value):
        self.value, self.parts = value, [value]


def copies_of_everything(x):
    cell, table, total = Cell(x * 2), {"a": x * 3, "b": [x[0]]}, defaultdict(float)
    grown = []
    for i in range(x.shape[0]):
        grown.append(x[i] ** 2)
    again, apart = copy.copy(cell), copy.deepcopy(cell)
    total["s"] = x[1]
    same, other, sums, longer = map(copy.deepcopy, (table["b"], table, total, grown))
    again.value[0] = 1.0
    apart.value[1] = 2.0
    again.parts.append(x[0])
    other["a"][2] = 4.0
    sums["t"] += x[2]
    longer.append(x[0])
    lengths = len(cell.parts) + len(apart.parts) + len(grown) * 2 + len(longer) + len(same)
    kept = cell.value[0] + cell.value[1] + table["a"][2] + other["a"][0] + apart.value[2]
    return lengths * kept + sums["s"] * sums["t"] + copy.copy(x)[3] + total["t"]


def a_generator(x):
    t = list([x[k], 0.0] for k in range(3))
    d = dict([(k, [x[k]]) for k in (0, 1, 2)])
    e = {k: {j: 0.0 for j in range(2)} for k in range(2)}
    t[1][1] = t[0][0] ** 2
    d[0].append(x[3])
    e[0][1] = x[0] * x[1]
    return t[1][1] + t[2][1] + len(d[0]) * d[0][1] + e[0][1] - e[1][1]


def one_row_by_multiplication(x):
    t = [[0.0, 0.0]] * 3
    t[0][1] = x[0] * x[1]
    u = t[1:]
    u[0][0] = x[2] ** 2
    return t[2][1] + t[0][0] + len(u)


def products(x):
    return [[x[i] * x[j] for j in range(3)] for i in range(3)]


def rows_are_lists(x):
    t = products(x)
    both, twice, longer = t[0] + t[1], t[2] * 2, t[1][1:] + [x[3]]
    return sum(both) * len(both) + sum(twice) * len(twice) + sum(longer) * len(longer)


def a_slice_of_a_row_is_a_copy(x):
    t = products(x)
    r = t[0][:]
    r[0] = 5.0
    return t[0][0] + r[0] * r[1]


def rows_that_grow(x):
    t = products(x)
    t[1].append(x[3])
    t[2] += [x[0], x[1]]
    return sum(len(r) * r[-1] for r in t)


def integers_that_become_floats(x):
    t = [[0 for _ in range(3)] for _ in range(3)]
    t[0][1] = x[0] ** 2
    t[1][1] += x[1] * x[0]
    return t[0][1] * 2 + t[1][1] + t[2][2]


def swapped_rows(x):
    t = products(x)
    for i in range(3):
        t[i][i] += 3.0
    t[0], t[2] = t[2], t[0]
    for i in range(1, 3):
        f = t[i][0] / t[0][0]
        for j in range(3):
            t[i][j] -= f * t[0][j]
    return t[1][1] * t[2][2]


def compared_rows(x):
    t = [[i * j for j in range(3)] for i in range(3)]
    same = t[0] == [0, 0, 0]
    last = t[0]
    for row in t:
        last = row
    return x[0] * len(last + [1]) if same else x[1]


@pytest.mark.parametrize(
    "fn",
    [
        a_table,
        empty_lists,
        dicts,
        the_longest_path,
        changed_after_it_was_put,
        changed_an_iteration_later,
        one_list_put_many_times,
        changed_after_the_loop,
        changed_on_one_path,
        changed_by_a_walk,
        changed_in_a_copy_of_the_list,
        filled_by_a_while,
        copies_are_apart,
        deep_copies,
        copies_of_everything,
        a_generator,
        one_row_by_multiplication,
        rows_are_lists,
        a_slice_of_a_row_is_a_copy,
        rows_that_grow,
        integers_that_become_floats,
        swapped_rows,
        compared_rows,
    ],
)
def test_elements_are_the_containers_themselves(fn: Callable[..., Any]) -> None:
    np.testing.assert_allclose(calque.jit(fn)(X), fn(X), rtol=1e-13)
    slopes = [(fn(X + s) - fn(X - s)) / 2e-6 for s in 1e-6 * np.eye(X.size)]
    np.testing.assert_allclose(calque.grad(fn)(X), slopes, rtol=1e-6, atol=1e-8)


def of_run_time_length(x):
    rows = []
    s = x[0]
    while s < 9.0:
        rows.append([s, 1.0])
        s = 2.0 * s
    rows[0][1] = 5.0
    return sum(r[1] for r in rows)


def test_an_element_of_a_list_of_run_time_length() -> None:
    with pytest.raises(errors.BranchMismatch, match="rows.0..1. = 5.0"):
        calque.jit(of_run_time_length)(X)


RATES = [[0.1, 0.9], [0.5, 0.4], [0.3, 0.2]]
NEXT = ((0, 1, 2), (1, 2, 0))


def at_a_row_of_the_data(x):
    i = int(abs(x[1]) * 4) % 3
    return RATES[i][1] * x[1] + RATES[i][i % 2] * x[0]


def at_a_row_of_the_data_in_a_loop(x):
    total = 0.0
    for k in range(len(x)):
        total += RATES[int(abs(x[k]) * 4) % 3][k % 2] * x[k]
    return total


def a_machine_of_states(x):
    state, total = 0, 0.0
    for v in x:
        state = NEXT[int(v > 0)][state]
        total += v * state
    return total


def a_row_made_of_the_data(x):
    m = [[a * b for a in (x[0], x[1], x[2])] for b in (x[3], x[1], x[0])]
    i = int(abs(x[1]) * 4) % 3
    return m[i][0] * m[i][-1] + m[0][i]


def a_record_of_the_data(x):
    records = [{"w": x[0], "n": 1}, {"n": 2, "w": x[1]}, {"w": x[3], "n": 5}]
    i = int(abs(x[1]) * 4) % 3
    return records[i]["w"] * x[2] * records[i]["n"]


def by_slices_made_before(x):
    here, total = slice(0, 2), 0.0
    for i in range(len(x) - 1):
        total += np.sum(x[here]) * (i + 1)
        here = slice(i, i + 2)
    return total + np.sum(x[slice(int(x[1] > 0), 3)] ** 2)


@pytest.mark.parametrize(
    "fn",
    [
        a_record_of_the_data,
        by_slices_made_before,
        at_a_row_of_the_data,
        at_a_row_of_the_data_in_a_loop,
        a_machine_of_states,
        a_row_made_of_the_data,
    ],
)
def test_elements_of_lists_of_lists_at_rows_that_the_data_say(fn: Callable[..., Any]) -> None:
    assert np.isclose(calque.jit(fn)(X), fn(X), rtol=1e-14)
    ends = [(fn(X + e) - fn(X - e)) / 2e-6 for e in np.eye(4) * 1e-6]
    np.testing.assert_allclose(calque.grad(fn)(X), ends, rtol=1e-7, atol=1e-9)
    rows = np.stack([X, X[::-1], X * 1.3])
    found = calque.vmap(fn)(rows)
    np.testing.assert_allclose(found, [fn(row) for row in rows], rtol=1e-14)


def test_a_row_that_the_data_say_is_not_there() -> None:
    with pytest.raises(IndexError):
        calque.jit(lambda x: RATES[int(x[0])][1] * x[0])(np.array([5.0]))
