"""Iterators over lists, dicts, sets, deques and the user's classes, which change on the way."""

from __future__ import annotations

import collections
import itertools
from typing import Any

import numpy as np


class Counting:
    def __init__(self, y):
        self.y, self.k = (y, 0)

    def __iter__(self):
        return self

    def __next__(self):
        if self.k >= 4:
            raise StopIteration
        self.k += 1
        return self.y[self.k - 1]


class Whole:
    def __init__(self, y):
        self.y = y

    def __iter__(self):
        return iter(self.y)


class Doubled:
    def __init__(self, y):
        self.y = y

    def __iter__(self):
        for v in self.y:
            yield (2 * v)


class Holder:
    pass


def with_values(x):
    d = {"a": x[0], "b": x[1]}
    s = 0.0
    for k, v in d.items():
        d["b"] = x[2] * 3.0
        s += v
    return s


def with_keys_size(x):
    d = {"a": x[0], "b": x[1]}
    s = 0.0
    for k in d.keys():
        d["c"] = x[2]
        s += d[k]
    return s


def with_dict_size(x):
    d = {"a": x[0], "b": x[1]}
    s = 0.0
    for k in d:
        d.pop("a", None)
        s += 1.0
    return s * x[0]


def dict_break_after_growth(x):
    d = {"a": x[0], "b": x[1]}
    s = 0.0
    for k in d:
        d["c"] = x[2]
        s += d[k]
        break
    return s + len(d)


def set_size(x):
    d = {1, 2}
    s = 0.0
    for k in d:
        d.add(k + 10)
        s += x[0]
    return s


def islice_store(x):
    y, s = (x.copy(), 0.0)
    for v in itertools.islice(y, 1, 4):
        s += v
        y[3] = s
    return s


def map_list_store(x):
    y = x.copy()

    def f(v):
        y[4] = v * 2
        return v * v

    return list(map(f, y))[-1]


def sorted_key_store(x):
    y = x.copy()

    def key(v):
        y[4] = v - 5
        return v

    return sorted(y, key=key)[0] + y[4]


def list_iter_changed(x):
    v = [x[0], x[1], x[2]]
    it = iter(v)
    v[0] = x[3] * 2
    return next(it) + sum(it)


def list_iter_appended(x):
    v = [x[0], x[1]]
    it = iter(v)
    a = next(it)
    v.append(x[3] * 2)
    return a + sum(it)


def list_exhausted_appended(x):
    v = [x[0], x[1]]
    it = iter(v)
    a = sum(it)
    v.append(x[3] * 2)
    return a + sum(it)


def list_for_replaced(x):
    v = [x[0], x[1], x[2]]
    s = 0.0
    for i, a in enumerate(v):
        if i < 2:
            v[i + 1] = a * 2
        s += a
    return s


def list_for_appended(x):
    v = [x[0], x[1]]
    s = 0.0
    for a in v:
        if len(v) < 5:
            v.append(a * 2)
        s += a
    return s


def chain_of_lists_changed(x):
    v = [x[0], x[1]]
    c = itertools.chain(v, v)
    v.append(x[2])
    return sum(c)


def gen_expr_dict(x):
    d = {"a": x[0], "b": x[1]}
    g = (v for v in d.values())
    d["a"] = 3 * x[2]
    return sum(g)


def gen_expr_grown(x):
    d = {"a": x[0], "b": x[1]}
    g = (v for v in d.values())
    d["c"] = 3 * x[2]
    return sum(g)


def dictview_grown(x):
    d = {"a": x[0], "b": x[1]}
    it = iter(d.items())
    next(it)
    d["c"] = 3 * x[2]
    return next(it)[1]


def dict_cond_grow(x):
    d = {"a": x[0], "b": x[1]}
    s = 0.0
    for k in d:
        if x[0] > 5.0:
            d["z"] = 1.0
        s += d[k]
    return s


def dict_comp(x):
    d = {"a": x[0], "b": x[1]}

    def f(v):
        d["b"] = v * 3
        return v

    e = {k: f(v) for k, v in d.items()}
    return e["a"] + e["b"]


def items_zip(x):
    d = {"a": x[0], "b": x[1]}
    s = 0.0
    for (k, v), w in zip(d.items(), x):
        d["b"] = v * 3
        s += v * w
    return s


def iter_list_of_arrays(x):
    v = [x.copy(), x * 2]
    it = iter(v)
    v[0][1] = 7.0
    a = next(it)
    v[1] = x * 3
    return np.sum(a * next(it))


def class_iter(x):
    y = x.copy()
    s = 0.0
    for v in Counting(y):
        y[3] = v * 3
        s += v
    return s


def class_iter_next(x):
    y = x.copy()
    it = Counting(y)
    a = next(it)
    y[1] = 9 * x[0]
    return a + next(it) + sum(it)


def class_iter_in_arm(x):
    y = x.copy()
    s = 0.0
    if x[0] > 0:
        for v in Counting(y):
            y[3] = v * 3
            s += v
    else:
        s = sum(Counting(y))
    return s


def class_iter_cond(x):
    y = x.copy()
    s = 0.0
    for v in Counting(y):
        if v > 0.5:
            break
        s += v
    return s


def class_seq(x):
    y = x.copy()
    s = 0.0
    for v in Whole(y):
        y[3] = v * 3
        s += v
    return s


def class_gen(x):
    y = x.copy()
    s = 0.0
    for v in Doubled(y):
        y[3] = v * 3
        s += v
    return s + max(Doubled(y))


def vars_values(x):
    p = Holder()
    p.a = x[0]
    p.b = x[1]
    s = 0.0
    for k, v in vars(p).items():
        p.b = 5 * v
        s += v
    return s


def deque_walk(x):
    d = collections.deque([x[0], x[1], x[2]])
    s = 0.0
    for v in d:
        if len(d) < 5:
            d.append(v * 2)
        s += v
    return s


def deque_ok(x):
    d = collections.deque([x[0], x[1], x[2]])
    s = 0.0
    for v in d:
        s += v
    d.append(s)
    it = reversed(d)
    return s * next(it) + d[0]


def counter_iter(x):
    c = collections.Counter("abca")
    s = 0.0
    for k, n in c.items():
        s += n * x[0]
        c[k] = 7
    return s + c["a"] * x[1]


def dict_pop_add(x):
    d = {"a": x[0], "b": x[1], "c": x[2]}
    s = 0.0
    for k in d:
        if k == "a":
            d.pop("b")
            d["z"] = x[3]
        s += d[k]
    return s


def dict_size_in_arm(x):
    d = {"a": x[0], "b": x[1]}
    s = 0.0
    if x[0] > 0:
        for k in d:
            d["c"] = x[2]
            s += d[k]
    return s


def grow_list_iter(x):
    out = []
    for i in range(len(x)):
        out.append(x[i] * 2)
    it = iter(out)
    s = 0.0
    out[1] = 9 * x[0]
    for v in it:
        s += v
    return s


def grow_rev(x):
    out = []
    for i in range(len(x)):
        out.append(x[i] * 2)
    r = reversed(out)
    out.append(x[0])
    s = 0.0
    for v in r:
        s += v
    return s


def while_pop(x):
    v = [x[0], x[1], x[2]]
    it = iter(v)
    s = 0.0
    v.pop(0)
    return sum(it)


def list_remove(x):
    v = [x[0], x[1], x[2], x[3]]
    s = 0.0
    for a in v:
        s += a
        del v[-1]
    return s


def list_cond_append(x):
    v = [x[0], x[1]]
    s = 0.0
    for a in v:
        if a > 0 and len(v) < 4:
            v.append(a * 2)
        s += a
    return s


def list_cond_store(x):
    v = [x[0], x[1], x[2]]
    s = 0.0
    for i, a in enumerate(v):
        if a > 0:
            v[2] = a * 2
        s += a
    return s


def tee_gen(x):
    a, b = itertools.tee((v * 2 for v in x))
    next(b)
    return sum((p * q for p, q in zip(a, b)))


def reversed_list(x):
    v = [x[0], x[1], x[2]]
    r = reversed(v)
    v[1] = x[3]
    v.append(x[4])
    return next(r) * next(r) + sum(r)


def dict_from_map(x):
    y = x.copy()
    m = map(lambda k: (k, y[k]), [0, 1])
    y[0] = 4 * x[1]
    d = dict(m)
    return d[0] * d[1]


def set_from_iter(x):
    return len(set(map(lambda k: k % 2, range(5)))) * x[0]


def slice_assign(x):
    v = [x[0], x[1], x[2]]
    v[1:] = map(lambda a: a * 2, v[:1])
    return v[0] * v[1] + len(v)


PROGRAMS: list[Any] = [
    with_values,
    with_keys_size,
    with_dict_size,
    dict_break_after_growth,
    set_size,
    islice_store,
    map_list_store,
    sorted_key_store,
    list_iter_changed,
    list_iter_appended,
    list_exhausted_appended,
    list_for_replaced,
    list_for_appended,
    chain_of_lists_changed,
    gen_expr_dict,
    gen_expr_grown,
    dictview_grown,
    dict_cond_grow,
    dict_comp,
    items_zip,
    iter_list_of_arrays,
    class_iter,
    class_iter_next,
    class_iter_in_arm,
    class_iter_cond,
    class_seq,
    class_gen,
    vars_values,
    deque_walk,
    deque_ok,
    counter_iter,
    dict_pop_add,
    dict_size_in_arm,
    grow_list_iter,
    grow_rev,
    while_pop,
    list_remove,
    list_cond_append,
    list_cond_store,
    tee_gen,
    reversed_list,
    dict_from_map,
    set_from_iter,
    slice_assign,
]
