"""Parts that a reverse sweep leaves out: stores that nothing reads or that change nothing, factors of one."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from sampling import sampled

import calque
from calque.transpiler.ir.inequalities import CONSTANT, solvable

X = np.array([0.6, -0.4, 0.9, 0.5, -0.7, 0.8, 0.3])


def by_complex_step(fn, x: np.ndarray) -> np.ndarray:
    """The gradient of an analytic function, without differences."""
    found = np.empty_like(x)
    for k in np.ndindex(x.shape):
        moved = x.astype(complex)
        moved[k] += 1e-30j
        found[k] = np.imag(fn(moved)) / 1e-30
    return found


def agrees(fn, x: np.ndarray) -> None:
    np.testing.assert_allclose(calque.grad(fn)(x), by_complex_step(fn, x), rtol=1e-12, atol=1e-13)


OFFSETS = list(itertools.product((-2, -1, 0, 1, 2), repeat=3))


@pytest.mark.parametrize("step", [1, -1, 2])
@pytest.mark.parametrize("part", range(5))
@pytest.mark.filterwarnings("ignore:.* is generated anew for each value")
def test_every_offset_of_a_recurrence(part: int, step: int) -> None:
    for target, left, right in sampled(OFFSETS[part::5], 2, part % 2):

        def sweep(x):
            n = x.shape[0]
            first, last = (2, n - 2) if step > 0 else (n - 3, 1)
            for i in range(first, last, step):
                x[i + target] = x[i + target] * x[i + left] + np.sin(x[i + right])
            return np.sum(x * x)

        agrees(sweep, X)


@pytest.mark.parametrize("target", [-3, -1, 0, 1])
def test_negative_indices(target: int) -> None:
    def sweep(x):
        for i in range(3):
            x[i + target] = x[i + target] * x[-i - 1] + x[i - 2] * x[i]
        return np.sum(x**3)

    agrees(sweep, X)


PAIRS = ["i, j", "j, i", "i, k", "k, j", "k, k", "j, j", "i - 1, j", "i, j - 1", "j, k"]


@pytest.mark.parametrize("left", PAIRS)
@pytest.mark.parametrize("bounds", ["range(i)", "range(i, n)", "range(n - 1, i, -1)"])
def test_triple_loops(left: str, bounds: str) -> None:
    """Products of any two elements in nests like those of factorizations."""
    for right in sampled(PAIRS, 3, PAIRS.index(left) % 3):
        lines = [
            "def nest(a):",
            "    n = a.shape[0]",
            "    for i in range(1, n):",
            f"        for j in {bounds}:",
            "            for k in range(j):",
            f"                a[i, j] -= 0.1 * a[{left}] * a[{right}]",
            "            a[i, j] = a[i, j] / (2.0 + a[j, j] ** 2)",
            "    return np.sum(a * a)",
        ]
        agrees(from_text(lines), A)


A = np.array(
    [[2.0, 0.3, -0.2, 0.5], [0.4, 1.8, 0.1, -0.3], [-0.6, 0.2, 2.2, 0.4], [0.1, 0.7, 0.3, 1.9]]
)


def from_text(lines: list[str]):
    import linecache

    text = "\n".join([*lines, ""])
    file = f"<nest {hash(text)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    namespace = {"np": np}
    exec(compile(text, file, "exec"), namespace)
    return namespace["nest"]


def lu(a):
    n = a.shape[0]
    for i in range(n):
        for j in range(i):
            for k in range(j):
                a[i, j] -= a[i, k] * a[k, j]
            a[i, j] /= a[j, j]
        for j in range(i, n):
            for k in range(i):
                a[i, j] -= a[i, k] * a[k, j]
    return np.sum(a * a)


def test_a_factorization_saves_nothing() -> None:
    agrees(lu, A)
    assert "np.empty(" not in calque.source(calque.grad(lu), A)  # a quotient's rule asks for it
    assert "restored" not in calque.explain(calque.grad(lu), A)


def substitution(l, b):
    x = np.zeros_like(l[0])
    for i in range(b.shape[0]):
        s = b[i]
        for j in range(i):
            s -= l[i, j] * x[j]
        x[i] = s / l[i, i]
    return np.sum(x * x)


def test_a_substitution_puts_nothing_back() -> None:
    assert "x_saved" not in calque.source(calque.grad(substitution), A, A[0])
    agrees(lambda l: substitution(l, np.array([0.3, -0.2, 0.9, 0.4])), A)


def test_indices_from_an_array() -> None:
    """Nothing is known of them: what they overwrite is put back."""
    places = np.array([2, 0, 2, 1, 0])

    def hops(x):
        for p in places:
            x[p] = x[p] * x[p + 1] + x[p + 2] ** 2
        return np.sum(x * x)

    agrees(hops, X)


def test_a_while_around() -> None:
    def iterations(x):
        count = 0
        while count < 3:
            for i in range(1, x.shape[0]):
                x[i] = x[i] * x[i - 1] + x[i]
            count += 1
        return np.sum(x * x)

    agrees(iterations, X)


@pytest.mark.parametrize("cut", ["x[:k]", "np.sin(x[:k])", "np.concatenate((x[:1], x[1:k]))"])
def test_sizes_that_change_from_iteration_to_iteration(cut: str) -> None:
    """An element that is out of reach in one iteration is overwritten in the next."""
    lines = [
        "def nest(x):",
        "    z = x * 1.0",
        "    for k in range(2, x.shape[0]):",
        f"        y = {cut}",
        "        m = y.shape[0]",
        "        for q in range(1, m):",
        "            z[q] = 0.5 * z[q] + z[m] * z[m] + x[q]",
        "    return np.sum(z * z)",
    ]
    agrees(from_text(lines), X)


def test_second_order() -> None:
    gradient = calque.grad(lu)
    way = np.cos(np.arange(16.0)).reshape(4, 4)
    bend = calque.jvp(gradient, (A,), (way,))[1]
    step = 1e-6
    slope = (gradient(A + step * way) - gradient(A - step * way)) / (2 * step)
    np.testing.assert_allclose(bend, slope, rtol=1e-7, atol=1e-7)
    again = calque.grad(lambda a: np.sum(gradient(a) * way))(A)
    np.testing.assert_allclose(again, bend, rtol=1e-11)


def test_systems_of_inequalities() -> None:
    below = [{"i": 1}, {"n": 1, "i": -1, CONSTANT: -1}, {"j": 1}, {"i": 1, "j": -1, CONSTANT: -1}]
    assert solvable(below)
    assert not solvable([*below, {"j": 1, "n": -1}])
    assert not solvable([{"i": 2, CONSTANT: -1}, {"i": -2, CONSTANT: 1}])  # 2 i = 1


def overwritten_by_a_later_loop(x):
    y, total = np.zeros(x.size, dtype=x.dtype), 0.0
    for k in range(3):
        for r in range(x.size):
            y[r] = np.sin(x[r]) * (k + 1.0)
        for q in range(x.size):
            for r in range(q + 1, x.size):
                y[r] += x[q] * x[r]
        for r in range(x.size):
            total += y[r] * y[r]
    return total


def overwritten_in_part(x):
    y, total = np.ones(x.size, dtype=x.dtype), 0.0
    for k in range(3):
        for r in range(1, x.size):
            y[r] = np.sin(x[r]) * (k + 1.0)
        for q in range(x.size):
            for r in range(q, x.size):
                y[r] += x[q] * x[r]
        for r in range(x.size):
            total += y[r] * y[r]
    return total


def overwritten_in_a_branch(x):
    y, total = np.ones(x.size, dtype=x.dtype), 0.0
    for k in range(3):
        if k != 1:
            for r in range(x.size):
                y[r] = np.sin(x[r]) * (k + 1.0)
        for q in range(x.size):
            for r in range(q + 1, x.size):
                y[r] += x[q] * x[r]
        for r in range(x.size):
            total += y[r] * y[r]
    return total


def overwritten_by_what_was_there(x):
    y, total = np.ones(x.size, dtype=x.dtype), 0.0
    for k in range(3):
        for r in range(x.size):
            y[r] = np.sin(y[r] * x[r]) * (k + 1.0)
        for q in range(x.size):
            for r in range(q + 1, x.size):
                y[r] += x[q] * x[r]
        for r in range(x.size):
            total += y[r] * y[r]
    return total


def overwritten_as_often_as_an_iteration_says(x):
    y, total = np.ones(x.size, dtype=x.dtype), 0.0
    for k in range(3):
        for r in range(2 * k):
            y[r] = np.sin(x[r]) * (k + 1.0)
        for q in range(x.size):
            for r in range(q + 1, x.size):
                y[r] += x[q] * x[r]
        for r in range(x.size):
            total += y[r] * y[r]
    return total


LOOPS = (
    overwritten_by_a_later_loop,
    overwritten_in_part,
    overwritten_in_a_branch,
    overwritten_by_what_was_there,
    overwritten_as_often_as_an_iteration_says,
)


@pytest.mark.parametrize("fn", LOOPS, ids=lambda f: f.__name__)
def test_loops_that_overwrite(fn) -> None:
    agrees(fn, X)
    np.testing.assert_allclose(
        calque.jit(calque.grad(fn))(X), by_complex_step(fn, X), rtol=1e-12, atol=1e-13
    )


def test_what_a_loop_overwrites_all_of_is_not_put_back_before() -> None:
    texts = [calque.source(calque.grad(fn), X) for fn in LOOPS]
    saves = [len(re.findall(r"saved\w*\[", text)) for text in texts]
    assert saves[0] == 2 and min(saves[1:]) == 4


# stores into adjoints of what stands there


def elements(x: np.ndarray) -> np.ndarray:
    for i in range(x.size - 1):
        x[i] = x[i] + 0.3 * x[i + 1] ** 2
    return np.sum(x**3)


def slices(x: np.ndarray) -> np.ndarray:
    x[1:] = x[1:] + np.sin(x[0])
    x[:-1] = x[:-1] + 0.5 * x[1:]
    return np.sum(x**3)


def places(x: np.ndarray) -> np.ndarray:
    order = np.array([2, 0, 1])
    x[order] = x[order] + x[order] ** 2
    x[::2] = x[::2] + x[0]
    return np.sum(x**3)


def views(x: np.ndarray) -> np.ndarray:
    part = x[2:5]
    part[:] = part[:] + x[0]
    x[2:5] = x[2:5] + part
    x[3] = x[3] + x[3]
    return np.sum(x * x) + np.sum(part**3)


def themselves(x: np.ndarray) -> np.ndarray:
    x[2] = x[2]
    x[1:4] = x[1:4]
    x[0] = x[0] + x[0] * x[1]
    return np.sum(x**3)


@pytest.mark.parametrize("fn", [elements, slices, places, views, themselves])
def test_an_adjoint_that_stays_is_not_stored_again(fn) -> None:
    np.testing.assert_allclose(calque.grad(fn)(X.copy()), by_complex_step(lambda x: fn(x.copy()), X), rtol=1e-12)
    slopes = np.stack([by_complex_step(lambda x: fn(x.copy()), x) for x in (X, 2.0 * X)])
    np.testing.assert_allclose(calque.vmap(calque.grad(fn))(np.stack([X, 2.0 * X])), slopes, rtol=1e-12)


def moved(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    for i in range(x.size):
        x[i] = x[i] + np.sin(w[i])
    x[1:] = x[1:] + w[1:] ** 2
    return np.sum(x**3)


def test_the_text_of_an_adjoint_that_stays() -> None:
    sizes = calque.spec("f8[n]"), calque.spec("f8[n]")
    text = calque.source(calque.grad(moved, argnums=(0, 1)), *sizes)
    assert not re.search(r"x_bar\[.*\] [+]?= ", text), text
    assert "w_bar[1:] += x_bar[1:] * " in text and "w_bar[i] += x_bar[i] * " in text


def halves(x: np.ndarray) -> np.ndarray:
    return 0.5 * np.sum(x**2)


def minus_halves(x: np.ndarray) -> np.ndarray:
    y = x[1:]
    return -0.5 * np.sum(y * y) + 4.0 * np.sum(np.sin(0.25 * x))


def thirds(x: np.ndarray) -> np.ndarray:
    return 0.3 * np.sum(x**2) + np.sum(0.1 * (0.7 * np.exp(x)))


@pytest.mark.parametrize("fn", [halves, minus_halves, thirds])
def test_factors_that_make_one_exactly(fn) -> None:
    np.testing.assert_allclose(calque.grad(fn)(X.copy()), by_complex_step(fn, X), rtol=1e-14)
    np.testing.assert_allclose(calque.jit(calque.grad(fn))(X.copy()), by_complex_step(fn, X), rtol=1e-14)
    single = calque.grad(fn)(X.astype(np.float32))
    assert single.dtype == np.float32 and np.allclose(single, by_complex_step(fn, X), rtol=1e-5)
    assert not np.shares_memory(calque.grad(fn)(X), X)


def test_a_product_that_would_overflow_is_not_merged() -> None:
    slope = calque.grad(lambda x: 1e308 * np.sum(x**2))(np.array([1e-3]))
    np.testing.assert_allclose(slope, [2e305], rtol=1e-14)


def test_the_text_of_merged_factors() -> None:
    assert calque.source(calque.grad(halves), calque.spec("f8[n]")).endswith("return x.copy()\n")
    assert "y_bar = -y\n" in calque.source(calque.grad(minus_halves), calque.spec("f8[n]"))
    assert "0.6 * x" in calque.source(calque.grad(thirds), calque.spec("f8[n]"))
    rounding = calque.source(calque.grad(lambda x: 0.3 * np.sum(x**1.5)), calque.spec("f8[n]"))
    assert "0.3 * (1.5 * x ** 0.5)" in rounding  # neither is a power of two
