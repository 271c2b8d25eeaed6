"""Transformations called by user code, and what they give transformed in turn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque
from battery import oracle
from calque.transpiler import errors

X = np.array([1.2, 0.7, 0.4])


def stores(y: Any, scale: Any = 1.0) -> Any:
    y[0] = y[0] * y[1] * scale
    return np.sum(y * y)


def value(fn: Any, *args: Any) -> Any:
    """The value of a function, from translated code."""
    return calque.jvp(fn, args, tuple(map(np.zeros_like, args)))[0]


def test_a_pullback_keeps_its_primals() -> None:
    def pulled(x):
        y = x * 1.0
        first, pull = calque.vjp(stores, y)
        y[0] = 100.0
        return pull(2.0)[0], y

    found, y = value(pulled, X)
    np.testing.assert_allclose(found, 2.0 * calque.grad(stores)(X), 1e-14)
    np.testing.assert_array_equal(y, [100.0, *X[1:]])


def test_a_tangent_map_keeps_its_primals() -> None:
    def pushed(x):
        y = x * 1.0
        first, push = calque.linearize(stores, y)
        y[1] = 100.0
        return push(np.ones(3))

    np.testing.assert_allclose(value(pushed, X), np.sum(calque.grad(stores)(X)), 1e-14)


def test_what_a_differentiated_function_stores_into_a_keyword_stays_there() -> None:
    def scaled(z, buffer=None):
        buffer[0] = z
        return np.sum(buffer * buffer) * z

    def both(x):
        y = x * 1.0
        return calque.grad(scaled)(x[0], buffer=y), y

    slope, y = value(both, X)
    np.testing.assert_allclose(slope, 3 * X[0] ** 2 + X[1] ** 2 + X[2] ** 2, 1e-14)
    np.testing.assert_array_equal(y, X)


def test_pullbacks_and_tangent_maps_can_be_transformed() -> None:
    x = X.copy()
    cubes, pull = calque.vjp(lambda y: y**3, x)
    _, push = calque.linearize(lambda y: y**3, x)
    x[:] = 0.0
    np.testing.assert_allclose(calque.vmap(pull)(np.eye(3))[0], np.diag(3 * X**2), 1e-14)
    np.testing.assert_allclose(calque.vmap(push)(np.eye(3)), np.diag(3 * X**2), 1e-14)
    np.testing.assert_allclose(calque.jacrev(push)(np.ones(3)), np.diag(3 * X**2), 1e-14)


@pytest.mark.parametrize("cotangent", [np.ones(3), np.ones((1, 1))])
def test_a_cotangent_of_another_rank_is_refused(cotangent: Any) -> None:
    def pulled(x):
        total, pull = calque.vjp(np.sum, x)
        return pull(cotangent)[0]

    with pytest.raises(errors.NotDifferentiable, match="A cotangent of type"):
        value(pulled, X)


def test_every_example_iterates_its_own_number_of_times() -> None:
    def repeated(x, n):
        s = x
        for _ in range(n):
            s = np.sin(s) * x
        return s

    x, n = X, np.array([0, 3, 2])
    for times in (1, 2):
        slope = repeated
        for _ in range(times):
            slope = calque.grad(slope)
        found = calque.vmap(slope)(x, n)
        alone = [slope(a, int(b)) for a, b in zip(x, n, strict=True)]
        np.testing.assert_allclose(found, alone, 1e-13)


def descent(start):
    """Steps down a valley by its gradient, while it is steep."""

    def valley(p):
        return np.sum((p - 1.0) ** 2) + 0.3 * p[0] ** 2 * p[1] ** 2

    p = start.copy()
    for _ in range(20):
        slope = calque.grad(valley)(p)
        if slope @ slope < 0.05:
            break
        p = p - 0.1 * slope
    return valley(p) + np.trace(calque.hessian(valley)(p))


def newton_path(x):
    path = np.zeros(6)
    y, count = x[0], 0
    while abs(y**3 - x[1]) > 1e-2 and count < 6:
        y = y - (y**3 - x[1]) / calque.grad(lambda z: z**3)(y)
        path[count] = calque.jvp(np.sin, (y,), (x[2],))[1]
        count += 1
    return np.sum(path * y)


def rows(x):
    kernel = calque.vmap(lambda a: calque.vmap(lambda b: np.exp(-((a - b) ** 2)))(x))(x)
    total = 0.0
    for row in kernel:
        total = total + calque.grad(lambda r: np.sum(np.tanh(r) ** 2))(row) @ x
    return total


@pytest.mark.parametrize("program", [descent, newton_path, rows])
def test_derivatives_within_loops_are_differentiated(program: Any) -> None:
    direction = np.array([0.3, -0.5, 0.8])
    slope = calque.grad(program)
    expected = oracle.slope(program, (X,), (direction,))
    np.testing.assert_allclose(slope(X) @ direction, expected, 1e-7)
    _, pushed = calque.jvp(program, (X,), (direction,))
    np.testing.assert_allclose(pushed, slope(X) @ direction, 1e-11)
    hessian = calque.hessian(program)
    second = oracle.slope(slope, (X,), (direction,))
    np.testing.assert_allclose(hessian(X) @ direction, second, 1e-6, 1e-7)
    points = np.stack([X, 1.3 * X, 0.8 * X])
    for transformed in (program, slope, hessian):
        alone = np.stack([transformed(p) for p in points])
        np.testing.assert_allclose(calque.vmap(transformed)(points), alone, 1e-11, 1e-12)


def lines_in(program: Any, *transformations: Any) -> int:
    """Return the number of lines of a derivative's source."""
    for transformation in transformations:
        program = transformation(program)
    return len(program.source(X).splitlines())


def test_the_text_of_high_orders_stays_in_bounds() -> None:
    """A hessian multiplies JAX's program by seven; ours, made of lines, by about that."""

    def product(x):
        return np.sum(np.tanh(x) * np.exp(-x * x))

    once = lines_in(product, calque.hessian)
    assert lines_in(product, calque.hessian, calque.hessian) <= 8 * once
