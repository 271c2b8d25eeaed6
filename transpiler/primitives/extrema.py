"""Extrema of two, and limits: their slopes select an operand; ties are split evenly, as in JAX."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from calque.transpiler.ir.builder import FUNCTIONS, Array, type_of
from calque.transpiler.primitives.base import (
    Primitive,
    apply,
    elementwise,
    finish,
    implements,
    operand,
    register,
)
from calque.transpiler.primitives.elementwise import is_number
from calque.transpiler.primitives.guards import kept_where


def choose(condition: Any, a: Any, b: Any, like: Any) -> Any:
    """``np.where`` of two numbers, in the dtype of ``like``."""
    kind = float if like.dtype == np.float64 else like.dtype.type
    a, b = (kind(v) if is_number(v) else v for v in (a, b))
    return np.where(condition, a, b)


def larger(a: Any, b: Any, y: Any) -> Any:
    """1 where a > b, 0.5 at a tie, 0 elsewhere."""
    if is_number(b) and np.isfinite(b):
        return np.heaviside(a - b if b else a, 0.5)
    if is_number(a) and np.isfinite(a):
        return np.heaviside(a - b if a else -b, 0.5)
    return choose(a > b, 1.0, choose(a == b, 0.5, 0.0, y), y)


def _selecting(primitive: Primitive, conditions: Callable[..., tuple[Any, ...]]) -> Primitive:
    """Let the slopes of a function select: zero where no condition of an operand holds.

    ``conditions(*args)`` gives for each operand what must hold for it to have a slope, as a
    comparison to be written: a function of NumPy and its two operands.
    """
    push, pull = primitive.jvp, primitive.vjp
    assert push is not None
    assert pull is not None

    def jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
        total: Any = None
        for k, condition in enumerate(conditions(*args)):
            if tangents[k] is not None:
                alone = [t if place == k else None for place, t in enumerate(tangents)]
                term = _kept(condition, push(alone, outs, args, params)[0], tangents[k])
                total = term if total is None else total + term
        return (total,)

    def vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
        products = pull(cotangents, outs, args, params)
        pairs = zip(conditions(*args), products, strict=True)
        return tuple(_kept(condition, product, cotangents[0]) for condition, product in pairs)

    primitive.jvp, primitive.vjp = jvp, vjp
    return primitive


def _kept(condition: tuple[Any, ...] | None, product: Any, factor: Any) -> Any:
    if condition is None:
        return product
    function, *operands = condition
    key = (function, *(a.atom if isinstance(a, Array) else a for a in operands))
    return kept_where(partial(function, *operands), key, product, factor)


maximum = elementwise(
    np.maximum, lambda a, b, y: (larger(a, b, y), larger(b, a, y)), "maximum",
    total=True,
    smooth=True,
    arithmetic="max",
)
minimum = elementwise(
    np.minimum, lambda a, b, y: (larger(b, a, y), larger(a, b, y)), "minimum",
    total=True,
    smooth=True,
    arithmetic="min",
)


def _unless_nan(better: Any, other: Any) -> Any:
    """True where a number is better than another, or the other one is NaN."""
    return better if is_number(other) and not np.isnan(other) else better | np.isnan(other)


def _fmax_is_first(a: Any, b: Any) -> Any:
    return _unless_nan(a > b, b)


def _fmax_is_second(a: Any, b: Any) -> Any:
    return np.logical_not(_fmax_is_first(a, b))


def _fmin_is_first(a: Any, b: Any) -> Any:
    return _unless_nan(a < b, b)


def _fmin_is_second(a: Any, b: Any) -> Any:
    return np.logical_not(_fmin_is_first(a, b))


def _fmax_partials(a: Any, b: Any, y: Any) -> tuple[Any, Any]:
    first = _fmax_is_first(a, b)
    return choose(first, 1.0, 0.0, y), choose(first, 0.0, 1.0, y)


def _fmin_partials(a: Any, b: Any, y: Any) -> tuple[Any, Any]:
    first = _fmin_is_first(a, b)
    return choose(first, 1.0, 0.0, y), choose(first, 0.0, 1.0, y)


_selecting(maximum, lambda a, b: ((np.greater_equal, a, b), (np.greater_equal, b, a)))
_selecting(minimum, lambda a, b: ((np.less_equal, a, b), (np.less_equal, b, a)))
_selecting(
    elementwise(np.fmax, _fmax_partials, "fmax", total=True, smooth=True),
    lambda a, b: ((_fmax_is_first, a, b), (_fmax_is_second, a, b)),
)
_selecting(
    elementwise(np.fmin, _fmin_partials, "fmin", total=True, smooth=True),
    lambda a, b: ((_fmin_is_first, a, b), (_fmin_is_second, a, b)),
)


def _clip_partials(x: Any, low: Any, high: Any, y: Any) -> tuple[Any, Any, Any]:
    """Those of ``np.minimum(np.maximum(x, low), high)``."""
    if is_number(low) and is_number(high) and low < high:
        inside = (x > low) & (x < high)
        return choose(inside, 1.0, choose(x == y, 0.5, 0.0, y), y), None, None
    raised = np.maximum(x, low)
    kept = larger(high, raised, y)
    return larger(x, low, y) * kept, larger(low, x, y) * kept, larger(raised, high, y)


def _within(x: Any, low: Any, high: Any) -> Any:
    return (x >= low) & (x <= high)


clip = elementwise(
    np.clip, _clip_partials, arity=3, domain=[(-2.0, 2.0), (-1.0, -0.5), (0.5, 1.0)],
    total=True,
    smooth=True,
    arithmetic="clip",
    numba="minimum(maximum({0}, {1}), {2})",
)
_selecting(clip, lambda x, low, high: ((_within, x, low, high), None, None))


@implements(np.clip, method="clip")
def np_clip(
    a: Any,
    a_min: Any = None,
    a_max: Any = None,
    out: Any = None,
    *,
    min: Any = None,
    max: Any = None,
) -> Any:
    """``np.clip``; a bound that is None is no bound."""
    low = min if a_min is None else a_min
    high = max if a_max is None else a_max
    if low is None and high is None:
        return finish(np.copy(operand(a)), out)
    if low is None or high is None:
        one_sided = FUNCTIONS[np.minimum] if low is None else FUNCTIONS[np.maximum]
        return one_sided(a, high if low is None else low, out=out)
    return finish(apply(clip, *map(operand, (a, low, high))), out)


def _number_or_array(found: Any) -> Any:
    return found[()]


def _chosen_extremum(name: str, python: str, better: Any) -> Primitive:
    """Python's ``min`` or ``max`` of two floats, the first of which stays if the other is NaN."""
    return register(
        Primitive(
            name,
            lambda best, x: _number_or_array(np.where(better(x, best), x, best)),
            lambda best, x: type_of(best),
            f"{python}({{0}}, {{1}})",
            kind="elementwise",
            nondifferentiable=True,
            samples=lambda rng: [((1.0, 2.0), {}), ((2.0, 1.0), {}), ((2.0, np.nan), {})],
        )
    )


# as which a grid of threads computes extrema that a loop chooses by comparisons
least = _chosen_extremum("least", "min", lambda x, best: x < best)
greatest = _chosen_extremum("greatest", "max", lambda x, best: x > best)


def _rescaled_sum(total: Any, largest: Any, x: Any, term: Any) -> Any:
    with np.errstate(all="ignore"):
        scale = np.exp(-np.abs(x - largest))
        rescaled = np.where(x > largest, total * scale + term, total + term * scale)
    # equal infinities, too
    return _number_or_array(np.where(x == largest, total + term, rescaled))


# A sum of exponentials relative to the largest exponent so far, and a term relative to ``x``: the
# sum of both relative to the larger one. A grid of threads sums so in one pass with the maximum.
rescaled_sum = register(
    Primitive(
        "rescaled_sum",
        _rescaled_sum,
        lambda total, largest, x, term: type_of(total),
        "rescaled_sum({0}, {1}, {2}, {3})",
        kind="elementwise",
        nondifferentiable=True,
        samples=lambda rng: [
            ((2.0, 1.0, 3.0, 1.0), {}), ((2.0, 3.0, 1.0, 1.0), {}), ((0.0, -np.inf, 1.0, 1.0), {})
        ],
    )
)
