"""Derivatives of second and higher order, and Jacobians with their values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from calque.runtime import typed
from calque.runtime.api import Argnames, Argnums, differentiated
from calque.runtime.inner import InnerTransformation, derivative
from calque.runtime.options import UNSAID, checked, given
from calque.runtime.tracebacks import hide_own_frames
from calque.runtime.transformed import Transformed
from calque.transpiler.frontend.library.python_builtins import builtin
from calque.transpiler.frontend.machine import Args, Kwargs, Machine
from calque.transpiler.frontend.trace import listed
from calque.transpiler.ir import pytrees


@typed.jacobian
def jacobian(
    fun: Callable[..., Any] = UNSAID,
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    argnames: Argnames = None,
) -> Any:
    """The Jacobian by the mode that suits the sizes, laid out as ``jax.jacfwd`` does.

    Reverse mode where ``fun`` has fewer results than arguments, else forward mode: the sizes of a
    call decide, and calls with the other order of sizes have a source of their own. Parameters,
    ``fun``, ``argnums``, ``has_aux``, ``holomorphic`` and ``argnames``, are those of ``jacfwd``.

    >>> import numpy as np
    >>> jacobian(lambda x: x * x[0])(np.array([2.0, 3.0]))
    array([[4., 0.],
           [3., 2.]])
    """
    flags = {"has_aux": has_aux, "holomorphic": holomorphic}
    return differentiated("jacobian", fun, argnums, argnames, **flags)


@typed.value_and_jacobian
def value_and_jacobian(
    fun: Callable[..., Any] = UNSAID,
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    argnames: Argnames = None,
) -> Any:
    """The value and ``jacobian(fun)`` together; with ``has_aux``, ``((value, aux), jacobian)``.

    Parameters, ``fun``, ``argnums``, ``has_aux``, ``holomorphic`` and ``argnames``, are those of
    ``jacfwd``.

    >>> import numpy as np
    >>> value_and_jacobian(lambda x: x[0] * x[1])(np.array([2.0, 3.0]))
    (np.float64(6.0), array([3., 2.]))
    """
    flags = {"has_aux": has_aux, "holomorphic": holomorphic}
    return differentiated("value_and_jacobian", fun, argnums, argnames, **flags)


@typed.value_and_jacobian
def value_and_hessian(
    fun: Callable[..., Any] = UNSAID,
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    argnames: Argnames = None,
) -> Any:
    """The value and ``hessian(fun)`` together; with ``has_aux``, ``((value, aux), hessian)``.

    Parameters, ``fun``, ``argnums``, ``has_aux``, ``holomorphic`` and ``argnames``, are those of
    ``jacfwd``.

    >>> import numpy as np
    >>> value_and_hessian(lambda x: x[0] ** 2 * x[1])(np.array([2.0, 3.0]))
    (np.float64(12.0), array([[6., 4.],
           [4., 0.]]))
    """
    flags = {"has_aux": has_aux, "holomorphic": holomorphic}
    return differentiated("value_and_hessian", fun, argnums, argnames, **flags)


@typed.second_derivative
def hessian_diag(
    fun: Callable[..., Any] = UNSAID,
    argnums: Argnums = 0,
    has_aux: bool = False,
    argnames: Argnames = None,
) -> Any:
    """The diagonal of the Hessian: the second derivative by each element of the argument.

    Its layout is that of ``jacfwd``. All directions are followed at once by two forward passes
    that share what they compute; no Hessian is formed. Parameters, ``fun``, ``argnums``,
    ``has_aux`` and ``argnames``, are those of ``jacfwd``.

    >>> import numpy as np
    >>> hessian_diag(lambda x: x[0] ** 2 * x[1] ** 3)(np.array([2.0, 3.0]))
    array([54., 72.])
    """
    return differentiated("hessian_diag", fun, argnums, argnames, has_aux=has_aux)


@typed.second_derivative
def laplacian(
    fun: Callable[..., Any] = UNSAID,
    argnums: Argnums = 0,
    has_aux: bool = False,
    argnames: Argnames = None,
) -> Any:
    """The sum of the second derivatives by each element of the arguments, in the result's shape.

    It costs less than the trace of a Hessian, which is not formed (see ``hessian_diag``). With
    several arguments the sum is over all of them. Parameters, ``fun``, ``argnums``, ``has_aux`` and
    ``argnames``, are those of ``jacfwd``.

    >>> import numpy as np
    >>> laplacian(lambda x: np.sum(x**3))(np.array([1.0, 2.0]))
    np.float64(18.0)
    """
    return differentiated("laplacian", fun, argnums, argnames, has_aux=has_aux)


def jet(fun: Callable[..., Any], primals: Sequence[Any], series: Sequence[Any]) -> Any:
    """``(value, terms)``: derivatives along a curve, as ``jax.experimental.jet.jet``.

    ``primals`` are the arguments of ``fun``; ``series`` has for each of them its derivatives by the
    curve's parameter, of order 1, 2 and so on: as many for each. ``terms`` are those of the value,
    in the same orders. An order costs a forward pass over what the orders before it have added.

    >>> jet(lambda x: x**3, (2.0,), ((1.0, 0.0, 0.0),))
    (8.0, [12.0, 12.0, 6.0])
    """
    try:
        options = checked("jet", fun=fun)
        flat, count, order = curve(primals, series)
        return Transformed("jet", options["fun"], count=count, order=order)(*flat)
    except Exception as error:
        hide_own_frames(error)
        raise


def curve(primals: Any, series: Any) -> tuple[list[Any], int, int]:
    """The primals, then all their terms of order 1, 2 ...; how many primals and orders there are.

    >>> curve((1.0, 2.0), ((3.0, 4.0), (5.0, 6.0)))
    ([1.0, 2.0, 3.0, 5.0, 4.0, 6.0], 2, 2)
    """
    rows = (tuple, list)
    if not isinstance(primals, rows) or not isinstance(series, rows):
        raise TypeError("jet: primals and series must be tuples or lists")
    if len(primals) != len(series):
        raise ValueError(f"jet: there are {len(primals)} primals, and series for {len(series)}")
    if not all(isinstance(terms, rows) for terms in series):
        raise TypeError("jet: series must have a tuple or a list of terms for each primal")
    orders = {len(terms) for terms in series}
    if len(orders) != 1 or 0 in orders:
        raise ValueError("jet: the series must have as many terms as each other, and at least one")
    for primal, terms in zip(primals, series, strict=True):
        for term in terms:
            if pytrees.flatten(term)[1] != pytrees.flatten(primal)[1]:
                raise ValueError("jet: a term of series has another structure than its primal")
    (order,) = orders
    flat = [*primals, *(terms[k] for k in range(order) for terms in series)]
    return flat, len(primals), order


for _public in (jacobian, value_and_jacobian, value_and_hessian, hessian_diag, laplacian):
    builtin(_public)(derivative(_public))


@builtin(jet)
def _jet(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    function, primals, series = given(jet, args, kwargs).values()
    checked("jet", fun=function)
    terms = listed(series)
    terms = [listed(t) for t in terms] if isinstance(terms, (tuple, list)) else terms
    flat, count, order = curve(listed(primals), terms)
    curved = InnerTransformation("jet", function, {"count": count, "order": order})
    return curved.__calque_trace__(machine, flat, {}, node)
