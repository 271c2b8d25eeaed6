"""In-place stores: every trap of the design's section on buffers, by name, and kernels with stores."""

from __future__ import annotations

import numpy as np

from battery.registry import matrix, program, vector


@program(vector(5))
def write_through_slice_view(x):
    buffer = np.zeros(5)
    inner = buffer[1:4]
    inner[:] = x[:3] ** 2
    inner[0] = x[4]
    inner *= 2.0
    return np.sum(buffer * np.sin(x))


@program(vector(4))
def write_through_alias(x):
    a = x * 2.0
    b = a
    b[0] = x[1] ** 2
    a[1] = b[0] * x[2]
    return np.sum(a * b)


@program(vector(4))
def write_through_alias_of_argument(x):
    b = x
    b[0] = x[1] * x[2]
    return np.sum(x * x) + b[0]


@program(vector(4))
def write_through_out(x):
    buffer = np.empty(4)
    np.sin(x, out=buffer)
    np.multiply(buffer, x, out=buffer)
    np.add(buffer[:2], buffer[2:], out=buffer[1:3])
    return np.sum(buffer**2)


@program(vector(4))
def write_through_out_of_method(x):
    total = np.zeros(4)
    np.cumsum(x, out=total)
    x.clip(-0.5, 0.5, out=x)
    return np.sum(total * x)


@program(vector(5))
def swap_scalars(x):
    a = x * 1.0
    a[0], a[3] = a[3], a[0]
    a[1], a[0] = a[0] * 2.0, a[1]
    return np.sum(a * np.arange(1.0, 6.0)) + a[0] * a[1]


@program(matrix(3, 2))
def swap_rows_is_no_swap(x):
    """`a[0], a[2] = a[2], a[0]` on rows: both are views, so NumPy copies one row to both."""
    a = x.copy()
    a[0], a[2] = a[2], a[0]
    return np.sum(a * np.arange(1.0, 7.0).reshape(3, 2)) + np.sum(a[0] * a[2])


@program(matrix(3, 2))
def swap_rows_with_copy(x):
    a = x.copy()
    a[0], a[2] = a[2].copy(), a[0].copy()
    a[[0, 1]] = a[[1, 0]]
    return np.sum(a * np.arange(1.0, 7.0).reshape(3, 2)) + np.sum(a[0] * a[1])


@program(vector(4))
def swap_in_reversal_loop(x):
    a = x**2
    n = a.shape[0]
    for i in range(n // 2):
        a[i], a[n - 1 - i] = a[n - 1 - i], a[i]
    return np.sum(a * x * np.arange(1.0, 5.0))


@program(vector(4))
def buffer_in_two_containers(x):
    buffer = np.zeros(4)
    left, right = {"b": buffer}, [buffer, x]
    left["b"][1] = x[0] ** 2
    right[0][2] = left["b"][1] * x[3]
    left["b"][1] += 1.0
    return np.sum(right[0] * x) + np.sum(left["b"])


@program(vector(3))
def same_buffer_twice_in_list(x):
    row = np.zeros(3)
    rows = [row] * 2
    rows[0][0] = x[0]
    rows[1][0] *= x[1]
    rows[1][2] = x[2]
    return np.sum(np.stack(rows) ** 2)


@program(vector(6))
def overlapping_stencil_reads_before_writing(x):
    a = x * 1.0
    a[1:-1] = a[:-2] + a[2:]
    a[1:-1] = a[:-2] * a[2:]
    return np.sum(a * a)


@program(vector(6))
def overlapping_augmented(x):
    a = x * 1.0
    a[1:] += a[:-1]
    a[:-1] *= a[1:]
    return np.sum(a * x)


@program(vector(6))
def overlapping_reversed(x):
    a = x * 1.0
    a[:] = a[::-1]
    a[:3] = a[2::-1] * a[3:]
    return np.sum(a * np.arange(6.0))


@program(vector(4), vector(2, 1), diff=(0, 1))
def repeated_indices_count_once(x, v):
    """`a[[0, 0]] += v` keeps only the last addition in NumPy."""
    a = x * x
    a[[0, 0]] += v
    return np.sum(a * np.arange(1.0, 5.0))


@program(vector(4), vector(4, 1), diff=(0, 1))
def add_at_accumulates(x, v):
    a = x * x
    np.add.at(a, [0, 2, 0, 1], v * x)
    np.add.at(a, (np.array([3, 3]),), 1.5)
    return np.sum(a**2)


@program(vector(4))
def gather_with_repeats(x):
    y = x[[0, 0, 2, 0]]
    return np.sum(y * np.array([1.0, 2.0, 3.0, 4.0])) * x[[1, 1]][0]


@program(vector(4))
def gather_of_buffer_is_a_copy(x):
    a = x * 2.0
    taken = a[[0, 2]]
    a[0] = 5.0
    taken[1] = x[3]
    return np.sum(taken * x[:2]) + np.sum(a * x)


@program(vector(5))
def overwritten_value_read_by_reverse_sweep(x):
    s = np.zeros(1)
    s[0] = 0.5
    for i in range(x.shape[0]):
        s[0] = s[0] * s[0] * x[i] + np.sin(s[0])
    return s[0]


@program(vector(5))
def overwritten_cells_nonlinear(x):
    a = x * 1.0
    for _ in range(3):
        for i in range(1, a.shape[0] - 1):
            a[i] = a[i - 1] * a[i + 1] + np.cos(a[i])
    return np.sum(a * a)


def clear_tail(buffer, scale):
    """Stores into its argument and returns nothing."""
    buffer[1:] *= scale
    buffer[0] = scale


@program(vector(4), 0.7, diff=(0, 1))
def function_stores_into_its_argument(x, scale):
    a = x * x
    clear_tail(a, scale)
    clear_tail(a[2:], scale * scale)
    return np.sum(a * x)


@program(vector(4), 0.7, diff=(0, 1))
def stores_into_own_argument(x, scale):
    clear_tail(x, scale)
    return np.sum(x * x)


@program(vector(5), vector(5, 1), diff=(0, 1))
def two_arguments_stored_into(x, y):
    x[1:] = y[:-1] * x[1:]
    y += x
    x[0] = y[4]
    return np.sum(x * y)


@program(vector(3))
def store_then_read_in_one_expression(x):
    a = np.ones(3)
    a[0] = x[0]
    before = a[0]
    a[0] = x[1]
    return before * a[0] + a[1] * x[2]


@program(vector(3))
def read_kept_before_store(x):
    """The printer must not move `old` past the store, nor fold the view `row`."""
    a = x * x
    row = a[1:]
    old = a[1] * 2.0
    a[1] = x[0]
    return old * row[0] + np.sum(row)


@program(vector(4))
def store_under_branch(x):
    a = x * 1.0
    if x[0] > -2.0:
        a[1] = x[2] ** 2
    else:
        a[2] = 0.0
    if a[1] > 5.0:
        a[:] = 1.0
    return np.sum(a * a)


@program(vector(6))
def store_under_branch_in_loop(x):
    a = np.zeros(x.shape[0])
    for i in range(x.shape[0]):
        if x[i] > 0.0:
            a[i] = x[i] ** 2
            if i > 0:
                a[i - 1] += a[i] * x[i]
        else:
            a[i] -= np.exp(x[i])
    return np.sum(a * x)


@program(vector(6))
def store_in_while(x):
    a = np.zeros(x.shape[0])
    i = 0
    level = 0.1
    while i < x.shape[0] and level < 3.0:
        a[i] = level * x[i]
        level = level + a[i] ** 2
        i += 1
    return np.sum(a) * level


@program(vector(6))
def store_with_break_and_continue(x):
    a = np.ones(x.shape[0])
    for i in range(x.shape[0]):
        if x[i] < -0.8:
            continue
        a[i] = a[i - 1] * x[i]
        if np.sum(a) > 8.0:
            break
    return np.sum(a * a)


@program(vector(5))
def ping_pong_buffers(x):
    old, new = x * 1.0, np.zeros(5)
    for _ in range(3):
        new[0], new[-1] = old[0], old[-1]
        new[1:-1] = old[1:-1] + 0.2 * (old[2:] - 2.0 * old[1:-1] + old[:-2]) * old[1:-1]
        old, new = new, old
    return np.sum(old * old)


@program(vector(4))
def buffer_rebound_in_loop(x):
    a = np.zeros(4)
    total = 0.0
    for i in range(4):
        a[i] = x[i] * 2.0
        total += np.sum(a * a)
        if i == 1:
            a = a * x
    return total


@program(vector(4))
def fresh_buffer_in_each_round(x):
    total = 0.0
    for i in range(x.shape[0]):
        work = np.zeros(3)
        work[0] = x[i]
        work[1] = work[0] ** 2
        work[2] += work[1] * work[0]
        total += np.sum(work)
    return total


@program(vector(4))
def fill_copyto_and_sort(x):
    a = np.empty(4)
    a.fill(x[0])
    b = np.zeros(4)
    np.copyto(b, x)
    b.sort()
    np.copyto(a, x * 2.0, where=x > 0.0)
    return np.sum(a * b)


@program(vector(4))
def masked_stores(x):
    a = x * x
    a[x > 0.0] = 0.5
    a[a > 0.6] *= x[0]
    a[x < -0.5] += x[x < -0.5]
    return np.sum(a * x)


@program(vector(6))
def fancy_index_store(x):
    a = np.zeros(6)
    a[[4, 1, 3]] = x[:3] ** 2
    a[np.array([0, 5])] = x[3] * x[4]
    a[np.arange(2)] *= x[2:4]
    return np.sum(a * x)


@program(matrix(3, 4))
def put_along_axis_store(x):
    a = x * x
    order = np.argsort(x, axis=1)
    np.put_along_axis(a, order[:, :1], 2.0, axis=1)
    return np.sum(a * np.take_along_axis(x, order, axis=1))


@program(vector(3))
def integer_and_float_buffers(x):
    counts = np.zeros(3, dtype=int)
    a = np.zeros(3)
    for i in range(3):
        counts[i] = i * i
        counts[i] += 1
        a[counts[i] % 3] += x[i] * counts[i]
    return np.sum(a**2)


@program(vector(3))
def stores_of_constants_kill_gradient(x):
    a = x * x
    a[0] = 1.0
    a[1:] = 0.0
    a[2] += x[2]
    return np.sum(a) * x[0]


@program(vector(3))
def buffer_returned_and_changed_by_callee(x):
    def advance(state):
        state[0] += state[1] * state[1]
        return state

    a = x * 1.0
    b = advance(advance(a))
    return np.sum(a * b)


@program(vector(3))
def zeros_like_and_ones_like(x):
    a, b, c = np.zeros_like(x), np.ones_like(x), np.full_like(x, 0.5)
    a[1] = x[0]
    b *= x
    c -= b * a
    return np.sum(a + b * c)


@program(vector(4))
def array_copy_decouples(x):
    a = x * 1.0
    b, c, d = a.copy(), np.array(a), np.asarray(a)
    a[0] = 3.0
    b[1] = 4.0
    c[2] = x[0]
    return np.sum(a * b * c * d)


@program(vector(4))
def augmented_division_and_power_in_place(x):
    a = np.exp(x)
    a[1:] /= a[:-1]
    a[0] **= 3
    a[2] -= a[0] / a[1]
    return np.sum(a)
