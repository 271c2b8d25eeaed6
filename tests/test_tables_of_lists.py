"""Tables of lists, rows by other names, lists that change places: plain Python is the oracle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque

X = np.array([0.31, 1.62, 0.73, 2.24, 1.15])


def row_alias(x):
    n = len(x)
    t = [[0.0] * n for _ in range(n)]
    for i in range(n):
        row = t[i]
        for j in range(n):
            row[j] = x[i] * x[j] + t[i - 1][j]
    return t[1][2] + t[n - 1][0]


def row_swap(x):
    n = len(x)
    t = [[x[i] * x[j] + i for j in range(n)] for i in range(n)]
    for i in range(n - 1):
        t[i], t[i + 1] = t[i + 1], t[i]
        t[i][0] += 1.0
    return t[0][1] + 2 * t[n - 1][0] + t[1][0]


def copies(x):
    n = len(x)
    t = [[0.0] * n for _ in range(n)]
    u = [r[:] for r in t]
    w = list(t)
    for i in range(n):
        t[i][0] = x[i]
        u[i][1] = x[i] * 2
        w[i][2] = x[i] * 3
    return t[1][0] + t[1][1] * 10 + t[1][2] * 100 + u[2][0] + u[2][1] * 7 + w[0][0] * 3


def same_row(x):
    n = len(x)
    t = [[0.0] * n] * n
    for i in range(n):
        t[i][i] += x[i]
    return t[0][1] + t[2][3] * 2


def walk_rows(x):
    n = len(x)
    t = [[0.0] * n for _ in range(n)]
    k = 0
    for row in t:
        row[0] = x[k]
        row[k] += 1.0
        k += 1
    return sum(r[0] for r in t) + t[2][2]


def rolling(x):
    n = len(x)
    prev = [0.0] * n
    cur = [0.0] * n
    for i in range(n):
        for j in range(1, n):
            cur[j] = max(prev[j - 1] + x[i], cur[j - 1] * 0.5)
        prev, cur = cur, prev
    return prev[n - 1] * 2 + cur[1]


def rolling_new(x):
    n = len(x)
    prev = [0.0] * (n + 1)
    for i in range(n):
        cur = [0.0] * (n + 1)
        for j in range(1, n + 1):
            cur[j] = max(prev[j - 1] + x[i] * x[j - 1], cur[j - 1] * 0.5)
        prev = cur
    return prev[n]


def rolling_slice(x):
    n = len(x)
    prev = [0.0] * (n + 1)
    for i in range(n):
        cur = prev[:]
        for j in range(1, n + 1):
            cur[j] = max(prev[j - 1] + x[i] * x[j - 1], prev[j])
        prev = cur
    return prev[n]


def life(x):
    n = len(x)
    g = [[x[i] * x[j] for j in range(n)] for i in range(n)]
    for _ in range(3):
        new = [[0.0] * n for _ in range(n)]
        for i in range(n):
            for j in range(n):
                new[i][j] = 0.5 * g[i][j] + 0.25 * (g[i - 1][j] + g[i][j - 1])
        g = new
    return g[0][1] + g[n - 1][n - 1] * 2


def matmul(x):
    n = len(x)
    a = [[x[i] + j for j in range(n)] for i in range(n)]
    b = [list(r) for r in zip(*a)]
    c = [[0.0] * n for _ in range(n)]
    for i in range(n):
        for j in range(n):
            s = 0.0
            for k in range(n):
                s += a[i][k] * b[k][j]
            c[i][j] = s
    return c[0][1] + c[2][2]


def mutate(v, i, y):
    v[i] += y


def helper_mut(x):
    c = [0.0] * len(x)
    for i in range(len(x)):
        mutate(c, i, x[i])
        mutate(c, int(x[i]) % len(x), 1.0)
    return c[0] * 2 + c[1] * x[0]


def alias_ab(x):
    a = b = [0.0] * len(x)
    for i in range(len(x)):
        a[i] = x[i]
    b[0] += 5.0
    return a[0] * 3 + b[1]


def in_list(x):
    seen = [False] * len(x)
    t = 0.0
    i = 0
    while not seen[i]:
        seen[i] = True
        t += x[i]
        i = (i * 3 + 1) % len(x)
    return t


def ints_floats(x):
    c = [0] * len(x)
    for i in range(len(x)):
        c[i] = i * 2
    for i in range(len(x)):
        if x[i] > 0.5:
            c[i] += x[i]
    return sum(c) * 1.0 + c[0] // 2


def lcs(x):
    y = x[::-1]
    n = len(x)
    m = len(y)
    L = [[0] * (m + 1) for _ in range(n + 1)]
    for i in range(n):
        for j in range(m):
            if x[i] == y[j]:
                L[i + 1][j + 1] = L[i][j] + 1
            else:
                L[i + 1][j + 1] = max(L[i][j + 1], L[i + 1][j])
    return L[n][m] * x[0]


def quick(x):
    a = list(x)

    def part(lo, hi):
        p = a[hi]
        i = lo
        for j in range(lo, hi):
            if a[j] < p:
                a[i], a[j] = a[j], a[i]
                i += 1
        a[i], a[hi] = a[hi], a[i]
        return i

    stack = [(0, len(a) - 1)]
    while stack:
        lo, hi = stack.pop()
        if lo < hi:
            k = part(lo, hi)
            stack.append((lo, k - 1))
            stack.append((k + 1, hi))
    return sum(v * k for k, v in enumerate(a))


def bellman(x):
    n = len(x)
    d = [float("inf")] * n
    d[0] = 0.0
    E = [(i, (i * 2 + 1) % n, x[i]) for i in range(n)] + [
        (i, (i + 1) % n, x[i] * 2) for i in range(n)
    ]
    for _ in range(n - 1):
        for u, v, w in E:
            if d[u] + w < d[v]:
                d[v] = d[u] + w
    return sum(d)


def fw(x):
    n = len(x)
    d = [[abs(x[i] - x[j]) + 0.1 * (i != j) + (i * j % 3) for j in range(n)] for i in range(n)]
    for k in range(n):
        for i in range(n):
            for j in range(n):
                if d[i][k] + d[k][j] < d[i][j]:
                    d[i][j] = d[i][k] + d[k][j]
    return sum(map(sum, d))


def lis(x):
    n = len(x)
    b = [1] * n
    s = [v for v in x]
    for i in range(n):
        for j in range(i):
            if x[j] < x[i] and b[j] + 1 > b[i]:
                b[i] = b[j] + 1
                s[i] = s[j] + x[i]
    return max(s) + max(b)


def three(x):
    n = len(x)
    a = [0.0] * n
    b = [1.0] * n
    c = [2.0] * n
    for i in range(n):
        for j in range(1, n):
            c[j] = a[j - 1] * x[i] + b[j]
        a, b, c = b, c, a
    return a[1] + 2 * b[2] + 3 * c[n - 1]


def wh(x):
    prev = [0.0] * len(x)
    cur = [1.0] * len(x)
    k = 0
    while cur[0] < 5.0 and k < 10:
        for j in range(len(x)):
            cur[j] = prev[j] * 0.5 + x[j] + cur[j - 1]
        prev, cur = cur, prev
        k += 1
    return cur[1] * prev[2] + k


def lit(x):
    prev = [0.0] * 4
    cur = [0.0] * 4
    for v in x:
        cur[0] = v
        for j in range(1, 4):
            cur[j] = prev[j - 1] + cur[j - 1] * 0.5
        prev, cur = cur, prev
    return prev[3] + cur[2] * 2


def held(x):
    prev = [0.0] * len(x)
    cur = [0.0] * len(x)
    both = (prev, cur)
    for i in range(len(x)):
        cur[i] = x[i] + prev[i - 1]
        prev, cur = cur, prev
    return both[0][1] + both[1][2] * 2 + prev[0]


def tabs(x):
    n = len(x)
    g = [[x[i] + j for j in range(n)] for i in range(n)]
    h = [[0.0] * n for _ in range(n)]
    for _ in range(3):
        for i in range(n):
            for j in range(n):
                h[i][j] = g[i - 1][j] * 0.5 + g[i][j - 1]
        g, h = h, g
    return g[0][1] + h[2][2]


def until_they_agree(x):
    n = len(x)
    prev, cur, k = [0.0] * n, [0.0] * n, 0
    while k < 30:
        for j in range(n):
            cur[j] = 0.5 * prev[j - 1] + x[j]
        if max([abs(cur[j] - prev[j]) for j in range(n)]) < 1e-3:
            break
        prev, cur = cur, prev
        k += 1
    return cur[1] * 2 + prev[2] + k


def exchanged_in_an_arm(x):
    n = len(x)
    a, b = [1.0] * n, [0.0] * n
    for i in range(n):
        if x[i] > 1.0:
            a, b = b, a
        a[i] += x[i]
    return sum(v * k for k, v in enumerate(a)) + b[1] * 10


def a_method_kept(x):
    a, b = [x[0], x[1]], [x[2], x[3]]
    push = a.append
    for i in range(3):
        a, b = b, a
        push(x[i])
    return sum(a) * 2 + sum(b)


def a_row_held_twice(x):
    t = [[0.0] * 2 for _ in range(len(x))]
    t.append(t[0])
    for i in range(len(x)):
        t[i][0] = x[i]
    t[len(x)][1] = 7.0 * x[0]
    return t[0][1] + t[len(x)][0] * 2 + t[0][0]


def slices_replaced(x):
    a, b = [0.0] * len(x), [0.0, 1.0, 2.0]
    a[:] = [v * 2 for v in x]
    a[0:1] = [x[0] ** 2]
    b[1:2] = [v * 2 for v in x]
    return sum(v * k for k, v in enumerate(b)) + sum(a)


def tails_of_runs(x):
    """The first iteration appends, and later ones may not (a longest increasing subsequence)."""
    tails = []
    for v in x:
        lo, hi = 0, len(tails)
        while lo < hi:
            mid = (lo + hi) // 2
            if tails[mid] < v:
                lo = mid + 1
            else:
                hi = mid
        if lo == len(tails):
            tails.append(v)
        else:
            tails[lo] = v
    return sum(tails) + len(tails) * x[0]


def merged_by_widths(x):
    n = len(x)
    a, b, width = [v for v in x], [0.0] * n, 1
    while width < n:
        i = 0
        while i < n:
            mid, end = min(i + width, n), min(i + 2 * width, n)
            left, right = i, mid
            for k in range(i, end):
                if left < mid and (right >= end or a[left] <= a[right]):
                    b[k] = a[left]
                    left += 1
                else:
                    b[k] = a[right]
                    right += 1
            i += 2 * width
        a, b = b, a
        width *= 2
    return sum(i * v for i, v in enumerate(a))


def searched(x):
    a = sorted(x)
    lo, hi = 0, len(a)
    while lo < hi:
        mid = (lo + hi) // 2
        if a[mid] < 1.0:
            lo = mid + 1
        else:
            hi = mid
    return a[lo] * 2 if lo < len(a) else a[-1]


PROGRAMS = [
    until_they_agree,
    exchanged_in_an_arm,
    a_method_kept,
    a_row_held_twice,
    slices_replaced,
    tails_of_runs,
    merged_by_widths,
    searched,
    row_alias,
    row_swap,
    copies,
    same_row,
    walk_rows,
    rolling,
    rolling_new,
    rolling_slice,
    life,
    matmul,
    helper_mut,
    alias_ab,
    in_list,
    ints_floats,
    lcs,
    quick,
    bellman,
    fw,
    lis,
    three,
    wh,
    lit,
    held,
    tabs,
]


@pytest.fixture(autouse=True)
def stepped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels run as plain Python."""
    monkeypatch.setenv("CALQUE_JIT", "0")


@pytest.mark.parametrize("fn", PROGRAMS)
def test_as_plain_python(fn: Callable[..., Any]) -> None:
    fast, h = calque.jit(fn), 1e-6
    for x in (X, np.append(X[::-1], 0.9)):
        np.testing.assert_allclose(fast(x), fn(x), rtol=1e-13)
    slopes = [(fn(X + s) - fn(X - s)) / (2 * h) for s in h * np.eye(len(X))]
    np.testing.assert_allclose(calque.grad(fn)(X), slopes, rtol=1e-6, atol=1e-7)
    many = np.stack([X, 1.01 * X, X[::-1]])
    np.testing.assert_allclose(calque.vmap(fn)(many), [fn(x) for x in many], rtol=1e-12)


# not ints_floats: the class of c[0], which decides what // gives, is that of an element of a list
@pytest.mark.parametrize("fn", [row_alias, rolling, rolling_new, life, lcs, fw, lis, tabs])
def test_one_program_for_all_lengths(fn: Callable[..., Any]) -> None:
    fast = calque.jit(fn)
    for n in (5, 4, 6):
        fast(np.linspace(0.3, 2.5, n))
    assert fast.cache_info().programs == 1
