"""Checks of the kinds of arguments of ``calque.random``'s functions: errors name parameters.

The functions themselves stay unchecked, for calls from each other and for interpreted code.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np

from calque.runtime.fitting import (
    Unfit,
    at_least,
    dtype,
    fitting,
    flag,
    one_of,
    optional,
    shown,
    whole,
)
from calque.runtime.random.keys import checked_shape
from calque.transpiler.errors import CalqueError
from calque.transpiler.frontend.calls import builtin
from calque.transpiler.frontend.machine import Args, Kwargs, Machine

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def _array(value: Any) -> np.ndarray:
    """An array of what NumPy takes for one."""
    if isinstance(value, (set, dict, str, bytes)) or value is None:
        raise Unfit("a number or an array")
    try:
        return np.asarray(value)
    except Exception:  # ragged, nested too deeply, or whatever the value does when it is asked
        raise Unfit("a number or an array") from None


def _of_kinds(kinds: str, wanted: str) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if type(value) is float or (type(value) is int and abs(value) < 1 << 63):
            found = np.dtype(type(value))
        else:
            found = _array(value).dtype
        if found.kind not in kinds:
            raise Unfit(wanted)
        return value

    return check


_numbers = _of_kinds("biuf", "a real number or an array of them")
_integers = _of_kinds("biu", "an integer or an array of them")
_things = _of_kinds("biufcSUmM", "a number or an array")
_count = at_least(0)
_mode = one_of(None, "low", "high")
_implementation = one_of(None, "threefry2x32")
# by the name of a parameter; all others are numbers
_CHECKS: dict[str, Callable[[Any], Any]] = {
    "dtype": dtype,
    "axis": whole,
    "mode": _mode,
    "method": one_of("cholesky", "eigh", "svd"),
    "impl": _implementation,
    "replace": flag,
    "independent": flag,
    "seed": _integers,
}
_OF_ONE: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("triangular", "mode"): _numbers,
    ("bernoulli", "mode"): one_of("low", "high"),
    ("key", "dtype"): _implementation,
    ("wrap_key_data", "dtype"): _implementation,
    ("fold_in", "data"): _integers,
    ("orthogonal", "n"): _count,
    ("orthogonal", "m"): optional(_count),
    ("ball", "d"): _count,
    ("choice", "a"): _things,
    ("choice", "p"): optional(_numbers),
    ("permutation", "x"): _things,
}
_KEYS = ("key", "keys", "key_bits_array", "num")  # checked where they are used


def _checks(function: Callable[..., Any]) -> dict[str, Callable[[Any], Any]]:
    """The check of each parameter."""
    found = {}
    name = function.__name__
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == "shape":
            check: Any = functools.partial(checked_shape, name=f"random.{name}")
            found["shape"] = check if parameter.default is not None else optional(check)
        elif parameter.name not in _KEYS:
            by_name = _CHECKS.get(parameter.name, _numbers)
            found[parameter.name] = _OF_ONE.get((name, parameter.name), by_name)
    return found


def _check(function: Callable[..., Any], where: Callable[[Any], bool]) -> Callable[..., None]:
    """Return a function that checks those arguments of a call for which ``where`` is true."""
    owner, checks = f"random.{function.__name__}", _checks(function)
    order = tuple(inspect.signature(function).parameters)

    def check(*args: Any, **kwargs: Any) -> None:
        for name, value in (*zip(order, args, strict=False), *kwargs.items()):
            if name in checks and where(value):
                fitting(checks[name], value, owner, name)

    return check


def _is_plain(value: Any) -> bool:
    """True if a value of interpreted code is one of Python's: not an array of the program."""
    if isinstance(value, (tuple, list)):
        return all(map(_is_plain, value))
    return value is None or type(value) in (bool, int, float, complex, str, bytes, dict, set)


def checked_call(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """The function as users call it."""
    check = _check(function, lambda value: True)

    @functools.wraps(function)
    def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        check(*args, **kwargs)
        try:
            return function(*args, **kwargs)
        except CalqueError:
            raise
        except (TypeError, ValueError, IndexError, OverflowError) as error:
            raise _with_arguments(error, function, args, kwargs) from None

    call.__module__ = "calque.random"
    return call


def _with_arguments(
    error: Exception, function: Callable[..., Any], args: Any, kwargs: Any
) -> Exception:
    """NumPy's error about values that do not fit together, with the call that gave them."""
    owner, text = f"random.{function.__name__}", str(error)
    try:
        given = inspect.signature(function).bind(*args, **kwargs).arguments
    except TypeError:  # too few, too many or unknown ones
        return TypeError(f"random.{text}" if text.startswith(function.__name__) else text)
    call = ", ".join(f"{name}={shown(value)}" for name, value in given.items() if name != "key")
    kinds = (TypeError, OverflowError, np.linalg.LinAlgError)
    kind = next((k for k in kinds if isinstance(error, k)), ValueError)
    return kind(f"{text if owner in text else f'{owner}: {text}'} (given {call or 'a key'})")


def checked_where_plain(
    function: Callable[..., Any], handler: Callable[..., Any]
) -> Callable[..., Any]:
    """Return the handler of calls in interpreted code, after a check of known arguments."""
    check = _check(function, _is_plain)

    @functools.wraps(handler)
    def call(*args: Any, **kwargs: Any) -> Any:
        check(*args, **kwargs)
        return handler(*args, **kwargs)

    return call


def read_where_plain(public: Callable[..., Any], function: Callable[..., Any]) -> None:
    """Let the interpreter read the function where a program calls ``public``."""
    check = _check(function, _is_plain)

    def call(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
        check(*args, **kwargs)
        return machine.call_for_user(function, args, kwargs, node)

    builtin(public)(call)
