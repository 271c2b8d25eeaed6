"""Loops that store elements: those in ``KEPT`` overwrite none, others overwrite some."""

from __future__ import annotations

import numpy as np


def filtered(x, k):
    v, s = x.copy(), 0.0
    for i in range(1, x.shape[0]):
        v[i] += 0.3 * np.sin(v[i - 1])
        s += v[i] * v[i]
    return s


def autoregressive(x, k):
    y = np.zeros_like(x)
    y[0] = x[0]
    for i in range(1, x.shape[0]):
        y[i] = np.tanh(0.5 * y[i - 1] + x[i])
    return np.sum(y * y)


def of_second_order(x, k):
    y, s = np.zeros_like(x), 0.0
    for i in range(2, x.shape[0]):
        y[i] = np.tanh(0.5 * y[i - 1] - 0.2 * y[i - 2] ** 2 + x[i])
        s += np.sin(y[i]) * y[i - 2]
    return s


def backward(x, k):
    y = x.copy()
    for i in range(x.shape[0] - 2, -1, -1):
        y[i] = np.tanh(y[i + 1] * x[i])
    return np.sum(y * y)


def every_other(x, k):
    y = x.copy()
    for i in range(2, x.shape[0], 2):
        y[i] = np.sin(y[i - 2] * y[i - 1])
    return np.sum(y * y)


def counted_by_while(x, k):
    y = x.copy()
    i = 1
    while i < x.shape[0] and y[i - 1].real < 9.0:
        y[i] = np.tanh(y[i - 1] + x[i])
        i += 1
    return np.sum(y * y)


def rows(x, k):
    a = np.outer(x, x) * 0.0
    a[0] = x
    for t in range(1, x.shape[0]):
        a[t] = np.exp(0.1 * np.sin(a[t - 1]) * x)
    return np.sum(np.sin(a))


def nested(x, k):
    u, s = np.outer(x, x), 0.0
    for i in range(1, x.shape[0]):
        for j in range(1, x.shape[0]):
            u[i, j] = np.tanh(u[i - 1, j] * u[i, j - 1] + x[j])
            s += u[i, j] * u[i, j]
    return s


def scanned(x, k):
    h, hs = 0.1, np.zeros_like(x)
    for t in range(x.shape[0]):
        h = np.tanh(0.5 * h + x[t])
        hs[t] = h
    return np.sum(hs * hs)


def appended(x, k):
    h, hs = x[0], []
    for t in range(x.shape[0]):
        h = np.tanh(0.5 * h + x[t])
        hs.append(h)
    return np.sum(np.array(hs) ** 2)


def gathered(x, k):
    y, c = np.zeros_like(x), 0
    for i in range(x.shape[0]):
        if k[i] > 1:
            y[c] = np.tanh(2.0 * x[i])
            c += 1
    return np.sum(y * y)


def in_an_arm(x, k):
    y = x.copy()
    for i in range(1, x.shape[0]):
        if k[i] > 1:
            y[i] = np.tanh(y[i - 1] * x[i])
        else:
            y[i] = np.sin(y[i - 1])
    return np.sum(y * y)


def of_slices(x, k):
    y = np.zeros_like(x)
    for i in range(x.shape[0]):
        y[i] = x[i] + 0.1 * np.dot(y[:i], y[:i]) + np.sum(np.sin(y[max(i - 2, 0) : i]))
    return np.sum(y * y)


def solved(x, k):
    a, y = np.outer(x, x) + 2.0 * np.eye(7), np.zeros_like(x)
    for i in range(x.shape[0]):
        y[i] = (x[i] - np.dot(a[i, :i], y[:i])) / a[i, i]
    return np.sum(y * y)


def decomposed(x, k):
    a = np.outer(x, x) + 2.0 * np.eye(7)
    low = np.zeros_like(a)
    for j in range(7):
        low[j, j] = np.sqrt(a[j, j] - np.dot(low[j, :j], low[j, :j]))
        for i in range(j + 1, 7):
            low[i, j] = (a[i, j] - np.dot(low[i, :j], low[j, :j])) / low[j, j]
    return np.sum(np.log(np.diag(low)) * x)


def of_two_loops(x, k):
    n = x.shape[0]
    y = np.zeros_like(x)
    for i in range(1, 4):
        y[i] = np.tanh(y[i - 1] + x[i])
    for i in range(4, n):
        y[i] = np.sin(y[i - 1] * x[i])
    return np.sum(y * y)


KEPT = (
    *(filtered, autoregressive, of_second_order, backward, every_other, counted_by_while),
    *(rows, nested, scanned, appended, gathered, in_an_arm, of_two_loops),
    *(of_slices, solved, decomposed),
)


def stored_once_more(x, k):
    y, s = x.copy(), 0.0
    for i in range(1, x.shape[0]):
        y[i] = np.tanh(y[i - 1] + x[i])
        s += y[i] * y[i]
        y[i] *= 0.5
    return s + np.sum(y)


def next_element_is_stored(x, k):
    y, s = x.copy(), 0.0
    for i in range(x.shape[0] - 1):
        s += np.sin(y[i + 1])
        y[i] = np.tanh(y[i + 1] * y[i])
    return s + np.sum(y * y)


def from_the_end(x, k):
    y = x.copy()
    for i in range(1, x.shape[0]):
        y[i] = np.tanh(y[i - 1] + x[i])
        y[-i] = np.sin(y[-i])
    return np.sum(y * y)


def below_zero(x, k):
    y = x.copy()
    for i in range(x.shape[0]):
        y[i] = np.tanh(y[i - 1] * x[i])
    return np.sum(y * y)


def by_data(x, k):
    y = x.copy()
    for i in range(1, x.shape[0]):
        y[k[i]] = np.tanh(y[k[i - 1]] * x[i])
    return np.sum(y * y)


def by_sweeps(x, k):
    y = x.copy()
    for _ in range(3):
        for i in range(1, x.shape[0]):
            y[i] = np.tanh(y[i - 1] * y[i])
    return np.sum(y * y)


def by_inner_stores(x, k):
    y = x.copy()
    for i in range(1, x.shape[0]):
        y[i] = np.sin(y[i - 1])
        for j in range(i):
            y[j] = np.tanh(y[j] + y[i])
    return np.sum(y * y)


def by_a_later_loop(x, k):
    y = x.copy()
    for i in range(1, x.shape[0]):
        y[i] = np.tanh(y[i - 1] * x[i])
    for i in range(x.shape[0]):
        y[i] = y[i] * y[i]
    return np.sum(y * x)


def under_a_test(x, k):
    y = x.copy()
    for i in range(2, x.shape[0]):
        y[i] = np.tanh(y[i - 1] * x[i])
        if k[i] > 2:
            y[i - 1] = np.sin(y[i])
    return np.sum(y * y)


def traded(x, k):
    y, z = x.copy(), 0.5 * x
    for i in range(1, x.shape[0]):
        y[i] = np.tanh(z[i - 1] * x[i])
        y, z = z, y
    return np.sum(y * y) + np.sum(z)


def by_another_name(x, k):
    y = x.copy()
    z = y
    for i in range(1, x.shape[0]):
        y[i] = np.tanh(y[i - 1] * x[i])
        z[i - 1] = np.sin(y[i])
    return np.sum(y * y)


def counted_down_and_up(x, k):
    y, i, n = x.copy(), 3, 0
    while n < 6:
        y[i] = np.tanh(y[i - 1] * y[i])
        i += 1 if k[n] > 2 else -1
        n += 1
    return np.sum(y * y)


def counted_to_and_fro(x, k):
    y, i, n, s = x.copy(), 3, 0, 0.0
    while n < 6:
        y[i] = np.tanh(x[n])
        s += y[i] * y[i] * x[n + 1]
        if k[n] > 2:
            i = min(i + 1, 6)
        elif n > 1:
            i -= 1
        n += 1
    return s


def there_and_back(x, k):
    y, i, n, s = x.copy(), 3, 0, 0.0
    while n < 6:
        y[i] = np.tanh(x[n])
        s += y[i] * y[i] * x[n + 1]
        if k[n] > 2:
            i += 1
        else:
            i -= 1
        n += 1
    return s


def stored_under_a_test_and_needed_outside(x, k):
    y, s = np.zeros(x.shape[0], x.dtype), 0.0
    for i in range(x.shape[0]):
        v = np.sin(x[i])
        if k[i] > 2:
            y[i] = v
        s += v * v * x[i]
    return s + np.sum(y)


def stored_in_a_loop_of_no_iterations(x, k):
    y, s = np.zeros((x.shape[0], 4), x.dtype), 0.0
    for i in range(x.shape[0]):
        v = np.sin(x[i])
        for j in range(k[i] - 2):
            y[i, j] = v
        s += v * v * x[i]
    return s + np.sum(y)


def appended_under_a_test(x, k):
    items, s = [x[0]], 1.0 + x[1]
    for i in range(x.shape[0]):
        s = np.tanh(s * x[i])
        if k[i] > 2:
            items.append(s)
    return s + sum(items)


def until_it_is_counted(x, k):
    y, c = x.copy(), 0
    for i in range(x.shape[0]):
        y[c] = np.tanh(y[c] + x[i])
        if k[i] > 2:
            c += 1
    return np.sum(y * y)


def by_a_later_arm(x, k):
    y = x.copy()
    for i in range(1, 4):
        y[i] = 0.5 * np.sin(y[i - 1]) + x[i]
    if k[0] > 2:
        y[6] = 0.5
        y[2] = np.sin(y[1])
    else:
        y[3] = 0.5
    return np.sum(y * y)


def of_arrays_that_trade_places_in_an_arm(x, k):
    v, y, s = x.copy(), 0.5 * x, 0.0
    if k[0] > 2:
        for i in range(2, 5):
            v[i] = 0.2 * np.sum(v[1 : min(i + 1, 4)] * x[1 : min(i + 1, 4)])
            s += v[i] * v[i]
            v, y = y, v
    return s + np.sum(v * v) + np.sum(np.sin(y))


def through_a_view(x, k):
    y = x.copy()
    w = y[1:]
    for i in range(1, 6):
        y[i] = np.tanh(y[i - 1] * x[i])
        w[i - 1] += 0.1 * y[i]
    return np.sum(y * y)


def through_a_transpose(x, k):
    u = np.outer(x, x)
    t = u.T
    for i in range(1, 7):
        u[i, 0] = np.sin(u[i - 1, 0]) * x[i]
        t[0, i - 1] = 0.5 * x[0]
    return np.sum(u * u)


def in_a_ring(x, k):
    y = x.copy()
    for i in range(1, 20):
        j = i - 7 * (i // 7)
        y[j] = np.tanh(y[j - 1] * x[j])
    return np.sum(y * y)


def by_a_mask(x, k):
    y = x.copy()
    for i in range(1, 7):
        y[i] = np.tanh(y[i - 1] * x[i])
        y[k < i] *= 0.9
    return np.sum(y * y)


def popped_and_appended(x, k):
    items, s = [], 0.0
    for i in range(7):
        h = np.tanh(x[i])
        items.append(h)
        s += h * h
        if k[i] > 3:
            s += items.pop() ** 3
    return s + sum(items)


def first_of_a_list(x, k):
    items, s = [x[0]], 0.0
    for i in range(1, 7):
        h = np.tanh(items[-1] * x[i])
        items.append(h)
        s += h * h
        items[0] = 0.5 * h
    return s + sum(v * v for v in items)


def orthogonalized(x, k):
    n = 5
    a = np.outer(x[:n], np.sin(x[:n])) + np.eye(n)
    q = np.zeros_like(a)
    for j in range(n):
        norm = 0.0
        for i in range(n):
            norm += a[i, j] * a[i, j]
        for i in range(n):
            q[i, j] = a[i, j] / np.sqrt(norm)
        for m in range(j + 1, n):
            r = 0.0
            for i in range(n):
                r += q[i, j] * a[i, m]
            for i in range(n):
                a[i, m] -= q[i, j] * r
    return np.sum(q * q * q)


def in_a_later_slice(x, k):
    y = x.copy()
    for i in range(2, x.shape[0]):
        y[i] = np.tanh(np.dot(y[i - 2 : i], y[:2]))
        y[1 : i - 1] *= 0.9
    return np.sum(y * y)


def of_another_precision(x, k):
    y = np.zeros(x.shape[0], dtype=np.float32)
    s = 0.0
    for i in range(1, x.shape[0]):
        h = np.dot(x[:i], x[:i])
        y[i] = h
        s += h * h
    return s


OVERWRITTEN = (
    *(stored_once_more, next_element_is_stored, from_the_end, below_zero, by_data, by_sweeps),
    *(by_inner_stores, by_a_later_loop, under_a_test, traded, by_another_name),
    *(counted_down_and_up, counted_to_and_fro, there_and_back, until_it_is_counted),
    *(stored_under_a_test_and_needed_outside, stored_in_a_loop_of_no_iterations),
    *(appended_under_a_test,),
    *(by_a_later_arm, in_a_later_slice),
    *(of_arrays_that_trade_places_in_an_arm, orthogonalized, through_a_view),
    *(through_a_transpose, in_a_ring, by_a_mask, popped_and_appended, first_of_a_list),
)
