"""Functions of ``operator``, and ``dict.fromkeys``: as the operators, under all transformations."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

import calque
from calque.transpiler.errors import UnsupportedFunction

X = np.array([0.3, 0.7, 1.2])


class Metres:
    def __init__(self, value: Any):
        self.value = value

    def __mod__(self, other: Any) -> Any:
        return Metres(self.value % other)

    def __pos__(self) -> Any:
        return Metres(2.0 * self.value)

    def __abs__(self) -> Any:
        return Metres(3.0 * self.value)


def own(x: Any) -> Any:
    return operator.abs(operator.pos(operator.mod(Metres(x), 0.5))).value


def selected(x: Any) -> Any:
    inside = operator.and_(operator.gt(x, 0.5), operator.inv(operator.gt(x, 1.0)))
    return np.where(operator.or_(inside, operator.xor(inside, x > 1.1)), x * x, x)


def counted(x: Any) -> Any:
    table = dict.fromkeys(["a", "b"], x)
    return sum(dict.fromkeys((3, 1, 3), 2.0)) * table["a"] * table["b"]


def branches(x: Any) -> Any:
    if operator.truth(x) and not operator.not_(x):
        return x * x if operator.is_not(x, None) else x
    return x if operator.is_(x, x) else 0.0 * x


PROGRAMS: list[Any] = [
    lambda x: operator.mod(x, 0.5) * x,
    lambda x: operator.floordiv(x, 0.5) * x,
    lambda x: operator.pos(x) * operator.abs(operator.neg(x)),
    lambda x: operator.add(x, operator.truediv(operator.sub(2.0, x), operator.pow(x, 2))),
    lambda x: operator.call(np.sin, x) if hasattr(operator, "call") else np.sin(x),
    lambda x: sum(operator.concat([x], [x * x])),
    own,
    counted,
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_values_and_derivatives(program: Any) -> None:
    expected = program(X)
    np.testing.assert_allclose(calque.jit(program)(X), expected)
    np.testing.assert_allclose(calque.vmap(program)(X), expected)
    steps = [(program(x + 1e-6) - program(x - 1e-6)) / 2e-6 for x in X.tolist()]
    for x, step in zip(X.tolist(), steps, strict=True):
        np.testing.assert_allclose(calque.grad(program)(x), step, rtol=1e-5)
    np.testing.assert_allclose(calque.vmap(calque.grad(program))(X), steps, rtol=1e-5)


def test_masks_and_branches() -> None:
    np.testing.assert_array_equal(calque.jit(selected)(X), selected(X))
    slopes = calque.grad(lambda x: np.sum(selected(x)))(X)
    np.testing.assert_array_equal(slopes, np.where(X > 0.5, 2.0 * X, 1.0))
    for x in (0.0, 2.0):
        assert calque.jit(branches)(x) == branches(x)
        assert calque.grad(branches)(x) == (2.0 * x if x else 1.0)


def test_types_are_pythons() -> None:
    zero = np.array(2.0)
    found = calque.jit(lambda x: operator.mul(x, x))(zero)
    assert type(found) is type(operator.mul(zero, zero))
    assert calque.jit(lambda n: operator.lshift(n, 2) * operator.rshift(n, 1))(6) == 72


def test_arrays_are_not_concatenated() -> None:
    with pytest.raises(UnsupportedFunction, match="np.concatenate"):
        calque.jit(lambda x: operator.concat(x, x))(X)


class Scaled:
    """A number with operators of its own."""

    def __init__(self, value):
        self.value = value

    def __mul__(self, other):
        return Scaled(self.value * other)

    def __rmul__(self, other):
        return Scaled(other * self.value)

    def __rsub__(self, other):
        return Scaled(other - self.value)

    def __gt__(self, other):
        return self.value > other


@pytest.mark.parametrize(
    "function",
    [
        lambda x: operator.mul(x, Scaled(3.0)).value,
        lambda x: operator.mul(Scaled(3.0), x).value,
        lambda x: operator.sub(x, Scaled(x * x)).value,
        lambda x: x if operator.lt(x, Scaled(3.0)) else 2.0 * x,
        lambda x: x if operator.gt(Scaled(x), 3.0) else 2.0 * x,
    ],
)
def test_operators_of_classes_are_asked(function):
    for x in (1.5, 4.0):
        assert calque.value_and_grad(function)(x)[0] == function(x)
        slope = (function(x + 1e-6) - function(x - 1e-6)) / 2e-6
        np.testing.assert_allclose(calque.grad(function)(x), slope, rtol=1e-8)
