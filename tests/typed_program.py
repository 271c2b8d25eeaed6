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


for jacobian in (calque.jacfwd, calque.jacrev, calque.hessian, calque.jacobian):
    jacobian(loss, argnums=(0, 1))(w, b=2.0)
    jacobian(loss)("w")  # error: arg-type
    assert_type(jacobian(pair, has_aux=True)(w), tuple[Any, int])
calque.hessian(loss, allow_int=True)  # error: call-overload
assert_type(calque.value_and_jacobian(loss)(w), tuple[float, Any])
assert_type(calque.value_and_hessian(loss, argnums=0).source(w), str)
calque.hessian_diag(loss)(w, c=2.0)  # error: call-arg
calque.laplacian(loss)(w, b=2.0)
assert_type(calque.parallel(loss)(w), float)
assert_type(calque.jit(loss, memory="1GB")(w, b=2.0), float)
assert_type(calque.stop_gradient(w), Vector)
assert_type(calque.shard_map(loss, in_specs=calque.P("x"), out_specs=calque.P())(w), float)

assert_type(calque.jvp(loss, (w, 1.0), (w, 0.0)), tuple[float, float])
calque.jvp(loss, w)  # error: call-overload
assert_type(calque.jvp(loss).source(w, 1.0, w, 0.0), str)
value, pullback = calque.vjp(loss, w, 1.0)
assert_type(value, float)
assert_type(pullback(1.0), tuple[Any, ...])
assert_type(calque.vjp(loss)(w, 1.0, 1.0), Any)
assert_type(calque.vjp(pair, w, has_aux=True)[2], Any)
value, push = calque.linearize(loss, w, 1.0)
assert_type(push(w, 0.0), float)
assert_type(calque.hvp(loss, (w,), (w,)), Any)
calque.hvp(loss).cache_clear()


@calque.custom_jvp
def log1pexp(x: float) -> float:
    return float(np.log(1.0 + np.exp(x)))


@log1pexp.defjvp
def log1pexp_jvp(primals: tuple[float], tangents: tuple[float]) -> tuple[float, float]:
    (x,), (x_dot,) = primals, tangents
    return log1pexp(x), x_dot / (1.0 + float(np.exp(-x)))


@calque.custom_vjp(nondiff_argnums=1)
def clipped(x: float, bound: float) -> float:
    return x


clipped.defvjp(lambda x, bound: (x, None), lambda bound, _, g: (min(g, bound),))
assert_type(log1pexp(1.0), float)
assert_type(log1pexp_jvp((1.0,), (1.0,)), tuple[float, float])
assert_type(clipped(1.0, bound=2.0), float)
clipped("x", 2.0)  # error: arg-type


@calque.jit(memory="1GB", first="numpy")
def limited(x: float, n: int = 2) -> float:
    return x**n


assert_type(limited(1.0), float)
limited(1.0, m=2)  # error: call-arg


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
