"""The transformations as users call them, with JAX's names and semantics."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from calque.runtime import debugging
from calque.runtime.arguments import check_cotangent, check_tangents, private_copies
from calque.runtime.lenders import is_made_anew
from calque.runtime.mapped import Mapped, jitted
from calque.runtime.spec import Spec
from calque.runtime.transformed import Transformed, run
from calque.transpiler import tree
from calque.transpiler.batching import Axes
from calque.transpiler.builder import FUNCTIONS, Array
from calque.transpiler.primitives.base import Primitive, apply, operand, register
from calque.transpiler.types import ArrayType, type_of_constant


def _decorator(kind: str, function: Any, options: dict[str, Any]) -> Any:
    if function is None:
        return functools.partial(_decorator, kind, options=options)
    if not callable(function):
        raise TypeError(f"{kind} expects a function, and got {type(function).__name__}")
    return Transformed(kind, function, **options)


def _options(argnums: Any, has_aux: bool, holomorphic: bool, allow_int: bool) -> dict[str, Any]:
    return {
        "argnums": as_argnums(argnums),
        "has_aux": bool(has_aux),
        "holomorphic": bool(holomorphic),
        "allow_int": bool(allow_int),
    }


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
    return _decorator("grad", fun, _options(argnums, has_aux, holomorphic, allow_int))


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
    return _decorator("value_and_grad", fun, _options(argnums, has_aux, holomorphic, allow_int))


def jit(
    fun: Callable[..., Any] | None = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    parallel: bool | str = "auto",
    boundscheck: bool | None = None,
) -> Any:
    """``fun`` compiled to Numba kernels, as ``jax.jit``; also ``@jit(static_argnums=1)``.

    ``fun`` may be a transformed function. Stores into arguments happen, as in ``fun`` itself. What
    Numba cannot compile stays a NumPy call between kernels. ``static_argnums``, ``static_argnames``
    are arguments whose values become part of the code; others are found where they are needed.

    ``parallel``: loops of independent rounds run on all threads, on one, or, with "auto", on all
    where there is work for them. ``boundscheck``: indices are checked, never, or, with None, where
    they are not proven to be inside; a kernel that checks runs on one thread. Machine code is kept
    on disk (``CALQUE_CACHE``). Raises ValueError for other values of these options.

    >>> import numpy as np
    >>> jit(lambda x: np.sum(x * x))(np.array([1.0, 2.0]))
    np.float64(5.0)
    """
    numbers = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
    names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
    if parallel not in (True, False, "auto"):
        raise ValueError(f"jit: parallel must be True, False or 'auto', and is {parallel!r}")
    if boundscheck not in (True, False, None):
        raise ValueError(f"jit: boundscheck must be True, False or None, and is {boundscheck!r}")
    options = {
        "static_argnums": numbers,
        "static_argnames": names,
        "parallel": parallel if parallel == "auto" else bool(parallel),
        "boundscheck": None if boundscheck is None else bool(boundscheck),
    }
    if isinstance(fun, Mapped):
        return jitted(fun, functools.partial(_decorator, "jit", options=options))
    if isinstance(fun, Transformed) and fun.kind == "jit":
        options, fun = _both(fun.options, options), fun.function  # jitted once more is jitted
    return _decorator("jit", fun, options)


def _both(inner: dict[str, Any], outer: dict[str, Any]) -> dict[str, Any]:
    """The options of ``jit(jit(f))``: both's static arguments; the outer's wish, if any."""
    found = {name: (*inner[name], *outer[name]) for name in ("static_argnums", "static_argnames")}
    for name, unsaid in (("parallel", "auto"), ("boundscheck", None)):
        found[name] = inner[name] if outer[name] == unsaid else outer[name]
    return found


def vmap(
    fun: Callable[..., Any] | None = None,
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Any = None,
    axis_size: int | None = None,
    chunk_size: int | None = None,
) -> Any:
    """``fun`` for every example along the mapped axes at once, as ``jax.vmap``; also ``@vmap``.

    ``in_axes`` and ``out_axes`` are ints, None or trees of these that are prefixes of the arguments
    and of the result; keyword arguments are mapped over axis 0. ``axis_name`` names the batch axis
    for ``psum`` and the other collectives. ``chunk_size`` bounds memory: at most so many examples
    are computed at a time, and the results are the same. Raises ValueError where an argument has
    not the mapped axis, or not as many examples as the others.

    >>> import numpy as np
    >>> vmap(lambda x, y: x * y, in_axes=(0, None))(np.array([1.0, 2.0]), 3.0)
    array([3., 6.])
    """
    options = vmap_options(in_axes, out_axes, axis_name, axis_size, chunk_size)
    return _decorator("vmap", fun, options)


def _jacobian_options(argnums: Any, has_aux: bool, holomorphic: bool) -> dict[str, Any]:
    return {
        "argnums": as_argnums(argnums),
        "has_aux": bool(has_aux),
        "holomorphic": bool(holomorphic),
    }


def jacfwd(
    fun: Callable[..., Any] | None = None,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Any:
    """The Jacobian by forward mode, for few arguments; laid out as ``jax.jacfwd`` does.

    >>> import numpy as np
    >>> jacfwd(lambda x: x * x[0])(np.array([2.0, 3.0]))
    array([[4., 0.],
           [3., 2.]])
    """
    return _decorator("jacfwd", fun, _jacobian_options(argnums, has_aux, holomorphic))


def jacrev(
    fun: Callable[..., Any] | None = None,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Any:
    """The Jacobian by reverse mode, for few results; laid out as ``jax.jacrev`` does.

    >>> import numpy as np
    >>> jacrev(lambda x: x * x[0])(np.array([2.0, 3.0]))
    array([[4., 0.],
           [3., 2.]])
    """
    return _decorator("jacrev", fun, _jacobian_options(argnums, has_aux, holomorphic))


def hessian(
    fun: Callable[..., Any] | None = None,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Any:
    """The Hessian, ``jacfwd(jacrev(fun))``; laid out as ``jax.hessian`` does.

    >>> import numpy as np
    >>> hessian(lambda x: x[0] ** 2 * x[1])(np.array([2.0, 3.0]))
    array([[6., 4.],
           [4., 0.]])
    """
    if fun is None:
        return functools.partial(hessian, argnums=argnums, has_aux=has_aux, holomorphic=holomorphic)
    return _decorator("hessian", fun, _jacobian_options(argnums, has_aux, holomorphic))


def hvp(
    fun: Callable[..., Any],
    primals: Sequence[Any] | None = None,
    tangents: Sequence[Any] | None = None,
) -> Any:
    """The Hessian of a scalar function times a vector, ``jvp(grad(fun))``: no Hessian is formed.

    >>> import numpy as np
    >>> hvp(lambda x: x[0] ** 2 * x[1], (np.array([2.0, 3.0]),), (np.array([1.0, 0.0]),))
    array([6., 4.])
    """
    made = _transformed("hvp", fun)
    if primals is None and tangents is None:
        return made
    return made(*(primals or ()), *(tangents or ()))


def vmap_options(
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Any = None,
    axis_size: int | None = None,
    chunk_size: int | None = None,
) -> dict[str, Any]:
    """The options of ``vmap``, checked."""
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if chunk_size is not None:
        chunk_size = operator.index(chunk_size)
        if chunk_size < 1:
            raise ValueError(f"vmap: chunk_size must be at least 1, and is {chunk_size}")
        if axis_name is not None:
            raise ValueError(
                "vmap: chunk_size cannot be given together with axis_name: a collective needs all "
                "examples at once, and a chunk has but some of them"
            )
    return {"axes": Axes(in_axes, out_axes, axis_size, axis_name, chunk_size)}


def as_argnums(argnums: int | Sequence[int]) -> int | tuple[int, ...]:
    """An int or a tuple of ints, from whatever has an index.

    >>> as_argnums([0, 1])
    (0, 1)
    """
    values: Any = argnums
    is_number = isinstance(values, np.ndarray) and not values.ndim
    single = is_number or not _is_iterable(values)
    found = tuple(_argnum(n, values) for n in ((values,) if single else values))
    if single:
        return found[0]
    if not found:
        raise ValueError("argnums is empty: there is nothing to differentiate by")
    return found


def _is_iterable(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes))


def _argnum(number: Any, given: Any) -> int:
    """One of ``argnums``: no bool, which has an index and is most likely a misplaced flag."""
    try:
        if isinstance(number, (bool, np.bool_)):
            raise TypeError(f"{type(number).__name__!r} object is not an integer")
        return operator.index(number)
    except TypeError as error:
        reason = f"{error}, and is not iterable" if number is given else str(error)
        raise TypeError(
            f"argnums must be an int or a sequence of ints, and is {given!r}: {reason}"
        ) from None


@functools.lru_cache(maxsize=512)
def _cached(kind: str, function: Any, has_aux: bool) -> Transformed:
    return Transformed(kind, function, has_aux=has_aux)


def _transformed(kind: str, function: Any, has_aux: bool = False) -> Transformed:
    if not callable(function):
        raise TypeError(f"{kind} expects a function, and got {type(function).__name__}")
    if is_made_anew(function):  # to be freed, with what it captured
        return Transformed(kind, function, has_aux=has_aux)
    try:
        return _cached(kind, function, bool(has_aux))
    except TypeError:  # a callable without a hash
        return Transformed(kind, function, has_aux=has_aux)


def jvp(
    fun: Callable[..., Any],
    primals: Sequence[Any] | None = None,
    tangents: Sequence[Any] | None = None,
    has_aux: bool = False,
) -> Any:
    """``(fun(*primals), its tangent)``, as ``jax.jvp``; without primals, the function f_jvp itself.

    >>> jvp(lambda x: x * x, (3.0,), (1.0,))
    (9.0, 6.0)
    """
    transformed = _transformed("jvp", fun, has_aux)
    if primals is None and tangents is None:
        return transformed
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise TypeError(
            "jvp: primals and tangents must be tuples or lists, and are "
            f"{type(primals).__name__} and {type(tangents).__name__}"
        )
    if len(primals) != len(tangents):
        raise TypeError(
            f"jvp: there are {len(primals)} primals and {len(tangents)} tangents; "
            "they must have the same structure"
        )
    return transformed(*primals, *tangents)


def vjp(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """``(fun(*primals), pullback)``, as ``jax.vjp``; without primals, the function f_vjp itself.

    The pullback runs the forward phase again, on the primals as they were given.

    >>> value, pullback = vjp(lambda x, y: x * y, 2.0, 3.0)
    >>> value, pullback(1.0)
    (6.0, (3.0, 2.0))
    """
    transformed = _transformed("vjp", fun, has_aux)
    if not primals:
        return transformed
    kept = private_copies(primals)
    value, aux = _value(fun, kept, has_aux)

    def pullback(cotangent: Any) -> Any:
        check_cotangent(value, cotangent)
        return run(transformed, *kept, cotangent)

    return (value, pullback, aux) if has_aux else (value, pullback)


def _value(fun: Callable[..., Any], primals: Sequence[Any], has_aux: bool) -> tuple[Any, Any]:
    """The function's value, computed on copies, and its auxiliary output."""
    checked = debugging.checking() and not isinstance(fun, Transformed)
    run = Transformed("identity", fun) if checked else fun
    result = run(*private_copies(primals))
    if not has_aux:
        return result, None
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise TypeError(
            "has_aux=True: the function must return a pair (value, aux), "
            f"and returned a {type(result).__name__}"
        )
    return result[0], result[1]


def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """``(fun(*primals), f_jvp)`` with the tangent map at the primals, as ``jax.linearize``.

    >>> value, push = linearize(lambda x: x * x, 3.0)
    >>> value, push(2.0)
    (9.0, 12.0)
    """
    transformed = _transformed("jvp", fun, has_aux)
    if not primals:
        return transformed
    kept = private_copies(primals)
    value, aux = _value(fun, kept, has_aux)

    def push(*tangents: Any) -> Any:
        check_tangents(kept, tangents, "linearize")
        return run(transformed, *kept, *tangents)[1]

    return (value, push, aux) if has_aux else (value, push)


def linear_transpose(fun: Callable[..., Any], *primals: Any) -> Any:
    """The transpose of a linear function, as ``jax.linear_transpose``.

    Of ``primals`` only shapes and dtypes matter; specs serve too. The result is a function of a
    cotangent of ``fun(*primals)``, which gives a tuple of cotangents of the primals. Its source is
    the reverse sweep. Raises NotLinear, with the user's line, where ``fun`` is not linear.

    >>> import numpy as np
    >>> transposed = linear_transpose(lambda x: x[1:] - x[:-1], np.zeros(4))
    >>> transposed(np.array([1.0, 2.0, 3.0]))
    (array([-1., -1., -1.,  3.]),)
    """
    if not callable(fun):
        raise TypeError(f"linear_transpose expects a function, and got {type(fun).__name__}")
    leaves, structure = tree.flatten(tuple(primals))
    types = tuple(map(_type_of_primal, leaves))
    return Transformed("linear_transpose", fun, types=(types, structure))


def _type_of_primal(leaf: Any) -> ArrayType:
    if isinstance(leaf, Spec):
        if any(isinstance(d, str) for d in leaf.dims):
            raise TypeError(f"linear_transpose: the sizes of {leaf} must be known")
        return ArrayType(leaf.dtype, tuple(d for d in leaf.dims if isinstance(d, int)), leaf.weak)
    if isinstance(leaf, (float, complex)) and not isinstance(leaf, np.generic):
        return type_of_constant(leaf)
    dtype, shape = getattr(leaf, "dtype", None), getattr(leaf, "shape", None)
    if dtype is None or shape is None or np.dtype(dtype).kind not in "fc":
        raise TypeError(f"linear_transpose needs float or complex inputs, and got {leaf!r}")
    return ArrayType(np.dtype(dtype), tuple(map(int, shape)))


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
    def stopped(leaf: Any) -> Any:
        return apply(_stop, operand(leaf)) if isinstance(leaf, Array) else leaf

    return tree.tree_map(stopped, x)


FUNCTIONS[stop_gradient] = _record_stop
