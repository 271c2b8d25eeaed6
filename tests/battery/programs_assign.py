"""Assignments of every form, unpacking, swaps, walrus, del, scopes."""

from __future__ import annotations

import numpy as np

from battery.registry import matrix, program, vector


@program(0.7)
def reassigned_name(x):
    y = x * x
    y = np.sin(y)
    x = y * x
    y = x + y
    return y * x


@program(0.7, 1.2, diff=(0, 1))
def swap(x, y):
    x, y = y, x
    x, y = x * y, x + y
    return x**2 - np.sin(y)


@program(vector(4))
def rotate_three(x):
    a, b, c = x[0], x[1], x[2]
    for k in range(4):
        a, b, c = b, c, a * x[k]
    return a + 2.0 * b + 3.0 * c


@program(vector(5))
def starred_unpacking(x):
    first, *middle, last = x
    head, (second, *_), tail = first, middle, last
    return head * tail + sum(middle) * second


@program(vector(4))
def nested_unpacking(x):
    (a, b), [c, (d,)] = (x[0], x[1]), [x[2], (x[3],)]
    return a * b + c * d**2


@program(vector(4))
def unpack_slices(x):
    a, b = x[:2], x[2:]
    c, d = np.split(a * b, 2)
    return np.sum(a * c) + np.sum(b * d)


@program(0.4)
def chained_assignment(x):
    a = b = c = x * 2.0
    b = b * a
    c = c + b
    return a * b * c


@program(vector(3))
def augmented_scalars(x):
    t = x[0]
    t += x[1]
    t *= x[2]
    t -= 0.5
    t /= 2.0 + x[0] ** 2
    t **= 2
    return t


@program(vector(3, low=0.5, high=2.0))
def augmented_arrays_on_copy(x):
    y = x.copy()
    y += 1.0
    y *= x
    y -= x[0]
    y /= x + 2.0
    y **= 2
    return np.sum(y)


@program(vector(3))
def augmented_creates_alias_of_argument(x):
    """`y = x; y += 1` changes x itself: both names see it."""
    y = x
    y += x[0]
    return np.sum(x * y)


@program(0.7)
def augmented_scalar_is_no_alias(x):
    y = x
    y += 1.0
    return x * y


@program(matrix(3, 3), vector(3), diff=(0, 1))
def augmented_matmul_and_floor(a, x):
    a = a.copy()
    a @= a.T + np.eye(3)
    steps = 7
    steps //= 2
    steps <<= 1
    steps %= 4
    return np.sum(a @ x) * steps


@program(vector(3))
def annotated_assignment(x):
    total: float = 0.0
    scale: float
    scale = 2.0
    total = total + scale * np.sum(x**2)
    return total


@program(vector(3))
def walrus(x):
    total = 0.0
    if (norm := np.sum(x * x)) > 0.1:
        total = norm * (half := norm / 2.0) + half
    return total + norm


@program(0.3)
def walrus_in_while(x):
    y = x
    while (y := y * 2.0 + 0.1) < 5.0:
        pass
    return y * y


@program(vector(4))
def del_names_and_items(x):
    values = [x[0], x[1], x[2], x[3]]
    extra = x[0] * x[1]
    table = {"a": extra, "b": x[2]}
    del values[1], table["b"]
    del extra
    return sum(values) * table["a"] + len(table)


@program(vector(3))
def multiple_targets_with_store(x):
    buffer = np.zeros(3)
    total = buffer[0] = x[1] * x[2]
    buffer[1], buffer[2] = x[0], total
    return np.sum(buffer**2) + total


@program(vector(4))
def for_target_is_subscript(x):
    buffer = np.zeros(2)
    total = 0.0
    for buffer[1] in x:
        buffer[0] += buffer[1] ** 2
        total += buffer[0]
    return total


@program(vector(3))
def tuple_in_for_target(x):
    total = 0.0
    for k, (a, (b, c)) in enumerate([(x[0], (x[1], 2.0)), (x[2], (x[0], x[1]))]):
        total += (k + 1) * a * b**2 + c
    return total


@program(vector(3))
def loop_variable_outlives_loop(x):
    value, k = 0.0, -1
    for k in range(3):
        value = x[k] * (k + 1)
    return value * x[k] + k


@program(vector(3))
def comprehension_scope(x):
    k = 2.0
    values = [x[k] for k in range(3)]
    return k * values[1] * values[2]


@program(0.5)
def conditional_definition_known(x):
    flag = True
    if flag:
        scale = 3.0
    return scale * x**2


@program(vector(3))
def accumulators_of_changing_type(x):
    count = 0
    total = 0
    for k in range(x.shape[0]):
        total += x[k] * x[k]
        count += 1
    return total / count


@program(vector(5))
def integer_meets_float_in_loop(x):
    best = 0
    last = 1
    for k in range(x.shape[0]):
        best, last = last * x[k], best + 1
    return best + last


@program(vector(3), [0.5, 1.5, 2.5], diff=(0, 1))
def zip_assign_back(x, scales):
    scales = [s * v for s, v in zip(scales, x)]
    scales[0], scales[2] = scales[2], scales[0]
    return scales[0] ** 2 + scales[1] * scales[2] + scales[0]


@program(vector(3))
def shadowed_builtin_and_module_names(x):
    sum = np.sum(x)
    max = sum * 2.0
    list = [max, sum]
    return list[0] * list[1]


@program(vector(3))
def nonlocal_of_inner_function(x):
    total = 0.0

    def add(value):
        nonlocal total
        total = total + value * value

    for k in range(3):
        add(x[k])
    return total * x[0]


@program(vector(3))
def string_and_format_locals(x):
    label = f"{'sin'}_{len(x)}"
    kind, count = label.split("_")
    return np.sum(getattr(np, kind)(x)) * int(count)


@program(vector(3))
def pass_and_docstring(x):
    """A docstring, a bare string, an ellipsis and pass mean nothing."""
    "another string"
    ...
    pass
    return np.sum(x**2)
