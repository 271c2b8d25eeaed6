"""The user's own primitives: functions that are called, never interpreted, with rules by hand.

A declaration makes a record like those of NumPy's functions; its rules are the user's functions,
which the interpreter runs on recorded arrays when a pass asks for them.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import MethodType
from typing import Any

import numpy as np

from calque.transpiler.errors import (
    NotDifferentiable,
    ShapeError,
    SourceNotFound,
    UnsupportedFunction,
)
from calque.transpiler.frontend.calls import BUILTINS
from calque.transpiler.frontend.guarding import Guard
from calque.transpiler.frontend.machine import Args, Kwargs, Machine
from calque.transpiler.frontend.paths import of_object, step
from calque.transpiler.frontend.trace import listed
from calque.transpiler.frontend.values.descriptions import is_number
from calque.transpiler.ir import builder as build
from calque.transpiler.ir.builder import FUNCTIONS, Array, current, function_name, type_of
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.primitives.base import Primitive, operand

# the record of each declared function
DECLARED: dict[Any, Declared] = {}


@dataclass(eq=False)
class Declared(Primitive):
    """The record of a function that the user declared a primitive."""

    static: tuple[str, ...] = ()  # parameters that are known values, passed by name
    parameters: inspect.Signature | None = field(default=None, repr=False)
    place: str | None = None  # where it is imported from, if the user says so

    def __reduce__(self) -> tuple[Any, ...]:
        return DECLARED.__getitem__, (self.function,)


def declare(
    function: Callable[..., Any],
    kind: str,
    infer: Callable[..., Any],
    static: Sequence[str],
    place: str | None,
) -> Declared:
    """A record without rules, entered in the tables; a later one for a function takes its place."""
    try:
        parameters = inspect.signature(function)
    except (TypeError, ValueError):
        parameters = None
    name = place or function_name(function)
    made = Declared(
        name,
        function,
        infer,
        _spelling,
        kind=kind,
        aliases=kind != "elementwise",
        static=tuple(static),
        parameters=parameters,
    )
    made.place = place

    def record(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
        machine.guards.append(Guard(step(DECLARED.get, of_object(function)), made))
        with machine.at(node):
            return call(made, args, kwargs)

    DECLARED[function] = made
    BUILTINS[function] = record
    FUNCTIONS[function] = lambda *args, **kwargs: call(made, args, kwargs)
    return made


def _spelling(args: Sequence[Any], params: dict[str, Any]) -> str:
    """The arguments in the text of a call: slots for operands, then parameters by name."""
    parts = [f"{{{i}}}" for i in range(len(args))] + [f"{k}={v!r}" for k, v in params.items()]
    return f"({', '.join(parts)})"


# calls


def call(primitive: Declared, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Record a call: parameters that are static by name, all others as operands."""
    if primitive.imported is None:
        primitive.imported = _importable(primitive)
    values, params = _arguments(primitive, args, kwargs)
    operands = [_operand(primitive, v) for v in values]
    for name, value in params.items():
        if isinstance(value, Array):
            raise current().needs_known(value, f"The argument {name} of {primitive.name}")
        if not _is_literal(value):
            raise UnsupportedFunction(
                f"The argument {name} of {primitive.name} is a {type(value).__name__}, which "
                "generated code cannot write down.",
                current().origin,
                "pass a number, a text, None, or a tuple of these",
            )
    return current().apply(primitive, operands, params)


def _arguments(
    primitive: Declared, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    if primitive.parameters is None:
        unknown = [k for k in kwargs if k not in primitive.static]
        if unknown:
            raise UnsupportedFunction(
                f"{primitive.name} has no signature to read: is {unknown[0]} an array?",
                current().origin,
                "pass arrays by position, and name the other arguments in static=",
            )
        return list(args), dict(kwargs)
    try:
        bound = primitive.parameters.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{primitive.name}: {error}") from None
    values: list[Any] = []
    params: dict[str, Any] = {}
    skipped = ""
    for name, parameter in primitive.parameters.parameters.items():
        if name not in bound.arguments:
            skipped = skipped or name
            continue
        value = bound.arguments[name]
        if parameter.kind is parameter.VAR_POSITIONAL:
            values += value
        elif parameter.kind is parameter.VAR_KEYWORD:
            params.update(value)
        elif name in primitive.static or parameter.kind is parameter.KEYWORD_ONLY:
            params[name] = value
        elif skipped and skipped not in primitive.static:
            raise UnsupportedFunction(
                f"{primitive.name} is called with {name} and without {skipped} before it.",
                current().origin,
                f"pass {skipped} too",
            )
        else:
            values.append(value)
    return values, params


def _operand(primitive: Declared, value: Any) -> Any:
    if isinstance(value, (bool, str, bytes)) or value is None:
        raise UnsupportedFunction(
            f"{primitive.name} is called with {value!r}, which is neither an array nor a number.",
            current().origin,
            "name that parameter in static= where the function is declared",
        )
    return operand(value)


def _is_literal(value: Any) -> bool:
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError):
        return False


def _importable(primitive: Declared) -> tuple[str, str]:
    """The module and the name that give the function, or an error that says why there are none."""
    function = primitive.function
    module: Any = getattr(function, "__module__", None) or ""
    name: Any = getattr(function, "__qualname__", None) or getattr(function, "__name__", "")
    place = primitive.place
    if place is None and isinstance(function, (MethodType, np.ufunc)):
        place = function_name(function)
    if place is not None:
        module, _, name = place.rpartition(".")
    found = _found(module, name)
    if found is None and isinstance(function, MethodType):
        outer, _, owner = module.rpartition(".")
        found = _found(outer, f"{owner}.{name}")
        module, name = (outer, f"{owner}.{name}") if found == function else (module, name)
    same = found == function if isinstance(function, MethodType) else found is function
    if not same:
        shown = f"{module}.{name}" if module else name
        raise UnsupportedFunction(
            f"{name or function!r} cannot be imported by name: {shown} is "
            f"{'not there' if found is None else 'another object'}. Generated code calls the "
            "function, and must find it.",
            current().origin,
            "define it at the top level of a module, or say where it is: "
            "name='package.module.function'",
        )
    return module, name


def _found(module: str, name: str) -> Any:
    """The object that ``name``, perhaps dotted, refers to in a module; None if there is none."""
    try:
        return operator.attrgetter(name)(importlib.import_module(module))
    except (ImportError, AttributeError, ValueError):
        return None


# rules


def run_rule(rule: Callable[..., Any], args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Interpret a rule of the user's on recorded arrays, for the statement that a pass visits."""
    machine: Machine = current().machine
    with machine.acting_for(current().origin):
        try:
            return listed(machine.call_value(rule, list(args), dict(params), None))
        except SourceNotFound:
            return rule(*args, **params)  # a rule written where no source is kept


def several(found: Any, count: int, what: str, primitive: Declared) -> list[Any]:
    """A rule's results, one for each of ``count``; a single one may stand alone."""
    given = list(found) if isinstance(found, (tuple, list)) else [found]
    if len(given) != count:
        raise NotDifferentiable(
            f"The {what} of {primitive.name} gives {len(given)} values for {count}.",
            current().origin,
            "give one for each, None for one that is zero",
        )
    return given


def checked(value: Any, like: Any, what: str, primitive: Declared) -> Any:
    """A tangent or a cotangent of the type of ``like``; None for zero."""
    if value is None or (is_number(value) and not value):
        return None
    if isinstance(value, np.ndarray):
        value = FUNCTIONS[np.asarray](value)
    if not isinstance(value, Array) and not is_number(value):
        raise NotDifferentiable(
            f"The {what} of {primitive.name} gives a {type(value).__name__}.", current().origin
        )
    have, want = type_of(value), type_of(like)
    if have.ndim != want.ndim:
        raise ShapeError(
            f"The {what} of {primitive.name} gives {have} for {want}.", current().origin
        )
    for a, b in zip(have.dims, want.dims, strict=True):
        current().unify(a, b)
    return value


def result_type(primitive: Callable[[], Declared], result: Any) -> Callable[..., Any]:
    """An inference rule: the types of the results of ``result``, interpreted but never run."""

    def infer(*args: Any, **params: Any) -> Any:
        with current().block():
            found = run_rule(result, [build.wrap(a) for a in args], params)
        types = tuple(map(_type, found if isinstance(found, (tuple, list)) else [found]))
        return types if isinstance(found, (tuple, list)) else types[0]

    def _type(value: Any) -> ArrayType:
        if isinstance(value, np.ndarray):
            value = FUNCTIONS[np.asarray](value)
        if not isinstance(value, Array) and not is_number(value):
            raise UnsupportedFunction(
                f"The result= of {primitive().name} gives a {type(value).__name__}.",
                current().origin,
                "give an array of the type and shape of the result, such as np.zeros(x.shape)",
            )
        t = type_of(value)
        return ArrayType(t.dtype, t.dims)

    return infer
