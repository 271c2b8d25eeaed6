"""Functions of NumPy and ``operator``, interpreted as equivalent Python operations."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import gast
import numpy as np

from calque.transpiler.errors import BranchMismatch, UnsupportedFunction
from calque.transpiler.frontend.calls import BUILTINS, OBJECTS, builtin
from calque.transpiler.frontend.comparisons import COMPARE, numeric
from calque.transpiler.frontend.expressions import BINARY, UNARY
from calque.transpiler.frontend.library import numpy_polyfills, polyfills
from calque.transpiler.frontend.machine import Args, Kwargs, Machine
from calque.transpiler.frontend.values.heap import Snapshot
from calque.transpiler.frontend.values.iterables import Known
from calque.transpiler.frontend.values.kinds import noted
from calque.transpiler.ir.builder import FUNCTIONS, Array, type_of

# NumPy's own Python, which reads as a user's would
_SERIES = {
    np.polynomial.polynomial: ("polyval", "polyvalfromroots"),
    np.polynomial.chebyshev: ("chebval",),
    np.polynomial.legendre: ("legval",),
    np.polynomial.hermite: ("hermval",),
    np.polynomial.hermite_e: ("hermeval",),
    np.polynomial.laguerre: ("lagval",),
}


def interpret(function: Any) -> None:
    """Let the interpreter read a library's own Python where a program calls it."""

    def call(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
        return machine.call_for_user(function, args, kwargs, node)

    BUILTINS[function] = call


for _module, _names in _SERIES.items():
    for _name in _names:
        interpret(getattr(_module, _name))


# methods of ufuncs


def _method(ufunc: np.ufunc, twin: Any, options: tuple[str, ...]) -> Callable[..., Any]:
    def call(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
        if not set(kwargs) <= set(options):
            machine.fail(
                UnsupportedFunction,
                node,
                f"An option of a method of np.{ufunc.__name__} is not supported: "
                f"{', '.join(sorted(set(kwargs) - set(options)))}.",
            )
        return machine.call_value(twin, [ufunc, *args], kwargs, node)

    return call


for _ufunc in {f for f in FUNCTIONS if isinstance(f, np.ufunc) and f.nin == 2 and f.nout == 1}:
    if _ufunc not in (np.add, np.subtract):
        BUILTINS[_ufunc.at] = _method(_ufunc, polyfills.accumulated_at, ())
    if _ufunc.signature is None and (_ufunc, "reduce") not in FUNCTIONS:
        options = ("axis", "keepdims", "initial")
        BUILTINS[_ufunc.reduce] = _method(_ufunc, numpy_polyfills.reduced, options)
        BUILTINS[_ufunc.accumulate] = _method(_ufunc, numpy_polyfills.accumulated, ("axis",))
    if (_ufunc, "reduce") in FUNCTIONS:
        BUILTINS[_ufunc.reduceat] = _method(_ufunc, polyfills.reduced_between, ("axis",))


# np.vectorize


@builtin(np.vectorize)
def _vectorize(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    given = dict(zip(("pyfunc", "otypes"), args, strict=False)) | kwargs
    given.pop("doc", None)
    given.pop("cache", None)
    _check_plain(machine, {k for k, v in given.items() if v is not None}, node)
    return machine.own(polyfills.Vectorized(given["pyfunc"], _kinds(given.get("otypes"))))


def _check_plain(machine: Machine, options: set[str], node: Any) -> None:
    if not options <= {"pyfunc", "otypes"} or "pyfunc" not in options:
        machine.fail(
            UnsupportedFunction,
            node,
            "np.vectorize is supported of a function alone, with or without otypes.",
            "use calque.vmap",
        )


def _kinds(otypes: Any) -> Any:
    if otypes is None:
        return None
    kinds = tuple(np.dtype(t) for t in otypes)
    return kinds if len(kinds) > 1 else kinds[0]


def _call_vectorize(machine: Machine, function: Any, args: Args, kwargs: Kwargs, node: Any) -> Any:
    options = {n for n in ("signature", "excluded") if getattr(function, n, None)}
    _check_plain(machine, {"pyfunc", *options, *kwargs}, node)
    made = machine.own(polyfills.Vectorized(function.pyfunc, _kinds(function.otypes)))
    return machine.call_value(made, args, {}, node)


OBJECTS[np.vectorize] = _call_vectorize


@builtin(polyfills.elements_at)
def _elements_at(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    others, place = args
    return tuple(
        machine.subscript(part.items, place, node)  # a list by a run-time position
        if isinstance(part, Known) and isinstance(place, Array)
        else part.element(place)
        for part in others.parts
    )


@builtin(polyfills.kinds_of_first)
def _kinds_of_first(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    """The dtypes of the first results, which ``np.vectorize`` takes: equal on all paths."""
    function, values = args
    base = Snapshot(machine.roots(), machine.owned)
    machine.uniform += 1
    try:
        with machine.builder.block():
            found = machine.call_value(function, list(values), {}, node)
    except BranchMismatch as error:
        error.hint = error.hint or "give the same dtype on every path, or say otypes=[float]"
        raise
    finally:
        machine.uniform -= 1
        base.restore()
    if isinstance(found, tuple):
        return tuple(type_of(value).dtype for value in found)
    return type_of(found).dtype


# operator


@builtin(operator.getitem)
def _getitem(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    method: Callable[..., Any] = machine.subscript
    return method(*args, node)


@builtin(operator.setitem)
def _setitem(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    method: Callable[..., Any] = machine.store
    return method(*args, node)


@builtin(operator.contains)
def _contains(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    return machine.compare(gast.In(), args[1], args[0], node)


def _in_place(kind: type) -> Callable[..., Any]:
    def call(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
        statement = gast.copy_location(gast.BinOp(None, kind(), None), node)
        method: Callable[..., Any] = machine.augmented
        return method(*args, statement)

    return call


def _binary(kind: type) -> Callable[..., Any]:
    def call(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
        left, right = args
        result = machine.binary(kind, left, right, node)
        if isinstance(result, Array) and all(map(numeric, args)):
            return noted(result, np.add, args, {})  # an operator gives no 0-d array
        return result

    return call


def _compared(kind: type) -> Callable[..., Any]:
    def call(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
        left, right = args
        return machine.compare(kind(), left, right, node)

    return call


def _unary(kind: type) -> Callable[..., Any]:
    def call(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
        (value,) = args
        return machine.unary(kind, value, node)

    return call


for _kind, (_word, _function) in BINARY.items():
    BUILTINS[getattr(operator, f"i{_word}")] = _in_place(_kind)
    BUILTINS[_function] = _binary(_kind)
for _kind, (_, _function) in COMPARE.items():
    BUILTINS[_function] = _compared(_kind)
for _kind, (_, _operator) in UNARY.items():
    BUILTINS[_operator] = _unary(_kind)
BUILTINS[operator.inv] = BUILTINS[operator.invert]


@builtin(operator.truth)
def _truth(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    return BUILTINS[bool](machine, node, args, kwargs)


@builtin(operator.not_)
def _not(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    value = BUILTINS[bool](machine, node, args, kwargs)
    return FUNCTIONS[np.logical_not](value) if isinstance(value, Array) else not value


@builtin(operator.abs)
def _abs(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    return BUILTINS[abs](machine, node, args, kwargs)


@builtin(operator.is_)
def _is(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    return machine.compare(gast.Is(), args[0], args[1], node)


@builtin(operator.is_not)
def _is_not(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    return machine.compare(gast.IsNot(), args[0], args[1], node)


@builtin(operator.concat)
def _concat(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    if any(isinstance(a, (Array, np.ndarray)) for a in args):
        text = "operator.concat joins sequences; of arrays Python refuses it, or adds them."
        machine.fail(UnsupportedFunction, node, text, "use np.concatenate")
    left, right = args
    return machine.binary(gast.Add, left, right, node)


if hasattr(operator, "call"):

    @builtin(operator.call)
    def _call(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
        return machine.call_value(args[0], list(args[1:]), kwargs, node)


@builtin(dict.fromkeys)
def _from_keys(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    value = args[1] if len(args) > 1 else None
    return machine.own(
        {machine.hashable(k, node): value for k in machine.known_items(args[0], node)}
    )


def _call_itemgetter(machine: Machine, function: Any, args: Args, kwargs: Kwargs, node: Any) -> Any:
    found = [machine.subscript(args[0], key, node) for key in function.__reduce__()[1]]
    return found[0] if len(found) == 1 else tuple(found)


def _call_attrgetter(machine: Machine, function: Any, args: Args, kwargs: Kwargs, node: Any) -> Any:
    found = []
    for path in function.__reduce__()[1]:
        value = args[0]
        for name in path.split("."):
            value = machine.attribute(value, name, node)
        found.append(value)
    return found[0] if len(found) == 1 else tuple(found)


def _call_methodcaller(
    machine: Machine, function: Any, args: Args, kwargs: Kwargs, node: Any
) -> Any:
    made, given = function.__reduce__()
    named = {} if made is operator.methodcaller else made.keywords
    name, *rest = given if made is operator.methodcaller else (*made.args, *given)
    return machine.call_value(machine.attribute(args[0], name, node), rest, named, node)


OBJECTS[operator.methodcaller] = _call_methodcaller
OBJECTS[operator.itemgetter] = _call_itemgetter
OBJECTS[operator.attrgetter] = _call_attrgetter
