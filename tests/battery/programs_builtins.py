"""Builtins on known structure: comprehensions, zip, enumerate, min, max, sorted and the rest."""

from __future__ import annotations

import itertools
from operator import itemgetter

import numpy as np

from battery.registry import matrix, program, vector


@program(vector(4), vector(4, 1), diff=(0, 1))
def zip_of_arrays(x, y):
    total = 0.0
    for a, b in zip(x, y):
        total += a * np.sin(b)
    return total


@program(vector(5))
def enumerate_array(x):
    total = 0.0
    for k, value in enumerate(x):
        total += (k + 1) * value**2
    return total


@program(vector(5))
def enumerate_with_start(x):
    total = 0.0
    for k, (a, b) in enumerate(zip(x[:-1], x[1:]), start=2):
        total = total + a * b / k
    return total


@program(vector(5))
def reversed_array(x):
    value = 0.0
    for c in reversed(x):
        value = value * 0.5 + np.sin(c)
    return value


@program(vector(5))
def reversed_range(x):
    value = 0.3
    for k in reversed(range(len(x))):
        value = np.tanh(value + x[k])
    return value


@program(vector(4))
def list_comprehension(x):
    squares = [v * v for v in x]
    return squares[0] * squares[1] + sum(squares)


@program(vector(4))
def comprehension_with_condition(x):
    chosen = [x[k] * k for k in range(4) if k % 2 == 1]
    return np.prod(np.array(chosen)) + len(chosen)


@program(matrix(3, 3))
def nested_comprehension(a):
    terms = [a[i, j] * a[j, i] for i in range(3) for j in range(i + 1)]
    table = [[a[i, j] + 1.0 for j in range(2)] for i in range(3)]
    return sum(terms) + sum(sum(row) for row in table)


@program(vector(4))
def generator_given_to_sum(x):
    return sum(v * v for v in x) + sum((x[k] * k for k in range(4)), start=1.0)


@program(vector(4))
def generator_given_to_max(x):
    return max(np.sin(v) for v in x) - min(v * v for v in x)


@program(vector(4))
def dict_comprehension(x):
    table = {name: x[k] for k, name in enumerate("abcd")}
    return table["a"] * table["d"] + table["c"]


@program(vector(3))
def min_max_of_scalars(x):
    return max(x[0], x[1], 0.1) * min(x[1], x[2]) + max(x[2], -5.0)


@program(vector(4))
def min_max_of_array(x):
    return max(x) * min(x)


@program(vector(3))
def min_max_with_key(x):
    nearest = min([x[0], x[1], x[2]], key=lambda v: abs(v - 0.2))
    return nearest**2


@program(vector(4))
def sum_of_array_and_list(x):
    return sum(x) * sum([x[0], x[1]]) + sum([], 2.0)


@program(-0.6, 1.7, diff=(0, 1))
def abs_pow(x, y):
    return abs(x) * pow(y, 3) + pow(y, x) + abs(x * y)


@program(0.37, 2.6, diff=(0, 1))
def round_divmod(x, y):
    quotient, rest = divmod(y, x)
    return quotient * x + rest * y + round(y) * x + y // x + y % x


@program(vector(4, low=1.0, high=3.0))
def float_int_bool(x):
    k = int(3.7)
    return float(x[0]) * k + float(True) + bool(1) * x[1]


@program(vector(3))
def isinstance_dispatch(x):
    def magnitude(value):
        if isinstance(value, (list, tuple)):
            return sum(magnitude(v) for v in value)
        if isinstance(value, np.ndarray):
            return np.sum(value**2)
        return abs(value)

    return magnitude([x, (2.0, -3.0), [x * 2.0]])


@program(vector(3))
def getattr_dispatch(x):
    names = ["sin", "cos"]
    value = sum(np.sum(getattr(np, name)(x)) for name in names)
    shape = getattr(x, "shape", None)
    method = getattr(x, "mean")  # noqa: B009
    return value * shape[0] + method() + getattr(x, "missing_name", 1.5)


@program(vector(3))
def any_all_known(x):
    flags = [True, False, True]
    total = 0.0
    if any(flags):
        total += np.sum(x)
    if not all(flags):
        total += np.sum(x**2)
    return total


@program(vector(3))
def any_all_run_time(x):
    if any(v > 0.9 for v in x) or all(x > -2.0):
        return np.sum(x**3)
    return np.sum(x)


@program(vector(4))
def map_and_filter(x):
    values = list(map(np.sin, [x[0], x[1]]))
    pairs = list(map(lambda a, b: a * b, x[:2], x[2:]))
    odd = list(filter(lambda k: k % 2, range(4)))
    return sum(values) + pairs[0] * pairs[1] + sum(x[k] for k in odd)


@program({"b": 0.4, "c": 1.1, "a": -0.7})
def sorted_known(params):
    total = 0.0
    for rank, name in enumerate(sorted(params)):
        total += params[name] ** (rank + 1)
    order = sorted([(3, "c"), (1, "a"), (2, "b")], key=itemgetter(0), reverse=True)
    return total + params[order[0][1]] * params[order[-1][1]]


@program(vector(4))
def zip_star_transposes(x):
    pairs = [(x[0], x[1]), (x[2], x[3])]
    first, second = zip(*pairs)
    return first[0] * second[1] + first[1] * second[0] ** 2


@program(vector(4))
def range_forms(x):
    total = 0.0
    for k in range(1, 4):
        total += x[k] * k
    for k in range(3, -1, -2):
        total += x[k] ** 2
    for k in range(0, x.shape[0], 2):
        total *= 1.0 + 0.1 * x[k]
    return total * len(range(2, 9, 3))


@program(vector(5))
def iter_next(x):
    stream = iter([x[0], x[1], x[2]])
    first = next(stream)
    return first * sum(stream) + next(iter(()), 0.5)


@program(vector(4))
def itertools_on_known(x):
    total = 0.0
    for i, j in itertools.combinations(range(4), 2):
        total += x[i] * x[j] * (j - i)
    for a, k in itertools.product([0.5, 2.0], range(2)):
        total += a * x[k] ** 2
    return total + sum(itertools.chain([x[0]], [x[1], x[2]]))


@program(matrix(3, 4))
def len_and_shape(a):
    rows, columns = a.shape
    return np.sum(a**2) / (rows * columns) + len(a) * a[len(a) - 1, columns - 1] + a.ndim * a.size


@program(matrix(3, 4))
def unpack_rows(a):
    first, second, third = a
    (p, q, *_), *others = a
    return np.sum(first * second) + np.dot(third, third) * p * q + len(others)


@program(vector(3))
def string_keys_and_slices(x):
    window = slice(0, 2)
    index = (slice(None), None)
    return np.sum(x[window] ** 2) * np.sum(x[index] @ np.ones((1, 2)))


@program(vector(5))
def walrus_in_comprehension(x):
    values = [y * y for k in range(5) if (y := x[k] * 2.0) is not None]
    return sum(values) + y


@program(vector(3))
def chained_attribute_calls(x):
    return x.reshape(3, 1).repeat(2, axis=1).T.sum(axis=0).dot(x).item() * 2.0


@program(2.0, 3, diff=(0,))
def integer_arithmetic_known(x, n):
    k = (n * 7 + 3) // 4 % 5 << 1
    return x**n + k * x + (n & 1) * x**2 + -n + ~n + (n | 8) if n > 100 else x**n * k


@program(vector(4))
def bit_of_everything(x):
    pairs = {k: (a, b) for k, (a, b) in enumerate(zip(x, x[::-1]))}
    best = max(range(4), key=lambda k: (k * 7) % 5)
    return sum(a * b for a, b in pairs.values()) + x[best]
