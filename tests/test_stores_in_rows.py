"""Stores of whole columns share a loop if no iteration reads an element that another one writes."""

from __future__ import annotations

import linecache
import random
from typing import Any

import numpy as np
import pytest
from sampling import sampled
from test_access_programs import stepped

import calque

pytest.importorskip("numba")


def reversed_columns(A, B, x):
    A = A.copy()
    A[:, 3] *= B[:, 3] + 2.0 * B[::-1, 1]
    B = B.copy()
    B[:, 1] -= B[::-1, 3]
    return np.sum(A * B) + np.sum(x)


def read_before_it_is_stored(A, B, x):
    A = A.copy()
    A[:, 0] = A[::-1, 2] * x
    A[:, 2] += x * x
    A[:, 2] *= (1.0 + x * x)
    return np.sum(A * B)


def one_element_twice(A, B, x):
    A = A.copy()
    A[:, 1] += x * B[:, 0]
    A[:, 0] -= np.sqrt(1.0 + x * x)
    A[:, 1] *= B[:, 2]
    return np.sum(A * A * B)


def last_by_its_end(A, B, x):
    A = A.copy()
    A[:, -1] += x
    A[:, 3] *= x * x
    return np.sum(A * A * B)


def old_value_after_a_store(A, B, x):
    A = A.copy()
    old = A[:, 0] * x
    A[:, 0] = B[:, 1]
    A[:, 1] = old + A[:, 0]
    return np.sum(A * A * B)


def read_by_another_after_two_stores(A, B, x):
    A = A.copy()
    A[:, 1] *= A[:, -1] + 2.0 * A[::-1, 0]
    A[:, 0] += B[:, 3]
    return np.sum(A * B) + np.sum(x)


FIXED = (
    *(reversed_columns, read_before_it_is_stored, one_element_twice),
    *(last_by_its_end, old_value_after_a_store, read_by_another_after_two_stores),
)


def random_stores(seed: int) -> tuple[str, int]:
    """A function of two arrays of four columns and of one column, and the columns' rank."""
    own = random.Random(seed)
    choice, rank = own.choice, own.choice([1, 1, 2])
    names = ["x"]

    def column() -> str:
        row = choice([":", ":", ":", ":", "::-1"])
        last = ", ::-1" if rank == 2 and own.random() < 0.15 else ""
        return f"{choice('AB')}[{row}, {choice([0, 1, 2, 3, -1])}{last}]"

    def term() -> str:
        return choice(names) if own.random() < 0.35 else column()

    def value() -> str:
        forms = ["{0} * {1}", "{0} + 2.0 * {1}", "np.sqrt({0} * {0} + 1.0) - {1}", "{0} / (2.0 + {1} * {1})"]
        return choice([*forms, "{0}"]).format(term(), term())

    lines = ["def program(A, B, x):", "    A, B = A.copy(), B.copy()"]
    for k in range(own.randrange(2, 8)):
        if own.random() < 0.25:
            lines.append(f"    v{k} = {value()} + x")
            names.append(f"v{k}")
        else:
            operator = choice(["=", "=", "+=", "+=", "-=", "*="])
            place = f"{choice('AAB')}[:, {choice([0, 1, 2, 3, -1])}]"
            lines.append(f"    {place} {operator} {value()}")
    lines.append(f"    return np.sum(A * B) + np.sum({choice(names)})")
    return "import numpy as np\n\n" + "\n".join(lines) + "\n", rank


def compared(program: Any, rows: int, rank: int, seed: int) -> None:
    rng = np.random.default_rng(seed + rows)
    shapes = ((rows, 4), (rows, 4), (rows,)) if rank == 1 else ((rows, 4, 3),) * 2 + ((rows, 3),)
    args = tuple(0.3 * rng.normal(size=shape) for shape in shapes)
    before = [a.copy() for a in args]
    value = stepped(calque.jit(program), f"{program.__name__}_jit", args)(*args)
    np.testing.assert_allclose(value, program(*args), rtol=1e-9, atol=1e-10)
    plain = calque.grad(program, argnums=(0, 1, 2))
    found = stepped(calque.jit(plain), f"{program.__name__}_grad_jit", args)(*args)
    for got, want in zip(found, plain(*args), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-10)
    for now, then in zip(args, before, strict=True):
        np.testing.assert_array_equal(now, then)


@pytest.mark.parametrize("program", FIXED, ids=lambda f: f.__name__)
@pytest.mark.parametrize("rank", [1, 2])
def test_columns(program: Any, rank: int) -> None:
    for rows in (1, 2, 5):
        compared(program, rows, rank, 0)


@pytest.mark.parametrize("seed", sampled(range(300), 40))
def test_random_stores(seed: int) -> None:
    text, rank = random_stores(seed)
    name = f"<random stores {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    namespace: dict[str, Any] = {}
    exec(compile(text, name, "exec"), namespace)
    for rows in (1, 5):
        compared(namespace["program"], rows, rank, seed)


def stacked(x):
    a, b = np.sin(x[0]) * x[1], np.exp(-x[2]) * x[0]
    return np.array([a * b + x[3], a / b * x[4], a - b])


@pytest.mark.parametrize("mode", ["jacfwd", "jacrev"])
def test_a_jacobian_of_each_row_is_one_loop_over_the_rows(mode: str) -> None:
    rows = np.random.default_rng(0).uniform(0.5, 1.0, (6, 5))
    jacobian = calque.jit(calque.vmap(getattr(calque, mode)(stacked)))
    found = jacobian(rows)
    for row, own in zip(rows, found, strict=True):
        for k, unit in enumerate(np.eye(5)):
            slope = (stacked(row + 1e-6 * unit) - stacked(row - 1e-6 * unit)) / 2e-6
            np.testing.assert_allclose(own[:, k], slope, rtol=1e-7, atol=1e-8)
    text = calque.source(jacobian, rows, stage="kernels")
    assert text.count("in prange(x.shape[0]):") == 1, text


def rows_and_one_of_them(a, d):
    return np.sum(np.sin(a * d) ** 2) + np.sum(np.arctan(a[2]) ** 2) + np.sum(np.diag(a) ** 3)


def one_row_stored_after_all(a, d):
    made = np.sin(a * d)
    made[2] += d
    return made


def the_diagonal_and_a_row(a, d):
    made = np.sin(a * d)
    n = d.size
    for i in range(n):
        made[i, i] += d[i]
    for i in range(n):
        made[2, i] *= d[i]
    return made


@pytest.mark.parametrize("function", [one_row_stored_after_all, the_diagonal_and_a_row])
def test_a_row_that_another_iteration_makes(function):
    a, d = np.random.default_rng(2).normal(size=(6, 6)), np.cos(np.arange(6.0))
    np.testing.assert_allclose(calque.jit(function)(a, d), function(a, d), rtol=1e-14)


def test_the_gradient_of_all_rows_and_of_one():
    a, d = np.random.default_rng(2).normal(size=(6, 6)), np.cos(np.arange(6.0))
    gradient = calque.grad(rows_and_one_of_them, argnums=(0, 1))
    for got, want in zip(calque.jit(gradient)(a, d), gradient(a, d), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-13)


def twice(x):
    total = 0.0
    for i in range(1, x.size):
        total += np.dot(x[:i], np.sin(x[:i])) * x[i]
    return total


def test_an_element_that_an_iteration_stores_twice_is_written_once() -> None:
    text = calque.source(calque.jit(calque.grad(twice)), np.ones(5), stage="kernels")
    assert text.count("x_bar[j] =") == 1, text
