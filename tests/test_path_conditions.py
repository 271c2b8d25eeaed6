"""Indices that tests of branches and loops keep inside: proven where they are, checked elsewhere."""

from __future__ import annotations

import itertools
import linecache
import random
import re

import numpy as np
import pytest
from branch_programs import Program
from sampling import sampled

import calque
from calque.runtime.kernels import integer_functions
from calque.transpiler.errors import IndexOutOfRange
from calque.transpiler.ir.builder import Builder, wrap
from calque.transpiler.ir.core import Var
from calque.transpiler.ir.dims import Dims
from calque.transpiler.ir.types import INT, substitute_dim, symbol


def smoothed(x):
    y = np.empty_like(x)
    n = x.shape[0]
    for i in range(n):
        s = x[i]
        if i > 0 and i < n - 1:
            s = s + x[i - 1] + x[i + 1]
        elif i == 0:
            s = s - x[i + 1]
        else:
            s = s * x[i - 1]
        y[i] = s
    return y


def strides(x):
    i, s = 0, np.zeros_like(x)
    while i < len(x):
        s[i] = x[i] * i
        if x[i] > 0.5:
            i += 2
        else:
            i += 1
    return s


def downwards(x):
    i, s = x.size - 1, 0.0
    while i >= 0 and x[i] > 0.1:
        s = s * 0.5 + x[i]
        i -= 1
    return s


def neighbours(x):
    n = x.shape[0] // 2
    g = x[: 2 * n].reshape(2, n)
    out = np.zeros_like(g)
    for i in range(2):
        for j in range(n):
            for di in range(-1, 2):
                for dj in range(-1, 2):
                    if 0 <= i + di < 2 and 0 <= j + dj < n and not (di == 0 and dj == 0):
                        out[i, j] += g[i + di, j + dj]
    return out


def inserted(x):
    x = x.copy()
    for i in range(1, len(x)):
        key, j = x[i], i - 1
        while j >= 0 and x[j] > key:
            x[j + 1] = x[j]
            j -= 1
        x[j + 1] = key
    return x


def bisected(x):
    low, high = 0, len(x)
    while low < high:
        middle = (low + high) // 2
        if x[middle] < 0.4:
            low = middle + 1
        else:
            high = middle
    return low * 1.0


def halves(x):
    n = len(x)
    y = np.zeros_like(x)
    for i in range(n // 2):
        y[i] = x[n - 1 - i]
        y[i + n // 2] = x[i]
    return y


def packed(x):
    out, k = np.zeros_like(x), 0
    for i in range(len(x)):
        if x[i] > 0.5:
            out[k] = x[i]
            k += 1
    return out


def from_both_ends(x):
    out, last = np.zeros(2 * len(x)), 2 * len(x) - 1
    for i in range(len(x) - 1, -1, -1):
        out[last] = x[i]
        last -= 2
    return out


def merged(x):
    half = len(x) // 2
    a, b, out = x[:half], x[half:], np.zeros_like(x)
    i = j = 0
    while i < len(a) and j < len(b):
        if a[i] <= b[j]:
            out[i + j] = a[i]
            i += 1
        else:
            out[i + j] = b[j]
            j += 1
    return out


PROVEN = [packed, from_both_ends, merged, smoothed, strides, downwards, neighbours, inserted, bisected, halves]


@pytest.mark.parametrize("function", PROVEN)
def test_nothing_is_checked_that_is_proven(function):
    compiled, rng = calque.jit(function), np.random.default_rng(0)
    assert "checked_index" not in compiled.source(rng.random(9))
    for n in (9, 2, 3, 40):
        x = rng.random(n)
        np.testing.assert_allclose(compiled(x), function(x), rtol=1e-13)


def raised(x, low):
    for i in range(len(x)):
        if i >= low:
            x[i - 1] = x[i + 1]
    return x


def both_ends(x, low):
    k = low
    while k < len(x):
        x[k] = 0.0
        k += 1
    x[k] = 1.0
    return x


def unequal(x, low):
    for i in range(-low, len(x)):
        if i != 0:
            x[i] = x[i - 1] + 1.0
    return x


@pytest.mark.parametrize("function", [raised, both_ends, unequal])
def test_what_is_not_proven_is_checked(function):
    compiled = calque.jit(function)
    for low in (0, 1, 3, -1):
        outcomes = []
        for made in (function, compiled):
            try:
                outcomes.append(made(np.arange(5.0), low).tolist())
            except IndexError:
                outcomes.append("IndexError")
        assert outcomes[0] == outcomes[1]


class Strict(np.ndarray):
    """An array that is read and stored where it has a place, and takes none from the end."""

    def _inside(self, index):
        places = index if isinstance(index, tuple) else (index,)
        assert all(0 <= i < n for i, n in zip(places, self.shape, strict=True)), (index, self.shape)

    def __getitem__(self, index):
        self._inside(index)
        return super().__getitem__(index)

    def __setitem__(self, index, value):
        self._inside(index)
        super().__setitem__(index, value)


def outcome(function, n, kind):
    x, y = (a.view(kind) for a in np.random.default_rng(n).random((2, n)))
    try:
        return np.asarray(function(x, y)).tolist()
    except IndexError:
        return "IndexError"


def python_of(function, *args, name="f_jit"):
    """The kernels of a function as Python, to be run on arrays that are strict."""
    names = {**vars(integer_functions), "np": np, "prange": range, "vrange": range}
    names["kernel"] = lambda f=None, **_: f if f is not None else lambda g: g
    text = calque.source(calque.jit(function), *args, stage="kernels")
    exec(re.sub(r"(\w+)\[-(\d)\]", r"\1[\1.size - \2]", text), names)  # written so, as allowed
    return np.errstate(over="ignore")(names[name])  # sums that wrap


def hold_to_python(text, name):
    """Run ``f(x, y)`` as Python and by its kernels: alike, and each access where it may be."""
    linecache.cache[name] = (len(text), None, text.splitlines(True), "")
    names: dict = {"np": np}
    exec(compile(text, name, "exec"), names)
    for n in (6, 9):
        expected = outcome(names["f"], n, np.ndarray)
        try:
            generated = python_of(names["f"], np.ones(n), np.ones(n))
        except IndexOutOfRange:
            assert expected == "IndexError"
        else:
            assert outcome(generated, n, Strict) == expected


@pytest.mark.parametrize("seed", sampled(range(150), 3))
def test_random_programs_stay_inside(seed):
    hold_to_python(Program(seed).text, f"<branches {seed}>")


@pytest.mark.parametrize("seed", sampled(range(60), 2))
def test_gradients_of_random_programs(seed):
    """The reverse sweep restores only elements that some read meets under the tests around it."""
    text = Program(seed).text.replace("* 0.5 + x[", "* x[").replace("] += k", "] *= x[0] + k")
    name = f"<products {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), "")
    names: dict = {"np": np}
    exec(compile(text, name, "exec"), names)
    x, y = 1.0 + 0.3 * np.random.default_rng(seed).random((2, 5))
    step = 1e-30j * np.eye(10)
    try:
        wanted = [names["f"](x + s[:5], y + s[5:]).imag.sum() / 1e-30 for s in step]
    except IndexError:
        return
    found = calque.grad(lambda x, y: np.sum(names["f"](x, y)), argnums=(0, 1))(x, y)
    np.testing.assert_allclose(np.concatenate(found), wanted, rtol=1e-10, atol=1e-12)


ONE_TOO_FAR = {  # a start, a test and an index, which is once outside, or counted from the end
    "0": [("i < n", "i + 1"), ("i <= n - 1", "i + 1"), ("i > 0", "i - 2"), ("i >= 1", "i - 2")],
    "1": [("i != n - 1", "i + 2"), ("not i > 1", "n - 1 + i"), ("n - i > 0 and i > 1", "i + 1")],
    "-1": [("i != -1", "i - 1"), ("i != 0", "i"), ("i == -1 or i > 1", "i"), ("i < 1", "i")],
}


@pytest.mark.parametrize(
    "start, test, index", [(start, *pair) for start, pairs in ONE_TOO_FAR.items() for pair in pairs]
)
def test_one_too_far(start, test, index):
    lines = [
        *("def f(x, y):", "    n = len(x)", f"    for i in range({start}, n):"),
        *(f"        if {test}:", f"            y[{index}] += x[i // 2 + 1] + i", "    return y"),
    ]
    hold_to_python("\n".join(lines) + "\n", f"<{test} {index}>")


@pytest.mark.parametrize(
    "start, going, move, index",
    [
        *(("n - 1", "k >= 0", "k -= 1", "k"), ("0", "k < n", "k += 1", "k")),
        *(("1", "k < n", "k += 2", "k - 1"), ("n - 1", "k > 0", "k -= 2", "k")),
        *(("0", "k < n", "k += 1", "k - 1"), ("n - 1", "k >= 0", "k -= 1", "k + 1")),
        *(("n", "k > 0", "k //= 2", "k - 1"), ("n", "k > 2", "k -= 1", "k - 2")),
        *(("i", "k >= 0", "k -= 1", "k"), ("i", "k < n", "k += 1", "k"), ("i", "k > 1", "k -= 3", "k")),
        *(("0", "k < n and x[k] < 2", "k += 1", "k"), ("0", "k < n - 1 or k < 2", "k += 1", "k")),
    ],
)
def test_after_a_loop(start, going, move, index):
    lines = [
        *("def f(x, y):", "    n = len(x)", "    for i in range(1, n):", f"        k = {start}"),
        *(f"        while {going}:", f"            {move}", f"        y[{index}] += i + k"),
        "    return y",
    ]
    hold_to_python("\n".join(lines) + "\n", f"<{going} {index}>")


@pytest.mark.parametrize(
    "start, going, move, index",
    [
        *(("0", "j < n - 2 and x[j] < 0.5", "j += 1", "k - 2"), ("i", "j < n - 1", "j += 2", "k - 1")),
        *(("n - 1", "j > 2 and x[j] < 0.5", "j -= 1", "k + 1"), ("2", "j < i", "j += 1", "k - 2")),
    ],
)
def test_what_an_inner_loop_starts_from_counts(start, going, move, index):
    """It only raises the number, or only lowers it, but from elsewhere."""
    lines = [
        *("def f(x, y):", "    n = len(x)", "    k = 2", "    for i in range(n):"),
        *("        if 0 <= k + 3 and k < n:", f"            y[{index}] += x[i] + k"),
        *(f"        j = {start}", f"        while {going}:"),
        *(f"            {move}", "        k = j", "    return y"),
    ]
    hold_to_python("\n".join(lines) + "\n", f"<{start} {going} {index}>")


def test_what_follows_from_facts_is_true():
    """Whatever is said not to be negative is so, in all points where the facts hold."""
    choose, names, claims = random.Random(1), ("n", "i", "q"), 0
    for _ in range(400):
        dims = Dims({"n"})
        n, i, q = map(symbol, names)
        dims.ranges["i"] = (choose.choice([0, 1, -2]), n - choose.choice([1, 2]))
        dims.floors["q"] = (i + n, 2)
        facts = [
            sum((choose.randint(-2, 2) * s for s in (n, i, q)), choose.randint(-3, 3))
            for _ in range(choose.randint(0, 3))
        ]
        dim = sum((choose.randint(-1, 1) * s for s in (n, i, q)), choose.randint(-2, 2))
        with dims.given(facts):
            if not dims.nonnegative(dim):
                continue
        claims += 1
        low, high = dims.ranges["i"]
        for size, at in itertools.product(range(8), range(-3, 9)):
            point = {"n": size, "i": at, "q": (at + size) // 2}
            values = [substitute_dim(d, point) for d in (*facts, i - low, high - i, dim)]
            assert min(values[:-1]) < 0 or values[-1] >= 0, (facts, dim, point)
    assert claims > 40


def read_in_each_iteration(x, y):
    m, s, k = len(y), 0.0, 0
    for i in range(m, len(x)):
        s += x[m] * k
        k += 1
    return s


def stored_in_each_iteration(x, y):
    m, s, k = len(y), 0.0, 0
    for i in range(m, len(x)):
        s = s + x[i]
        if y[0] > 2.0:
            k += 1
        x[m] += s * k
    return x


def banded(x, y):
    n, m = len(x), len(y)
    k, columns, H = 0, m + 1, np.zeros((n, n))
    for i in range(m, n):
        for j in range(columns):
            H[i, j] += np.where(i == j, 1.0, 0.0) * k + x[j] * x[j] * x[j] * x[j] * x[m] / (x[j] + y[0])
        k += 1
    return H


@pytest.mark.parametrize("function", [read_in_each_iteration, stored_in_each_iteration, banded])
@pytest.mark.parametrize("sizes", [(6, 3), (3, 6), (4, 4)])
def test_no_access_before_a_loop_that_has_no_iterations(function, sizes):
    """The proof that an index is in range holds only if its loop has an iteration."""
    x, y = (np.arange(1.0, n + 1) for n in sizes)
    generated = python_of(function, x, y, name=f"{function.__name__}_jit")
    expected = function(x.copy(), y)
    found = np.asarray(generated(x.view(Strict), y.view(Strict)))
    np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_facts_of_a_branch_do_not_outlive_it():
    """The bound of a symbol that a branch implies does not hold after that branch."""
    dims, k, q = Dims(), symbol("k"), symbol("q")
    with dims.given([k]):
        assert dims.nonnegative(k) and not dims.always_nonnegative(k)
        dims.floors["q"] = k, 2
        assert dims.nonnegative(q)
    assert not dims.nonnegative(q)


def test_what_holds_after_a_refusal():
    def checked(x, k):
        if k < 0 or k >= len(x):
            raise ValueError("k is outside")
        total = 0.0
        for i in range(3):
            total += x[k] * i
        return total

    text = calque.jit(checked).source(np.ones(4), 2)
    assert "raise ValueError" in text and "checked_index" not in text
    with pytest.raises(ValueError, match="k is outside"):
        calque.jit(checked)(np.ones(4), 4)


@pytest.mark.parametrize(
    "made",
    [lambda k: k // 2, lambda k: np.maximum(k, -9), lambda k: np.minimum(k, 9), lambda k: 9 % k],
)
def test_an_integer_first_asked_for_under_a_test(made):
    builder = Builder()
    with builder.active(), builder.block():
        k = wrap(Var(INT, "k"))
        q = made(k)
        with builder.dims.given([builder.dim_of(k) - 1]):
            builder.dim_of(q)
        assert not builder.dims.nonnegative(builder.dim_of(q))


def swept(u):
    p, q = np.zeros_like(u), np.zeros_like(u)
    for k in range(u.shape[1]):
        if k == 0:
            p[:, k] = 1.0 / (2.0 + u[:, k])
        else:
            pivot = 1.0 / (3.0 + p[:, k - 1])
            p[:, k] = u[:, k] * pivot
            q[:, k] = (u[:, k] + q[:, k - 1]) * pivot
    return q


def swept_around(u):
    """A column's left neighbour may be the last one, and with one column is itself."""
    p, q = u * 1.0, np.zeros_like(u)
    for k in range(u.shape[1]):
        pivot = 1.0 / (3.0 + p[:, k - 1])
        p[:, k] = u[:, k] * pivot
        q[:, k] = (p[:, k - 1] + q[:, k - 1]) * pivot
    return q


def kept_around(u):
    p, q = u * 1.0, np.zeros_like(u)
    for k in range(u.shape[1]):
        pivot = 1.0 / (3.0 + p[:-1, k - 1])
        p[1:, k] = u[1:, k] - 1.0
        q[1:, k] = u[1:, k] * pivot
    return q


@pytest.mark.parametrize("function", [swept, swept_around, kept_around])
def test_stores_into_other_columns_share_a_loop(function):
    compiled = calque.jit(function)
    for shape in ((3, 5), (2, 1), (4, 2)):
        u = np.random.default_rng(0).random(shape)
        np.testing.assert_allclose(compiled(u), function(u), rtol=1e-14)
    if function is swept:
        assert "np.empty(" not in compiled.source(u)


def test_an_element_of_a_column_that_is_put_back():
    def columns(y):
        y = y.copy()
        for k in range(1, y.shape[1] - 1):
            y[:, k] = y[:, 0] * y[k, k + 1] * y[k + 1, k + 1]
        return np.sum(y**2)

    y = np.random.default_rng(0).random((4, 4)) + 0.5
    steps = (1e-6 * np.eye(16)).reshape(16, 4, 4)
    wanted = [(columns(y + s) - columns(y - s)) / 2e-6 for s in steps]
    np.testing.assert_allclose(calque.grad(columns)(y).ravel(), wanted, rtol=1e-7)


def test_flags_are_made_again_and_columns_not_put_back():
    x = np.random.default_rng(0).random(9)
    gradient = calque.jit(calque.grad(lambda x: np.sum(smoothed(x) ** 2)))
    assert "saved" not in gradient.source(x)  # the test is of the counter alone
    steps = 1e-6 * np.eye(9)
    wanted = [(np.sum(smoothed(x + s) ** 2) - np.sum(smoothed(x - s) ** 2)) / 2e-6 for s in steps]
    np.testing.assert_allclose(gradient(x), wanted, rtol=1e-7)

    u = x.reshape(3, 3)
    of_columns = calque.jit(calque.grad(lambda u: np.sum(swept(u) ** 2)))
    text = of_columns.source(u)  # neither keeps what a column was, nor copies a whole adjoint
    assert not re.search(r" (p|q)\[:, k\]\.copy\(\)| (p|q)_bar\.copy\(\)", text), text
    wanted = [
        np.sum(swept(u + s.reshape(3, 3)) ** 2) - np.sum(swept(u - s.reshape(3, 3)) ** 2)
        for s in steps
    ]
    np.testing.assert_allclose(of_columns(u).ravel(), np.array(wanted) / 2e-6, rtol=1e-7)
