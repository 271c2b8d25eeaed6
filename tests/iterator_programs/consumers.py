"""Consumers of iterators: how far each goes, in which order, and what is left."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np


class Holder:
    pass


def iter_two_steps(x):
    y = x.copy()
    it = iter(y)
    a = next(it)
    y[1] = 5 * x[0]
    b = next(it)
    y[0] = 9.0
    return a * b


def with_generator(x):

    def each(y):
        for v in y:
            yield v

    y = x.copy()
    g = each(y)
    a = next(g)
    y[1] = 9.0 * x[0]
    return a + next(g)


def gen_of_zip(x):

    def each(y, z):
        for v, w in zip(y, z):
            yield (v * w)

    y = x.copy()
    g = each(y, [1.0, 2.0, 3.0])
    a = next(g)
    y[1] = 9.0 * x[0]
    return a + next(g) * 2


def chain_in_for(x):
    y, s = (x.copy(), 0.0)
    for v in itertools.chain(y, x):
        s += v
        y[2] = s
    return s


def chain_from_iterable(x):
    y, s = (x.copy(), 0.0)
    for v in itertools.chain.from_iterable([y, y]):
        s += v
        y[1] = s
    return s


def with_reduce(x):
    y = x.copy()

    def add(a, v):
        y[-1] = a
        return a + v

    return functools.reduce(add, y)


def accumulate_fn_store(x):
    y = x.copy()

    def f(a, b):
        y[-1] = a * b
        return a + b

    return sum(itertools.accumulate(y, f))


def zip_next(x):
    y = x.copy()
    z = zip(y, x)
    a, b = next(z)
    y[1] = 7 * x[1]
    c, d = next(z)
    return a * b + c * d


def rev_next(x):
    y = x.copy()
    z = reversed(y)
    a = next(z)
    y[-2] = 7 * x[1]
    return a * next(z)


def takewhile_for(x):
    y, s = (x.copy(), 0.0)
    for v in itertools.takewhile(lambda v: True, y):
        y[3] += v
        s += v
    return s


def dropwhile_for(x):
    y, s = (x.copy(), 0.0)
    for v in itertools.dropwhile(lambda v: False, y):
        y[3] += v
        s += v
    return s


def sum_gen(x):
    y = x.copy()

    def g():
        for i in range(5):
            y[4] += y[i]
            yield y[i]

    return sum(g()) + max(g()) + list(g())[2]


def max_key_store(x):
    y = x.copy()

    def key(v):
        y[4] = 10 * v
        return v

    return max(y, key=key)


def min_map_store(x):
    y = x.copy()

    def f(v):
        y[4] = v - 5
        return v

    return min(map(f, y))


def any_store(x):
    y = x.copy()

    def bump(k):
        y[k] += 1.0
        return y[k] > 1.0

    ok = any((bump(k) for k in range(4)))
    return np.sum(y * x) + ok


def all_store(x):
    y = x.copy()

    def bump(k):
        y[k] += 1.0
        return y[k] > 1.0

    ok = all([bump(k) for k in range(4)]) or all((bump(k) for k in range(4)))
    return np.sum(y * x) + ok


def any_map_store(x):
    y = x.copy()

    def bump(k):
        y[k] += 1.0
        return y[k] > 1.0

    ok = any(map(bump, range(4)))
    return np.sum(y * x) + ok


def any_rest(x):
    it = iter(x)
    ok = any((v > 0.5 for v in it))
    return sum(it) + ok


def zip_same_iter(x):
    y = x.copy()
    it = iter(y)
    s = 0.0
    for a, b in zip(it, it):
        y[2] = a * b
        s += a * b
    return s


def unpack_iter(x):
    y = x.copy()
    it = iter(y)
    y[0] = 3 * x[1]
    a, *b = it
    return a * b[0] + b[-1]


def extend_iter(x):
    y = x.copy()
    it = iter(y)
    y[0] = 3 * x[1]
    v = []
    v.extend(it)
    v += map(np.sin, y)
    return v[0] * v[5]


def array_of_iter(x):
    y = x.copy()
    it = iter(y)
    y[0] = 3 * x[1]
    return np.sum(np.array(list(it)) ** 2) + np.sum(np.fromiter(iter(y), float))


def left_by_break_known(x):
    y = x.copy()
    it = iter(y)
    s = 0.0
    for i, v in enumerate(it):
        s += v
        if i == 1:
            break
    y[2] = s * 2
    return s + sum(it)


def iter_step_one_arm(x):
    y = x.copy()
    it = iter(y)
    a = next(it)
    if x[0] > 0:
        a = a * next(it)
    return a * next(it)


def iter_in_loop(x):
    y = x.copy()
    it = iter(y)
    s = 0.0
    for k in range(4):
        y[k] += s
        s += next(it)
    return s


def iter_in_runtime_loop(x):
    y = x.copy()
    it = iter(y)
    s = 0.0
    for k in range(len(x)):
        y[k] += s
        s += next(it) * x[k]
    return s


def while_next(x):
    y = x.copy()
    it = iter(y)
    s = 0.0
    while (v := next(it, None)) is not None:
        y[4] = s
        s += v
    return s


def many_break(x):
    y = np.tile(x, 30)
    it = iter(y)
    h = next(it)
    s = 0.0
    for v in it:
        s += v * v
        if s > 10:
            break
    return s + next(it)


def zip_gens_if(x):
    y = x.copy()
    s = 0.0
    for a, b in zip((v * 2 for v in y), (w * w for i, w in enumerate(y) if i != 1)):
        y[3] = a
        s += a * b
    return s


def next_gen(x):
    y = x.copy()
    n = [0]

    def f(v):
        y[3] += v
        return v * 2

    return next((f(v) for v in y)) + y[3]


def map_gen(x):
    y = x.copy()
    s = 0.0
    for a in map(np.sin, (v * 2 for v in y)):
        y[3] = a
        s += a
    return s


def chain_gens(x):
    y = x.copy()
    s = 0.0
    for a in itertools.chain((v * 2 for v in y), (w for w in y)):
        y[3] = a
        s += a
    return s


def in_gen(x):
    y = x.copy()
    c = [0.0]

    def f(v):
        c[0] += 1.0
        return v

    found = 0.7 in (f(v) for v in y)
    return c[0] * x[1] + found


def iters_joined(x):
    y, z = (x.copy(), 2 * x)
    it = iter(y) if x[0] > 0 else iter(z)
    y[0] = 7.0 * x[1]
    return next(it) * next(it)


def iter_alias_joined(x):
    y, z = (x.copy(), 2 * x)
    a, b = (iter(y), iter(z))
    it = a if x[0] > 0 else b
    v = next(it)
    return v * next(a)


def iter_in_container(x):
    y = x.copy()
    d = {"it": iter(y), "m": map(np.sin, y)}
    y[0] = 7 * x[1]
    return next(d["it"]) * next(d["m"]) + next(d["it"])


def iter_closure(x):
    y = x.copy()
    it = iter(y)

    def take():
        return next(it)

    a = take()
    y[1] = 6 * x[0]
    return a + take() * take()


def map_next_idiom(x):
    it = iter(x)
    return (
        sum((a * next(it) for a in it))
        if len(x) % 2 == 0
        else sum(map(lambda a: a * next(it, 1.0), it))
    )


def zip_strict_bad(x):
    s = 0.0
    for a, b in zip(x, x[1:], strict=True):
        s += a * b
    return s


def unpack_nested(x):
    y = x.copy()
    (a, b), c = (zip(y[:2], [1.0, 2.0]), y)
    y[0] = 5.0 * x[1]
    return a[0] * b[0] * c[0]


PROGRAMS: list[Any] = [
    iter_two_steps,
    with_generator,
    gen_of_zip,
    chain_in_for,
    chain_from_iterable,
    with_reduce,
    accumulate_fn_store,
    zip_next,
    rev_next,
    takewhile_for,
    dropwhile_for,
    sum_gen,
    max_key_store,
    min_map_store,
    any_store,
    all_store,
    any_map_store,
    any_rest,
    zip_same_iter,
    unpack_iter,
    extend_iter,
    array_of_iter,
    left_by_break_known,
    iter_step_one_arm,
    iter_in_loop,
    iter_in_runtime_loop,
    while_next,
    many_break,
    zip_gens_if,
    next_gen,
    map_gen,
    chain_gens,
    in_gen,
    iters_joined,
    iter_alias_joined,
    iter_in_container,
    iter_closure,
    map_next_idiom,
    zip_strict_bad,
    unpack_nested,
]
