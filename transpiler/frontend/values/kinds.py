"""Classes of run-time values in plain Python: floats, NumPy scalars, arrays with axes or none.

Questions about types are asked of a sample of that class. NumPy itself says what class a function's
result has, on samples of the arguments; where two classes are possible and answer differently, only
a run can know, and the question is refused.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from calque.transpiler.errors import UnsupportedFunction
from calque.transpiler.frontend.machine import Machine
from calque.transpiler.frontend.mixed_operations import called, holds_mixed
from calque.transpiler.frontend.values.containers.container_kinds import all_within, renewed
from calque.transpiler.frontend.values.mixed_numbers import MixedNumber
from calque.transpiler.frontend.values.numbers_of_classes import (
    BASES,
    NumberOfClass,
    is_users_number,
)
from calque.transpiler.ir.builder import METHODS, Array, Builder, current
from calque.transpiler.ir.core import Apply, For, If, Var, While
from calque.transpiler.ir.numpy_errors import asked

Kinds = frozenset[type]
_ARRAY: Kinds = frozenset([np.ndarray])
_MOST = 8  # combinations of classes that are tried
_NUMBERS = (bool, int, float, complex, np.generic)
_PYTHON = {"b": bool, "i": int, "f": float, "c": complex}


def kinds_of(value: Any) -> Kinds:
    """The classes that a value may be of in plain Python.

    >>> kinds_of(2.0)
    frozenset({<class 'float'>})
    """
    if not isinstance(value, Array):  # a number or an array; else what no path gives a value
        return frozenset([type(value)] if isinstance(value, (*_NUMBERS, np.ndarray)) else [])
    t = value.type
    if t.ndim:
        return _ARRAY
    if value.kinds is not None:
        return value.kinds
    if value.is_buffer and not t.weak:
        return _ARRAY
    return _of_var(current(), value._value, set())


def _of_var(builder: Builder, var: Any, seen: set[Any]) -> Kinds:
    if not isinstance(var, Var):  # a number; else what no path gives a value
        return frozenset([type(var)] if isinstance(var, _NUMBERS) else [])
    if var.type.ndim:
        return _ARRAY
    if var.type.weak:
        return frozenset([_PYTHON[var.type.dtype.kind]])
    if var in builder.kinds:
        return builder.kinds[var]
    made = builder.definitions.get(var)
    scalar: Kinds = frozenset([var.type.dtype.type])
    if isinstance(made, Apply):
        return scalar
    if not isinstance(made, (If, For, While)):
        return scalar | _ARRAY
    seen.add(var)
    k = made.outs.index(var)
    first = made.then.results[k] if isinstance(made, If) else made.inits[k]
    second = made.orelse.results[k] if isinstance(made, If) else made.body.results[k]
    phis = () if isinstance(made, If) else made.phis
    found: Kinds = frozenset()
    for source in (first, second):
        if source not in seen and source not in phis:
            own = builder.celled.get(source, frozenset()) if isinstance(source, Var) else ()
            found |= _of_var(builder, source, seen) | frozenset(own)
    return found or scalar


def samples(value: Array) -> list[Any]:
    """A plain value of each class that an Array may be of."""
    t = value.type
    found: list[Any] = []
    for kind in sorted(kinds_of(value), key=lambda k: k.__name__):
        if kind is np.ndarray:
            sizes = tuple(d if isinstance(d, int) and d <= 3 else 2 for d in value.dims)
            made = np.ones(sizes, t.dtype)
            if len(sizes) == 2:
                made = made + np.eye(*sizes, dtype=t.dtype)  # not singular
            found.append(made)
        else:
            found.append(_one_of(kind, value))
    return found


def _one_of(kind: type, value: Array) -> Any:
    """A number of a class; the user's own is not asked how it is made."""
    if isinstance(value, NumberOfClass):
        return value.instance
    base = next((b for b in BASES if issubclass(kind, b)), None)
    return base.__new__(kind, 1) if is_users_number(kind) and base else kind(1)


def answer(
    machine: Machine, value: Array, question: Callable[[Any], Any], what: str, node: Any
) -> Any:
    """Plain Python's answer to a question about a value; refused where only a run can know it."""
    found = [question(sample) for sample in samples(value)]
    if any(other is not found[0] and other != found[0] for other in found):
        names = " or ".join(sorted(k.__name__ for k in kinds_of(value)))
        machine.fail(
            UnsupportedFunction,
            node,
            f"{what} depends on what only a run can know: this is {names}.",
            "ask np.ndim of it, or make it an array first: np.asarray(x)",
        )
    return found[0]


def check_items(value: Array, stores: bool) -> None:
    """Raise Python's own error for a subscript of a number, which has no elements."""
    kinds = _ARRAY if value.ndim else kinds_of(value)
    if np.ndarray in kinds:
        if stores and kinds != _ARRAY:
            raise UnsupportedFunction(
                "Whether this is a number or an array, only a run can know, and it is stored into.",
                current().origin,
                "make it an array first: x = np.array(x)",
            )
        return
    kind = min(kinds, key=lambda k: k.__name__)
    numpys = issubclass(kind, np.generic)
    name = f"numpy.{kind.__name__}" if numpys else kind.__name__
    if stores:
        raise TypeError(f"'{name}' object does not support item assignment")
    if not numpys:
        raise TypeError(f"'{name}' object is not subscriptable")


def noted(result: Any, function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """A result with the classes that NumPy gives it; a new cell where an argument's differ."""
    if not isinstance(result, Array) or result.ndim or result.type.weak:
        return result
    if isinstance(result, MixedNumber):
        return result
    if result.is_buffer and not any(result is a for a in (*args, *kwargs.values())):
        return result
    if isinstance(function, np.ufunc) and kwargs.get("out") is None and len(args) <= function.nin:
        kinds: Kinds = frozenset([result.dtype.type])
    else:
        kinds = _by_numpy(result, function, args, kwargs)
    given = any(result is a for a in (*args, *kwargs.values()))
    if kinds == kinds_of(result):
        result.is_buffer = result.is_buffer or (kinds == _ARRAY and not given)
        return result
    if given:
        result = Array(result.atom)
    result.kinds = kinds
    result.is_buffer = kinds == _ARRAY
    builder, var = current(), result._value
    builder.celled[var] = builder.celled.get(var, frozenset()) | kinds
    return result


def noted_of(function: Any, result: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """``noted`` for any function: only NumPy's own functions are called on samples."""
    if not (function in (np.asarray, np.asanyarray) and len(args) == 1 and not kwargs):
        apart(result)
    module = getattr(function, "__module__", None) or ""
    numpys = isinstance(function, np.ufunc) or module.startswith("numpy")
    return noted(result, function, args, kwargs) if numpys else result


def apart(result: Any) -> None:
    """Mark the memory of a rule's result as unknown: in NumPy it may be a view or a copy."""
    for part in result if isinstance(result, (list, tuple)) else [result]:
        if isinstance(part, Array):
            part.leaf = None


def _by_numpy(result: Array, function: Any, args: Any, kwargs: dict[str, Any]) -> Kinds:
    """The classes of a function's results on samples; all that are possible where it fails."""
    either: Kinds = frozenset([result.dtype.type]) | _ARRAY
    given = (list(args), kwargs)
    flat = list({id(v): v for v in all_within(given) if isinstance(v, Array)}.values())
    choices = [samples(a) for a in flat]
    found = set()
    for chosen in itertools.islice(itertools.product(*choices), _MOST):
        table = {id(a): s for a, s in zip(flat, chosen, strict=True)}
        values, named = _replaced(given, table)
        try:
            with np.errstate(all="ignore"):
                made = function(*values, **named)
        except Exception:  # of samples that do not fit: nothing is known
            return either
        if np.ndim(made):
            return either
        found.add(np.ndarray if isinstance(made, np.ndarray) else result.dtype.type)
    return frozenset(found)


def _replaced(value: Any, table: dict[int, Any]) -> Any:
    if isinstance(value, Array):
        return table[id(value)]
    holds = isinstance(value, (dict, list, tuple))
    return renewed(value, lambda part: _replaced(part, table)) if holds else value


class Unread:
    """An attribute that a value has in plain Python, and that no rule reads: it is there."""

    def __init__(self, name: str):
        self.name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise self.refused()

    def __bool__(self) -> bool:
        raise self.refused()

    def refused(self) -> UnsupportedFunction:
        """The error for any use of the attribute other than a comparison with None."""
        return UnsupportedFunction(f"ndarray.{self.name} is only compared with None.")


def attribute_of(machine: Machine, value: Array, name: str, node: Any) -> Any:
    """``value.name``; a method's results have the classes of NumPy's results."""
    if name == "__class__":
        return answer(machine, value, type, "Its class", node)
    found = getattr(value, name)
    if isinstance(found, Array):
        apart(found)
        return noted(found, lambda x: getattr(x, name), [value], {})
    if name not in METHODS:
        return found

    def method(*args: Any, **kwargs: Any) -> Any:
        if holds_mixed([*args, *kwargs.values()]):
            return called(machine, args, kwargs, method)
        result = asked(_by_name(name), lambda _, *a, **k: found(*a, **k), value, *args, **kwargs)
        apart(result)
        return noted(result, _by_name(name), [value, *args], kwargs)

    return method


def _by_name(name: str) -> Callable[..., Any]:
    return lambda x, *args, **kwargs: getattr(x, name)(*args, **kwargs)
