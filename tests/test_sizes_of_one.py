"""Sizes that only a run knows, and that may be 1: NumPy spreads one element, the slopes are sums."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque


def slices_in_a_loop(x: Any, y: Any) -> Any:
    s = 0.0
    for i in range(x.size):
        s += np.sum(x[: i + 1] * y[: i + 1])
    return s


def two_masks(x: Any, y: Any) -> Any:
    return np.sum(np.sin(x[x > 1.0]) * y[y > 1.0])


def mask_and_rest(x: Any, y: Any) -> Any:
    """The rest of two elements is one."""
    return np.sum(np.sin(x[1:]) * y[y > 1.0])


def stored(x: Any, y: Any) -> Any:
    z = np.zeros(x.size)
    for i in range(x.size):
        z[: i + 1] = y[: i + 1]
        z[: i + 1] += y[: i + 1] * x[i]
    return np.sum(z * z * x)


def stored_under_a_mask(x: Any, y: Any) -> Any:
    z = x + 0.0
    z[x > 1.0] = np.sin(y[y > 1.0])
    return np.sum(z * z)


def chosen(x: Any, y: Any) -> Any:
    s = 0.0
    for i in range(x.size):
        a, b = x[: i + 1], y[: i + 1]
        s += np.sum(np.where(a > 1.0, b, np.sin(a))) + np.sum(np.maximum(a, 0.9 * b))
    return s


def changed_in_place(x: Any, y: Any) -> Any:
    z = x[x > 1.0] * 1.0
    z += y[y > 1.0]
    np.multiply(z, y[y > 1.0], out=z)
    return np.sum(z * z)


def matrices(x: Any, y: Any) -> Any:
    s = 0.0
    for i in range(x.size):
        s += np.sum(x[: i + 1][:, None] * y[: i + 1] + x[: i + 1])
    return s


def products(x: Any, y: Any) -> Any:
    """einsum spreads, matmul does not."""
    s = 0.0
    for i in range(x.size):
        s += np.einsum("i,i->", x[: i + 1], y[: i + 1])
    return s + x[:2] @ np.arange(x[:2].size)


def stacked_products(x: Any, y: Any) -> Any:
    a = x[x > 1.0][:, None, None] * np.ones((2, 2))
    return np.sum(np.sin(a @ (y[y > 1.0][:, None, None] * np.eye(2))))


def joined(x: Any, y: Any) -> Any:
    a = np.concatenate([x[x > 1.0], x[:0]])
    return np.sum(a * np.sin(np.concatenate([y[y > 1.0], y[:0]])))


def counted(x: Any, y: Any) -> Any:
    n = int(np.sum(y > 1.0))
    return np.sum(np.arange(n) * x[:n]) + np.sum(x[:n] * y[n - 1 :])


def by_arms(x: Any, y: Any) -> Any:
    a, b = x[x > 1.0], y[y > 1.0]
    if np.sum(a) > 2.0:
        c = a * b
    else:
        c = a + np.sin(b)
    return np.sum(c * c)


def read_again(x: Any, y: Any) -> Any:
    s = 0.0
    for i in range(x.size):
        a, b = x[: i + 1], y[: i + 1]
        e = np.exp(0.1 * a * b)
        s += np.sum(e * e) + np.sum(np.hypot(a, b) / b) + np.sum(a) * np.sum(b * b)
    return s


def while_it_lasts(x: Any, y: Any) -> Any:
    k, s = 0, 0.0
    while k < x.size:
        k += 1
        s += np.sum(x[:k] * y[:k]) ** 2
    return s


PROGRAMS = [
    slices_in_a_loop,
    two_masks,
    mask_and_rest,
    stored,
    stored_under_a_mask,
    chosen,
    changed_in_place,
    matrices,
    products,
    stacked_products,
    joined,
    counted,
    by_arms,
    read_again,
    while_it_lasts,
]
SHAPES = [(4, 1), (1, 4), (2, 3), (3, 3)]
COMPILED = {
    slices_in_a_loop,
    mask_and_rest,
    changed_in_place,
    products,
}  # those whose kernels differ


def vectors(n: int, m: int, shift: float) -> tuple[Any, Any]:
    y = np.arange(m)[::-1] * 0.41 + 0.83
    return np.arange(n) * 0.31 + shift, y + 0.3 * (m == 1)


def plain_slopes(function: Callable[..., Any], x: Any, y: Any, step: float = 1e-6) -> Any:
    """By differences of plain Python."""
    at = np.concatenate([x, y])
    rows = step * np.eye(at.size)

    def value(z: Any) -> Any:
        return function(z[: x.size].copy(), z[x.size :].copy())

    return np.array([value(at + e) - value(at - e) for e in rows]) / (2.0 * step)


@pytest.mark.filterwarnings("ignore:A part of:calque.JitFallback")  # NumPy spreads sizes
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_slopes_of_what_may_have_one_element(function):
    """One transformation for all sizes, as in a program: what it remembers is tested, too."""
    slope, compiled = calque.grad(function, (0, 1)), calque.jit(calque.grad(function, (0, 1)))
    first, many = calque.value_and_grad(function), calque.vmap(calque.grad(function, (0, 1)))
    for n, m in SHAPES:
        x, y = vectors(n, m, 0.92)
        try:
            value = function(x.copy(), y.copy())
        except (ValueError, IndexError):
            with pytest.raises((ValueError, IndexError)):
                first(x, y)
            continue
        wanted = plain_slopes(function, x, y)
        gradients = [slope, compiled] if function in COMPILED else [slope]
        for gradient in gradients:
            found = np.concatenate(gradient(x, y))
            np.testing.assert_allclose(found, wanted, atol=1e-6, rtol=1e-6)
        found = first(x, y)
        np.testing.assert_allclose(found[0], value)
        np.testing.assert_allclose(found[1], wanted[:n], atol=1e-6, rtol=1e-6)
        found = np.hstack(many(np.stack([x, x]), np.stack([y, y])))
        np.testing.assert_allclose(found, [wanted, wanted], atol=1e-6)


@pytest.mark.parametrize("function", [two_masks, by_arms, read_again, chosen, stored])
def test_tangents_and_second_derivatives(function):
    twice = calque.hessian(function)
    for n, m in ((4, 1), (1, 4)):
        x, y = vectors(n, m, 0.36 if n > 1 else 1.32)
        slopes = plain_slopes(function, x, y)
        dots = np.cos(x), np.sin(y)
        value, tangent = calque.jvp(function, (x, y), dots)
        np.testing.assert_allclose(value, function(x, y))
        np.testing.assert_allclose(tangent, slopes @ np.concatenate(dots), rtol=1e-6, atol=1e-6)
        rows = 1e-4 * np.eye(n)
        wanted = [
            (plain_slopes(function, x + e, y, 1e-4) - plain_slopes(function, x - e, y, 1e-4))[:n]
            for e in rows
        ]
        np.testing.assert_allclose(twice(x, y), np.array(wanted) / 2e-4, rtol=1e-3, atol=1e-3)


def test_lanes_that_have_one_element_or_more():
    """Some examples spread, some do not."""
    x = np.array([[0.2, 1.1, 1.3], [1.2, 1.1, 1.3], [0.4, 0.2, 1.5]])
    y = np.array([[1.2, 0.3, 0.1], [1.2, 1.4, 1.1], [1.1, 1.7, 1.3]])
    found = calque.vmap(calque.grad(two_masks, (0, 1)))(x, y)
    wanted = [plain_slopes(two_masks, *pair) for pair in zip(x, y, strict=True)]
    np.testing.assert_allclose(np.hstack(found), wanted, rtol=1e-6, atol=1e-8)


def dotted(x: Any, y: Any) -> Any:
    return x[x > 1.0] @ y[y > 1.0]


def test_what_matmul_refuses_is_not_spread_for_examples():
    x, y = np.array([[1.1, 1.2]]), np.array([[1.3, 0.1]])
    with pytest.raises(ValueError):
        dotted(x[0], y[0])
    with pytest.raises(ValueError):
        calque.vmap(dotted)(x, y)


def as_long(x: Any, y: Any) -> Any:
    s = 0.0
    for i in range(x.size):
        s += np.sum(x[: i + 1] * y[: i + 1])
    keep = x > 1.0
    return s + np.sum(x[keep] * y[keep]) + np.sum(x[1:] * y[:-1])


def test_sizes_known_to_be_equal_are_not_asked_for():
    text = calque.grad(as_long, (0, 1)).source(np.ones(4), np.ones(4))
    assert "== 1" not in text and "broadcast_to" not in text and "keepdims" not in text


def function_of(text: str) -> Callable[..., Any]:
    source, file = f"def f(x, y, k):\n    return np.sum({text} ** 2)\n", f"<{text}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    names: dict[str, Any] = {"np": np}
    exec(compile(source, file, "exec"), names)
    made: Callable[..., Any] = names["f"]
    return made


@pytest.mark.parametrize("seed", range(5))
def test_random_programs(seed):
    """Elementwise trees over slices whose lengths only a run knows."""
    rng = np.random.default_rng(seed)
    parts = ["x[:k]", "y[:k]", "x[x > 1.0]", "y[y > 1.0]", "x[k - 1 :]", "y[::2]", "x[1:]"]
    forms = ["({} * {})", "({} + np.sin({}))", "np.where({} > 1.0, {}, 0.5)", "({} / (2.0 + {}))"]

    def tree(depth: int) -> str:
        if not depth:
            return str(rng.choice(parts))
        return str(rng.choice(forms)).format(tree(depth - 1), tree(depth - 1))

    text = tree(2)
    function = function_of(text)
    slope = calque.grad(function, (0, 1))
    for n, m in SHAPES:
        for k in (1, 2):
            x, y = vectors(n, m, 0.92)
            try:
                function(x, y, k)
            except ValueError:
                continue
            wanted = plain_slopes(lambda a, b: function(a, b, k), x, y)  # noqa: B023
            found = np.concatenate(slope(x, y, k))
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6, err_msg=text)
