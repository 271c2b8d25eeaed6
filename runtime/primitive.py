"""The user's own primitives: functions that are called as they are, with rules by hand."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from calque.runtime.options import UNSAID, checked
from calque.runtime.outside import outside
from calque.runtime.parameters import parameters_named, within
from calque.transpiler.frontend import declared_kinds as declared


def _declaration(
    declare: Callable[[Any], Any], function: Any, kind: str, static: tuple[str, ...]
) -> Any:
    """Declare a function and give it back unchanged; without one, a decorator."""
    if function is UNSAID:
        return functools.partial(_declaration, declare, kind=kind, static=static)
    checked(kind, function=function)
    parameters_named(kind, "static", static, function)
    declare(function)
    return function


@outside
def elementwise(
    function: Callable[..., Any] = UNSAID,
    partials: Callable[..., Any] | None = None,
    *,
    dtype: Any = None,
    static: Sequence[str] = (),
    name: str | None = None,
) -> Any:
    """Declare a function of each element, broadcasting as NumPy's do, by its partial derivatives.

    calque never looks into ``function``: generated source imports it and calls it. It must be
    importable by name, give a new array and have no effects. All five declarations return the
    function unchanged, and serve as decorators. Rules are plain NumPy functions, and may call
    declared functions, ``function`` itself included.

    ``partials(*args, y)`` gives one derivative, or a tuple with one for each argument (None for
    zero); y is the result. Without it, differentiation is refused. ``dtype`` is the result's; where
    it is not given, ``function`` is asked, on arrays with one element. ``static`` names parameters
    that are known values, no arrays, as keyword-only ones are; rules get them by name. ``name``
    says where generated code imports the function from, "package.module.f", if that is not where
    the function says.

    >>> import math
    >>> elementwise(math.cbrt, lambda x, y: 1.0 / (3.0 * y * y)) is math.cbrt
    True
    >>> import calque
    >>> calque.grad(lambda x: 2.0 * math.cbrt(x))(8.0)
    0.16666666666666666

    The method, one derivative for every mode, is ChainRules' ``@scalar_rule``.
    """
    kind = "elementwise"
    found = checked(kind, partials=partials, dtype=dtype, static=static, name=name)
    declare = lambda f: declared.elementwise(f, *found.values())
    return _declaration(declare, function, kind, found["static"])


@outside
def linear(
    function: Callable[..., Any] = UNSAID,
    transpose: Callable[..., Any] | None = None,
    *,
    result: Callable[..., Any],
    wrt: int | Sequence[int] | None = None,
    batch: Any = "sequential",
    static: Sequence[str] = (),
    name: str | None = None,
) -> Any:
    """Declare a function that is linear in its arguments together (in those of ``wrt``, if given).

    ``transpose(y_bar, *args)`` gives the cotangent of each; of ``args`` it may use the shapes, and
    the values of those that are not in ``wrt``. ``result(*args)`` is a NumPy function with a result
    of the same dtype and shape, ``np.zeros(x.shape)`` say: it is read, not run. ``batch`` says how
    a batch is computed: "sequential", one example after the other; "expand_dims", all at once,
    if the function and its rules take any number of axes in front; or a function
    ``batch(batched, *args)``: ``batched[k]`` says whether ``args[k]`` has the batch axis, which
    stands at 0, as it must in the result.

    ``function`` is the one declared; ``static`` and ``name`` are as in ``elementwise``.

    >>> import numpy as np
    >>> def stretched(x):
    ...     return 3.0 * x
    >>> linear(stretched, lambda y_bar, x: 3.0 * y_bar, result=np.zeros_like) is stretched
    True
    """
    rules = {"transpose": transpose, "result": result, "wrt": wrt}
    found = checked("linear", **rules, batch=batch, static=static, name=name)

    def declare(f: Any) -> None:
        within("linear", "wrt", found["wrt"] or (), f)
        declared.linear(f, *found.values())

    return _declaration(declare, function, "linear", found["static"])


@outside
def bilinear(
    function: Callable[..., Any] = UNSAID,
    transpose: Callable[..., Any] | None = None,
    *,
    result: Callable[..., Any],
    batch: Any = "sequential",
    static: Sequence[str] = (),
    name: str | None = None,
) -> Any:
    """Declare a function of two arguments that is linear in each; its jvp is the product rule.

    ``transpose(y_bar, a, b)`` gives the cotangents of a and of b. ``result`` and ``batch`` are as
    in ``linear``.

    ``function`` takes the two; ``static`` and ``name`` are as in ``elementwise``.

    >>> import numpy as np
    >>> def weighted(a, b):
    ...     return a * b
    >>> bilinear(weighted, lambda c, a, b: (c * b, c * a), result=np.multiply) is weighted
    True
    """
    rules = {"transpose": transpose, "result": result}
    found = checked("bilinear", **rules, batch=batch, static=static, name=name)
    declare = lambda f: declared.bilinear(f, *found.values())
    return _declaration(declare, function, "bilinear", found["static"])


@outside
def reduction(
    function: Callable[..., Any] = UNSAID,
    slope: Callable[..., Any] | None = None,
    *,
    dtype: Any = None,
    static: Sequence[str] = (),
    name: str | None = None,
) -> Any:
    """Declare a function ``f(x, axis=None, keepdims=False)`` that takes the axes away.

    ``slope(x, y, axis)`` is the derivative of the result by each element; y is the result with
    the lost axes as ones. A function without ``axis`` takes all axes away, and its slope is
    ``slope(x, y)``.

    ``function`` is the one declared; ``dtype``, ``static`` and ``name`` are as in ``elementwise``.

    >>> import numpy as np
    >>> def log_sum_exp(x, axis=None):
    ...     return np.log(np.sum(np.exp(x), axis=axis))
    >>> reduction(log_sum_exp, lambda x, y, axis=None: np.exp(x - y)) is log_sum_exp
    True
    """
    kind = "reduction"
    found = checked(kind, slope=slope, dtype=dtype, static=static, name=name)
    declare = lambda f: declared.reduction(f, *found.values())
    return _declaration(declare, function, kind, found["static"])


@outside
def opaque(
    function: Callable[..., Any] = UNSAID,
    *,
    result: Callable[..., Any],
    jvp: Callable[..., Any] | None = None,
    vjp: Callable[..., Any] | None = None,
    batch: Any = "sequential",
    static: Sequence[str] = (),
    name: str | None = None,
) -> Any:
    """Declare a function of which all is given by hand; several results are a tuple.

    ``jvp(tangents, y, *args)`` gives the tangent of the result, ``vjp(y_bar, y, *args)`` the
    cotangent of each argument; y is the result, None a zero. Where there is one argument (one
    result), its tangent (cotangent) comes alone, else they come in a tuple. A mode without a rule
    is refused. ``result`` and ``batch`` are as in ``linear``.

    ``function`` is the one declared; ``static`` and ``name`` are as in ``elementwise``.

    >>> import numpy as np
    >>> def norm(x):
    ...     return np.sqrt(np.dot(x, x))
    >>> opaque(norm, result=np.sum, vjp=lambda y_bar, y, x: y_bar * x / y) is norm
    True
    """
    rules = {"result": result, "jvp": jvp, "vjp": vjp}
    found = checked("opaque", **rules, batch=batch, static=static, name=name)
    declare = lambda f: declared.opaque(f, *found.values())
    return _declaration(declare, function, "opaque", found["static"])
