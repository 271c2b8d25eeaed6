"""The programs that compute the entries of sparse derivatives: all colours at once, by ``vmap``.

Each is a plain function of the user's arguments, read by calque as users' code is; the colours of
the inputs and the places of the entries are arrays that it captures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.runtime.api import vmap
from calque.runtime.linear_maps import jvp, vjp
from calque.runtime.trees import tree_leaves, tree_map

Function = Callable[..., Any]


def by_tangents(
    function: Function,
    argnums: Sequence[int],
    colors: Any,
    numbers: Any,
    places: Any,
    with_value: bool,
) -> Function:
    """Return the function that gives ``(value, aux)`` and the entries, by a tangent a colour.

    ``function`` returns a pair ``(value, aux)``; both are None, and not computed, unless asked for
    ``with_value``. ``colors`` has the colours of the elements of the arguments chosen, in their
    structure, ``numbers`` all colours (in rows, if one row is to be followed at a time), and
    ``places`` where entries stand among the tangents.
    """

    def entries(*args: Any) -> Any:
        chosen = tuple(args[k] for k in argnums)

        def at(*parts: Any) -> Any:
            return function(*_with(args, argnums, parts))

        def along(color: Any) -> Any:
            seed = tree_map(lambda own, x: _where_equal(own, color, x), colors, chosen)
            return _flat(jvp(at, chosen, seed, has_aux=True)[1])

        tangents = vmap(along)(numbers) if numbers.ndim == 1 else _in_parts(vmap(along), numbers)
        told = function(*args) if with_value else (None, None)
        return told, tangents.reshape(-1)[places]

    return entries


def by_cotangents(
    function: Function,
    argnums: Sequence[int],
    colors: Any,
    numbers: Any,
    places: Any,
    with_value: bool,
) -> Function:
    """Return the function that gives ``(value, aux)`` and the entries, by cotangents.

    It is as ``by_tangents``; ``colors`` has the colours of the elements of the value.
    """

    def entries(*args: Any) -> Any:
        chosen = tuple(args[k] for k in argnums)

        def at(*parts: Any) -> Any:
            return function(*_with(args, argnums, parts))

        value, pull, aux = vjp(at, *chosen, has_aux=True)

        def along(color: Any) -> Any:
            seed = tree_map(lambda own, y: _where_equal(own, color, y), colors, value)
            return _flat(pull(seed))

        cotangents = vmap(along)(numbers) if numbers.ndim == 1 else _in_parts(vmap(along), numbers)
        told = (value, aux) if with_value else (None, None)
        return told, cotangents.reshape(-1)[places]

    return entries


def tangents_of(function: Function, argnums: Sequence[int]) -> Function:
    """Return the function of tangents, and all arguments, that gives the tangents of the result."""

    def tangents(directions: Any, *args: Any) -> Any:
        def at(*parts: Any) -> Any:
            return function(*_with(args, argnums, parts))

        return jvp(at, tuple(args[k] for k in argnums), directions)[1]

    return tangents


def cotangents_of(function: Function, argnums: Sequence[int]) -> Function:
    """Return the function of cotangents, and all arguments, that gives those of the arguments."""

    def cotangents(directions: Any, *args: Any) -> Any:
        def at(*parts: Any) -> Any:
            return function(*_with(args, argnums, parts))

        return vjp(at, *(args[k] for k in argnums))[1](directions)

    return cotangents


def _in_parts(function: Function, numbers: Any) -> Any:
    """The rows of ``function(part)``, for one part of the colours after the other."""
    first = function(numbers[0])
    found = np.empty((len(numbers), *first.shape), first.dtype)
    found[0] = first
    for k in range(1, len(numbers)):
        found[k] = function(numbers[k])
    return found


def _with(args: Sequence[Any], argnums: Sequence[int], parts: Sequence[Any]) -> list[Any]:
    """The arguments, with these parts in the places of the chosen ones."""
    made = list(args)
    for k, part in zip(argnums, parts, strict=True):
        made[k] = part
    return made


def _where_equal(own: Any, color: Any, like: Any) -> Any:
    """1 where an element has a colour, and else 0, in the type of ``like``."""
    return np.where(own == color, 1.0, 0.0).astype(np.asarray(like).dtype)


def _flat(tree: Any) -> Any:
    """The numbers of a tree, one after the other."""
    leaves = [np.reshape(leaf, -1) for leaf in tree_leaves(tree)]
    return leaves[0] if len(leaves) == 1 else np.concatenate(leaves)
