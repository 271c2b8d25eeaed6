"""Functions of ``math`` whose twins loop: on integers of the data, and sums without rounding."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from calque.transpiler.errors import SpecializationNeeded
from calque.transpiler.frontend.callables import plain_known
from calque.transpiler.frontend.calls import BUILTINS
from calque.transpiler.frontend.library import number_polyfills as twins
from calque.transpiler.frontend.machine import Args, Kwargs, Machine
from calque.transpiler.ir.builder import FUNCTIONS, Array

_OF_INTEGERS = {
    math.gcd: twins.greatest_common_divisor,
    math.lcm: twins.least_common_multiple,
    math.perm: twins.arrangements,
    math.comb: twins.selections,
    math.factorial: twins.factorial,
    math.isqrt: twins.integer_root,
}


def _of_integers(function: Any, twin: Any) -> Callable[..., Any]:
    """The function of known integers by Python, of those of the data by its twin."""

    def call(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
        given = [machine.settled(a, node) for a in args]
        recorded = [a for a in given if isinstance(a, Array)]
        if not recorded:
            return function(*given)
        wanted = [machine.builder.needs_known(a, f"math.{function.__name__}") for a in recorded]
        if all(isinstance(w, SpecializationNeeded) for w in wanted):
            raise wanted[0]  # sizes and integers: Python can call it once they are known
        for value in recorded:
            if value.ndim or value.dtype.kind not in "iub":
                raise TypeError(f"'{value.type}' object cannot be interpreted as an integer")
        return machine.call_value(twin, [FUNCTIONS[int](a) for a in given], {}, node)

    return call


for _function, _twin in _OF_INTEGERS.items():
    BUILTINS[_function] = _of_integers(_function, _twin)


def _fsum(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    (values,) = args
    if plain_known(values):
        return math.fsum(values)
    return FUNCTIONS[float](machine.call_value(twins.summed, [values], {}, node))


BUILTINS[math.fsum] = _fsum
