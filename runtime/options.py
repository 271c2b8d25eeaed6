"""What public functions were given for their parameters, checked where it is given.

A check takes a value and gives it in the form that is kept, or raises ``Unfit``. ``checked`` makes
of that an error which names the function and the parameter::

    grad: has_aux must be True or False, and is 'no'

``CHECKS`` has the check of each parameter, by the name that all public functions give it.
"""

from __future__ import annotations

import inspect
import operator
import os
import reprlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from calque.runtime.meshes import Device
from calque.runtime.parameters import is_function
from calque.transpiler.errors import NestedTooDeeply, UnsupportedOption
from calque.transpiler.ir import pytrees
from calque.transpiler.transformations.mesh_programs import PartitionSpec


class Unsaid:
    """The default of a parameter that may be left out, where None is no value for it."""

    def __repr__(self) -> str:
        return "<left out>"


UNSAID: Any = Unsaid()


_EMPTY: tuple[Any, ...] = ()


class Unfit(Exception):
    """A value that a parameter cannot take: what it must be instead."""

    def __init__(self, wanted: str, kind: type[Exception] = TypeError, why: str = ""):
        super().__init__(wanted)
        self.wanted, self.kind, self.why = wanted, kind, why


def checked(owner: str, **given: Any) -> dict[str, Any]:
    """The values of parameters of a public function, in the form that is kept.

    >>> checked("grad", argnums=[0, 1], has_aux=np.True_)
    {'argnums': (0, 1), 'has_aux': True}
    """
    return {name: fitting(CHECKS[name], value, owner, name) for name, value in given.items()}


def fitting(check: Callable[[Any], Any], value: Any, owner: str, name: str) -> Any:
    """What a check makes of a value; an error that names the parameter where it does not fit."""
    try:
        return check(value)
    except Unfit as unfit:
        reason = f": {unfit.why}" if unfit.why else ""
        text = f"{owner}: {name} must be {unfit.wanted}, and is {shown(value)}{reason}"
        raise unfit.kind(text) from None


def given(public: Callable[..., Any], args: Iterable[Any], kwargs: Mapping[str, Any]) -> Any:
    """The arguments of a call of a public function, by name; a TypeError that names the wrong one.

    >>> given(checked, ["grad"], {"argnums": 0})
    {'owner': 'grad', 'given': {'argnums': 0}}
    """
    try:
        bound = inspect.signature(public).bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{public.__name__}: {error}") from None
    bound.apply_defaults()
    return dict(bound.arguments)


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


def at_least(least: int, wanted: str = "") -> Callable[[Any], int]:
    """An int that is not too small."""

    def check(value: Any) -> int:
        number = whole(value)
        if number < least:
            raise Unfit(wanted or f"at least {least}", ValueError)
        return number

    return check


def optional(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """What the check says, or None."""
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


def argnums(value: Any) -> int | tuple[int, ...]:
    """An int, or a tuple of some ints."""
    if type(value) is int:
        return value
    found = positions(value)
    if not found:
        why = "there is nothing to differentiate by"
        raise Unfit("an int or a sequence of ints", ValueError, why)
    is_number = isinstance(value, np.ndarray) and not value.ndim
    return found if isinstance(value, Iterable) and not is_number else found[0]


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


def specs(value: Any) -> Any:
    """A P, or a tree of these."""
    wanted = "a P or a tree of these"
    try:
        wrong = [x for x in pytrees.flatten(value)[0] if not isinstance(x, PartitionSpec)]
    except NestedTooDeeply:
        raise Unfit(wanted, ValueError, "it holds itself") from None
    if wrong:
        raise Unfit(wanted)
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
    """How many rounds there are from one saved state to the next."""
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
    """Where a function is imported from."""
    if value is None or (isinstance(value, str) and value.rpartition(".")[0]):
        return value
    kind = ValueError if isinstance(value, str) else TypeError
    raise Unfit('"package.module.function" or None', kind)


def batch(value: Any) -> Any:
    """How a declared function is batched."""
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


def some_devices(value: Any) -> tuple[Device, ...]:
    """Devices in a row."""
    row = isinstance(value, (tuple, list)) or (isinstance(value, np.ndarray) and value.ndim == 1)
    if row and all(isinstance(d, Device) for d in value):
        return tuple(value)
    raise Unfit("a sequence of devices or None")


def some_class(value: Any) -> type:
    """A class."""
    if isinstance(value, type):
        return value
    raise Unfit("a class")


_POSITIVE = real(0.0, "a positive number", False)
_NOT_NEGATIVE = real(0.0, "a number that is not negative", True)
CHECKS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(
        ("fun", "fn", "f", "function", "solve", "result", "flatten", "unflatten"), function
    ),
    **dict.fromkeys(("fwd", "bwd"), function),
    **dict.fromkeys(("partials", "transpose", "slope", "jvp", "vjp"), function_or_none),
    **dict.fromkeys(("tangent_solve", "is_leaf"), function_or_none),
    **dict.fromkeys(("has_aux", "holomorphic", "allow_int", "prevent_cse", "enabled"), flag),
    **dict.fromkeys(("tiled", "optimize_remat", "check_vma"), flag),
    **dict.fromkeys(("in_specs", "out_specs"), specs),
    "engine": one_of(None, "threads", "mpi"),
    "devices": optional(some_devices),
    **dict.fromkeys(("policy", "axis_index_groups"), unsupported),
    "symbolic_zeros": unset,
    "argnums": argnums,
    **dict.fromkeys(("static_argnums", "static_broadcasted_argnums"), static_positions),
    "nondiff_argnums": positions,
    "wrt": optional(positions),
    "static_argnames": names,
    "static": names,
    "parallel": one_of(True, False, "auto"),
    "boundscheck": one_of(True, False, None),
    "in_axes": in_axes,
    "out_axes": axes,
    "axis_name": axis_name,
    "axis_size": optional(at_least(0)),
    "chunk_size": optional(at_least(1)),
    **dict.fromkeys(("axis", "scatter_dimension", "split_axis", "concat_axis"), whole),
    "every": every,
    "seed": at_least(0, "an int that is not negative"),
    "order": at_least(0),
    "modes": modes,
    "atol": optional(_NOT_NEGATIVE),
    "rtol": optional(_NOT_NEGATIVE),
    "eps": optional(_POSITIVE),
    "tolerance": _NOT_NEGATIVE,
    "max_steps": at_least(1),
    "dtype": dtype,
    "name": place,
    "batch": batch,
    "text": text,
    "path": path,
    **dict.fromkeys(("primals", "tangents", "args"), sequence),
    "cls": some_class,
}
