"""Functions of NumPy with twins in Python, and what their twins ask of the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calque.transpiler.errors import SpecializationNeeded, UnsupportedFunction
from calque.transpiler.frontend.callables import plain_known
from calque.transpiler.frontend.calls import BUILTINS, builtin
from calque.transpiler.frontend.library import numpy_polyfills as twins
from calque.transpiler.frontend.machine import Args, Kwargs, Machine
from calque.transpiler.ir.builder import FUNCTIONS, Array, atom
from calque.transpiler.ir.constant_folding import Evaluation, NotConstant
from calque.transpiler.primitives.base import raise_where

_OF_EMATH = ("sqrt", "log", "log2", "log10", "logn", "power", "arccos", "arcsin", "arctanh")
_OF_NUMPY = (
    *("real_if_close", "union1d", "intersect1d", "setdiff1d", "setxor1d", "array_equiv"),
    *("roots", "require"),
)


def _by_twin(function: Any, twin: Any) -> Callable[..., Any]:
    def call(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
        if all(map(plain_known, [*args, *kwargs.values()])):
            return machine.native(function, args, kwargs, node)
        return machine.call_for_user(twin, args, kwargs, node)

    return call


for _name in _OF_EMATH:
    BUILTINS[getattr(np.emath, _name)] = _by_twin(getattr(np.emath, _name), getattr(twins, _name))
for _name in _OF_NUMPY:
    BUILTINS[getattr(np, _name)] = _by_twin(getattr(np, _name), getattr(twins, _name))


def value_of(machine: Machine, value: Any) -> Any:
    """The value of what depends on known numbers alone; raises NotConstant."""
    return Evaluation(machine.builder).value(atom(value)) if isinstance(value, Array) else value


@builtin(twins.decided)
def _decided(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    test, x, name = args
    try:
        return bool(value_of(machine, test))
    except NotConstant:
        if not x.ndim:
            return test
    real = name == "real_if_close"
    return machine.fail(
        UnsupportedFunction,
        node,
        f"np.{'' if real else 'emath.'}{name} gives real or complex numbers, by the values.",
        "write .real where no imaginary part is left"
        if real
        else f"write np.{name}(x + 0j), or np.{name} of real numbers",
    )


@builtin(twins.between_zeros)
def _between_zeros(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    (p,) = args
    try:
        places = np.flatnonzero(value_of(machine, p))
    except NotConstant:
        ends = (p[0] == 0) | (p[-1] == 0)
        message = "np.roots: the first or the last coefficient is zero; leave it out"
        raise_where(ends, ValueError(message))
        return p, 0
    if not len(places):
        return p[:0], 0
    first, last = int(places[0]), int(places[-1])
    return p[first : last + 1], FUNCTIONS[len](p) - last - 1


def elements_of(machine: Machine, values: Array, node: Any) -> Any:
    """``set(x)`` of an array: of known numbers a set."""
    if values.ndim != 1:
        raise TypeError("unhashable type: 'numpy.ndarray'" if values.ndim else "not iterable")
    try:
        return set(value_of(machine, values))
    except NotConstant:
        return machine.own(twins.ElementsOf(values))


_power_of_known = FUNCTIONS[np.linalg.matrix_power]


@builtin(np.linalg.matrix_power)
def _matrix_power(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    a, n = (*args, *kwargs.values())
    if all(map(plain_known, (a, n))):
        return machine.native(np.linalg.matrix_power, args, kwargs, node)
    wanted = machine.builder.needs_known(n, "An exponent") if isinstance(n, Array) else None
    if wanted is None or isinstance(wanted, SpecializationNeeded) or n.ndim:
        return _power_of_known(a, n)
    given = FUNCTIONS[np.asarray](a)
    if given.dtype.kind != "c":
        given = FUNCTIONS["cast"](given, np.result_type(given.dtype, "f4"))
    size = machine.builder.dim_of(n)
    counts = size is not None and machine.builder.dims.always_nonnegative(size)
    twin = twins.product_of_equals if counts else twins.matrix_power
    return machine.call_for_user(twin, [given, n], {}, node)
