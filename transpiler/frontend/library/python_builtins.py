"""The builtins of Python, over known structure and run-time values."""

from __future__ import annotations

import operator
import sys
import typing
from collections import OrderedDict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import gast
import numpy as np

from calque.transpiler.errors import ImpureFunction, UnsupportedSyntax
from calque.transpiler.frontend.calls import BUILTINS, builtin
from calque.transpiler.frontend.control.comprehension import Comprehensions, accumulate, fold
from calque.transpiler.frontend.guarding import guard_native
from calque.transpiler.frontend.library import (  # noqa: F401  (fill the table)
    bound_arguments,
    clocks,
    copying,
    extremes,
    iterating,
    iterators,
    itertools_functions,
    messages,
    nested_arguments,
    number_functions,
    numpy_functions,
    orders,
    polyfills,
    process_state,
    queues,
    sorted_lists,
    substitutes,
    text_functions,
    type_questions,
)
from calque.transpiler.frontend.machine import Args, Kwargs
from calque.transpiler.frontend.methods import method_of
from calque.transpiler.frontend.mixed_operations import (
    called,
    holds_mixed,
    operated,
    operation,
)
from calque.transpiler.frontend.values.containers.list_kinds import RecordedList, rows_of
from calque.transpiler.frontend.values.iterables import Iterable, Range
from calque.transpiler.frontend.values.key_presence import check_dict
from calque.transpiler.frontend.values.mixed_numbers import MixedNumber
from calque.transpiler.frontend.values.strings import display
from calque.transpiler.ir.builder import FUNCTIONS, OPERATORS, Array, known, known_int


class Interpreter(Comprehensions):
    """The whole interpreter."""


@builtin(sum)
def _sum(machine: Interpreter, node: Any, args: Args, kwargs: Kwargs) -> Any:
    start = kwargs.get("start", args[1] if len(args) > 1 else 0)

    def add(total: Any, item: Any) -> Any:
        return machine.binary(gast.Add, total, item, node)

    if isinstance(args[0], gast.GeneratorExp):
        return accumulate(machine, args[0], start, add)
    return fold(machine, node, args[0], start, add)


@builtin(bool)
def _bool(machine: Interpreter, node: Any, args: Args, kwargs: Kwargs) -> Any:
    found = args[0] if args else False
    if not isinstance(found, (Array, np.ndarray)):
        found = machine.truth(found, node)
    return found if isinstance(found, bool) else FUNCTIONS[bool](found)


@builtin(object.__new__)
def _new(machine: Interpreter, node: Any, args: Args, kwargs: Kwargs) -> Any:
    return machine.own(object.__new__(args[0]))


@builtin(slice)
def _slice(machine: Interpreter, node: Any, args: Args, kwargs: Kwargs) -> Any:
    return slice(*args)


@builtin(SimpleNamespace)
def _namespace(machine: Interpreter, node: Any, args: Args, kwargs: Kwargs) -> Any:
    if args:
        machine.fail(UnsupportedSyntax, node, "SimpleNamespace of a mapping.", "name each one")
    return machine.own(SimpleNamespace(**kwargs))


@builtin(len)
def _len(machine: Interpreter, node: Any, args: Args, kwargs: Kwargs) -> Any:
    value = machine.settled(args[0], node)
    if isinstance(value, Array):
        if not value.ndim:
            raise TypeError("len() of unsized object")
        return value.shape[0]
    if isinstance(value, Iterable):
        return value.length()
    rows = rows_of(value)
    if rows is not None:
        return rows.length()
    check_dict(value, node)
    if not isinstance(value, (list, tuple, dict, set, str, range, np.ndarray)) and hasattr(
        type(value), "__len__"
    ):
        return machine.call_value(type(value).__len__, [value], {}, node)
    return len(value)


@builtin(range)
def _range(machine: Interpreter, node: Any, args: Args, kwargs: Kwargs) -> Any:
    values: list[Any] = []
    for value in args:
        if isinstance(value, Array):
            if value.dtype.kind not in "iu" or value.ndim:
                raise TypeError(f"'{value.type}' object cannot be interpreted as an integer")
            dim = machine.builder.dim_of(value)
            machine.builder.remember_size(value)
            values.append(dim if isinstance(dim, int) else value)
        else:
            values.append(operator.index(value))
    if not any(isinstance(v, Array) for v in values):
        return range(*values)
    if len(values) == 1:
        return Range(0, values[0])
    return Range(*values)


def _sequence(kind: type) -> Callable[..., Any]:
    def make(machine: Interpreter, node: Any, args: Args, kwargs: Kwargs) -> Any:
        if kind is list and args and rows_of(args[0]) is not None:
            return machine.list_copy(args[0])
        items = machine.known_items(args[0], node) if args else []
        return machine.own(RecordedList(items)) if kind is list else kind(items)

    return make


BUILTINS[list], BUILTINS[tuple] = _sequence(list), _sequence(tuple)


@builtin(dict)
def _dict(machine: Interpreter, node: Any, args: Args, kwargs: Kwargs) -> Any:
    source = args[0] if args else {}
    pairs = source.items() if isinstance(source, dict) else machine.known_items(source, node)
    return machine.own({**{machine.hashable(k, node): v for k, v in pairs}, **kwargs})


@builtin(OrderedDict)
def _ordered(machine: Interpreter, node: Any, args: Args, kwargs: Kwargs) -> Any:
    return machine.own(OrderedDict(_dict(machine, node, args, kwargs)))


@builtin(set, frozenset)
def _set(machine: Interpreter, node: Any, args: Args, kwargs: Kwargs) -> Any:
    if args and isinstance(args[0], Array):
        return numpy_functions.elements_of(machine, args[0], node)
    items = machine.known_items(args[0], node) if args else []
    if not known(items):
        raise UnsupportedSyntax("A set of run-time values is not supported.", machine.origin(node))
    return machine.own(set(items))


@builtin(typing.cast)
def _cast(machine: Interpreter, node: Any, args: Args, kwargs: Kwargs) -> Any:
    return args[1]


@builtin(setattr)
def _setattr(machine: Interpreter, node: Any, args: Args, kwargs: Kwargs) -> Any:
    machine.set_attribute(args[0], args[1], args[2], node)


@builtin(super)
def _super(machine: Interpreter, node: Any, args: Args, kwargs: Kwargs) -> Any:
    if args:
        return super(*args)
    call = machine.call
    spec = call.node.args
    names = [a.id for a in [*getattr(spec, "posonlyargs", []), *spec.args]]
    if "__class__" not in call.cells or not names:
        raise RuntimeError("super(): no arguments")
    return super(call.cells["__class__"].cell.cell_contents, call.frame.locals[names[0]])


def _by_classes(handler: Callable[..., Any]) -> Callable[..., Any]:
    """A builtin that is called in an arm for each class that a number may be of."""

    def call(machine: Interpreter, node: Any, args: Args, kwargs: Kwargs) -> Any:
        again = lambda *args, **kwargs: handler(machine, node, list(args), kwargs)
        return called(machine, args, kwargs, again) if holds_mixed(args) else again(*args, **kwargs)

    return call


@builtin(print)
@_by_classes
def _print(machine: Interpreter, node: Any, args: Args, kwargs: Kwargs) -> Any:
    if kwargs.get("file") not in (None, sys.stdout):
        machine.fail(
            ImpureFunction,
            node,
            "print writes to a file.",
            "print to stdout, or write outside the function",
        )
    guard_native(machine, args, node)
    values: list[Any] = []
    parts = [display(a, values) for a in args]
    parts += [f"{k}={display(v, values)}" for k, v in kwargs.items() if k != "file"]
    machine.builder.effect(f"print({', '.join(parts)})", values)


@builtin(round)
@_by_classes
def _round(machine: Interpreter, node: Any, args: Args, kwargs: Kwargs) -> Any:
    value, *digits = (*args, *kwargs.values())
    if not digits or digits[0] is None:
        return FUNCTIONS[int](FUNCTIONS[np.round](value))
    return FUNCTIONS[round](value, *digits)


@builtin(abs)
def _abs(machine: Interpreter, node: Any, args: Args, kwargs: Kwargs) -> Any:
    value = machine.recorded(args[0])
    own = method_of(value, "abs")
    if own is not None:
        return machine.call_value(own, [value], {}, node)
    if isinstance(value, MixedNumber):
        again = lambda value: _abs(machine, node, [value], {})
        return operated(machine, operation("abs"), [value], again)
    return OPERATORS["abs"](value) if isinstance(value, Array) else abs(value)


@builtin(pow)
def _pow(machine: Interpreter, node: Any, args: Args, kwargs: Kwargs) -> Any:
    base, exponent, modulus = (*args, *kwargs.values(), None)[:3]
    if modulus is not None:
        given = (base, exponent, modulus)
        return pow(*[known_int(a, "A number of pow with a modulus") for a in given])
    return machine.binary(gast.Pow, base, exponent, node)


@builtin(divmod)
def _divmod(machine: Interpreter, node: Any, args: Args, kwargs: Kwargs) -> Any:
    left, right = args
    quotient = machine.binary(gast.FloorDiv, left, right, node)
    return (quotient, machine.binary(gast.Mod, left, right, node))
