"""A user's program, read by a type checker in tests/test_typing.py; each assertion is one of types."""

from typing import Any, assert_type

import numpy as np

import calque

Vector = np.ndarray[tuple[int], np.dtype[np.float64]]


def loss(w: Vector, b: float = 0.0) -> float:
    return float(np.sum(w * w) + b)


def pair(w: Vector) -> tuple[float, int]:
    return float(np.sum(w)), 3


w = np.ones(3)
slope = calque.grad(loss, argnums=(0, 1))
slope(w, b=2.0)
slope(w, c=2.0)  # error: call-arg
slope("w")  # error: arg-type
calque.grad(loss)("w")  # error: arg-type
assert_type(slope.source(w, 1.0), str)
assert_type(slope.cache_info().compiled, int)
slope.cache_clear()
slope.no_such_thing  # error: attr-defined
assert_type(calque.grad(pair, has_aux=True)(w), tuple[Any, int])
assert_type(calque.value_and_grad(loss)(w), tuple[float, Any])
assert_type(calque.jit(loss)(w, b=1.0), float)
calque.jit(loss)(w, 1.0, 2.0)  # error: call-arg
assert_type(calque.jit(calque.value_and_grad(loss))(w), tuple[float, Any])
assert_type(calque.vmap(loss, in_axes=(0, None))(w, 1.0), float)
assert_type(calque.source(loss, w).upper(), str)

assert_type(calque.checkpoint(loss)(w, b=1.0), float)
calque.checkpoint(every="sqrt")(loss)("w")  # error: arg-type
assert_type(calque.pmap(loss)(w), float)
assert_type(calque.pmap(axis_name="devices")(loss).source(w), str)


@calque.grad
def first(x: float, y: float) -> float:
    return x * y


@calque.grad(argnums=1)
def second(x: float, y: float) -> float:
    return x * y


@calque.value_and_grad(argnums=1)
def both(x: float, y: float) -> float:
    return x * y


@calque.jit(static_argnums=1)
def power(x: float, n: int) -> float:
    return x**n


first(1.0, y=2.0)
second(1.0)  # error: call-arg
assert_type(both(1.0, 2.0), tuple[float, Any])
assert_type(power(1.0, n=3), float)


class Model:
    @calque.jit
    def energy(self, x: float) -> float:
        return x * x


assert_type(Model().energy(2.0), float)
Model().energy("x")  # error: arg-type
