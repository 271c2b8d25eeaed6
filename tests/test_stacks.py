"""Lists that a program pops from, stores into, clears and sorts: plain Python is the oracle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sampling import sampled

import calque
from battery import oracle

X = np.array([0.31, -0.72, 0.63, 0.24, -0.15])
OTHER = np.array([-0.31, 0.52, 0.43, -0.24, 0.75])


@pytest.fixture
def stepped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels run as plain Python."""
    monkeypatch.setenv("CALQUE_JIT", "0")


def popped_once(x):
    out = []
    for i in range(x.shape[0]):
        out.append(x[i] ** 2)
    last = out.pop()
    return last + sum(out) * 2 + len(out)


def popped_in_the_loop(x):
    out = []
    for i in range(x.shape[0]):
        out.append(x[i] ** 2)
        if x[i] < 0:
            out.pop()
    return sum(out) * 2 + len(out)


def popped_on_one_path(x):
    out = []
    for i in range(x.shape[0]):
        out.append(x[i] ** 2)
    if x[0] > 0:
        out.pop()
    return np.sum(np.array(out) ** 2) + out[-1]


def grown_again_after_a_pop(x):
    out = []
    for i in range(x.shape[0]):
        out.append(x[i] ** 2)
    a = out.pop()
    for i in range(x.shape[0]):
        out.append(a * x[i])
    out.append(out.pop() * 2)
    return np.sum(np.array(out) ** 2) + out[4] * out[3]


def the_last_replaced(x):
    out = [0.0]
    for i in range(x.shape[0]):
        if x[i] > 0:
            out.append(x[i] ** 2)
        else:
            out[-1] = out[-1] + x[i]
    return np.sum(np.array(out) ** 2)


def each_replaced(x):
    out = []
    for i in range(x.shape[0]):
        out.append(x[i] ** 2)
    for i in range(x.shape[0]):
        out[i] = out[i] * i
    out[-1] += 3 * x[0]
    return np.sum(np.array(out) ** 2)


def replaced_as_it_grows(x):
    out = [1.0]
    for i in range(x.shape[0]):
        out.append(x[i] ** 2)
        out[-2] *= i + 1
        out[0] += x[i]
    return np.sum(np.array(out) ** 3)


def cleared(x):
    out = []
    total = 0.0
    for i in range(x.shape[0]):
        out.append(x[i] ** 2)
        if len(out) > 2:
            total += max(out) * min(out)
            out.clear()
    return total + sum(out)


def sorted_ways(x):
    out = []
    for i in range(x.shape[0]):
        if x[i] > -0.5:
            out.append(x[i] ** 2)
    before = sorted(out, reverse=True)
    first = out[0]
    out.sort()
    total = first + 2 * out[-1] + 3 * before[0] + before[1] * before[2]
    out.reverse()
    return total + out[1] * 5


def sorted_within(x):
    out = []
    total = 0.0
    for i in range(x.shape[0]):
        out.append(x[i])
        out.sort(reverse=True)
        total += out[0] * (i + 1) + out[-1]
    return total


def reduced(x):
    out = []
    for i in range(x.shape[0]):
        if x[i] > -0.5:
            out.append(x[i] ** 2)
    total = max(out) + min(out) + sum(out) + np.mean(out) + np.std(out) + np.median(out)
    if any(v > 0.3 for v in out) and all(v < 100 for v in out):
        total = total * 2
    return total * len(out)


def a_tree_walked(x):
    stack = [0]
    total = 0.0
    while stack:
        v = stack.pop()
        total += x[v] * (v + 1)
        if 2 * v + 1 < x.shape[0]:
            stack.append(2 * v + 1)
        if 2 * v + 2 < x.shape[0]:
            stack.append(2 * v + 2)
    return total * total


def a_queue(x):
    queue = [(0, 1.0)]
    total = 0.0
    while len(queue) > 0:
        v, weight = queue.pop(0)
        total = total * 0.5 + x[v] * weight
        if 2 * v + 1 < x.shape[0]:
            queue.append((2 * v + 1, weight * x[v]))
        if 2 * v + 2 < x.shape[0]:
            queue.append((2 * v + 2, weight * 0.3))
    return total * total


def halves_until_small(x):
    stack = [(x[0] - 1.0, x[2] + 1.0)]
    total = 0.0
    while stack:
        low, high = stack.pop()
        middle = 0.5 * (low + high)
        if high - low > 0.3:
            stack.append((low, middle))
            stack.append((middle, high))
        else:
            total += (high - low) * middle**2
    return total


def greater_ones_to_the_left(x):
    stack = []
    total = 0.0
    for i in range(x.shape[0]):
        while stack and stack[-1] > x[i]:
            total += stack.pop() * x[i]
        stack.append(x[i])
    return total + sum(stack)


def taken_from_a_known_list(x):
    weights = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i] * weights.pop()
    return total * total


def taken_in_turns(x):
    out = []
    total = 0.0
    for i in range(x.shape[0]):
        if i % 2 == 0:
            out.append(x[i] ** 2)
        else:
            total += out.pop() * x[i]
    return total + len(out)


def arrays_on_a_stack(x):
    stack = [x]
    total = 0.0
    while stack and len(stack) < 40:
        v = stack.pop()
        norm = v @ v
        total += norm * v[1]
        if norm > 0.4:
            stack.append(v * 0.5)
            stack.append(v[::-1] * 0.7)
    return total


def arrays_replaced(x):
    out = []
    for i in range(x.shape[0]):
        out.append(x * i)
    first = out[0]
    for i in range(x.shape[0]):
        out[i - 1] = out[i] + x
    out[0] = out[1] * 2
    return np.sum(np.array(out) ** 2) + np.sum(first) + out[0] @ out[2]


def one_list_into_another(x):
    small, out = [], [0.0]
    for i in range(x.shape[0]):
        if x[i] > 0:
            small.append(x[i])
    out.extend(small)
    out += small
    both = list(out)
    both[0] = 5.0
    return np.sum(np.array(out) ** 2) + both[0] * both[2] + out[0]


def deleted(x):
    out = []
    for i in range(x.shape[0]):
        out.append(x[i] ** 2)
    del out[-1]
    del out[0]
    return np.sum(np.array(out) * np.arange(len(out))) + out[0]


def wider_by_and_by(x):
    out = [3]
    for i in range(x.shape[0]):
        out.append(i)
        if x[i] > 0.5:
            out[0] = x[i]
    return np.sum(np.array(out) ** 2) + out[0]


def as_an_array_of_its_own(x):
    out = []
    for i in range(x.shape[0]):
        out.append(x[i] * i)
    table = np.asarray(out)
    table[0] = 7.0 * x[1]
    out[1] = x[0]
    return out[0] + table @ table + np.sum(np.array(out) ** 2)


def stored_into_as_it_is_walked(x):
    out = [x[0], x[1], x[2]]
    total = 0.0
    i = 0
    for v in out:
        total += v * (i + 1)
        if i < 2:
            out[i + 1] = v * x[3]
        i += 1
    return total


def two_names_of_one_list(x):
    out = []
    other = out
    for i in range(x.shape[0]):
        out.append(x[i])
    other.pop()
    out[0] = 5.0
    return sum(other) + other[0]


def a_list_in_a_dict(x):
    d = {"a": [0.0]}
    for i in range(x.shape[0]):
        d["a"].append(x[i])
        if x[i] < 0:
            d["a"].pop()
    return sum(d["a"])


def two_stacks(x):
    a, b = [], []
    for i in range(x.shape[0]):
        if x[i] > 0:
            a.append(x[i])
        else:
            b.append(x[i])
        if len(a) > len(b):
            b.append(a.pop() * 2)
    return sum(a) + 3 * sum(b) + len(b)


def elements_swapped(x):
    out = []
    for i in range(x.shape[0]):
        out.append(x[i])
    for i in range(4):
        for j in range(4 - i):
            if out[j] > out[j + 1]:
                out[j], out[j + 1] = out[j + 1], out[j]
    return sum(v * (k + 1) for k, v in enumerate(out))


def tuples_replaced(x):
    out = []
    for i in range(x.shape[0]):
        if x[i] > 0:
            out.append((x[i], i))
    a, b = out.pop()
    out[0] = (a * 2, b)
    return out[0][0] * out[0][1] + sum(p * q for p, q in out)


def counted_from_the_end(x):
    out = [1.0, 2.0]
    for i in range(x.shape[0]):
        out[-2] = out[-1] * x[i]
        out.append(out[-2] + 1)
        if len(out) > 3:
            del out[-1]
    return sum(out)


def popped_from_the_middle(x):
    out = []
    for i in range(x.shape[0]):
        out.append(x[i] * 2)
    a = out.pop(1)
    b = out.pop(-2)
    return a * 3 + b * 5 + sum(out) + out[1]


def a_while_with_an_else(x):
    out = [x[0]]
    while out:
        v = out.pop()
        if v > 0.5:
            w = v
            break
        if v > 0.01:
            out.append(v / 2)
    else:
        w = -1.0 * x[1]
    return w


def made_anew(x):
    out = []
    t = 0.0
    for i in range(x.shape[0]):
        out.append(x[i])
        if len(out) == 2:
            t += out[0] * out[1]
            out = []
    return t + len(out)


PROGRAMS = [
    *(popped_once, popped_in_the_loop, popped_on_one_path, grown_again_after_a_pop),
    *(the_last_replaced, each_replaced, replaced_as_it_grows, cleared, sorted_ways, sorted_within),
    *(reduced, a_tree_walked, a_queue, halves_until_small, greater_ones_to_the_left),
    *(taken_from_a_known_list, taken_in_turns, arrays_on_a_stack, arrays_replaced),
    *(one_list_into_another, deleted, wider_by_and_by, as_an_array_of_its_own),
    *(stored_into_as_it_is_walked, two_names_of_one_list, a_list_in_a_dict, two_stacks),
    *(
        elements_swapped,
        tuples_replaced,
        counted_from_the_end,
        popped_from_the_middle,
        a_while_with_an_else,
        made_anew,
    ),
]


# two lists of which each example appends to another one have no batched form yet
ONE_BY_ONE = [two_stacks]


@pytest.mark.usefixtures("stepped")
@pytest.mark.parametrize("fn", sampled(PROGRAMS, 2, 1))
def test_as_plain_python(fn: Callable[..., Any]) -> None:
    both, compiled = calque.value_and_grad(fn), calque.jit(fn)
    slope = calque.jit(calque.grad(fn))
    for x in (X, OTHER):
        value, gradient = both(x)
        np.testing.assert_allclose(value, fn(x.copy()), rtol=1e-13)
        slopes = [(fn(x + s) - fn(x - s)) / 2e-6 for s in 1e-6 * np.eye(x.size)]
        np.testing.assert_allclose(gradient, slopes, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(compiled(x), value, rtol=1e-13)
        np.testing.assert_allclose(slope(x), gradient, rtol=1e-12)
        tangent = calque.jvp(fn, (x,), (OTHER,))[1]
        np.testing.assert_allclose(tangent, gradient @ OTHER, rtol=1e-12)
    if fn in ONE_BY_ONE:
        return
    rows = np.stack([X, OTHER])
    np.testing.assert_allclose(calque.vmap(fn)(rows), [fn(X), fn(OTHER)], rtol=1e-13)


COMPILED = [
    popped_in_the_loop,
    cleared,
    halves_until_small,
    greater_ones_to_the_left,
    each_replaced,
]


@pytest.mark.parametrize("fn", COMPILED)
def test_compiled(fn: Callable[..., Any]) -> None:
    value, gradient = calque.jit(fn), calque.jit(calque.grad(fn))
    for x in (X, OTHER):
        np.testing.assert_allclose(value(x), fn(x), rtol=1e-13)
        slopes = [(fn(x + s) - fn(x - s)) / 2e-6 for s in 1e-6 * np.eye(x.size)]
        np.testing.assert_allclose(gradient(x), slopes, rtol=1e-6, atol=1e-7)


def pooled(y, w):
    """Isotonic regression: two stacks that shrink and grow together, and one tells of both."""
    values, weights = [], []
    for i in range(len(y)):
        values.append(y[i])
        weights.append(w[i])
        while len(values) > 1 and values[-2] > values[-1]:
            v2, w2 = values.pop(), weights.pop()
            v1, w1 = values.pop(), weights.pop()
            values.append((v1 * w1 + v2 * w2) / (w1 + w2))
            weights.append(w1 + w2)
    total = 0.0
    for v, weight in zip(values, weights):
        total += weight * v**2
    return total


def test_stacks_that_go_together() -> None:
    y, w = np.array([0.3, 0.1, 0.7, 0.5, 0.2, 0.9]), np.array([1.0, 2.0, 1.5, 0.5, 1.0, 3.0])
    value, slopes = calque.value_and_grad(pooled, argnums=(0, 1))(y, w)
    assert value == pooled(y, w)
    expected = oracle.gradient(pooled, (y, w))
    np.testing.assert_allclose(np.concatenate(slopes), expected, rtol=1e-7)
    compiled = calque.jit(calque.grad(pooled, argnums=(0, 1)))(y, w)
    np.testing.assert_allclose(np.concatenate(compiled), expected, rtol=1e-7)
