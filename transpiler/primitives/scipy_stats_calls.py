"""Methods of distributions that SciPy computes when the program runs: integrals and searches.

They stay calls of SciPy in the generated text, ``stats.poisson.ppf(q, mu)``.
"""

from __future__ import annotations

import functools
import importlib
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.transpiler.errors import UnsupportedFunction
from calque.transpiler.ir.builder import Array, current
from calque.transpiler.primitives.base import Primitive, apply, elementwise
from calque.transpiler.primitives.elementwise import no_derivative
from calque.transpiler.primitives.scipy_stats import is_public

# distribution and method -> its record
_CALLS: dict[tuple[str, str], Primitive] = {}


class MethodOfDistribution:
    """A method of a distribution of ``scipy.stats``, imported when it is first called."""

    def __init__(self, name: str):
        self.__name__ = name

    def __call__(self, *args: Any) -> Any:
        return operator.attrgetter(self.__name__)(importlib.import_module("scipy.stats"))(*args)


def _record(dist: Any, method: str, count: int) -> Primitive:
    if not is_public(dist):
        raise UnsupportedFunction(
            f"{method} of a distribution of your own has no formula.",
            current().origin,
            f"define _{method}, by which SciPy computes it",
        )
    key = dist.name, method
    if key not in _CALLS:
        name = f"{dist.name}.{method}"
        _CALLS[key] = elementwise(
            MethodOfDistribution(name), None, arity=count, name=f"stats.{name}"
        )
    return _CALLS[key]


def constant_call(dist: Any, method: str, *args: Any) -> Any:
    """A method of the standard distribution that is piecewise constant, or whose slope is given."""
    return apply(_record(dist, method, len(args)), *args)


def integral_call(dist: Any, x: Any, *shapes: Any) -> Any:
    """The distribution function, which SciPy integrates: its slope by the place is the density."""
    record = _record(dist, "cdf", 1 + len(shapes))
    if record.nondifferentiable:
        density = _record(dist, "pdf", 1 + len(shapes))
        _differentiate(density, [None] * (1 + len(shapes)))
        by_shapes = _BY_SHAPES.get(dist.name, [None] * len(shapes))
        _differentiate(record, [lambda *args: apply(density, *args), *by_shapes])
    return apply(record, x, *shapes)


def sum_call(dist: Any, method: str, k: Any, *shapes: Any) -> Any:
    """A distribution function, which SciPy sums: piecewise constant by the place."""
    record = _record(dist, method, 1 + len(shapes))
    if record.nondifferentiable:
        _differentiate(record, [lambda *args: 0.0, *([None] * len(shapes))])
    return apply(record, k, *shapes)


def _skewnorm_by_shape(x: Any, shape: Any) -> Any:
    """Minus twice the slope of Owen's function."""
    square = 1.0 + shape * shape
    return -np.exp(-0.5 * x * x * square) / (math.pi * square)


# the slopes of distribution functions by shape parameters, where they are known
_BY_SHAPES: dict[str, list[Callable[..., Any] | None]] = {"skewnorm": [_skewnorm_by_shape]}


def _differentiate(record: Primitive, slopes: Sequence[Callable[..., Any] | None]) -> None:
    """Give a record the slopes that are known, by each argument."""

    def jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
        terms = []
        for tangent, slope in zip(tangents, slopes, strict=True):
            if tangent is not None:
                terms.append(tangent * (slope or no_derivative(record.name))(*args))
        return (functools.reduce(operator.add, terms),)

    def vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
        found: list[Any] = []
        for given, slope in zip(args, slopes, strict=True):
            known = not isinstance(given, Array)
            found.append(
                None if known else cotangents[0] * (slope or no_derivative(record.name))(*args)
            )
        return tuple(found)

    record.nondifferentiable, record.jvp, record.vjp = False, jvp, vjp
