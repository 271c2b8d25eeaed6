"""deque, heapq and generators that are taken step by step."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
from battery import oracle
from calque.transpiler.errors import CalqueError

GRAPH = {0: [(1, 2.0), (2, 5.0)], 1: [(2, 1.0), (3, 7.0)], 2: [(3, 2.0)], 3: []}


def moving_window(x):
    window, total = deque(maxlen=3), 0.0
    for v in x:
        window.append(v)
        total = total + sum(window) ** 2
    return total


def full_window_in_a_loop(x):
    window, total = deque([0.0, x[0], 1.0], maxlen=3), 0.0
    for v in x:
        window.append(v * window[0] + 1.0)
        total = total + window[-1]
    return total * len(window)


def both_ends(x):
    queue = deque([x[0], x[1]])
    queue.appendleft(x[2] * x[3])
    queue.extend([x[1] * 2.0, x[0]])
    queue.extendleft([x[3], 3.0])
    queue.rotate(2)
    first, last = queue.popleft(), queue.pop()
    queue[0] += 1.0
    del queue[1]
    assert isinstance(queue, deque) and type(queue) is deque and queue
    return first * last + sum(v * k for k, v in enumerate(queue)) + len(list(reversed(queue)))


def growing_queue(x):
    queue = deque()
    for v in x:
        queue.append(v**2)
        if len(queue) > 1:
            queue.append(queue.pop() * v)
    return sum(queue) + queue[-1]


def breadth_first(x):
    seen, queue, total = set(), deque([(0, 1.0)]), 0.0
    while queue:
        node, weight = queue.popleft()
        if node in seen:
            continue
        seen.add(node)
        total = total + weight * x[node]
        for other, _ in GRAPH[node]:
            queue.append((other, weight * x[node]))
    return total


def shortest_path(x):
    heap, distance = [(0.0, 0, 1.0)], {}
    while heap:
        so_far, node, weight = heapq.heappop(heap)
        if node in distance:
            continue
        distance[node] = (so_far, weight)
        for other, length in GRAPH[node]:
            heapq.heappush(heap, (so_far + length, other, weight * x[node] + length))
    return sum(weight * so_far for so_far, weight in distance.values())


def smallest_and_largest(x):
    few = heapq.nsmallest(2, x) + heapq.nlargest(2, list(x))
    heap = [3, 1, 2]
    heapq.heapify(heap)
    last = heapq.heapreplace(heap, 9) + heapq.heappushpop(heap, 0)
    return sum(v * (k + 1) for k, v in enumerate(few)) * last + heap[0] * x[0]


def steps_of_a_generator(x):
    def powers(v, scale=1.0):
        while True:
            yield v * scale
            v = v * x[0] + x[1]

    source, total = powers(x[2], scale=2.0), 0.0
    for _ in range(3):
        total = total + next(source) ** 2
    return total


def steps_with_ends(x):
    def pairs():
        for k in range(2):
            if k == 1:
                yield from (v * 3.0 for v in [x[0], x[1]])
            else:
                yield x[k]
        else:
            yield x[2] * 5.0

    source = pairs()
    found = [next(source), next(source), next(source, 1.0), next(source), next(source, 7.0)]
    return sum(v * (k + 1) for k, v in enumerate(found))


def steps_of_an_expression(x):
    squares = (v**2 for v in [x[0], x[1], x[2]])
    return next(squares) * 2.0 + next(iter(squares))


def step_and_walk(x):
    source = (v for v in [x[0], x[1], 2.0])
    return next(source) * sum(source)


def falling_queue(x):
    """Of ``queue and ...`` a test asks the truth alone: one side is a deque, the other a number."""
    queue, total = deque(), 0.0
    for k in range(len(x)):
        while queue and x[queue[-1]] <= x[k]:
            queue.pop()
        queue.append(k)
        if not (not queue or x[queue[0]] < 0.0) and queue:
            total += x[queue[0]] * x[k]
        total *= 0.5 if queue and len(queue) > 1 else 2.0
    return total


PROGRAMS = [
    falling_queue,
    moving_window,
    full_window_in_a_loop,
    both_ends,
    growing_queue,
    breadth_first,
    shortest_path,
    smallest_and_largest,
    steps_of_a_generator,
    steps_with_ends,
    steps_of_an_expression,
    step_and_walk,
]


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_gradient(fn: Callable[..., Any]) -> None:
    x = np.array([0.5, -1.2, 2.0, 0.3])
    value, gradient = calque.value_and_grad(fn)(x)
    assert np.isclose(value, fn(x), rtol=1e-13)
    np.testing.assert_allclose(gradient, oracle.gradient(fn, (x,)), rtol=1e-6, atol=1e-9)


def test_compiled_and_batched() -> None:
    x = np.array([[0.5, -1.2, 2.0, 0.3], [1.5, 0.2, -0.4, 0.9]])
    for fn in (moving_window, full_window_in_a_loop, falling_queue):
        np.testing.assert_allclose(calque.jit(fn)(x[0]), fn(x[0]), rtol=1e-13)
        np.testing.assert_allclose(calque.vmap(fn)(x), [fn(row) for row in x], rtol=1e-13)


def grown_in_an_arm(x):
    queue = deque([1.0])
    if x[0] < 0:
        queue.append(2.0)
    return np.sum(x) * len(queue)


def returned_queue(x):
    return deque([x[0]])


def step_in_an_arm(x):
    source = (v for v in [x[0], x[1], 2.0])
    first = next(source)
    if x[0] < 0:
        first = next(source)
    return first * next(source)


def test_of_data_before_a_yield(x):
    def positive():
        for v in x:
            if v > 0:
                yield v

    return next(positive()) * 2.0


REFUSED = [
    grown_in_an_arm,
    returned_queue,
    step_in_an_arm,
    test_of_data_before_a_yield,
]
test_of_data_before_a_yield.__test__ = False  # type: ignore[attr-defined]


@pytest.mark.parametrize("fn", REFUSED, ids=lambda fn: fn.__name__)
def test_refused(fn: Callable[..., Any]) -> None:
    with pytest.raises(CalqueError) as caught:
        calque.jit(fn)(np.array([0.5, -1.2]))
    assert caught.value.origin.file == __file__
