"""The transformations as users call them, with JAX's names and semantics."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from calque.runtime.transformed import Transformed
from calque.transpiler import tree
from calque.transpiler.builder import FUNCTIONS, Array
from calque.transpiler.primitives.base import Primitive, apply, operand, register


def _decorator(kind: str, function: Any, options: dict[str, Any]) -> Any:
    if function is None:
        return lambda f: _decorator(kind, f, options)
    if not callable(function):
        raise TypeError(f"{kind} expects a function, and got {type(function).__name__}")
    return Transformed(kind, function, **options)


def grad(
    fun: Callable[..., Any] | None = None,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Any:
    """The gradient of a function with a scalar result, as ``jax.grad``; also ``@grad(argnums=1)``.

    Raises NotDifferentiable (a TypeError) for integer arguments and for results that are no real
    scalar.

    >>> grad(lambda x: x**3 + 2 * x**2)(1.0)
    7.0
    """
    options = dict(
        argnums=_argnums(argnums), has_aux=has_aux, holomorphic=holomorphic, allow_int=allow_int
    )
    return _decorator("grad", fun, options)


def value_and_grad(
    fun: Callable[..., Any] | None = None,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Any:
    """The value and the gradient together, as ``jax.value_and_grad``.

    >>> value_and_grad(lambda x: x * x)(3.0)
    (9.0, 6.0)
    """
    options = dict(
        argnums=_argnums(argnums), has_aux=has_aux, holomorphic=holomorphic, allow_int=allow_int
    )
    return _decorator("value_and_grad", fun, options)


def _argnums(argnums: int | Sequence[int]) -> int | tuple[int, ...]:
    return argnums if isinstance(argnums, int) else tuple(argnums)


@functools.lru_cache(maxsize=512)
def _cached(kind: str, function: Any, has_aux: bool) -> Transformed:
    return Transformed(kind, function, has_aux=has_aux)


def _transformed(kind: str, function: Any, has_aux: bool = False) -> Transformed:
    try:
        return _cached(kind, function, has_aux)
    except TypeError:
        return Transformed(kind, function, has_aux=has_aux)


def jvp(
    fun: Callable[..., Any], primals: Sequence[Any] | None = None, tangents: Sequence[Any] | None = None,
    has_aux: bool = False,
) -> Any:
    """``(fun(*primals), its tangent)``, as ``jax.jvp``; without primals, the function f_jvp itself.

    >>> jvp(lambda x: x * x, (3.0,), (1.0,))
    (9.0, 6.0)
    """
    transformed = _transformed("jvp", fun, has_aux)
    if primals is None:
        return transformed
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise TypeError("jvp: primals and tangents must be tuples or lists")
    if len(primals) != len(tangents):
        raise TypeError("jvp: primals and tangents must have the same length")
    return transformed(*primals, *tangents)


def vjp(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """``(fun(*primals), pullback)``, as ``jax.vjp``; without primals, the function f_vjp itself.

    The pullback runs the forward phase again: nothing is kept between the two calls.

    >>> value, pullback = vjp(lambda x, y: x * y, 2.0, 3.0)
    >>> value, pullback(1.0)
    (6.0, (3.0, 2.0))
    """
    transformed = _transformed("vjp", fun, has_aux)
    if not primals:
        return transformed
    result = _value(fun, primals)

    def pullback(cotangent: Any) -> Any:
        return transformed(*primals, cotangent)

    if has_aux:
        value, aux = result
        return value, pullback, aux
    return result, pullback


def _value(fun: Callable[..., Any], primals: Sequence[Any]) -> Any:
    """The function's value; it works on copies, so that it cannot change the caller's arrays."""
    return fun(*tree.tree_map(lambda x: x.copy() if hasattr(x, "shape") and x.shape else x, tuple(primals)))


def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """``(fun(*primals), f_jvp)`` with the tangent map at the primals, as ``jax.linearize``.

    >>> value, push = linearize(lambda x: x * x, 3.0)
    >>> value, push(2.0)
    (9.0, 12.0)
    """
    transformed = _transformed("jvp", fun, has_aux)
    if not primals:
        return transformed
    result = _value(fun, primals)

    def push(*tangents: Any) -> Any:
        return transformed(*primals, *tangents)[1]

    if has_aux:
        value, aux = result
        return value, push, aux
    return result, push


def _stopped(x: Any) -> Any:
    return x


_stop = register(
    Primitive(
        "stop_gradient",
        _stopped,
        lambda x: x.type,
        "{0}",
        kind="elementwise",
        nondifferentiable=True,
        cheap=True,
        keeps_layout=True,
        samples=lambda rng: [((rng.normal(size=3),), {})],
    )
)


def stop_gradient(x: Any) -> Any:
    """The identity, with derivative zero, as ``jax.lax.stop_gradient``; trees too.

    >>> grad(lambda x: x * stop_gradient(x))(3.0)
    3.0
    """
    return x


def _record_stop(x: Any) -> Any:
    return tree.tree_map(lambda leaf: apply(_stop, operand(leaf)) if isinstance(leaf, Array) else leaf, x)


FUNCTIONS[stop_gradient] = _record_stop
