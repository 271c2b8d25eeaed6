"""A user's function as one of leaves in a row, and its derivatives as functions of the same kind.

calque reads these functions as it reads the user's; little of them is left in the generated code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from calque.runtime.api import value_and_grad
from calque.runtime.linear_maps import jvp, vjp
from calque.runtime.trees import tree_leaves, tree_unflatten

Places = tuple[int, ...]


def of_tree(
    function: Callable[..., Any], structure: Any, places: Places, constants: tuple[Any, ...]
) -> Callable[..., Any]:
    """``function`` of the leaves that stand at ``places`` of the tree of its arguments.

    ``structure`` is that of ``(args, kwargs)``; ``constants`` holds the other leaves, where they
    stand, and None at the places.
    """

    def call_of_leaves(*leaves: Any) -> Any:
        given = list(constants)
        for place, leaf in zip(places, leaves):
            given[place] = leaf
        args, kwargs = tree_unflatten(structure, given)
        return function(*args, **kwargs)

    return call_of_leaves


def with_own_arrays(function: Callable[..., Any], arrays: frozenset[int]) -> Callable[..., Any]:
    """``function``, which neither stores into those arguments that are arrays nor returns them.

    Copies of arrays that it does not store into are not made.
    """

    def call_with_own_arrays(*leaves: Any) -> Any:
        return function(*[x.copy() if k in arrays else x for k, x in enumerate(leaves)])

    return call_with_own_arrays


def pullback_of(
    function: Callable[..., Any], count: int, wanted: Places, given: Places
) -> Callable[..., Any]:
    """``(*leaves, *cotangents of the results given) -> cotangents of the arguments wanted``.

    ``count`` is the number of leaves.
    """

    def pullback(*leaves: Any) -> Any:
        def partial(*parts: Any) -> Any:
            complete = list(leaves[:count])
            for place, part in zip(wanted, parts):
                complete[place] = part
            results = tree_leaves(function(*complete))
            return tuple([results[k] for k in given])

        return vjp(partial, *[leaves[k] for k in wanted])[1](tuple(leaves[count:]))

    return pullback


def pushforward_of(
    function: Callable[..., Any], count: int, wanted: Places, given: Places
) -> Callable[..., Any]:
    """``(*leaves, *tangents of the arguments wanted) -> tangents of the results given``."""

    def pushforward(*leaves: Any) -> Any:
        def partial(*parts: Any) -> Any:
            complete = list(leaves[:count])
            for place, part in zip(wanted, parts):
                complete[place] = part
            results = tree_leaves(function(*complete))
            return tuple([results[k] for k in given])

        points = tuple([leaves[k] for k in wanted])
        return jvp(partial, points, tuple(leaves[count:]))[1]

    return pushforward


def with_gradient_of(
    function: Callable[..., Any], count: int, wanted: Places
) -> Callable[..., Any]:
    """``(the only result, a number, *its gradients by the arguments wanted)``."""

    def with_gradient(*leaves: Any) -> Any:
        def partial(*parts: Any) -> Any:
            complete = list(leaves[:count])
            for place, part in zip(wanted, parts):
                complete[place] = part
            return tree_leaves(function(*complete))[0]

        places = tuple(range(len(wanted)))
        points = [leaves[k] for k in wanted]
        value, gradients = value_and_grad(partial, argnums=places)(*points)
        return value, *gradients

    return with_gradient
