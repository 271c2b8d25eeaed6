"""Programs that compute values with infinite slopes and use them on some paths only.

``PROGRAMS`` has for each its arguments and the derivative by the elements of the first that lie at
an edge, where differences do not hold: zero, if no path uses what is computed there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

POINTS = np.array([[0.0, 0.0], [1.0, 0.2], [0.3, 1.1]])
HOLES = np.array([0.0, 4.0, 1.0, 0.0, 2.0])
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], float]] = {}


def program(*args: Any, edge: float = 0.0) -> Any:
    def enter(f: Any) -> Any:
        PROGRAMS[f.__name__] = f, args, edge
        return f

    return enter


# tests behind tests


@program(0.0, edge=1.0)
def two_early_returns(r2):
    r = np.sqrt(r2)
    if r > 2.0:
        return 0.0
    if r < 1e-9:
        return r2
    return r


@program(np.zeros(3))
def three_ranges(x):
    n = np.sqrt(np.sum(x * x))
    if n > 10.0:
        return 100.0 + 0.0 * np.sum(x)
    elif n > 1.0:
        return n - 0.5
    else:
        return 0.5 * np.sum(x * x)


@program(0.0)
def a_later_arm_uses_it(x):
    n = np.sqrt(x)
    if x > 3.0:
        y = x
    elif x > 2.0:
        y = n
    elif x > 1.0:
        y = 2.0 * n
    else:
        y = x * x
    return y


@program(0.0, edge=1.0)
def a_ternary_in_a_ternary(x):
    n = np.sqrt(x)
    return n if x > 1.0 else (x if x < 0.5 else n * n)


def near(r, x):
    if r > 3.0:
        return 0.0
    if r > 1e-12:
        return r
    return x


@program(0.0, edge=2.0)
def behind_a_test_of_a_helper(x):
    r = np.sqrt(x)
    if x < 5.0:
        return near(r, x) * 2.0
    return r


@program(HOLES)
def a_choice_in_an_arm(x):
    n = np.sqrt(x)
    if np.sum(x) > 1.0:
        chosen = x * 2.0 > 1e-3
        y = np.where(chosen, n, 0.0)
    else:
        y = x * 1.0
    return np.sum(y)


@program(np.array([0.0, 1.0]))
def used_behind_two_tests(x):
    r, e = np.sqrt(x[0]), x[1]
    if x[1] > 2.0:
        e = e + r
    if x[0] > 0.5:
        e = e + r * r
    return e


# loops


@program(POINTS)
def pairs_within_a_cutoff(p):
    e = 0.0
    for i in range(p.shape[0]):
        for j in range(p.shape[0]):
            d = p[i] - p[j]
            r = np.sqrt(np.sum(d * d))
            if r > 5.0:
                continue
            if r > 0.0:
                e += 0.5 / r
    return e


@program(POINTS)
def distances_before_the_loops(p):
    d = p[:, None] - p[None]
    r = np.sqrt(np.sum(d * d, axis=-1))
    e = 0.0
    for i in range(p.shape[0]):
        for j in range(p.shape[0]):
            if i != j:
                if r[i, j] < 3.0:
                    e += 1.0 / r[i, j]
    return e


@program(0.0, 0, edge=1.0)
def a_loop_without_iterations(x, k):
    n, s = np.sqrt(x), x
    for _ in range(k):
        s = s + n
    return s


@program(0.0, np.zeros(0), edge=1.0)
def a_loop_over_nothing(x, ys):
    n, s = np.sqrt(x), x
    for y in ys:
        s += n * y
    return s


@program(0.0, edge=1.0)
def a_while_without_iterations(x):
    n, s = np.sqrt(x), x
    while s > 1.0:
        s = s * 0.5 * n
    return s


@program(0.0, 3, edge=1.0)
def under_a_test_in_a_loop(x, k):
    n, s = np.sqrt(x), 0.0
    for i in range(k):
        if n > 1.0 + i:
            s = s + n
    return s + x


@program(0.0, np.array([1.0, 2.0]), edge=1.0)
def in_a_triangle_of_loops(x, w):
    r, s = np.sqrt(x), x
    for i in range(w.size - 1):
        for _ in range(i):
            s += r * w[i]
    return s


@program(HOLES)
def elements_under_a_test(x):
    n, s = np.sqrt(x), 0.0
    for i in range(x.size):
        if x[i] > 0.0:
            s += n[i]
    return s


@program(HOLES)
def elements_chosen_in_a_loop(x):
    n, s = np.sqrt(x), 0.0
    for i in range(x.size):
        s += np.where(x[i] > 0.0, n[i], 0.0)
    return s


@program(HOLES)
def elements_in_two_loops(x):
    n, s = np.sqrt(x), 0.0
    for k in range(2):
        for i in range(x.size):
            if x[i] > 0.5:
                if k > 0:
                    s += n[i] * n[i] * n[i]
                else:
                    s += n[i]
    return s


@program(np.array([0.0, 1.0, 4.0]))
def left_by_continue_and_break(x):
    r, s = np.sqrt(x), 0.0
    for i in range(x.size):
        if x[i] == 0.0:
            continue
        if s > 10.0:
            break
        s += r[i]
    return s


@program(np.array([0.0, 1.0, 4.0]))
def returned_from_a_loop(x):
    r, s = 1.0 / x, 0.0
    for i in range(x.size):
        k = x.size - 1 - i
        if x[k] < 0.5:
            return s
        s = s + r[k]
    return s


@program(np.array([0.0, 1.0, 4.0]))
def a_list_of_what_passes(x):
    r, out = np.sqrt(x), []
    for i in range(x.size):
        if x[i] > 0.0:
            out.append(r[i])
    return sum(out)


@program(0.3)
def carried_to_a_root(x):
    s = 1.0
    for _ in range(4):
        s = np.maximum(np.sqrt(s) * x - 1.0, 0.0)
    return s + x


# triangles, diagonals, masks


@program(POINTS)
def the_upper_triangle(p):
    d = p[:, None] - p[None]
    r = np.sqrt(np.sum(d * d, axis=-1))
    return np.sum(np.triu(r, 1) ** 2 + np.triu(r, 1))


@program(POINTS)
def the_lower_triangle(p):
    d = p[:, None] - p[None]
    return np.sum(np.tril(np.sqrt(np.sum(d * d, axis=-1)), -1))


@program(POINTS)
def indices_of_a_triangle(p):
    d = p[:, None] - p[None]
    r = np.sqrt(np.sum(d * d, axis=-1))
    return np.sum(1.0 / r[np.triu_indices(p.shape[0], 1)])


@program(POINTS)
def a_filled_diagonal(p):
    d = p[:, None] - p[None]
    r = np.sqrt(np.sum(d * d, axis=-1))
    np.fill_diagonal(r, 1.0)
    return np.sum(1.0 / r)


@program(POINTS)
def a_store_by_a_mask(p):
    d = p[:, None] - p[None]
    r = np.sqrt(np.sum(d * d, axis=-1))
    r[r < 1e-9] = 2.0
    return np.sum(1.0 / r)


@program(POINTS)
def all_but_the_diagonal(p):
    d = p[:, None] - p[None]
    r = np.sqrt(np.sum(d * d, axis=-1))
    return np.sum(1.0 / r[~np.eye(p.shape[0], dtype=bool)])


@program(HOLES)
def places_that_are_not_zero(x):
    return np.sum(np.sqrt(x)[np.nonzero(x > 0.0)[0]])


@program(HOLES, 3.0, edge=1.0)
def places_under_a_test(x, y):
    r, s = 1.0 / x, np.sum(x)
    s = s + np.sum(r[np.nonzero(x)[0]])
    if y > 2.0:
        if y > 4.0:
            return 0.0 * s
    return s


@program(HOLES)
def put_by_a_mask(x):
    r = np.sqrt(x)
    np.putmask(r, x == 0.0, 1.0)
    return np.sum(1.0 / r)


@program(HOLES)
def divided_where_it_can_be(x):
    r = np.zeros_like(x)
    np.divide(1.0, x, out=r, where=x != 0.0)
    return np.sum(r)


@program(np.array([3.0, 1.0, 0.0, 0.0]), edge=1.0)
def running_sums_up_to_a_place(x):
    return np.sum(np.where(x > 2.0, np.cumsum(np.sqrt(x)), x))


@program(np.array([0.0, 1.0, 4.0]))
def a_mask_made_in_each_arm(v):
    r = np.sqrt(v)
    if v[1] > 0.0:
        return np.sum(np.where(v > 0.0, r, 0.0))
    return np.sum(np.where(v > 0.0, 2.0 * r, 0.0))


@program(np.array([0.0, 1.0, 4.0]), edge=1.0)
def a_mask_made_in_an_arm_and_outside(v):
    r, s = np.sqrt(v), 0.0
    if v[1] > 0.0:
        s = np.sum(r[(v > 0.0) & (v < 9.0)])
    return s + np.sum(np.where(v > 0.0, r, v))


# extrema


@program(np.array([-1.0, 2.0, -3.0]))
def root_of_a_maximum(v):
    return np.sum(np.sqrt(np.maximum(v, 0.0)))


@program(np.array([-1.0, 2.0, -3.0]))
def root_of_a_minimum(v):
    return np.sum(np.sqrt(-np.minimum(v, 0.0)))


@program(np.array([-1.0, 0.5, 3.0]))
def root_of_a_clip(v):
    return np.sum(np.sqrt(1.0 - np.clip(v, 0.0, 1.0)) + np.sqrt(np.clip(v, 0.0, 1.0)))


@program(np.array([0.0, 0.5, 3.0]))
def maximum_of_logarithms(v):
    return np.sum(np.maximum(np.log(v), -2.0))


@program(np.array([0.0, 0.5, 3.0]), edge=-1.0)
def maximum_of_two(v):
    return np.sum(np.maximum(np.sqrt(v), 1.0 - v))


@program(np.array([0.0, 3.0, 1.0]))
def the_largest_root(x):
    return np.max(np.sqrt(x))


@program(np.array([-1.0, 2.0]))
def maximum_of_numbers(v):
    s = 0.0
    for i in range(v.size):
        s += np.sqrt(max(v[i], 0.0))
    return s


@program(np.array([-1.0, 2.0, -3.0]))
def root_of_what_is_no_nan(v):
    return np.sum(np.sqrt(np.fmax(v, 0.0)) + np.sqrt(-np.fmin(np.zeros(3), v)))


@program(np.array([-1.0, 2.0, -3.0]))
def root_of_a_modulus(v):
    return np.sum(np.sqrt(np.abs(np.maximum(v, 0.0))))


@program(np.zeros(3))
def a_norm_at_zero(x):
    return np.linalg.norm(x)


@program(POINTS)
def norms_of_differences(p):
    return np.sum(np.linalg.norm(p[:, None] - p, axis=-1))
