"""Nests of scalar statements that sum products are products of matrices where these are large."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from random_products_of_scalars import ScalarProducts
from sampling import sampled

import calque
from calque.transpiler.errors import CalqueError
from calque.transpiler.ir import dims

pytest.importorskip("numba")

SHAPES = [(4, 3, 5), (1, 3, 4), (3, 1, 2), (2, 3, 1), (0, 2, 3), (3, 0, 2), (6, 6, 6)]


def in_a_scalar(a, b, c):
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            s = 0.0
            for k in range(a.shape[1]):
                s += a[i, k] * b[k, j]
            c[i, j] = s
    return c


def in_place(a, b, c):
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            for k in range(a.shape[1]):
                c[i, j] += a[i, k] * b[k, j]
    return c


def written_out(a, b, c):
    for i in range(a.shape[0]):
        for k in range(a.shape[1]):
            for j in range(b.shape[1]):
                c[i, j] = c[i, j] - b[k, j] * a[i, k]
    return c


def transposed(a, b, c):
    d = np.zeros_like(c.T)
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            for k in range(a.shape[1]):
                d[j, i] += a[i, k] * b[k, j]
    d[:1] = 0.5
    return c + np.sin(d).T


def with_the_sum_outermost(a, b, c):
    for k in range(a.shape[1]):
        for j in range(b.shape[1] - 1, -1, -1):
            for i in range(a.shape[0]):
                c[i, j] -= 2.0 * a[i, k] * b[k, j]
    return c


def scaled_first(a, b, c):
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            c[i, j] *= 0.5
            for k in range(a.shape[1]):
                c[i, j] += a[i, k] * b[k, j]
    return c


def of_parts(a, b, c):
    for i in range(1, a.shape[0]):
        for j in range(b.shape[1]):
            s = c[i, j]
            for k in range(a.shape[1]):
                s += a[i - 1, k] * b[k, j]
            c[i, j] = s / 3.0
    return c


def dot_products(a, b, c):
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            c[i, j] = np.dot(a[i], b[: a.shape[1], j])
    return c


def rows_times_scalars(a, b, c):
    for i in range(a.shape[0]):
        for k in range(a.shape[1]):
            c[i] += a[i, k] * b[k]
    return c


RAISED = [
    *(in_a_scalar, in_place, written_out, transposed, with_the_sum_outermost),
    *(scaled_first, of_parts, dot_products, rows_times_scalars),
]


def decaying(a, b, c):
    """Each k reads what the one before stored."""
    for k in range(a.shape[1]):
        for i in range(a.shape[0]):
            for j in range(b.shape[1]):
                c[i, j] = 0.5 * c[i, j] + a[i, k] * b[k, j]
    return c


def in_a_triangle(a, b, c):
    for i in range(a.shape[0]):
        for j in range(min(i + 1, b.shape[1])):
            for k in range(a.shape[1]):
                c[i, j] += a[i, k] * b[k, j]
    return c


def under_a_test(a, b, c):
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            for k in range(a.shape[1]):
                if a[i, k] > 0.0:
                    c[i, j] += a[i, k] * b[k, j]
    return c


def of_its_own_elements(a, b, c):
    for i in range(1, a.shape[0]):
        for j in range(b.shape[1]):
            for k in range(a.shape[1]):
                c[i, j] += c[i - 1, j] * b[k, j]
    return c


def read_in_the_nest(a, b, c):
    total = np.zeros(1)
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            for k in range(a.shape[1]):
                c[i, j] += a[i, k] * b[k, j]
                total[0] += c[i, j]
    return c + total


def into_one_column(a, b, c):
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            s = 0.0
            for k in range(a.shape[1]):
                s += a[i, k] * b[k, j]
            c[i, 0] = s
    return c


def of_three(a, b, c):
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            for k in range(a.shape[1]):
                c[i, j] += a[i, k] * b[k, j] * c.shape[0] * k
    return c


def with_the_element_before(a, b, c):
    for i in range(a.shape[0]):
        for k in range(a.shape[1]):
            for j in range(1, b.shape[1]):
                c[i, j] = c[i, j - 1] + a[i, k] * b[k, j]
    return c


def also_kept_elsewhere(a, b, c):
    kept = np.zeros_like(c)
    for i in range(a.shape[0]):
        for k in range(a.shape[1]):
            for j in range(b.shape[1]):
                old = c[i, j]
                c[i, j] = old + a[i, k] * b[k, j]
                kept[i, j] = old
    return c + kept


def running(a, b, c):
    s = 0.0
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            for k in range(a.shape[1]):
                s += a[i, k] * b[k, j]
            c[i, j] = s
    return c


STAY = [
    *(decaying, in_a_triangle, under_a_test, of_its_own_elements, read_in_the_nest, into_one_column),
    *(of_three, running, with_the_element_before, also_kept_elsewhere),
]


def arguments(n: int, m: int, p: int, dtype: Any = float) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(n + 10 * m + 100 * p)
    shapes = (n, m), (m, p), (n, p)
    return tuple((3.0 * rng.normal(size=shape)).astype(dtype) for shape in shapes)


def is_raised(fn: Callable[..., Any], args: Any, **options: Any) -> bool:
    text = calque.source(calque.jit(fn, **options), *args)
    return " @ " in text and "k in range" not in text


def loss(fn: Callable[..., Any]) -> Callable[..., Any]:
    return lambda a, b, c: np.sum(np.sin(fn(1.0 * a, b, 1.0 * c)))


@pytest.fixture
def at_any_size(monkeypatch: Any) -> Iterator[None]:
    """Uncompiled, and no product is too small to be worth it."""
    monkeypatch.setenv("CALQUE_JIT", "0")
    monkeypatch.setattr(dims, "SMALL", 0)
    yield


@pytest.mark.parametrize("fn", RAISED + STAY, ids=lambda fn: fn.__name__)
def test_values_and_gradients(fn: Callable[..., Any], at_any_size: None) -> None:
    jitted, gradient = calque.jit(fn), calque.jit(calque.grad(loss(fn), (0, 1, 2)))
    for shape in SHAPES:
        args = arguments(*shape)
        given = [a.copy() for a in args]
        np.testing.assert_allclose(jitted(*given), fn(*(a.copy() for a in args)), rtol=1e-12, atol=1e-12)
        for found, bar in zip(gradient(*args), calque.grad(loss(fn), (0, 1, 2))(*args), strict=True):
            np.testing.assert_allclose(found, bar, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("fn", RAISED, ids=lambda fn: fn.__name__)
def test_large_ones_are_products(fn: Callable[..., Any]) -> None:
    assert is_raised(fn, arguments(50, 60, 70))
    text = calque.source(calque.jit(calque.grad(loss(fn), (0, 1))), *arguments(50, 60, 70))
    assert text.count(" @ ") >= 3 and "for k in" not in text.partition("# reverse")[0]


@pytest.mark.parametrize("fn", RAISED[:-2], ids=lambda fn: fn.__name__)
def test_small_ones_stay_loops(fn: Callable[..., Any]) -> None:
    assert not is_raised(fn, arguments(4, 5, 6))
    assert not is_raised(fn, arguments(40, 40, 40))  # 16 times what is small for products of arrays
    assert not is_raised(fn, arguments(400, 500, 6))


@pytest.mark.parametrize("fn", STAY, ids=lambda fn: fn.__name__)
def test_others_stay_loops(fn: Callable[..., Any]) -> None:
    assert not is_raised(fn, arguments(50, 60, 70))


@pytest.mark.parametrize("fn", RAISED, ids=lambda fn: fn.__name__)
def test_the_order_of_sums_is_kept_if_asked_for(fn: Callable[..., Any]) -> None:
    assert not is_raised(fn, arguments(50, 60, 70), reassociate=False)


@pytest.mark.parametrize("fn", [in_a_scalar, in_place], ids=lambda fn: fn.__name__)
def test_integers_stay_loops(fn: Callable[..., Any], at_any_size: None) -> None:
    args = arguments(50, 60, 70, int)
    assert not is_raised(fn, args)
    small = arguments(4, 5, 6, int)
    np.testing.assert_array_equal(calque.jit(fn)(*(a.copy() for a in small)), fn(*(a.copy() for a in small)))


@pytest.mark.parametrize("dtype", [np.float32, np.complex128], ids=str)
@pytest.mark.parametrize("fn", RAISED, ids=lambda fn: fn.__name__)
def test_other_types(fn: Callable[..., Any], dtype: Any, at_any_size: None) -> None:
    args = arguments(4, 5, 6, dtype)
    found = calque.jit(fn)(*(a.copy() for a in args))
    expected = fn(*(a.copy() for a in args))
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-4 if dtype is np.float32 else 1e-12, atol=1e-5)


def test_numbers_that_are_not_finite(at_any_size: None) -> None:
    a, b, c = arguments(4, 5, 6)
    a[1, 2], b[0, 3], b[4, 4] = np.nan, np.inf, -np.inf
    for fn in RAISED:
        with np.errstate(invalid="ignore"):
            expected = fn(a.copy(), b, c.copy())
            found = calque.jit(fn)(a.copy(), b, c.copy())
        np.testing.assert_array_equal(np.isfinite(found), np.isfinite(expected))


def test_one_array_as_both_factors_and_target(at_any_size: None) -> None:
    for fn in (in_a_scalar, in_place):
        given = arguments(5, 5, 5)[0]
        expected, a = fn(given.copy(), given.copy(), given.copy()), given.copy()
        np.testing.assert_allclose(calque.jit(fn)(a, a, a.copy()), expected, rtol=1e-12)


def test_a_matrix_with_too_few_rows_raises() -> None:
    a, _, c = arguments(50, 60, 70)
    b = np.ones((59, 70))
    with pytest.raises(IndexError):
        calque.jit(in_place)(a, b, c)


@pytest.mark.parametrize("seed", sampled(range(120), 6))
def test_random_programs(seed: int, at_any_size: None) -> None:
    text, name = ScalarProducts(seed).text(), f"<products of scalars {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    namespace: dict[str, Any] = {}
    exec(compile(text, name, "exec"), namespace)
    program = namespace["program"]
    value, gradient = calque.jit(program), calque.jit(calque.grad(program, (0, 1, 2)))
    for n, m, p in SHAPES:
        if not n * m * p:
            continue  # a[0, 0] is read
        args = arguments(n, m, p)
        try:
            found = value(*args)
        except CalqueError:
            continue
        np.testing.assert_allclose(found, program(*args), rtol=1e-11, atol=1e-11, err_msg=text)
        for bar, wanted in zip(gradient(*args), calque.grad(program, (0, 1, 2))(*args), strict=True):
            np.testing.assert_allclose(bar, wanted, rtol=1e-9, atol=1e-9, err_msg=text)
