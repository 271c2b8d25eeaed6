"""Checks of tangents and cotangents: they must fit primals and results, by JAX's rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from calque.runtime.call.addressed import Addressed
from calque.runtime.call.argument_keys import leaf_key
from calque.runtime.fitting import shown as short
from calque.runtime.spec import Spec
from calque.transpiler.errors import CalqueError, DtypeError, NestedTooDeeply
from calque.transpiler.ir import pytrees
from calque.transpiler.ir.device_arrays import is_device_array
from calque.transpiler.transformations.vmap import labels, parameter_names

CallArguments = tuple[Sequence[Any], Mapping[str, Any]]
_NONE: Mapping[str, Any] = {}
FLOAT0 = np.dtype([("float0", "V")])


def labels_of(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any] = _NONE) -> list[str]:
    """The name of each leaf of a call's arguments, for messages.

    >>> labels_of(lambda x, w: x, (1.0, {"a": 2.0}))
    ['argument 0 (x)', "argument 1 (w['a'])"]
    """
    return [
        label
        for place, own, value in _places(function, (args, kwargs))
        for label in labels(value, place, own)
    ]


def _places(function: Any, call: CallArguments) -> list[tuple[int | str, str | None, Any]]:
    args, kwargs = call
    own: list[str | None] = [*parameter_names(function, len(args))]
    own += [None] * (len(args) - len(own))
    return [*zip(range(len(args)), own, args), *((n, None, v) for n, v in kwargs.items())]


def _label(place: int | str, own: str | None) -> str:
    return f"argument {place}" if own is None else f"argument {place} ({own})"


def naming(
    error: DtypeError | NestedTooDeeply, owner: str, function: Any, call: CallArguments
) -> DtypeError | NestedTooDeeply:
    """An error about an argument, which says what the argument is called.

    ``error`` has been raised while the arguments of a call were looked at, not by the function.
    """
    for place, own, value in _places(function, call):
        try:
            leaves = pytrees.flatten(value)[0]
        except NestedTooDeeply:
            which = _label(place, own)
            return NestedTooDeeply(f"{owner}: {which} holds itself, or is nested too deeply.")
        for leaf, label in zip(leaves, labels(value, place, own), strict=True):
            try:
                leaf_key(leaf)
            except DtypeError as found:
                about = found.message.replace("An argument", label, 1)
                return DtypeError(f"{owner}: {about}", hint=found.hint)
    return error


def check_numbers(owner: str, function: Any, args: Sequence[Any], error: Exception) -> None:
    """After a failed call, raise TypeError if one of its arguments holds no number."""
    for place, own, value in _places(function, (args, _NONE)):
        if not any(map(_is_numeric, pytrees.flatten(value)[0])):
            raise TypeError(
                f"{owner}: {_label(place, own)} is {short(value)}, which holds no number to "
                f"differentiate by: {type(error).__name__}: {error}"
            ) from error


def check_values(owner: str, function: Any, call: CallArguments, leaves: Sequence[Any]) -> None:
    """After a failed call, raise TypeError if one of its arguments is only a type."""
    if not any(type(leaf) is Spec for leaf in leaves):
        return
    for leaf, label in zip(leaves, labels_of(function, *call)):
        if isinstance(leaf, Spec):
            raise TypeError(
                f"{owner}: {label} is a type, {leaf!r}: a call needs values, and only source, save "
                "and explain take types"
            ) from None


def note_containers(
    error: Exception, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> None:
    """Say of an error about a list, a tuple or a dict which argument is one, and what to pass."""
    if not isinstance(error, (TypeError, AttributeError)) or isinstance(error, CalqueError):
        return
    if not getattr(error, "__notes__", []):
        return  # not of what the function says
    for place, own, value in _places(function, (args, kwargs)):
        kind = type(value)
        if kind in (list, tuple, dict) and f"'{kind.__name__}'" in _words(error):
            instead = "compute with its values" if kind is dict else "pass an array, np.array(...)"
            note = f"Instead: {instead}; {_label(place, own)} is a {kind.__name__}"
            if note not in error.__notes__:
                error.add_note(note)
            return


def _words(error: Exception) -> str:
    return str(error).replace("multiply sequence", "multiply 'list' or 'tuple'")


def check_static(owner: str, function: Any, call: CallArguments, static: Sequence[Any]) -> None:
    """Raise TypeError where a static argument is an array, whose elements no key can hold."""
    held = [x for x in static if isinstance(x, np.ndarray) and x.size != 1]
    held += [x for x in static if isinstance(x, Addressed)]
    if not held:
        return
    first = held[0].of if isinstance(held[0], Addressed) else held[0]
    leaves = pytrees.flatten(call)[0]
    for leaf, label in zip(leaves, labels_of(function, *call)):
        if leaf is first:
            raise TypeError(
                f"{owner}: {label} is static, and is {short(leaf)}: a static argument must have a "
                "hash, as numbers, texts and tuples have"
            )


def _is_numeric(leaf: Any) -> bool:
    found = dtype_and_shape(leaf)
    return found is not None and found[0].kind in "biufc"


def dtype_and_shape(leaf: Any) -> tuple[np.dtype[Any], tuple[Any, ...]] | None:
    """The dtype and shape of a leaf, which JAX compares; None if it is no array or number."""
    if isinstance(leaf, Spec):
        return leaf.dtype, leaf.dims
    if isinstance(leaf, (np.ndarray, np.generic)) or is_device_array(leaf):
        return leaf.dtype, leaf.shape
    return (np.dtype(type(leaf)), ()) if isinstance(leaf, (bool, int, float, complex)) else None


def tangent_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of the tangents of a dtype: float0 for integers and booleans."""
    return dtype if dtype.kind in "fc" else FLOAT0


def check_tangents(
    primals: Sequence[Any], tangents: Sequence[Any], name: str = "jvp", function: Any = None
) -> None:
    """Raise TypeError or ValueError where tangents do not fit their primals."""
    leaves, structure = pytrees.flatten(tuple(primals))
    try:
        given, given_structure = pytrees.flatten(tuple(tangents))
    except NestedTooDeeply:
        text = "a tangent holds itself, or is nested too deeply"
        raise NestedTooDeeply(f"{name}: {text}.") from None
    if structure != given_structure:
        raise TypeError(
            f"{name}: primals and tangents must have the same structure, and are "
            f"{shown(primals)} and {shown(tangents)}"
        )
    kind = ValueError if name == "linearize" else TypeError
    for place, (primal, tangent) in enumerate(zip(leaves, given, strict=True)):
        expected, found = dtype_and_shape(primal), dtype_and_shape(tangent)
        if expected is None:
            continue
        wanted = tangent_dtype(expected[0])
        if found is not None and found == (wanted, expected[1]):
            continue
        label = labels_of(function, primals)[place]
        if found is None:
            raise kind(f"{name}: the tangent of {label} is {short(tangent)}")
        if found[0] != wanted:
            raise kind(
                f"{name}: the tangent of {label}, which is of dtype {expected[0]}, must be of "
                f"dtype {_dtype_name(wanted)}, and is of {_dtype_name(found[0])}"
            )
        raise ValueError(
            f"{name}: the tangent of {label} has shape {found[1]}, and its primal {expected[1]}"
        )


def check_cotangent(value: Any, cotangent: Any) -> None:
    """Raise ValueError where a cotangent does not fit the function's value."""
    leaves, structure = pytrees.flatten(value)
    try:
        given, given_structure = pytrees.flatten(cotangent)
    except NestedTooDeeply:
        text = "the cotangent holds itself, or is nested too deeply"
        raise NestedTooDeeply(f"vjp: {text}.") from None
    if structure != given_structure:
        raise ValueError(
            f"vjp: the cotangent must have the structure of the result, {shown(value)}, "
            f"and is {shown(cotangent)}"
        )
    for leaf, found in zip(leaves, given, strict=True):
        expected, got = dtype_and_shape(leaf), dtype_and_shape(found)
        if expected is None or expected[0].kind not in "fc":
            continue
        if got != expected:
            raise ValueError(
                f"vjp: the result is {_type_text(expected)}, and its cotangent {_type_text(got)}"
            )


def shown(value: Any) -> str:
    """A tree with ``*`` for leaves.

    >>> shown({"a": (1.0, None)})
    "{'a': (*, None)}"
    """

    class Leaf:
        def __repr__(self) -> str:
            return "*"

    return repr(pytrees.tree_map(lambda leaf: Leaf(), value))


def _dtype_name(dtype: np.dtype[Any]) -> str:
    return "float0" if dtype == FLOAT0 else str(dtype)


def _type_text(found: tuple[np.dtype[Any], tuple[Any, ...]] | None) -> str:
    if found is None:
        return "no array"
    return f"{_dtype_name(found[0])}[{', '.join(map(str, found[1]))}]"


def private_copies(args: Sequence[Any]) -> tuple[Any, ...]:
    """Arguments to run a function on, which cannot change the caller's; layout is kept.

    Arrays that share memory do so in their copies, too.
    """
    leaves = pytrees.flatten(tuple(args))[0]
    arrays = {id(x): x for x in leaves if isinstance(x, np.ndarray)}
    made: dict[int, Any] = {}
    for group in _sharing(list(arrays.values())):
        made.update(zip(map(id, group), _copied_together(group), strict=True))

    def copy(leaf: Any) -> Any:
        if not isinstance(leaf, np.ndarray) and not is_device_array(leaf):
            return leaf
        if id(leaf) not in made:
            made[id(leaf)] = leaf.copy(order="K")
        return made[id(leaf)]

    return tuple(pytrees.tree_map(copy, tuple(args)))


def _sharing(arrays: list[np.ndarray]) -> list[list[np.ndarray]]:
    """Arrays whose bounds in memory overlap, in groups of two or more."""
    groups: list[list[np.ndarray]] = []
    end = 0
    for array in sorted((x for x in arrays if x.size), key=lambda x: byte_bounds(x)[0]):
        low, high = byte_bounds(array)
        if not groups or low >= end:
            groups.append([])
        groups[-1].append(array)
        end = high if len(groups[-1]) == 1 else max(end, high)
    return [group for group in groups if len(group) > 1]


def _copied_together(group: list[np.ndarray]) -> list[np.ndarray]:
    """Views of one copy of the memory in which arrays lie, where they lie in it."""
    bounds = [byte_bounds(x) for x in group]
    low, high = min(b[0] for b in bounds), max(b[1] for b in bounds)
    room = np.empty(high - low + 64, np.uint8)
    start = (low - room.ctypes.data) % 64  # as well aligned as it was
    views = [
        np.ndarray(x.shape, x.dtype, room, start + x.ctypes.data - low, x.strides) for x in group
    ]
    for view, x in zip(views, group, strict=True):
        view[...] = x
    return views
