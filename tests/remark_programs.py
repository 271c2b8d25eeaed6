"""Programs on which a pass rewrites a loop, or leaves it as it is and says why.

``PROGRAMS`` lists for each pass functions with their arguments, the words that the remark must have
after the loop's line, with * for other lines' numbers, and a line of the function that it quotes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import calque
from calque.tests.cuda_programs import cross_entropy

REWRITTEN = "is rewritten"
MATRIX, VECTOR = np.ones((12, 12)), np.ones(12)
LARGE = np.ones((1024, 1024))


def leapfrog(x, v):
    for _ in range(7):
        x = x + 0.1 * v
        v = v - 0.1 * np.sin(x)
    return x * v


def mean_subtracted(x):
    for _ in range(7):
        x = x - 0.1 * np.mean(x)
    return x


def shrinking(x):
    for _ in range(7):
        x = 0.5 * x
        x[1:] = x[1:] + 1.0
    return x


def picked(x, k):
    for t in range(4):
        x = 0.5 * x[k]
    return x


def along_rows(x, a):
    n, m = x.shape
    for i in range(n):
        for j in range(1, m):
            x[i, j] += a * x[i, j - 1]
    return x


def across_rows(x, a):
    n, m = x.shape
    for i in range(1, n):
        for j in range(1, m):
            x[i, j] += a * x[i - 1, j - 1] * x[i, j - 1]
    return x


def triangle(x, a):
    n, m = x.shape
    for i in range(n):
        for j in range(1, min(i + 1, m)):
            x[i, j] += a * x[i, j - 1]
    return x


def independent(x, a):
    n, m = x.shape
    for i in range(n):
        for j in range(m):
            x[i, j] = a * x[i, j]
    return x


def shortest_paths(path):
    n = path.shape[0]
    for k in range(n):
        for i in range(n):
            for j in range(n):
                path[i, j] = min(path[i, j], path[i, k] + path[k, j])
    return path


def half_of_columns(A):
    n = A.shape[0]
    for k in range(n):
        for j in range(n // 2):
            A[0, j] = A[0, j] + 0.1 * A[0, k]
    return A


def two_crossings(A):
    n = A.shape[0]
    for k in range(n):
        for i in range(n):
            for j in range(n):
                A[i, j] = A[i, j] + 0.1 * A[i, k] * A[i, i]
    return A


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def far_neighbours(x):
    return np.sum(np.sin(x[9:]) * x[:-9] ** 2)


def columns(x):
    power, out = np.empty_like(x), np.empty_like(x)
    for j in range(x.shape[1]):
        total = 0.0
        for i in range(x.shape[0]):
            power[i, j] = np.exp(x[i, j])
            total += power[i, j]
        for i in range(x.shape[0]):
            out[i, j] = power[i, j] / total
    return out


def neighbours(x):
    power, total = np.empty(x.shape), np.zeros(x.shape)
    for i in range(x.shape[0]):
        for j in range(1, x.shape[1]):
            power[i, j] = np.exp(x[i, j])
            total[i, j] += power[i, j] * power[i, j - 1] * power[max(i - 1, 0), j]
    return total


def read_after(x):
    power = np.empty_like(x)
    total = 0.0
    for i in range(x.shape[0]):
        power[i] = np.exp(x[i])
        total += np.sum(power[i] * x[i])
    return power * total


def paths(x):
    out = np.empty_like(x)
    for i in range(x.size):
        path, y = np.zeros(8), x[i]
        for k in range(8):
            y = y * y
            path[k] = y
        out[i] = path[3] + y
    return out


def growing_paths(x):
    out = np.empty_like(x)
    for i in range(x.size):
        path, y = np.zeros(i + 1), x[i]
        for k in range(i):
            y = y * y
            path[k] = y
        out[i] = path[0] + y
    return out


def sorted_paths(x):
    out = np.empty_like(x)
    for i in range(x.size):
        path, y = np.zeros(8), x[i]
        for k in range(8):
            y = y * y
            path[k] = y
        out[i] = np.sort(path)[3]
    return out


def back_substituted(L, x):
    for j in range(x.size):
        for k in range(j):
            x[j] -= L[j, k] * x[k]
    return x


def onto_first(x):
    for k in range(x.size):
        x[0] += 0.5 * x[k]
    return x


def until(x, end):
    t = 0.0
    while t < end:
        t = t + 0.1
        x = x * np.sin(x)
    return x


def one_of_two_paths(x):
    out = np.empty_like(x)
    for i in range(x.size):
        a, b = np.zeros(8), np.ones(8)
        for k in range(8):
            a[k] = x[i] * k
        c = a if x[i] > 0.0 else b
        out[i] = c[3] + c[5]
    return out


def waves(x):
    return np.sin(np.cumsum(x))


def differences_of_sums(x):
    s = np.cumsum(x)
    return s[1:] * s[:-1]


def projected(A, B, C):
    n, m = A.shape
    for r in range(n):
        for k in range(m):
            total = 0.0
            for i in range(n):
                total += C[i] * A[i, k]
            B[k] += total * A[r, k]
    return B


def back_on_itself(A, B, C):
    n, m = A.shape
    for r in range(n):
        for k in range(m):
            total = 0.0
            for i in range(n):
                total += C[i] * A[i, k]
            C[k] += total * A[r, k]
    return C


def smoothed(u):
    for i in range(1, u.size):
        u[i] = 0.5 * u[i - 1] + np.sin(u[i])
    return u


def line(u):
    for _ in range(3):
        u[1:-1] = 0.5 * (u[:-2] + u[2:])
    return u


def first_half(u):
    for _ in range(3):
        u[: u.size // 2] = 0.5 * u[-(u.size // 2) :]
    return u


def summed(u):
    total = 0.0
    for i in range(u.size):
        total += u[i]
    return total


def halved(u):
    for i in range(u.size):
        u[i] = 0.5 * u[i]
    return u


def callers(u):
    u[1:-1] = 0.5 * (u[:-2] + u[2:])


def running(x, out):
    total = 0.0
    for i in range(x.size):
        total = total + x[i]
        out[i] = total
    return out


def running_and_last(x, out):
    total = 0.0
    for i in range(x.size):
        total = total + x[i]
        out[i] = total
    return out * total


def two_running(x, out):
    first = second = 0.0
    for i in range(x.size):
        first = first + x[i]
        second = second + x[i] * x[i]
        out[i] = first * second
    return out


def sums_of_columns(x):
    return np.sum(x, axis=0)


def halves(x):
    return 0.5 * x


def exponentials_over_means(x):
    mean = np.mean(x, axis=1)
    e = np.exp(x - mean[:, None])
    return np.sum(e, axis=1)


def other_rows(x):
    sums = np.sum(x, axis=1)
    return x[1:] * sums[:-1, None]


PROGRAMS: list[tuple[str, Callable[..., Any], tuple[Any, ...], str, str]] = [
    ("interchange_outward", leapfrog, (VECTOR, VECTOR), REWRITTEN, "for _ in range(7):"),
    (
        *("interchange_outward", mean_subtracted, (VECTOR,)),
        *("stays: * sums over elements", "x = x - 0.1 * np.mean(x)"),
    ),
    (
        *("interchange_outward", shrinking, (VECTOR,)),
        *("stays: * and * go over different ranges of elements", "x[1:] = x[1:] + 1.0"),
    ),
    (
        *("interchange_outward", picked, (VECTOR, np.arange(12))),
        *("stays: * has an index that is not proven to be in bounds", "x = 0.5 * x[k]"),
    ),
    ("interchange", projected, (MATRIX, VECTOR, VECTOR), REWRITTEN, "for k in range(m):"),
    (
        *("interchange", back_on_itself, (MATRIX, VECTOR, VECTOR)),
        "stays: the sum of * and * touch one element in different iterations",
        "C[k] += total * A[r, k]",
    ),
    ("strip_recurrences", along_rows, (MATRIX, 0.5), REWRITTEN, "for i in range(n):"),
    (
        *("strip_recurrences", along_rows, (LARGE, 0.5)),
        *("stays: the rows of * may be too large for the cache", "for j in range(1, m):"),
    ),
    (
        *("strip_recurrences", along_rows, (MATRIX[:2], 0.5)),
        *("stays: it has fewer than 8 rows, for which vectors do not pay", "for i in range(n):"),
    ),
    (
        *("strip_recurrences", triangle, (MATRIX, 0.5)),
        *("stays: the range of * depends on the outer counter", "for i in range(n):"),
    ),
    (
        *("strip_recurrences", across_rows, (MATRIX, 0.5)),
        "stays: * stores x[i, j], which may be x[i - 1, j - 1] that it reads in another iteration",
        "x[i, j] += a * x[i - 1, j - 1] * x[i, j - 1]",
    ),
    (
        *("strip_recurrences", independent, (MATRIX, 0.5)),
        *("stays: no loop in it is a recurrence along its row", "for i in range(n):"),
    ),
    ("split_at_crossing", shortest_paths, (MATRIX,), REWRITTEN, "for j in range(n):"),
    (
        *("split_at_crossing", half_of_columns, (MATRIX,)),
        *("stays: its range is not known to hold k", "for j in range(n // 2):"),
    ),
    (
        *("split_at_crossing", two_crossings, (MATRIX,)),
        "stays: * crosses other accesses in several iterations",
        "A[i, j] = A[i, j] + 0.1 * A[i, k] * A[i, i]",
    ),
    (
        *("split_at_crossing", independent, (MATRIX, 0.5)),
        *("stays: no accesses in it cross in one iteration alone", "for j in range(m):"),
    ),
    (
        *("split_index_set", calque.hessian(rosenbrock), (VECTOR,), REWRITTEN),
        "return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)",
    ),
    (
        *("split_index_set", calque.hessian(far_neighbours), (VECTOR,)),
        "stays: * compares counters in a band of 8 elements or more",
        "return np.sum(np.sin(x[9:]) * x[:-9] ** 2)",
    ),
    (
        *("split_index_set", independent, (MATRIX, 0.5)),
        "stays: * does not compare its counter with the outer one",
        "for i in range(n):",
    ),
    (
        *("split_index_set", triangle, (MATRIX, 0.5)),
        *("stays: the range of * depends on the outer counter", "for i in range(n):"),
    ),
    ("contract", columns, (MATRIX,), REWRITTEN, "for j in range(x.shape[1]):"),
    (
        *("contract", read_after, (MATRIX,)),
        *("stays: * reads power after it", "return power * total"),
    ),
    (
        *("contract", neighbours, (MATRIX,)),
        "stays: no axis of power is indexed by its counter in all accesses",
        "for i in range(x.shape[0]):",
    ),
    ("expand_arrays", paths, (VECTOR,), REWRITTEN, "for i in range(x.size):"),
    (
        *("expand_arrays", growing_paths, (VECTOR,)),
        "stays: * makes an array whose size is computed in the loop",
        "path, y = np.zeros(i + 1), x[i]",
    ),
    (
        *("expand_arrays", sorted_paths, (VECTOR,)),
        *("stays: * uses more than one element", "out[i] = np.sort(path)[3]"),
    ),
    ("scalar_replacement", back_substituted, (MATRIX, VECTOR), REWRITTEN, "for k in range(j):"),
    (
        *("scalar_replacement", onto_first, (VECTOR,)),
        "stays: * stores an element that may be the one that * uses",
        "x[0] += 0.5 * x[k]",
    ),
    (
        *("scalar_replacement", halved, (VECTOR,)),
        *("stays: * stores at an index that moves with the counter", "u[i] = 0.5 * u[i]"),
    ),
    ("strip_by_capacity", calque.grad(until), (1.0, 2.0), REWRITTEN, "while t < end:"),
    (
        *("strip_by_capacity", until, (1.0, 2.0)),
        *("stays: it lets no array grow", "while t < end:"),
    ),
    (
        *("expand_arrays", one_of_two_paths, (VECTOR,)),
        *("stays: a is one of several arrays", "a, b = np.zeros(8), np.ones(8)"),
    ),
    ("fuse_scans", waves, (VECTOR,), REWRITTEN, "return np.sin(np.cumsum(x))"),
    (
        *("fuse_scans", differences_of_sums, (VECTOR,)),
        *("stays: * goes over other elements", "return s[1:] * s[:-1]"),
    ),
    ("map_to_threads", halved, (VECTOR,), REWRITTEN, "for i in range(u.size):"),
    (
        *("map_to_threads", smoothed, (VECTOR,)),
        "stays: * reads u[i - 1], which it stored in the previous iteration (distance 1)",
        "u[i] = 0.5 * u[i - 1] + np.sin(u[i])",
    ),
    ("double_buffer", line, (VECTOR,), REWRITTEN, "u[1:-1] = 0.5 * (u[:-2] + u[2:])"),
    (
        *("double_buffer", first_half, (VECTOR,)),
        "stays: * may leave out many elements of u",
        "u[: u.size // 2] = 0.5 * u[-(u.size // 2) :]",
    ),
    (
        *("double_buffer", summed, (VECTOR,)),
        *("stays: * carries a scalar", "for i in range(u.size):"),
    ),
    (
        *("double_buffer", halved, (VECTOR,)),
        *("stays: an iteration accesses u other than by one store", "for i in range(u.size):"),
    ),
    (
        *("double_buffer", callers, (VECTOR,)),
        "stays: a new array would have to be copied into the caller's array",
        "u[1:-1] = 0.5 * (u[:-2] + u[2:])",
    ),
    ("scan_in_parts", running, (VECTOR, VECTOR), REWRITTEN, "for i in range(x.size):"),
    (
        *("scan_in_parts", running_and_last, (VECTOR, VECTOR)),
        *("stays: the last sum is read after the loop", "for i in range(x.size):"),
    ),
    (
        *("scan_in_parts", two_running, (VECTOR, VECTOR)),
        "stays: it has several running sums, or a number that is none",
        "for i in range(x.size):",
    ),
    ("sum_in_parts", sums_of_columns, (LARGE,), REWRITTEN, "return np.sum(x, axis=0)"),
    (
        *("sum_in_parts", halves, (LARGE,)),
        *("stays: its iterations have no loop that sums", "return 0.5 * x"),
    ),
    (
        *("sum_online", calque.grad(cross_entropy), (calque.spec("f4[n, k]"),) * 2, REWRITTEN),
        "log_norm = np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))",
    ),
    (
        *("sum_online", exponentials_over_means, (LARGE,)),
        *("stays: what it subtracts is no maximum", "mean = np.mean(x, axis=1)"),
    ),
    (
        *("fuse_rows", calque.grad(cross_entropy), (calque.spec("f4[n, k]"),) * 2, REWRITTEN),
        "shifted = logits - stop_gradient(np.max(logits, axis=1, keepdims=True))",
    ),
    (
        *("fuse_rows", other_rows, (LARGE,)),
        *("stays: * goes over other rows", "return x[1:] * sums[:-1, None]"),
    ),
]
