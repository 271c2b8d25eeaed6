"""Functions that make texts: of known values now, of run-time values where a text is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calque.transpiler.frontend.calls import OBJECTS, builtin
from calque.transpiler.frontend.guarding import guard_native
from calque.transpiler.frontend.machine import Args, Kwargs, Machine
from calque.transpiler.frontend.values.strings import (
    RuntimeCall,
    RuntimeText,
    TextMethod,
    as_it_is,
    has_run_time_values,
)

_CONVERSIONS = {repr: "r", ascii: "a"}
# functions whose text of run-time values is a call where it is used
_CALLED: dict[Callable[..., str], str] = {
    **{f: f"np.{f.__name__}" for f in (np.array2string, np.array_repr, np.array_str)},
    np.format_float_positional: "np.format_float_positional",
    np.format_float_scientific: "np.format_float_scientific",
    **{f: f.__name__ for f in (hex, oct, bin, chr)},
}


@builtin(str)
def _str(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    if len(args) != 1 or kwargs:
        return str(*args, **kwargs)
    return machine.formatted(args[0], "s", "", node)


def _converted(function: Callable[..., str]) -> Callable[..., Any]:
    def convert(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
        if len(args) != 1 or kwargs:
            return function(*args, **kwargs)
        return machine.formatted(args[0], _CONVERSIONS[function], "", node)

    return convert


for _function in _CONVERSIONS:
    builtin(_function)(_converted(_function))


@builtin(format)
def _format(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    if not 1 <= len(args) <= 2 or kwargs:
        return format(*args, **kwargs)
    return machine.formatted(args[0], "", args[1] if len(args) > 1 else "", node)


def _called(function: Callable[..., str]) -> Callable[..., Any]:
    def call(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
        given = [*args, *kwargs.values()]
        if not has_run_time_values(given):
            guard_native(machine, given, node)
            return function(*args, **kwargs)
        slots = [f"{{{k}}}" for k in range(len(args))]
        slots += [f"{key}={{{len(args) + k}}}" for k, key in enumerate(kwargs)]
        text = f"{_CALLED[function]}({', '.join(slots)})"
        return RuntimeText([RuntimeCall(text, *map(as_it_is, given))])

    return call


for _function in _CALLED:
    builtin(_function)(_called(_function))


def _method(machine: Machine, method: TextMethod, args: Args, kwargs: Kwargs, node: Any) -> Any:
    return machine.text_method(method.text, method.name, args, kwargs, node)


OBJECTS[TextMethod] = _method
