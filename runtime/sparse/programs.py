"""The programs that compute the entries of sparse derivatives: all colours at once, by ``vmap``.

Each is a plain function of the user's arguments, read by calque as users' code is; the colours of
the inputs and the places of the entries are arrays that it captures.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.runtime.api import vmap
from calque.runtime.linear_maps import jvp, vjp
from calque.runtime.trees import tree_leaves, tree_map
from calque.transpiler.frontend.source import UNQUOTED

Function = Callable[..., Any]
UNQUOTED.add(__file__)  # the user reads quotes of the user's function alone


def by_tangents(
    function: Function,
    argnums: Sequence[int],
    colors: Any,
    all_colors: Any,
    places: Any,
    size: int,
    with_value: bool,
) -> Function:
    """Return the function that gives the entries, by a tangent for each colour.

    ``function`` returns a pair ``(value, aux)``; asked for ``with_value``, the function gives that
    pair and the entries. ``colors`` has the colours of the elements of the arguments chosen: a dict
    by the arguments' names, each in its structure; ``all_colors`` (in rows, if one row is to be
    followed at a time), and ``places``, where entries stand among the ``size`` numbers of the
    tangents: a value of another size at run time is an error of NumPy's.
    """
    push = tangents_of(function, argnums)

    def entries(*args: Any) -> Any:
        def along(color: Any) -> Any:
            pairs = zip(colors.values(), _chosen(args, argnums))
            seeds = [tree_map(lambda own, x: _seed(own, color, x), c, part) for c, part in pairs]
            return _flat(push(tuple(seeds), *args))

        tangents = _for_all(vmap(along), all_colors)
        if not with_value:
            return tangents.reshape(size)[places]
        return function(*args), tangents.reshape(size)[places]

    return _named(entries, function)


def by_cotangents(
    function: Function,
    argnums: Sequence[int],
    colors: Any,
    all_colors: Any,
    places: Any,
    size: int,
    with_value: bool,
) -> Function:
    """Return the function that gives the entries, by a cotangent for each colour.

    It is as ``by_tangents``; ``colors`` has the colours of the value's elements, in its structure.
    """

    def entries(*args: Any) -> Any:
        value, pull, aux = _pulled(function, argnums, args)

        def along(color: Any) -> Any:
            return _flat(pull(tree_map(lambda own, y: _seed(own, color, y), colors, value)))

        cotangents = _for_all(vmap(along), all_colors)
        if not with_value:
            return cotangents.reshape(size)[places]
        return (value, aux), cotangents.reshape(size)[places]

    return _named(entries, function)


def tangents_of(function: Function, argnums: Sequence[int]) -> Function:
    """Return the function of tangents, and all arguments, that gives the tangents of the value.

    ``function`` returns a pair ``(value, aux)``.
    """

    def tangents(directions: Any, *args: Any) -> Any:
        def at(*parts: Any) -> Any:
            return function(*_with(args, argnums, parts))

        return tree_map(_as_float, jvp(at, _chosen(args, argnums), directions, has_aux=True)[1])

    return tangents


def cotangents_of(function: Function, argnums: Sequence[int]) -> Function:
    """Return the function of cotangents, and all arguments, that gives those of the arguments.

    ``function`` returns a pair ``(value, aux)``.
    """

    def cotangents(directions: Any, *args: Any) -> Any:
        return _pulled(function, argnums, args)[1](directions)

    return cotangents


def _pulled(function: Function, argnums: Sequence[int], args: Sequence[Any]) -> Any:
    """The value, the function that pulls cotangents back to the arguments chosen, and aux."""

    def at(*parts: Any) -> Any:
        return function(*_with(args, argnums, parts))

    return vjp(at, *_chosen(args, argnums), has_aux=True)


def names_of(function: Function, argnums: Sequence[int]) -> list[str]:
    """The names of the parameters of these numbers; ``x0`` and the like where there are none."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    several = [p.kind is p.VAR_POSITIONAL for p in parameters]
    bare = several.index(True) if True in several else len(parameters)
    return [parameters[k].name if k < bare else f"x{k}" for k in argnums]


def _named(entries: Function, function: Function) -> Function:
    """The function with the user's name and parameters."""
    name = getattr(function, "__name__", "")
    entries.__name__ = f"{name if name.isidentifier() else 'sparse'}_entries"
    try:
        entries.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        pass  # a function of NumPy's without one
    return entries


def _for_all(function: Function, all_colors: Any) -> Any:
    """The rows of ``function`` for all colours, or for one part of them after the other."""
    if all_colors.ndim == 1:
        return function(all_colors)
    first = function(all_colors[0])
    found = np.empty((len(all_colors), *first.shape), first.dtype)
    found[0] = first
    for k in range(1, len(all_colors)):
        found[k] = function(all_colors[k])
    return found


def _chosen(args: Sequence[Any], argnums: Sequence[int]) -> tuple[Any, ...]:
    return tuple([args[k] for k in argnums])


def _with(args: Sequence[Any], argnums: Sequence[int], parts: Sequence[Any]) -> list[Any]:
    """The arguments, with these parts in the places of the chosen ones."""
    own = dict(zip(argnums, parts, strict=True))
    return [own[k] if k in own else args[k] for k in range(len(args))]


def _seed(own: Any, color: Any, like: Any) -> Any:
    """1 where an element has a colour, and else 0, in the type of ``like``."""
    return np.where(own == color, 1.0, 0.0).astype(np.asarray(like).dtype)


def _as_float(tangent: Any) -> Any:
    """A tangent; zeros for that of integers, which has no numbers."""
    return np.zeros(np.shape(tangent)) if np.asarray(tangent).dtype.kind == "V" else tangent


def _flat(entries: Any) -> Any:
    """The numbers of a tree, one after the other."""
    leaves = tree_leaves(entries)
    if len(leaves) < 2:
        return np.reshape(leaves[0], -1) if leaves else np.zeros(0)
    return np.concatenate([np.reshape(leaf, -1) for leaf in leaves])
