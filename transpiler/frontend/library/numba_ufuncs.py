"""Ufuncs that ``numba.vectorize`` and ``numba.guvectorize`` make: their Python is read in loops."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from calque.transpiler.errors import UnsupportedFunction
from calque.transpiler.frontend.library import numpy_polyfills, polyfills
from calque.transpiler.frontend.machine import NEXT, Args, Kwargs, Machine
from calque.transpiler.ir.builder import FUNCTIONS, OPERATORS, known, type_of
from calque.transpiler.primitives.base import operand


def is_numbas(function: Any) -> bool:
    """True for a ufunc that Numba made of a function in Python."""
    return type(function).__module__.startswith("numba.np.ufunc.") and hasattr(
        function, "__wrapped__"
    )


def call_numbas(machine: Machine, function: Any, args: Args, kwargs: Kwargs, node: Any) -> Any:
    """A call of such a ufunc on run-time values."""
    if known((args, list(kwargs.values()))):
        return NEXT
    unknown = kwargs.keys() - {"out"}
    if unknown:
        machine.fail(
            UnsupportedFunction,
            node,
            f"{function.__name__}({', '.join(sorted(unknown))}=): an option of a ufunc of Numba's.",
            "leave it out",
        )
    whole = getattr(function, "signature", None)
    cores, results = _cores(whole) if whole else (((),) * function.nin, ((),) * function.nout)
    given, outs = args[: len(cores)], args[len(cores) :] or kwargs.get("out", ())
    outs = outs if isinstance(outs, (list, tuple)) else [outs]
    call = _generalized if whole else _elementwise
    found = call(machine, function, list(map(operand, given)), cores, results, outs, node)
    pairs = zip(outs, found if isinstance(found, tuple) else [found], strict=bool(outs))
    for out, value in pairs if outs else ():
        OPERATORS["setitem"](out, Ellipsis, value)
    return found


def _elementwise(machine: Machine, function: Any, given: Any, *rest: Any) -> Any:
    *_, node = rest
    loop = _fitting([(t.split("->")) for t in function.types], given)
    kinds = None
    if loop is not None:
        wanted, kinds = map(np.dtype, loop[0]), np.dtype(loop[1])
        given = [FUNCTIONS["cast"](a, t) for a, t in zip(given, wanted, strict=True)]
    made = machine.own(polyfills.Vectorized(function.__wrapped__, kinds))
    found = machine.call_value(made, given, {}, node)
    return found if found.ndim else found[()]


def _generalized(
    machine: Machine, function: Any, given: Any, cores: Any, results: Any, outs: Any, node: Any
) -> Any:
    signatures = getattr(function.gufunc_builder, "_sigs", [])
    rows = [[_numpys(t) for t in s.args] for s in signatures]
    loop = _fitting([(row, s) for row, s in zip(rows, signatures, strict=True)], given)
    numbers = [not core for core in cores]
    kinds = [type_of(out).dtype for out in outs] or [np.result_type(*map(_dtype, given), "f8")]
    if loop is not None:
        row, signature = loop
        numbers = [not hasattr(t, "ndim") for t in signature.args[: len(cores)]]
        kinds = row[len(cores) :]
        given = [FUNCTIONS["cast"](a, t) for a, t in zip(given, row[: len(cores)], strict=True)]
    kinds = [*kinds, *[kinds[-1]] * (len(results) - len(kinds))]
    arguments = [function.__wrapped__, cores, results, numbers, kinds, given]
    return machine.call_for_user(numpy_polyfills.generalized, arguments, {}, node)


def _dtype(value: Any) -> np.dtype:
    return type_of(value).dtype


def _numpys(kind: Any) -> np.dtype:
    """The dtype of a number or an array of Numba's."""
    return np.dtype(str(getattr(kind, "dtype", kind)).replace("boolean", "bool"))


def _fitting(loops: list[Any], given: Any) -> Any:
    """The first loop whose dtypes hold those of the arguments; None if there is none."""
    for loop in loops:
        wanted = list(map(np.dtype, loop[0]))[: len(given)]
        if all(np.can_cast(_dtype(a), t, "same_kind") for a, t in zip(given, wanted, strict=True)):
            return loop
    return None


def _cores(signature: str) -> tuple[Any, Any]:
    """The names of the axes of each input and each result.

    >>> _cores("(),(n),(n,m)->()")
    (((), ('n',), ('n', 'm')), ((),))
    """
    sides = signature.replace(" ", "").split("->")
    parts = [re.findall(r"\(([^)]*)\)", side) for side in sides]
    inputs, results = (tuple(tuple(filter(None, p.split(","))) for p in side) for side in parts)
    return inputs, results
