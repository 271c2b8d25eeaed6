"""Lists that grow in loops, and arrays built from them."""

from __future__ import annotations

import numpy as np

from battery.registry import matrix, program, vector


@program(vector(5))
def append_then_array(x):
    out = []
    for i in range(x.shape[0]):
        out.append(x[i] ** 2 * (i + 1))
    return np.sum(np.array(out) * x)


@program(vector(5))
def append_recurrence(x):
    path = [0.1]
    for i in range(x.shape[0]):
        path.append(np.sin(path[-1]) + x[i])
    return np.sum(np.array(path) ** 2)


@program(vector(5))
def append_then_index(x):
    out = []
    for i in range(x.shape[0]):
        out.append(np.exp(x[i]))
    return out[0] * out[-1] + len(out)


@program(vector(5))
def append_then_loop(x):
    out = []
    for value in x:
        out.append(value * value)
    total = 0.0
    for i, value in enumerate(out):
        total += value / (i + 1)
    return total * sum(out)


@program(vector(4))
def append_vectors_then_stack(x):
    states = []
    y = x
    for _ in range(x.shape[0]):
        y = np.tanh(y + x)
        states.append(y)
    return np.sum(np.stack(states) @ x)


@program(vector(4))
def append_vectors_then_concatenate(x):
    pieces = []
    for i in range(3):
        pieces.append(x[: i + 1] * i)
    return np.sum(np.concatenate(pieces) ** 2)


@program(vector(5))
def append_two_lists(x):
    even, odd = [], []
    for i in range(x.shape[0]):
        even.append(x[i] * 2.0)
        odd.append(np.sin(x[i]))
    return np.dot(np.array(even), np.array(odd))


@program(vector(5))
def append_tuples(x):
    pairs = []
    for i in range(5):
        pairs.append((x[i], x[i] ** 2))
    first, second = zip(*pairs)
    return np.sum(np.array(first) * np.array(second))


@program(vector(5))
def list_plus_equals(x):
    out = [x[0]]
    for i in range(1, 5):
        out += [x[i] * out[i - 1]]
    return sum(out)


@program(vector(5))
def list_extended_and_popped(x):
    stack = []
    for k in range(5):
        stack.append(x[k])
        if k % 2 == 1:
            stack.append(stack.pop() * stack.pop())
    return sum(stack) + len(stack)


@program(vector(5))
def append_under_known_condition(x):
    out = []
    for i in range(5):
        if i != 2:
            out.append(x[i] ** 3)
    return np.sum(np.asarray(out) * np.arange(1.0, 5.0))


@program(vector(6))
def comprehension_over_run_time_range(x):
    y = np.array([x[i] * x[i - 1] for i in range(x.shape[0])])
    return np.sum(np.sin(y))


@program(vector(6))
def comprehension_over_rows(x):
    grid = x.reshape(3, 2)
    return np.sum(np.array([np.prod(row) for row in grid]) ** 2)


@program(vector(5))
def prefix_sums_by_append(x):
    sums = [0.0]
    for value in x:
        sums.append(sums[-1] + value)
    sums = np.array(sums)
    return np.max(sums) + np.sum(sums * sums)


@program(vector(6))
def append_in_while(x):
    out = []
    i = 0
    y = 1.0
    while i < x.shape[0]:
        y = y * (1.0 + 0.3 * x[i])
        out.append(y)
        i += 1
    return np.mean(np.array(out)) * y


@program(vector(4))
def trajectory_of_pairs(x):
    positions, velocities = [x[0]], [x[1]]
    for _ in range(6):
        acceleration = -x[2] * positions[-1]
        velocities.append(velocities[-1] + 0.1 * acceleration)
        positions.append(positions[-1] + 0.1 * velocities[-1])
    return np.sum(np.array(positions) ** 2) + x[3] * velocities[-1]


@program(matrix(3, 4))
def nested_growing_lists(a):
    rows = []
    for i in range(a.shape[0]):
        row = []
        for j in range(a.shape[1]):
            row.append(a[i, j] ** 2 + i)
        rows.append(row)
    return np.sum(np.array(rows) * a)


@program(vector(4))
def dict_that_grows(x):
    memo = {0: 1.0, 1: x[0]}
    for n in range(2, 6):
        memo[n] = memo[n - 1] * x[1] + memo[n - 2] * x[2]
    return memo[5] + sum(memo.values()) * x[3]


@program(vector(3))
def memoised_recursion(x):
    memo = {}

    def fib(n):
        if n < 2:
            return x[n]
        if n not in memo:
            memo[n] = np.sin(fib(n - 1)) + fib(n - 2) * x[2]
        return memo[n]

    return fib(7)


@program(vector(6))
def growing_with_hstack(x):
    y = np.zeros(0)
    for i in range(3):
        y = np.hstack([y, x[2 * i] * x[2 * i + 1]])
    z = np.array([])
    for i in range(2):
        z = np.concatenate([z, x[i : i + 2]])
    return np.sum(y**2) + np.sum(z**3)


@program(vector(3), 4)
def trajectory_of_tuples(y, n):
    out = []
    t = 0.1
    for i in range(n):
        y = y + 0.1 * np.sin(y[::-1])
        t = t * 1.5
        out.append((t, *y))
    path = np.array(out)
    return np.sum(path[:, 1:] ** 2 * path[:, :1])


@program(vector(3), 20)
def grows_past_its_first_places(x, n):
    out = []
    for i in range(n):
        if x[i % 3] > -10.0:
            out.append(x[i % 3] * i)
    return np.sum(np.array(out[-5:]) ** 2) + out[-1] * out[0] + out[3]


@program(vector(3), 4)
def history_in_a_while(x, n):
    history = []
    i = 0
    while i < n:
        x = x * x[::-1]
        history.append(x)
        i += 1
    return np.sum(np.array(history) ** 2) + history[-1][0] * history[0][1]
