"""Iterators over arrays that are stored into before they are consumed."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np


def with_iter(x):
    y = x.copy()
    it = iter(y)
    y[0] = 7.0 * x[1]
    return next(it)


def with_chain(x):
    y = x.copy()
    c = itertools.chain(y, [1.0])
    y[0] = 7.0 * x[1]
    return sum(c)


def with_pairs(x):
    y, s = (x.copy(), 0.0)
    for a, b in itertools.pairwise(y):
        s += a * b
        y[3] += a
        y[4] = b
    return s


def zip_longest_store(x):
    y, s = (x.copy(), 0.0)
    for a, b in itertools.zip_longest(y, [1.0, 2.0], fillvalue=3.0):
        s += a * b
        y[3] = s
    return s


def filter_named(x):
    y = x.copy()
    c = filter(None.__ne__, y)
    y[0] = 7.0 * x[1]
    return sum(c)


def filter_store(x):
    y = x.copy()

    def keep(v):
        y[4] = v
        return True

    return sum(filter(keep, y))


def filter_for(x):
    y, s = (x.copy(), 0.0)
    for v in filter(lambda v: True, y):
        y[4] += v
        s += v
    return s


def map_store(x):
    y = x.copy()

    def f(v):
        y[4] = v * 2
        return v * v

    return sum(map(f, y))


def map_two(x):
    y = x.copy()

    def f(v, w):
        y[4] = v * w
        return v * v

    return sum(map(f, y, [1.0, 2.0, 3.0, 4.0, 5.0]))


def zip_mixed(x):
    y, s = (x.copy(), 0.0)
    for a, b in zip(y, [1.0, 2.0, 3.0]):
        y[2] = a * b
        s += a * b
    return s


def zip_mixed_named(x):
    y = x.copy()
    z = zip(y, [1.0, 2.0, 3.0])
    y[0] = 7 * x[1]
    return sum((a * b for a, b in z))


def zip_named(x):
    y = x.copy()
    z = zip(y, x)
    y[0] = 7 * x[1]
    return sum((a * b for a, b in z))


def rev_for(x):
    y, s = (x.copy(), 0.0)
    for i, v in enumerate(reversed(y)):
        y[0] += v
        s += i * v
    return s


def starmap_store(x):
    y = x.copy()

    def f(a, b):
        y[3] = a + b
        return a * b

    return sum(itertools.starmap(f, zip(y, x)))


def starmap_rows(x):
    y = np.array([[x[0], x[1]], [x[2], x[3]]])

    def f(a, b):
        y[1, 0] = a + b
        return a * b

    return sum(itertools.starmap(f, y))


def filterfalse_for(x):
    y, s = (x.copy(), 0.0)
    for v in itertools.filterfalse(lambda v: False, y):
        y[3] += v
        s += v
    return s


def compress_for(x):
    y, s = (x.copy(), 0.0)
    for v in itertools.compress(y, [1, 0, 1, 1, 0]):
        y[3] += v
        s += v
    return s


def cycle_named(x):
    y = x.copy()
    c = itertools.cycle(y)
    a = next(c)
    y[0] = 50.0
    y[1] = 3 * x[0]
    return a + next(c) + sum(itertools.islice(c, 4))


def product_named(x):
    y = x.copy()
    p = itertools.product(y, [1.0, 2.0])
    y[0] = 100.0
    return sum((a * b for a, b in p))


def tee_named(x):
    y = x.copy()
    a, b = itertools.tee(y)
    p = next(a)
    y[0] = 50.0
    y[1] = 3 * x[0]
    q = next(a)
    y[1] = 77.0
    return p + q + sum(b)


def groupby_for(x):
    y, s = (x.copy(), 0.0)
    for k, g in itertools.groupby(y, lambda v: True):
        for v in g:
            y[3] += v
            s += v
    return s


def flat_T(x):
    y = np.array([[x[0], x[1]], [x[2], x[3]]]).T
    s = 0.0
    for v in y.flat:
        y[1, 1] += v
        s += v
    return s


def ndenum(x):
    y = np.array([[x[0], x[1]], [x[2], x[3]]])
    s = 0.0
    for (i, j), v in np.ndenumerate(y):
        y[1, 1] += v
        s += v * (i + 1)
    return s


def nditer_for(x):
    y = x.copy()
    s = 0.0
    for v in np.nditer(y):
        y[3] = s
        s += v
    return s


def rows_views(x):
    y = np.array([[x[0], x[1]], [x[2], x[3]]])
    s = 0.0
    for r in y:
        r[0] = r[0] * 3
        s += r[1]
    return s + np.sum(y)


def rows_held(x):
    y = np.array([[x[0], x[1]], [x[2], x[3]]])
    rows = list(y)
    y[0, 0] = 5 * x[4]
    return rows[0][0] + rows[1][1]


def rows_iter_held(x):
    y = np.array([[x[0], x[1]], [x[2], x[3]]])
    it = iter(y)
    r = next(it)
    y[0, 0] = 5 * x[4]
    r[1] = 2 * x[0]
    return r[0] + y[0, 1] + next(it)[0]


def rows_pairwise(x):
    y = np.array([[x[0], x[1]], [x[2], x[3]], [x[4], x[0]]])
    s = 0.0
    for a, b in itertools.pairwise(y):
        b[0] += a[1]
        a[1] = s
        s += a[0] * b[0]
    return s + np.sum(y)


def map_over_iter(x):
    y = x.copy()
    it = iter(y)
    m = map(lambda v: v * v, it)
    a = next(m)
    y[1] = 3 * x[2]
    b = next(it)
    return a + b + next(m)


def iter_sentinel(x):
    k = [0]

    def step():
        k[0] += 1
        return k[0]

    return sum((x[i] for i in iter(step, 4)))


def iter_under_test(x):
    y = x.copy()
    it = iter(y)
    a = next(it)
    if x[0] > 0:
        y[1] = 5 * x[2]
    return a * next(it)


def flat_named(x):
    y = np.array([[x[0], x[1]], [x[2], x[3]]])
    f = y.flat
    y[0, 0] = 5 * x[4]
    return next(iter(f)) + sum(f)


def flat_twice(x):
    y = np.array([[x[0], x[1]], [x[2], x[3]]])
    f = y.flat
    return sum(f) + sum(f)


def flat_index(x):
    y = np.array([[x[0], x[1]], [x[2], x[3]]])
    f = y.flat
    a = f[1:3]
    y[0, 1] = 50.0
    f[0] = 4 * x[1]
    return f[2] * a[0] + np.sum(y) + np.max(y.flat) + len(f)


def flat_1d(x):
    y = x.copy()
    f = y.flat
    a = next(f)
    y[1] = 5 * x[0]
    return a * next(f)


def flat_copy(x):
    y = np.outer(x, x)
    a = y.flat.copy()
    y[0, 0] = 7.0
    y.flat[3] = x[0]
    y.flat = y.flat.copy() * 2
    return np.sum(a) + np.sum(y)


def enumerate_long(x):
    y = np.tile(x, 30)
    e = enumerate(y)
    i, h = next(e)
    y[1] = 5 * x[0]
    s = 0.0
    for i, v in e:
        s += v * i
    return s + h


def rows_zip(x):
    m = np.outer(x, x)
    s = 0.0
    for r, q in zip(m, m[1:]):
        q[0] += r[1]
        s += np.sum(q * r)
    return s + np.sum(m)


def zip_first_iter(x):
    it = iter(x)
    s = sum((a * b for a, b in zip(it, [1.0, 2.0])))
    return s + next(it)


def groupby_key(x):
    out = []
    for k, g in itertools.groupby(enumerate(x), lambda p: p[0] // 2):
        out.append(k * sum((v for _, v in g)))
    return sum(out)


def groupby_skipped(x):
    return sum((k * x[k] for k, g in itertools.groupby([1, 1, 2, 3, 3, 1])))


def groupby_late(x):
    gs = [g for k, g in itertools.groupby([1, 1, 2, 2])]
    return sum((len(list(g)) for g in gs)) * x[0] + x[1]


def cycle_zip(x):
    return sum((a * b for a, b in zip(x, itertools.cycle([1.0, 2.0]))))


def cycle_break(x):
    s = 0.0
    for i, v in enumerate(itertools.cycle([x[0], x[1]])):
        s += v * i
        if i == 5:
            break
    return s


def count_for(x):
    s = 0.0
    for k, v in zip(itertools.count(2, 3), x):
        s += k * v
    c = itertools.count(1)
    return s + next(c) * x[0] + next(c) * x[1] + sum((a * b for a, b in zip(c, [x[2], x[3]])))


def repeat_twice(x):
    r = itertools.repeat(x[0], 3)
    a = next(r)
    return a + sum(r) + sum(r)


def product_iter(x):
    p = itertools.product([x[0], x[1]], repeat=2)
    a, b = next(p)
    return a * b + sum((c * d for c, d in p))


def isl_more(x):
    it = iter([1, 2, 3, 4, 5, 6, 7])
    a = sum(itertools.islice(it, 1, 5, 3))
    return a * x[0] + next(it) * x[1]


def reversed_range(x):
    r = reversed(range(3))
    a = sum((x[i] * i for i in r))
    return a + len(list(r))


def zip_map_uneven(x):
    y = x.copy()

    def f(v):
        y[4] += v
        return v

    s = sum((a * b for a, b in zip(map(f, y), x[:2])))
    return s + y[4]


def zip_map_uneven_pure(x):
    return sum((a * b for a, b in zip(map(np.sin, x), x[1:])))


def zip_map_endless(x):
    y = x.copy()

    def f(v):
        y[4] += v
        return v

    return sum((a * b for a, b in zip(map(f, y[:3]), itertools.count()))) + y[4]


PROGRAMS: list[Any] = [
    with_iter,
    with_chain,
    with_pairs,
    zip_longest_store,
    filter_named,
    filter_store,
    filter_for,
    map_store,
    map_two,
    zip_mixed,
    zip_mixed_named,
    zip_named,
    rev_for,
    starmap_store,
    starmap_rows,
    filterfalse_for,
    compress_for,
    cycle_named,
    product_named,
    tee_named,
    groupby_for,
    flat_T,
    ndenum,
    nditer_for,
    rows_views,
    rows_held,
    rows_iter_held,
    rows_pairwise,
    map_over_iter,
    iter_sentinel,
    iter_under_test,
    flat_named,
    flat_twice,
    flat_index,
    flat_1d,
    flat_copy,
    enumerate_long,
    rows_zip,
    zip_first_iter,
    groupby_key,
    groupby_skipped,
    groupby_late,
    cycle_zip,
    cycle_break,
    count_for,
    repeat_twice,
    product_iter,
    isl_more,
    reversed_range,
    zip_map_uneven,
    zip_map_uneven_pure,
    zip_map_endless,
]
