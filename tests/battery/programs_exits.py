"""break, continue, early return, and the else of loops."""

from __future__ import annotations

import numpy as np

from battery.registry import matrix, program, vector


@program(vector(6))
def break_in_for(x):
    total = 0.0
    for i in range(x.shape[0]):
        if total > 0.6:
            break
        total += x[i] ** 2
    return total * x[0]


@program(vector(6))
def break_in_middle_of_body(x):
    a, b = 0.0, 1.0
    for i in range(x.shape[0]):
        a += x[i] ** 2
        if a > 0.7:
            break
        b = b * (1.0 + a)
    return a * b


@program(vector(6))
def continue_in_for(x):
    total = 0.0
    for i in range(x.shape[0]):
        if x[i] < 0.0:
            continue
        total += np.sqrt(x[i])
    return total


@program(vector(6))
def continue_and_break(x):
    total, count = 0.0, 0
    for value in x:
        if value < -0.3:
            continue
        total += value * value
        if total > 0.9:
            break
        count += 1
    return total + count * x[0]


@program(vector(6))
def return_from_for(x):
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i] ** 2
        if total > 0.7:
            return total * x[i]
    return -total


@program(vector(6))
def return_never_taken(x):
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i] ** 2
        if total > 100.0:
            return total * x[i]
    return total * total


@program(matrix(4, 4))
def return_from_nested_loops(a):
    total = 0.0
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            total += a[i, j] * a[j, i]
            if total > 1.5:
                return total * a[i, j] + i
        total *= 1.1
    return total


@program(matrix(4, 4))
def break_inner_loop_only(a):
    total = 0.0
    for i in range(a.shape[0]):
        row = 0.0
        for j in range(a.shape[1]):
            if row > 0.5:
                break
            row += a[i, j] ** 2
        total += row * (i + 1)
    return total


@program(matrix(4, 4))
def continue_outer_by_flag(a):
    total = 0.0
    for i in range(a.shape[0]):
        skip = False
        for j in range(a.shape[1]):
            if a[i, j] > 0.9:
                skip = True
                break
        if skip:
            continue
        total += np.sum(a[i] ** 2)
    return total


@program(vector(6))
def for_else_without_break(x):
    total = 0.0
    for value in x:
        if value > 5.0:
            break
        total += value**2
    else:
        total *= 3.0
    return total


@program(vector(6))
def for_else_with_break(x):
    total = 0.0
    for value in x:
        total += value**2
        if total > 0.5:
            break
    else:
        total *= 3.0
    return total


@program(0.8)
def while_else(x):
    y = x
    while y < 10.0:
        y = y * 1.9
        if y > 1000.0:
            break
    else:
        y = y + x**2
    return y


@program(0.8)
def while_true_break(x):
    y, count = x, 0
    while True:
        y = y * y + x
        count += 1
        if y > 4.0:
            break
    return y * count


@program(0.8)
def while_true_return(x):
    y = x
    while True:
        y = y + np.sin(x) * y
        if y > 7.0:
            return y * x


@program(0.8)
def while_continue(x):
    i, total = 0, 0.0
    while i < 8:
        i += 1
        if i % 3 == 0:
            continue
        total += x**i
    return total


@program(vector(5))
def break_known_loop(x):
    total = 0.0
    for k, factor in enumerate([1.0, 2.0, 3.0, 4.0]):
        if k == 2:
            break
        total += factor * x[k]
    for factor in [1.0, 2.0, 3.0]:
        total += factor * x[4] ** 2
        if total > 1.0:
            break
    return total


@program(0.21, 0.03, diff=(0, 1))
def mandelbrot_escape(cx, cy):
    zx, zy = 0.0, 0.0
    count = 0
    for _ in range(50):
        zx, zy = zx * zx - zy * zy + cx + 0.3, 2.0 * zx * zy + cy + 0.4
        if zx * zx + zy * zy > 4.0:
            break
        count += 1
    return np.log(1.0 + zx * zx + zy * zy) + count


@program(vector(4))
def guard_clauses(x):
    if x.ndim != 1:
        return 0.0
    if x[0] > 10.0:
        return 1.0
    if x[1] > 10.0:
        return x[1]
    y = x[2] * x[3]
    if y > 10.0:
        return y
    return y * y


@program(vector(6))
def search_then_use(x):
    index = -1
    for i in range(x.shape[0]):
        if x[i] > 0.2:
            index = i
            break
    return x[index] ** 2 + x[0]


@program(vector(6))
def return_from_helper_loop(x):
    def first_above(limit):
        for value in x:
            if value > limit:
                return value
        return 0.0

    return first_above(0.1) * first_above(0.5) + first_above(7.0)


@program(vector(5))
def early_return_of_arrays(x):
    y = x
    for i in range(x.shape[0]):
        y = np.sin(y) + 0.1 * i
        if np.sum(y) > 1.5:
            return np.sum(y * x)
    return np.sum(y)


@program(vector(6))
def break_in_one_arm_store_in_other(x):
    out = np.zeros(x.shape[0])
    for i in range(x.shape[0]):
        if x[i] > 0.95:
            break
        else:
            out[i] = x[i] ** 3
    return np.sum(out * x)


@program(vector(8))
def nested_break_continue_return(x):
    total = 0.0
    for i in range(4):
        for j in range(x.shape[0]):
            if j < i:
                continue
            if x[j] * x[i] > 0.8:
                break
            total += x[i] * x[j]
            if total > 50.0:
                return total
        else:
            total += 0.5 * x[i]
            continue
        total *= 0.9
    return total


@program(2.3)
def convergence_with_limit(a):
    x = 1.0
    for _ in range(30):
        new = x - (x**3 - a) / (3.0 * x**2)
        if abs(new - x) < 1e-13:
            x = new
            break
        x = new
    return x * a
