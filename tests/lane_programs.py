"""A battery for `vmap`: functions whose examples take different paths, with their arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

TABLE = np.array([0.5, -1.0, 2.0])


@dataclass
class Case:
    """A function of one example, and the arguments of all of them: arrays of lanes, or shared."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    axes: tuple[int | None, ...] = (0,)

    @property
    def size(self) -> int:
        return next(len(a) for a, k in zip(self.args, self.axes, strict=True) if k == 0)

    def lanes(self, picked: Any) -> tuple[Any, ...]:
        """The arguments of these lanes alone."""
        return tuple(a[picked] if k == 0 else a for a, k in zip(self.args, self.axes, strict=True))

    def one(self, lane: int) -> tuple[Any, ...]:
        """The arguments of one lane, which the function may store into."""
        row = self.lanes(lane)
        return tuple(a.copy() if isinstance(a, np.ndarray) and a.ndim else a for a in row)


CASES: dict[str, Case] = {}


def case(*args: Any, axes: tuple[int | None, ...] | None = None) -> Callable[[Any], Any]:
    def keep(fn: Callable[..., Any]) -> Callable[..., Any]:
        given = tuple(np.array(a) if isinstance(a, list) else a for a in args)
        found = axes or tuple(0 if isinstance(a, list) else None for a in args)
        CASES[fn.__name__] = Case(fn, given, found)
        return fn

    return keep


# an arm outside whose domain some lanes are


@case([0.5, 0.0, 2.0, -1.0])
def logarithm(p):
    if p > 0.0:
        h = -p * np.log(p)
    else:
        h = 0.0
    return 3.0 * h


@case([4.0, -1.0, 2.0])
def square_root(x):
    return np.sqrt(x) if x > 0.0 else -2.0 * x


@case([0.0, 0.3, -2.0])
def quotient(x):
    if x != 0.0:
        return np.sin(x) / x
    return 1.0


@case([0.5, 3.0, -7.0])
def inverse_cosine(x):
    if -1.0 < x < 1.0:
        y = np.arccos(x)
    else:
        y = x * x
    return y


@case([2.0, -2.0, 0.5], [0.5, 1.5, -1.5])
def real_power(x, p):
    if x > 0.0:
        return x**p
    return (-x) ** 1.5 * p


@case([1.0, 800.0, -800.0])
def exponential(x):
    if x > 700.0:
        y = x
    elif x < -700.0:
        y = -x
    else:
        y = np.exp(x) + np.exp(-x)
    return y


@case([3.0, 1.5, 0.5, -2.0])
def nested_arms(x):
    y = 0.0
    if x > 0.0:
        z = np.log(x)
        if z > 0.0:
            y = np.sqrt(z)
        else:
            y = 1.0 / x
    return y + x


@case([0.5, 2.0, -1.0, 0.0])
def short_circuit(x):
    if x > 0.0 and np.log(x) > 0.0:
        return np.log(x) ** 0.5
    if x <= 0.0 or 1.0 / x > 1.0:
        return 2.0 * x
    return x


@case([[[2.0, 1.0], [1.0, 3.0]], [[1.0, 2.0], [2.0, 4.0]]])
def singular_matrix(a):
    if a[0, 0] * a[1, 1] - a[0, 1] * a[1, 0] > 0.5:
        b = np.linalg.inv(a)
    else:
        b = 2.0 * a
    return np.sum(b * b)


@case([7.0, 5.0, 3.0], [2, 0, 3])
def integer_division(x, k):
    if k != 0:
        return x * (7 // k) + x * (k % 4) / k
    return x


@case([1.0, 2.0, 3.0, 4.0], [1, 7, -4, 2])
def index_of_a_shared_table(x, i):
    if 0 <= i < 3:
        return TABLE[i] * x
    return x


@case([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [1, 9, -3])
def index_of_a_batched_array(x, i):
    s = np.sum(x)
    if -2 <= i < 2:
        s = s * x[i]
    return s


@case([1.0, np.inf, -np.inf, 2.0])
def finite_or_nothing(x):
    if np.isfinite(x):
        return np.sin(x) * x * x
    return 0.0


@case([1.5, np.inf, 0.5])
def cube_of_a_finite_number(x):
    y = 2.0
    if x < 1e9:
        y = x * x * x
    return y


# an arm that no lane takes, and what all lanes share in it


@case([1.0, 2.0, 3.0], 0.0)
def shared_quotient(x, c):
    if x > 10.0:
        y = x * (1.0 / c)
    else:
        y = x + c
    return y


@case([1.0, 2.0, 3.0], np.zeros(0))
def shared_empty_maximum(x, v):
    if x > 10.0:
        return x * np.max(v)
    return x * x


@case([1.0, 2.0, 3.0], TABLE, 5)
def shared_index(x, v, n):
    y = x
    if x > 10.0:
        y = v[n] * x
    return y * np.sum(v)


@case([1.0, 2.0, 3.0], 0.5)
def shared_endless_loop(x, c):
    if x > 10.0:
        while c < 1.0:
            c = c * 1.0
        y = x * c
    else:
        y = np.sin(x)
    return y * x


@case([1.0, 2.0, 3.0], -4.0)
def shared_logarithm_in_a_loop(x, c):
    s = 0.0
    for i in range(3):
        if x > 10.0 + i:
            s = s + np.log(c) * x
        s = s + x * x
    return s


@case([1.0, -2.0, 3.0])
def raises_in_an_arm(x):
    if x > 10.0:
        raise ValueError("too large")
    if x > 0.0:
        return np.log(x)
    return x


@case([2.0, -1.0, 0.5])
def assert_in_an_arm(x):
    if x > 0.0:
        assert np.log(x) > -9.0
        y = np.log(x)
    else:
        y = 0.0
    return y * y


# loops that end at a different iteration


@case([1.3, 0.4, 0.9, 1.1], [3, 0, -2, 5])
def batched_bound(x, n):
    s = x
    for i in range(n):
        s = s * x + i
    return s


@case([1.3, 0.4, 0.9], [3, 0, 2])
def mean_over_rounds(x, n):
    s = 0.0
    for i in range(n):
        s = s + np.log(x + i)
    return s / n if n > 0 else -x


@case([2.0, 0.0, 9.0, 400.0])
def newton(a):
    x = a
    while np.abs(x * x - a) > 1e-13 * a:
        x = 0.5 * (x + a / x)
    return x + 2.0 * a


@case([0.7, 3.0, -1.0, 0.5])
def logarithm_in_the_test(x):
    while x > 0.0 and np.log(x) < 2.0:
        x = 1.7 * x - 0.4
    return x * x


@case([5.2, 0.2, 1.7])
def divides_until_it_would_fail(x):
    s = 0.0
    while x > 1e-3:
        s = s + 1.0 / x
        x = x - 0.5 if x > 0.5 else 0.0
    return s + 3.0 * x


@case([[1.0, 2.0, 3.0], [4.0, 0.5, 1.0], [0.1, 0.2, 0.3]], [1.5, 0.2, 9.0])
def early_return(v, x):
    for i in range(len(v)):
        if v[i] > x:
            return np.log(v[i] - x)
    return x * v[0]


@case([[1.0, -2.0, 3.0, 4.0], [-1.0, 2.0, 9.0, 5.0], [1.0, 2.0, 3.0, 4.0]])
def break_and_continue(v):
    s = 0.0
    for i in range(4):
        if v[i] < 0.0:
            continue
        if v[i] > 8.0:
            break
        s = s + np.log(v[i]) / v[i]
    return s * v[0]


@case([0.3, 0.6, 0.9], [2, 4, 1])
def growing_list(x, n):
    path = [x]
    for _ in range(4):
        x = 3.0 * x * (1.0 - x)
        path.append(x)
    return np.array(path)[n] * np.sum(np.array(path))


@case([0.3, 0.6, 0.9], [2, 0, 5])
def list_in_an_arm(x, n):
    path = []
    for i in range(6):
        if i < n:
            x = x + 1.0 / (n - i)
        path.append(x * x)
    return np.sum(np.array(path))


@case([30.0, 2.2, 0.5, 9.1])
def nested_loops(x):
    s = 0.0
    while x > 1.0:
        y = x
        while y > 2.0:
            y = y / 3.0
            s = s + np.log(y)
        s = s + y
        x = 0.4 * x
    return s * x


@case([0.5, 0.98, 0.8, 1.5], [20, 40, 3, 0])
def many_rounds(x, n):
    s, i = x, 0
    while i < n and s < 9.0:
        j = 0
        while j < n - i:
            s = s + 0.1 * np.sin(s * x) / (n - i - j)
            j += 1
        s = 0.8 * s * x
        i += 1
    return s + x


@case([[0.9, 0.5, 0.1], [0.2, 0.3, 0.4], [0.5, 0.6, 0.7]], [30, 0, 17])
def stores_and_rounds(x, n):
    i = 0
    while i < n:
        k = i % 3
        if x[k] > 0.3:
            x[k] = np.sqrt(x[k]) * x[k - 1]
        else:
            x[k] += 0.5 / (n - i)
        i += 1
    return x[0] * x[1] + np.sum(x * x)


@case([[0.9, 0.5, 0.1], [0.2, 0.3, 0.4]], [2, 1])
def reads_what_it_overwrites(x, n):
    for i in range(n):
        before = x[i]
        x[i] = x[i + 1] * 2.0
        x[i + 1] = before * x[i]
        y = x
        y[0] += np.sum(x)
    return np.sum(x * x)


@case([1.5, 0.5, 2.5], [3, 0, 2])
def triangular_loops(x, n):
    s = 1.0
    for i in range(n):
        for j in range(i):
            s = s + x / (i - j)
        s = s * x
    return s


@case([[2.0, 1.0, 0.5], [-1.0, 2.0, 3.0]])
def store_in_an_arm(x):
    if x[0] > 0.0:
        x[1] = np.log(x[0])
        x[2] += x[0]
    return np.sum(x * x)


@case([[2.0, 1.0, 0.5], [1.0, 2.0, 3.0], [1.0, 1.0, 1.0]], [3, 1, 0])
def stores_while_alive(x, n):
    k = 0
    while k < n:
        x[k] = x[k] * x[k - 1] + 1.0 / (n - k)
        k += 1
    return np.sum(x**2)


@case([[2.0, 1.0, 0.5], [1.0, 2.0, 3.0]], [2, 17])
def store_out_of_range(x, i):
    if i < 3:
        x[i] = 2.0 * x[0]
    else:
        x[0] += 1.0
    return np.sum(x * x)
