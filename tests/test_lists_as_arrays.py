"""Python lists as a program would use arrays: tables, counts, heaps; plain Python is the oracle."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sampling import sampled

import calque

X = np.array([0.31, 1.62, 0.73, 2.24, 1.15, 0.47])


@pytest.fixture
def stepped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels run as plain Python."""
    monkeypatch.setenv("CALQUE_JIT", "0")


# stores at places that the data say


def counts(x):
    found = [0] * 4
    for v in x:
        found[int(v)] += 1
    return found[0] * x[0] + found[1] * x[1] + sum(found) * x[2]


def sums_of_classes(x):
    found = [0.0, 0.0, 0.0]
    for v in x:
        found[int(v)] += v * v
    return np.array(found) * np.array([1.0, 2.0, 3.0])


def in_an_arm(x):
    found = [0.0] * 3
    if x[0] > 0:
        for v in x:
            found[int(v)] += v
    found[1] += x[1]
    a, b, c = found
    return a + b * 2 + c * c


def of_each_iteration(x):
    total = 0.0
    for i in range(len(x)):
        found = [0.0] * 3
        for j in range(len(x)):
            found[int(x[j])] += x[i] * x[j]
        total += max(found) * found[0]
    return total


def appended_to_afterwards(x):
    found = [0.0] * 3
    for v in x:
        found[int(v)] += v
    found.append(x[0] * 2)
    found.append(3.0)
    return np.array(found) * 2.0


def stored_and_grown(x):
    found = [0.0] * 3
    for v in x:
        found[int(v)] += v * v
        if v > 0.5:
            found.append(v)
    return sum(found) * 2 + found[-1]


def asked_in_the_test(x):
    found, k = [0.0] * 3, 0
    while found[int(x[k])] < 2.0 and k < len(x) - 1:
        found[int(x[k])] += x[k] + 0.5
        k += 1
    return found[0] * found[1] + found[2]


def arrays_replaced(x):
    found = [np.zeros(2), np.ones(2), x[:2]]
    for v in x:
        found[int(v)] = found[int(v)] * v + 1.0
    return np.sum(found[0] * found[1] * found[2])


def a_grid(x):
    grid = [[0.0] * 2 for _ in range(3)]
    for v in x:
        grid[int(v)][int(v > 1)] += v
    return grid[0][0] + grid[1][1] * 2 + grid[2][1] * 3


def outside_of_loops(x):
    found = [x[0], x[1], x[2]]
    found[int(x[3])] = 5.0 * x[0]
    found[-1 - int(x[1])] *= x[4]
    return found[0] + 2 * found[1] + 3 * found[2]


def a_permutation(x):
    order = [0, 1, 2, 3]
    for k in range(4):
        j = int(x[k])
        order[k], order[j] = order[j], order[k]
    return x[order[0]] * 2 + x[order[1]] * 3 + x[order[2]]


def sets_joined(x):
    parent = list(range(5))

    def find(i):
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    total = 0.0
    for k in range(4):
        a, b = find(k), find(int(x[k]))
        if a != b:
            parent[a] = b
            total += x[k]
    return total


def from_the_end_and_grown(x):
    found = [0.5, 1.0, 1.5]
    total = 0.0
    for v in x:
        total += found[-1 - int(v)] * v
        found[-1 - int(v)] = v
    last = found[-1]
    for v in x:
        found.append(v * last)
    return total + sum(v * k for k, v in enumerate(found)) + found[-2]


# lists as long as an argument


def a_recurrence(x):
    n = len(x)
    d = [0.0] * (n + 1)
    for i in range(1, n + 1):
        d[i] = d[i - 1] * 0.5 + x[i - 1]
    return d[n]


def a_table(x):
    n = len(x)
    d = [[0.0] * n for _ in range(n)]
    for i in range(1, n):
        d[i][0] = x[i - 1]
        for j in range(1, n):
            d[i][j] = d[i - 1][j - 1] * 0.5 + max(d[i][j - 1], x[j])
    return d[-1][-1] + d[n - 2][2]


def two_states(x):
    d = [[0.0, 1.0] for _ in range(len(x) + 1)]
    for i in range(1, len(x) + 1):
        d[i][0] = d[i - 1][1] * 0.5 + x[i - 1]
        d[i][1] = d[i - 1][0] + 1
    return d[-1][1] * d[2][0]


def a_knapsack(x):
    best = [0.0] * 10
    for k in range(len(x)):
        weight = 1 + int(x[k])
        for room in range(9, weight - 1, -1):
            best[room] = max(best[room], best[room - weight] + x[k])
    return best[9]


def a_sieve(x):
    n = len(x)
    prime = [True] * n
    for i in range(2, n):
        if prime[i]:
            for j in range(i * i, n, i):
                prime[j] = False
    return sum([x[i] for i in range(2, n) if prime[i]])


def a_pattern_repeated(x):
    signs = [1.0, -1.0, 0.5] * len(x)
    return sum([signs[i] * x[i] for i in range(len(x))]) + len(signs)


def as_long_as_the_data_say(x):
    room = [1.0] * int(np.sum(x > 0.5))
    for i in range(len(room)):
        room[i] += x[i]
    return sum(room) * x[0]


def a_list_that_must_be_one(x):
    names = [0.0] * len(x)
    names[1] = x[1]
    return dict(zip("abcdef", names))["b"] * 2.0


# orders that the run knows


def least(x):
    return (x[0], 1) < (x[1], 2), [x[1], x[2]] >= [x[1], x[2]], (x[0], x[1]) < (x[0],)


def sorted_by_a_key(x):
    found = sorted(list(x), key=lambda v: abs(v - 1.0))
    return found[0] * 3 + found[-1]


def pairs_sorted(x):
    pairs = [(int(x[i]), x[i]) for i in range(len(x))]
    up, down = sorted(pairs), sorted(pairs, key=lambda p: p[0], reverse=True)
    return sum(k * p[1] for k, p in enumerate(up)) + 2 * sum(k * p[1] for k, p in enumerate(down))


def grown_and_sorted(x):
    pairs = []
    for v in x:
        if v > 0.4:
            pairs.append((v, v * v))
    pairs.sort(key=lambda p: -p[1])
    return pairs[0][0] * 3 + pairs[1][1] + sum(a * b for a, b in pairs)


def a_spanning_tree(x):
    edges = []
    for i in range(4):
        for j in range(i + 1, 4):
            edges.append((abs(x[i] - x[j]), i, j))
    edges.sort(key=lambda e: e[0])
    parent = list(range(4))

    def find(a):
        while parent[a] != a:
            a = parent[a]
        return a

    total = 0.0
    for weight, i, j in edges:
        a, b = find(i), find(j)
        if a != b:
            parent[a] = b
            total += weight
    return total


def a_heap(x):
    heap = []
    for v in x:
        heapq.heappush(heap, v)
    total, k = 0.0, 1
    while heap:
        total += k * heapq.heappop(heap)
        k += 1
    return total


def merged_two_by_two(x):
    heap = list(x**2)
    heapq.heapify(heap)
    total = 0.0
    while len(heap) > 1:
        both = heapq.heappop(heap) + heapq.heappop(heap)
        total += both
        heapq.heappush(heap, both)
    return total


def a_shortest_path(x):
    weights = np.outer(x, x[::-1]) + 0.1
    far = [np.inf] * len(x)
    far[0] = 0.0
    heap = [(0.0, 0)]
    while heap:
        d, u = heapq.heappop(heap)
        if d > far[u]:
            continue
        for v in range(len(x)):
            if v != u and d + weights[u, v] < far[v]:
                far[v] = d + weights[u, v]
                heapq.heappush(heap, (far[v], v))
    return np.array(far) * 2.0


def replaced_on_a_heap(x):
    heap = [x[0], x[1], x[2], x[3]]
    heapq.heapify(heap)
    first = heapq.heapreplace(heap, x[4])
    return first * 2 + heapq.heappushpop(heap, x[5]) * 3 + heap[0]


def inserted_in_order(x):
    found = []
    for v in x:
        k = 0
        while k < len(found) and found[k] < v:
            k += 1
        found.insert(k, v)
    return sum(v * k for k, v in enumerate(found))


def looked_for(x):
    found = []
    for v in x:
        found.append(v)
    found.remove(x[2])
    found.insert(-1, x[0] * 2)
    return found[found.index(x[3])] * 2 + found[1] * found.count(x[0]) + len(found) + found[-2]


PROGRAMS = [
    counts,
    sums_of_classes,
    in_an_arm,
    of_each_iteration,
    appended_to_afterwards,
    stored_and_grown,
    asked_in_the_test,
    arrays_replaced,
    a_grid,
    outside_of_loops,
    a_permutation,
    sets_joined,
    from_the_end_and_grown,
    a_recurrence,
    a_table,
    two_states,
    a_knapsack,
    a_sieve,
    a_pattern_repeated,
    as_long_as_the_data_say,
    a_list_that_must_be_one,
    sorted_by_a_key,
    pairs_sorted,
    grown_and_sorted,
    a_spanning_tree,
    a_heap,
    merged_two_by_two,
    a_shortest_path,
    replaced_on_a_heap,
    inserted_in_order,
    looked_for,
]


def loss_of(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The program's numbers, each with a weight of its own."""

    def loss(x):
        found = np.asarray(fn(x))
        return np.sum(found * np.arange(1.0, found.size + 1.0).reshape(found.shape))

    return loss


@pytest.mark.usefixtures("stepped")
@pytest.mark.parametrize("fn", sampled(PROGRAMS, 2))
def test_value_gradient_and_batch(fn: Callable[..., Any]) -> None:
    np.testing.assert_allclose(calque.jit(fn)(X), fn(X), rtol=1e-13)
    loss, h = loss_of(fn), 1e-6
    steps = h * np.eye(len(X))
    slopes = [(loss(X + s) - loss(X - s)) / (2 * h) for s in steps]
    np.testing.assert_allclose(calque.grad(loss)(X), slopes, rtol=1e-6, atol=1e-7)
    many = np.stack([X, X[::-1], 0.99 * X])
    np.testing.assert_allclose(calque.vmap(loss)(many), [loss(x) for x in many], rtol=1e-12)


@pytest.mark.parametrize("fn", [sums_of_classes, a_table, a_spanning_tree, a_heap, a_knapsack])
def test_compiled(fn: Callable[..., Any]) -> None:
    loss = loss_of(fn)
    np.testing.assert_allclose(calque.jit(fn)(X), fn(X), rtol=1e-13)
    np.testing.assert_allclose(calque.jit(calque.grad(loss))(X), calque.grad(loss)(X), rtol=1e-12)


def test_the_order_of_tuples() -> None:
    for x in (np.array([0.0, 1.0, 2.0]), np.array([1.0, 1.0, 1.0]), np.array([2.0, 1.0, 0.0])):
        assert tuple(map(bool, calque.jit(least)(x))) == least(x)


def test_a_table_is_one_array() -> None:
    """No loop is unrolled, and no length known, to make lists of the rows."""
    text = calque.source(a_table, X)
    assert "d = np.empty((n, n))" in text
    assert "d[i, j] = d[i - 1, j - 1] * 0.5 + " in text


def test_other_lengths_do_not_compile_again() -> None:
    fast = calque.jit(a_table)
    for n in (6, 5, 7):
        np.testing.assert_allclose(fast(X[0] + np.arange(n)), a_table(X[0] + np.arange(n)))
    assert fast.cache_info().programs == 1


def beyond_the_end(x):
    found = [0.0] * 3
    for v in x:
        found[int(v)] += v
    return found[0]


def beyond_the_end_once(x):
    found = [x[0], x[1]]
    found[int(x[0])] = 1.0
    return found[0]


@pytest.mark.parametrize("fn", [beyond_the_end, beyond_the_end_once])
def test_a_place_beyond_the_end(fn: Callable[..., Any], stepped: None) -> None:
    for x in (np.array([3.0, 1.0]), np.array([-4.0, 1.0])):
        for transformed in (fn, calque.jit(fn), calque.grad(fn)):
            with pytest.raises(IndexError):
                transformed(x)
