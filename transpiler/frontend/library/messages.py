"""Warnings and log records: effects of the generated code where the user has them, like prints.

What they depend on at run time (filters, levels, handlers) is Python's own there; a question about
it, or a change to it, has no place in a program that is read once and run many times.
"""

from __future__ import annotations

import ast
import logging
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from calque.transpiler.errors import ImpureFunction, UnsupportedFunction
from calque.transpiler.frontend.calls import builtin
from calque.transpiler.frontend.machine import Args, Kwargs, Machine
from calque.transpiler.frontend.values.strings import RuntimeText, display, holds_time
from calque.transpiler.ir.builder import Array, known

_LEVELS = ("debug", "info", "warning", "error", "critical")
_OUTSIDE = "do it outside the function"


def _shown(machine: Machine, value: Any, values: list[Any], node: Any) -> str:
    """A value as source text; refused where it has none."""
    if isinstance(value, type) and issubclass(value, Warning):
        if value.__module__ != "builtins":
            machine.builder.imports[value.__name__] = value.__module__
        return value.__name__
    if isinstance(value, Warning):
        inner = ", ".join(_shown(machine, v, values, node) for v in value.args)
        return f"{_shown(machine, type(value), values, node)}({inner})"
    if not isinstance(value, (Array, RuntimeText)) and known(value) and not _is_literal(value):
        machine.fail(
            UnsupportedFunction,
            node,
            f"A {type(value).__name__} in a message cannot be written in generated code.",
            "give numbers, arrays and texts",
        )
    return display(value, values)


def _is_literal(value: Any) -> bool:
    if isinstance(value, np.generic):
        return bool(np.isfinite(value))
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError, TypeError):
        return False


def _record(machine: Machine, callee: str, args: Args, kwargs: Kwargs, node: Any) -> None:
    values: list[Any] = []
    parts = [_shown(machine, a, values, node) for a in args]
    parts += [f"{k}={_shown(machine, v, values, node)}" for k, v in kwargs.items()]
    machine.builder.effect(f"{callee}({', '.join(parts)})", values)


@builtin(warnings.warn)
def _warn(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> None:
    if machine.catching:
        machine.fail(
            ImpureFunction,
            node,
            "This warns where warnings are caught: generated code has no such block.",
            "leave warnings.catch_warnings out, or use it around the call of the function",
        )
    machine.builder.imports["warn"] = "warnings"
    _record(machine, "warn", args, kwargs, node)


def _logger_text(machine: Machine, logger: Any, node: Any) -> str:
    if type(logger).__name__ != "RootLogger" and logging.getLogger(logger.name) is not logger:
        machine.fail(
            UnsupportedFunction,
            node,
            f"The logger {logger.name!r} is not what logging.getLogger gives by its name.",
            "get it by logging.getLogger",
        )
    machine.builder.imports["getLogger"] = "logging"
    name = "" if logger is logging.getLogger() else repr(logger.name)
    return f"getLogger({name})".replace("{", "{{").replace("}", "}}")


def _method(level: str) -> Callable[..., None]:
    def log(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> None:
        if level != "log" and holds_time(args):
            number = getattr(logging, level.upper())
            method: Any = logging.Logger.isEnabledFor
            if not machine.call_value(method, [args[0], number], {}, node):
                return  # nobody hears how long it took
        text = f"{_logger_text(machine, args[0], node)}.{level}"
        _record(machine, text, args[1:], kwargs, node)

    return log


def _of_root(level: str) -> Callable[..., None]:
    def log(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> None:
        imported = f"log_{level}"
        machine.builder.imports[imported] = f"logging:{level}"
        _record(machine, imported, args, kwargs, node)

    return log


for _level in (*_LEVELS, "log"):
    builtin(getattr(logging.Logger, _level))(_method(_level))
    builtin(getattr(logging, _level))(_of_root(_level))


@builtin(logging.getLogger)
def _get_logger(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    return logging.getLogger(*args, **kwargs)


def _refused(name: str, hint: str = _OUTSIDE) -> Callable[..., None]:
    def refuse(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> None:
        machine.fail(
            ImpureFunction,
            node,
            f"{name} asks or changes how messages are handled, which is outside the function.",
            hint,
        )

    return refuse


for _name in ("setLevel", "addHandler", "removeHandler", "handle", "makeRecord", "exception"):
    builtin(getattr(logging.Logger, _name))(_refused(f"Logger.{_name}"))
for _name in ("basicConfig", "disable", "captureWarnings", "exception"):
    builtin(getattr(logging, _name))(_refused(f"logging.{_name}"))
builtin(warnings.warn_explicit, warnings.showwarning)(_refused("This", "use warnings.warn"))


def _filter(function: Any) -> Callable[..., Any]:
    def change(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
        if not machine.catching:
            _refused(f"warnings.{function.__name__}")(machine, node, args, kwargs)
        return function(*args, **kwargs)  # undone at the end of the block, and nothing warns in it

    return change


for _function in (warnings.simplefilter, warnings.filterwarnings, warnings.resetwarnings):
    builtin(_function)(_filter(_function))
