"""Tangents and cotangents must fit what they belong to, by JAX's rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.runtime.spec import Spec
from calque.transpiler import tree

FLOAT0 = np.dtype([("float0", "V")])


def dtype_and_shape(leaf: Any) -> tuple[np.dtype[Any], tuple[Any, ...]] | None:
    """What JAX compares of a leaf; None for what is no array."""
    if isinstance(leaf, Spec):
        return leaf.dtype, leaf.dims
    if isinstance(leaf, (np.ndarray, np.generic)):
        return leaf.dtype, leaf.shape
    return (np.dtype(type(leaf)), ()) if isinstance(leaf, (bool, int, float, complex)) else None


def tangent_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of the tangents of a dtype: float0 for integers and booleans."""
    return dtype if dtype.kind in "fc" else FLOAT0


def check_tangents(primals: Sequence[Any], tangents: Sequence[Any], name: str = "jvp") -> None:
    """Raise TypeError or ValueError where tangents do not fit their primals."""
    leaves, structure = tree.flatten(tuple(primals))
    given, given_structure = tree.flatten(tuple(tangents))
    if structure != given_structure:
        raise TypeError(
            f"{name}: primals and tangents must have the same structure, and are "
            f"{shown(primals)} and {shown(tangents)}"
        )
    kind = ValueError if name == "linearize" else TypeError
    for path, primal, tangent in zip(tree.paths(tuple(primals)), leaves, given, strict=True):
        expected, found = dtype_and_shape(primal), dtype_and_shape(tangent)
        if expected is None:
            continue
        if found is None:
            raise kind(f"{name}: the tangent {path} is a {type(tangent).__name__}")
        if found[0] != tangent_dtype(expected[0]):
            raise kind(
                f"{name}: the tangent {path} of a {expected[0]} must be of dtype "
                f"{_dtype_name(tangent_dtype(expected[0]))}, and is of {_dtype_name(found[0])}"
            )
        if found[1] != expected[1]:
            raise ValueError(
                f"{name}: the tangent {path} has shape {found[1]}, and its primal {expected[1]}"
            )


def check_cotangent(value: Any, cotangent: Any) -> None:
    """Raise ValueError where a cotangent does not fit the function's value."""
    leaves, structure = tree.flatten(value)
    given, given_structure = tree.flatten(cotangent)
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

    return repr(tree.tree_map(lambda leaf: Leaf(), value))


def _dtype_name(dtype: np.dtype[Any]) -> str:
    return "float0" if dtype == FLOAT0 else str(dtype)


def _type_text(found: tuple[np.dtype[Any], tuple[Any, ...]] | None) -> str:
    if found is None:
        return "no array"
    return f"{_dtype_name(found[0])}[{', '.join(map(str, found[1]))}]"


def private_copies(args: Sequence[Any]) -> tuple[Any, ...]:
    """Arguments to run a function on, which cannot change the caller's; layout is kept."""
    made: dict[int, Any] = {}

    def copy(leaf: Any) -> Any:
        if not isinstance(leaf, np.ndarray):
            return leaf
        if id(leaf) not in made:
            made[id(leaf)] = leaf.copy(order="K")
        return made[id(leaf)]

    return tuple(tree.tree_map(copy, tuple(args)))
