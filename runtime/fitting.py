"""Checks that values fit parameters, by kinds of values, and the error that names both."""

from __future__ import annotations

import operator
import os
import re
import reprlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from calque.runtime.parameters import is_function
from calque.transpiler.errors import NestedTooDeeply, UnsupportedOption
from calque.transpiler.ir import pytrees
from calque.transpiler.ir.device_arrays import is_device_array

_EMPTY: tuple[Any, ...] = ()


class Unfit(Exception):
    """A value that a parameter cannot take: what it must be instead."""

    def __init__(self, wanted: str, kind: type[Exception] = TypeError, why: str = ""):
        super().__init__(wanted)
        self.wanted, self.kind, self.why = wanted, kind, why


def fitting(check: Callable[[Any], Any], value: Any, owner: str, name: str) -> Any:
    """The result of a check; an error that names the parameter where the value does not fit."""
    try:
        return check(value)
    except Unfit as unfit:
        reason = f": {unfit.why}" if unfit.why else ""
        text = f"{owner}: {name} must be {unfit.wanted}, and is {shown(value)}{reason}"
        raise unfit.kind(text) from None


_shortened = reprlib.Repr()
_shortened.maxstring = _shortened.maxother = 60
_shortened.maxlevel = 3


def shown(value: Any) -> str:
    """A short text for a value, also for one that holds itself or cannot be shown.

    >>> shown([1.0] * 100)
    '[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, ...]'
    """
    if isinstance(value, np.ndarray):
        sizes = ", ".join(map(str, value.shape))
        return f"an array of {value.dtype} with shape ({sizes})" if value.ndim else repr(value)
    try:
        text = _shortened.repr(value)
    except Exception:  # the user's own __repr__
        text = f"a {type(value).__name__}"
    named = callable(value) or " object at 0x" in text or " instance at 0x" in text
    return _name_of(value) if named else text


def _name_of(value: Any) -> str:
    name = getattr(value, "__name__", None)
    kind = type(value).__name__
    return f"the {kind} {name}" if isinstance(name, str) else f"a {kind}"


def function(value: Any) -> Any:
    """A function, or whatever can be called."""
    if is_function(value):
        return value
    raise Unfit("a function")


def function_or_none(value: Any) -> Any:
    """A function, or nothing."""
    if value is None or is_function(value):
        return value
    raise Unfit("a function or None")


def flag(value: Any) -> bool:
    """True or False; None is False, as in JAX, and 0 and 1 are what they are in Python."""
    if value is True or value is False:
        return value
    if value is None:
        return False
    if isinstance(value, np.ndarray) and value.dtype == bool and not value.ndim:
        return bool(value)
    try:
        return bool(value) if isinstance(value, np.bool_) else bool(operator.index(value))
    except TypeError:
        raise Unfit("True or False") from None


def unsupported(value: Any) -> None:
    """A parameter of JAX's that has to be left out."""
    if value is not None:
        raise Unfit("None", UnsupportedOption, "it is not supported")


def no_policy(value: Any) -> None:
    """The policies that ``jax.checkpoint`` takes, of which values are saved."""
    if value is not None:
        reason = "saved values cannot be chosen; every=k saves a loop's values every k iterations"
        raise Unfit("None", UnsupportedOption, reason)


def unset(value: Any) -> bool:
    """A flag of JAX's that cannot be set."""
    if flag(value):
        raise Unfit("False", UnsupportedOption, "it is not supported")
    return False


def whole(value: Any) -> int:
    """An int, or what has an index; no bool, which is most likely a misplaced flag."""
    if type(value) is int:
        return value
    if isinstance(value, (bool, np.bool_)):
        raise Unfit("an int")
    try:
        return operator.index(value)
    except TypeError:
        raise Unfit("an int") from None


def sizes(value: Any) -> tuple[int, ...]:
    """A shape: ints that are not negative, in a sequence."""
    wanted = "a tuple of ints such as (3,)"
    row = isinstance(value, (tuple, list, range))
    if not row and not (isinstance(value, np.ndarray) and value.ndim == 1):
        raise Unfit(wanted)
    if isinstance(value, np.ndarray) and not value.size:
        return ()
    try:
        found = tuple(map(whole, value))
    except Unfit:
        raise Unfit(wanted) from None
    if any(n < 0 for n in found):
        raise Unfit("a tuple of ints that are not negative", ValueError)
    return found


def finite_tree(value: Any, wanted: str = "a tree of finite depth") -> list[Any]:
    """The leaves of a tree that does not hold itself."""
    try:
        return pytrees.flatten(value)[0]
    except NestedTooDeeply:
        raise Unfit(wanted, ValueError, "it holds itself") from None


def numeric_tree(value: Any) -> Any:
    """A tree of arrays and numbers."""
    for leaf in finite_tree(value, "a tree of arrays and numbers"):
        held = isinstance(leaf, (np.ndarray, np.generic)) or is_device_array(leaf)
        held = held or hasattr(leaf, "addressable_shards")  # on several devices
        array = leaf if held else None
        number = isinstance(leaf, (bool, int, float, complex))
        if not (number if array is None else array.dtype.kind in "biufc"):
            why = "" if leaf is value else f"{shown(leaf)} is none"
            raise Unfit("a tree of arrays and numbers", why=why)
    return value


def at_least(least: int, wanted: str = "") -> Callable[[Any], int]:
    """An int that is not too small."""

    def check(value: Any) -> int:
        number = whole(value)
        if number < least:
            raise Unfit(wanted or f"at least {least}", ValueError)
        return number

    return check


def optional(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the check that also takes None."""
    return lambda value: None if value is None else check(value)


def positions(value: Any) -> tuple[int, ...]:
    """An int or several, as a tuple."""
    if value is _EMPTY:
        return value
    several = isinstance(value, Iterable) and not isinstance(value, (str, bytes))
    if isinstance(value, np.ndarray) and not value.ndim:
        several = False
    return tuple(map(_position, value)) if several else (_position(value),)


def static_positions(value: Any) -> tuple[int, ...]:
    """Positions, or none."""
    return () if value is None else positions(value)


def _position(number: Any) -> int:
    if isinstance(number, (bool, np.bool_)):
        raise Unfit("an int or a sequence of ints", why=f"{number} is a bool")
    try:
        return operator.index(number)
    except TypeError as error:
        raise Unfit("an int or a sequence of ints", why=str(error)) from None


def argnums(value: Any) -> int | str | tuple[int | str, ...]:
    """An int or a name, or a tuple of some."""
    if type(value) is int or isinstance(value, str):
        return value
    if isinstance(value, (tuple, list)) and any(isinstance(n, str) for n in value):
        return tuple(n if isinstance(n, str) else _position(n) for n in value)
    found = positions(value)
    if not found:
        why = "there is nothing to differentiate by"
        raise Unfit("an int or a sequence of ints", ValueError, why)
    is_number = isinstance(value, np.ndarray) and not value.ndim
    return found if isinstance(value, Iterable) and not is_number else found[0]


def some_names(value: Any) -> tuple[str, ...]:
    """A name or several, as a tuple; not none."""
    found = names(value)
    if not found:
        raise Unfit("a name or a sequence of names", ValueError, "there is nothing to take")
    return found


def names(value: Any) -> tuple[str, ...]:
    """A name or several, as a tuple."""
    if value is _EMPTY:
        return value
    if value is None or isinstance(value, str):
        return () if value is None else (value,)
    several = isinstance(value, Iterable) and not isinstance(value, (bytes, np.ndarray))
    found = tuple(value) if several else ()
    if not several or not all(isinstance(n, str) for n in found):
        raise Unfit("a name or a sequence of names")
    return found


def one_of(*known: Any) -> Callable[[Any], Any]:
    """One of a few values; True stands for np.True_ and for 1, too."""

    def check(value: Any) -> Any:
        for k in known:
            if value is k or (isinstance(value, (str, int, np.bool_)) and bool(value == k)):
                return k
        raise Unfit(_listed([repr(k) for k in known]), ValueError)

    return check


def _listed(words: list[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]


def axes(value: Any) -> Any:
    """An int, None, or a tree of these."""
    if value is None or type(value) is int:
        return value
    try:
        leaves = pytrees.flatten(value)[0]
    except NestedTooDeeply:
        raise Unfit("an int, None or a tree of these", ValueError, "it holds itself") from None
    for leaf in leaves:
        try:
            whole(leaf)
        except Unfit:
            why = "" if leaf is value else f"{shown(leaf)} is no axis"
            raise Unfit("an int, None or a tree of these", why=why) from None
    return value


def in_axes(value: Any) -> Any:
    """An axis for all arguments, or one, or a tree of axes, for each."""
    if value is None or isinstance(value, (tuple, list)):
        found = axes(value)
        return tuple(found) if isinstance(found, list) else found
    try:
        return whole(value)
    except Unfit:
        raise Unfit("an int, None, a tuple or a list") from None


def axis_name(value: Any) -> Any:
    """The name of a batch axis: whatever has a hash."""
    try:
        hash(value)
    except Exception:
        raise Unfit("a name, or another value with a hash") from None
    return value


def real(least: float, wanted: str, inclusive: bool) -> Callable[[Any], float]:
    """A number that is not too small."""

    def check(value: Any) -> float:
        number = isinstance(value, (int, float, np.integer, np.floating))
        if isinstance(value, np.ndarray) and not value.ndim and value.dtype.kind in "iuf":
            number = True
        if not number or isinstance(value, bool):
            raise Unfit(wanted)
        if not (value >= least if inclusive else value > least):
            raise Unfit(wanted, ValueError)
        return float(value)

    return check


def every(value: Any) -> Any:
    """Check the number of iterations from one saved state to the next."""
    if value is None or (isinstance(value, str) and value == "sqrt"):
        return value
    wanted = 'a positive int or "sqrt"'
    kind: type[Exception] = TypeError
    try:
        number = whole(value)
    except Unfit:
        if isinstance(value, str):
            kind = ValueError
    else:
        if number >= 1:
            return number
        kind = ValueError
    raise Unfit(wanted, kind)


_BYTES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BYTES |= {f"{letter}i": 2 ** (10 * k) for k, letter in enumerate("kmgt", 1)}
_AMOUNT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?i?)b?\s*", re.IGNORECASE)


def memory(value: Any) -> int:
    """A positive number of bytes, or a text such as ``"500MB"`` and ``"2 GiB"``.

    >>> memory("1.5kB"), memory("2 GiB")
    (1500, 2147483648)
    """
    wanted = 'a positive number of bytes, such as 500_000_000, "500MB" or "2GiB"'
    if isinstance(value, str):
        found = _AMOUNT.fullmatch(value)
        if found is None or found[2].lower() not in _BYTES:
            raise Unfit(wanted, ValueError)
        number = int(float(found[1]) * _BYTES[found[2].lower()])
    else:
        try:
            number = whole(value)
        except Unfit:
            raise Unfit(wanted) from None
    if number < 1:
        raise Unfit(wanted, ValueError)
    return number


def modes(value: Any) -> tuple[str, ...]:
    """The modes whose derivatives are compared; None, as in JAX, is both."""
    found = ("fwd", "rev") if value is None else names(value)
    if not set(found) <= {"fwd", "rev"}:
        raise Unfit('of "fwd" and "rev"', ValueError)
    return found


def dtype(value: Any) -> Any:
    """A dtype of numbers, or None where the function is to be asked."""
    if value is None:
        return None
    try:
        found = np.dtype(value)
    except Exception:  # whatever the value does when it is asked
        raise Unfit("a dtype of numbers or None") from None
    if found.kind not in "biufc":
        raise Unfit("a dtype of numbers or None")
    return found


def place(value: Any) -> Any:
    """Check the name by which a function is imported."""
    if value is None or (isinstance(value, str) and value.rpartition(".")[0]):
        return value
    kind = ValueError if isinstance(value, str) else TypeError
    raise Unfit('"package.module.function" or None', kind)


def batch(value: Any) -> Any:
    """Check the way in which a declared function is batched."""
    if is_function(value) or (isinstance(value, str) and value in ("sequential", "expand_dims")):
        return value
    kind = ValueError if isinstance(value, str) else TypeError
    raise Unfit('"sequential", "expand_dims" or a function', kind)


def text(value: Any) -> str:
    """A text."""
    if isinstance(value, str):
        return value
    raise Unfit("a text")


def path(value: Any) -> Any:
    """The name of a file."""
    if isinstance(value, (str, bytes, os.PathLike)):
        if value in ("", b""):
            raise Unfit("the name of a file", ValueError)
        return value
    raise Unfit("the name of a file")


def sequence(value: Any) -> Any:
    """A tuple or a list of arguments."""
    if isinstance(value, (tuple, list)):
        return value
    raise Unfit("a tuple or a list")


def some_class(value: Any) -> type:
    """A class."""
    if isinstance(value, type):
        return value
    raise Unfit("a class")


POSITIVE = real(0.0, "a positive number", False)

NOT_NEGATIVE = real(0.0, "a number that is not negative", True)
