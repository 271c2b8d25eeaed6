"""The derivative at a point as a linear map: ``jvp``, ``vjp``, ``linearize`` and transposes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.runtime import debug_nans, typed
from calque.runtime.call.arguments import (
    check_cotangent,
    check_numbers,
    check_tangents,
    labels_of,
    naming,
    private_copies,
)
from calque.runtime.fitting import shown
from calque.runtime.options import checked
from calque.runtime.spec import Spec
from calque.runtime.tracebacks import hide_own_frames
from calque.runtime.transformed import Transformed, run
from calque.transpiler.errors import NestedTooDeeply
from calque.transpiler.frontend.function_copies import is_made_anew
from calque.transpiler.ir import pytrees
from calque.transpiler.ir.types import ArrayType, type_of_constant


@typed.hessian_product
def hvp(
    fun: Callable[..., Any],
    primals: Sequence[Any] | None = None,
    tangents: Sequence[Any] | None = None,
) -> Any:
    """The Hessian of a scalar function times a vector, ``jvp(grad(fun))``: no Hessian is formed.

    ``primals`` are the arguments of ``fun``, ``tangents`` the vector: a tuple with a part of the
    same structure for each. Without them, the function f_hvp itself.

    >>> import numpy as np
    >>> hvp(lambda x: x[0] ** 2 * x[1], (np.array([2.0, 3.0]),), (np.array([1.0, 0.0]),))
    array([6., 4.])
    """
    try:
        made = _transformed("hvp", fun)
        if primals is None and tangents is None:
            return made
        return made(*matched("hvp", primals, tangents))
    except Exception as error:
        hide_own_frames(error)
        raise


@functools.lru_cache(maxsize=512)
def _cached(kind: str, function: Any, has_aux: bool) -> Transformed:
    return Transformed(kind, function, has_aux=has_aux)


def _transformed(kind: str, function: Any, has_aux: bool = False) -> Transformed:
    if not callable(function) or type(has_aux) is not bool:
        has_aux = checked(kind, fun=function, has_aux=has_aux)["has_aux"]
    if is_made_anew(function):  # to be freed, with what it captured
        return Transformed(kind, function, has_aux=has_aux)
    try:
        return _cached(kind, function, has_aux)
    except TypeError:  # a callable without a hash
        return Transformed(kind, function, has_aux=has_aux)


@typed.forward_mode
def jvp(
    fun: Callable[..., Any],
    primals: Sequence[Any] | None = None,
    tangents: Sequence[Any] | None = None,
    has_aux: bool = False,
) -> Any:
    """``(fun(*primals), its tangent)``, as ``jax.jvp``; without primals, the function f_jvp itself.

    ``primals`` are the arguments of ``fun``, ``tangents`` their tangents: tuples of the same
    structure. ``has_aux``: ``fun`` returns a pair ``(value, aux)``, and aux is added to the result.

    >>> jvp(lambda x: x * x, (3.0,), (1.0,))
    (9.0, 6.0)
    """
    try:
        transformed = _transformed("jvp", fun, has_aux)
        if primals is None and tangents is None:
            return transformed
        return transformed(*matched("jvp", primals, tangents))
    except Exception as error:
        hide_own_frames(error)
        raise


def matched(kind: str, primals: Any, tangents: Any) -> tuple[Any, ...]:
    """Primals, and a tangent for each; TypeError where there is none."""
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise TypeError(
            f"{kind}: primals and tangents must be tuples or lists, and are "
            f"{type(primals).__name__} and {type(tangents).__name__}"
        )
    if len(primals) != len(tangents):
        raise TypeError(
            f"{kind}: there are {len(primals)} primals and {len(tangents)} tangents; "
            "they must have the same structure"
        )
    return (*primals, *tangents)


@typed.reverse_mode
def vjp(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """``(fun(*primals), pullback)``, as ``jax.vjp``; without primals, the function f_vjp itself.

    The pullback runs the forward phase again, on the primals as they were given.

    ``has_aux``: ``fun`` returns a pair ``(value, aux)``, and aux is added to the result.

    >>> value, pullback = vjp(lambda x, y: x * y, 2.0, 3.0)
    >>> value, pullback(1.0)
    (6.0, (3.0, 2.0))
    """
    try:
        transformed = _transformed("vjp", fun, has_aux)
        if not primals:
            return transformed
        kept = _kept("vjp", fun, primals)
        value, aux = _value("vjp", fun, kept, has_aux)

        pullback = functools.partial(pulled, transformed, value, kept)

        return (value, pullback, aux) if has_aux else (value, pullback)
    except Exception as error:
        hide_own_frames(error)
        raise


def pulled(transformed: Transformed, value: Any, kept: Any, cotangent: Any) -> Any:
    """The result of a pullback."""
    try:
        check_cotangent(value, cotangent)
        return run(transformed, *kept, cotangent)
    except Exception as error:
        hide_own_frames(error)
        raise


def _kept(kind: str, fun: Callable[..., Any], primals: tuple[Any, ...]) -> tuple[Any, ...]:
    """Copies of the primals, as they are now."""
    try:
        return private_copies(primals)
    except NestedTooDeeply as error:
        raise naming(error, kind, fun, (primals, {})) from None


def _value(
    kind: str, fun: Callable[..., Any], primals: Sequence[Any], has_aux: bool
) -> tuple[Any, Any]:
    """The function's value, computed on copies, and its auxiliary output."""
    looked_at = debug_nans.checking() and not isinstance(fun, Transformed)
    run = Transformed("identity", fun) if looked_at else fun
    try:
        result = run(*private_copies(primals))
    except Exception as error:
        check_numbers(kind, fun, primals, error)
        raise
    if not has_aux:
        return result, None
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise TypeError(
            f"{kind}: has_aux=True: the function must return a pair (value, aux), "
            f"and returned a {type(result).__name__}"
        )
    return result[0], result[1]


@typed.linearization
def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """``(fun(*primals), f_jvp)`` with the tangent map at the primals, as ``jax.linearize``.

    ``has_aux``: ``fun`` returns a pair ``(value, aux)``, and aux is added to the result.

    >>> value, push = linearize(lambda x: x * x, 3.0)
    >>> value, push(2.0)
    (9.0, 12.0)
    """
    try:
        transformed = _transformed("jvp", fun, has_aux)
        if not primals:
            return transformed
        kept = _kept("linearize", fun, primals)
        value, aux = _value("linearize", fun, kept, has_aux)

        def push(*tangents: Any) -> Any:
            check_tangents(kept, tangents, "linearize", fun)
            return run(transformed, *kept, *tangents)[1]

        return (value, push, aux) if has_aux else (value, push)
    except Exception as error:
        hide_own_frames(error)
        raise


def linear_transpose(fun: Callable[..., Any], *primals: Any) -> Any:
    """The transpose of a linear function, as ``jax.linear_transpose``.

    Of ``primals`` only shapes and dtypes matter; specs serve too. The result is a function of a
    cotangent of ``fun(*primals)``, which gives a tuple of cotangents of the primals. Its source is
    the reverse phase. Raises NotLinear, with the user's line, where ``fun`` is not linear.

    >>> import numpy as np
    >>> transposed = linear_transpose(lambda x: x[1:] - x[:-1], np.zeros(4))
    >>> transposed(np.array([1.0, 2.0, 3.0]))
    (array([-1., -1., -1.,  3.]),)
    """
    checked("linear_transpose", fun=fun)
    try:
        leaves, structure = pytrees.flatten(primals)
    except NestedTooDeeply as error:
        raise naming(error, "linear_transpose", fun, (primals, {})) from None
    types = tuple(map(_type_of_primal, leaves, labels_of(fun, primals)))
    return Transformed("linear_transpose", fun, types=(types, structure))


def _type_of_primal(leaf: Any, name: str) -> ArrayType:
    if isinstance(leaf, Spec):
        if any(isinstance(d, str) for d in leaf.dims):
            raise TypeError(f"linear_transpose: the sizes of {name}, {leaf}, must be known")
        return ArrayType(leaf.dtype, tuple(d for d in leaf.dims if isinstance(d, int)), leaf.weak)
    if isinstance(leaf, (float, complex)) and not isinstance(leaf, np.generic):
        return type_of_constant(leaf)
    array = hasattr(leaf, "dtype") and hasattr(leaf, "shape")
    if not array or np.dtype(leaf.dtype).kind not in "fc":
        raise TypeError(
            f"linear_transpose needs float or complex inputs, and {name} is {shown(leaf)}"
        )
    return ArrayType(np.dtype(leaf.dtype), tuple(map(int, leaf.shape)))
