"""The oracle: derivatives by Richardson-extrapolated differences, over trees of float arrays.

Independent of calque on purpose, down to the walk over containers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

STEP = 1e-3


def children(tree: Any) -> tuple[list[Any], Callable[[Sequence[Any]], Any]] | None:
    """The children of a container and how to build it again; None for a leaf."""
    if tree is None:
        return [], lambda new: None
    if isinstance(tree, dict):
        keys = sorted(tree)
        return [tree[key] for key in keys], lambda new: {
            key: new[keys.index(key)] for key in tree
        }
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return list(tree), lambda new: type(tree)(*new)
    if isinstance(tree, list | tuple):
        return list(tree), lambda new: type(tree)(new)
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        names = [field.name for field in dataclasses.fields(tree)]
        return [getattr(tree, name) for name in names], lambda new: dataclasses.replace(
            tree, **dict(zip(names, new, strict=True))
        )
    return None


def leaves(tree: Any) -> list[Any]:
    """The leaves of nested tuples, lists, dicts (keys sorted), namedtuples and dataclasses."""
    parts = children(tree)
    if parts is None:
        return [tree]
    return [leaf for child in parts[0] for leaf in leaves(child)]


def rebuilt(tree: Any, new_leaves: Iterator[Any]) -> Any:
    """The same containers around new leaves."""
    parts = children(tree)
    if parts is None:
        return next(new_leaves)
    return parts[1]([rebuilt(child, new_leaves) for child in parts[0]])


def copied(tree: Any) -> Any:
    """A copy of all arrays and containers; everything else is the same object."""
    fresh = (leaf.copy() if isinstance(leaf, np.ndarray) else leaf for leaf in leaves(tree))
    return rebuilt(tree, fresh)


def structure(tree: Any) -> Any:
    """Containers with their keys, and the shape at each leaf: equal means the same structure."""
    parts = children(tree)
    if parts is None:
        return np.shape(tree)
    keys = sorted(tree) if isinstance(tree, dict) else None
    return type(tree).__name__, keys, [structure(child) for child in parts[0]]


def flat(tree: Any) -> np.ndarray:
    """All numbers of a tree in one float64 vector."""
    parts = [np.ravel(np.asarray(leaf, dtype=np.float64)) for leaf in leaves(tree)]
    return np.concatenate(parts) if parts else np.zeros(0)


def shaped(tree: Any, numbers: np.ndarray) -> Any:
    """A tree like `tree` holding `numbers`: Python floats where it has them, arrays elsewhere."""

    def taken() -> Iterator[Any]:
        start = 0
        for leaf in leaves(tree):
            part = numbers[start : start + np.size(leaf)]
            start += np.size(leaf)
            if isinstance(leaf, np.ndarray):
                yield part.reshape(leaf.shape).astype(leaf.dtype)
            else:
                yield type(leaf)(part[0])

    return rebuilt(tree, taken())


def direction(tree: Any, seed: int = 0) -> Any:
    """A random direction of the tree's structure, of length about one."""
    size = flat(tree).size
    numbers = np.random.default_rng([size, seed]).normal(size=size) / np.sqrt(size)
    return shaped(tree, numbers)


def extrapolated(fn: Callable[[float], Any], step: float = STEP) -> Any:
    """The derivative of fn at 0: central differences at three steps, extrapolated twice."""
    steps = (step, step / 2, step / 4)
    slopes = [(fn(length) - fn(-length)) / (2 * length) for length in steps]
    once = [(4 * fine - coarse) / 3 for coarse, fine in zip(slopes, slopes[1:], strict=False)]
    return (16 * once[1] - once[0]) / 15


def gradient(fn: Callable[..., Any], args: tuple[Any, ...], step: float = STEP) -> np.ndarray:
    """The gradient of a scalar function with respect to all numbers in its arguments, flat."""
    point = flat(args)
    result = np.empty_like(point)
    for index in range(point.size):

        def along(length: float, index: int = index) -> float:
            moved = point.copy()
            moved[index] += length
            return float(fn(*shaped(args, moved)))

        result[index] = extrapolated(along, step)
    return result


def slope(
    fn: Callable[..., Any], args: tuple[Any, ...], tangents: tuple[Any, ...], step: float = STEP
) -> np.ndarray:
    """The derivative of a function of any result along a direction, flat."""
    point, way = flat(args), flat(tangents)
    return extrapolated(lambda length: flat(fn(*shaped(args, point + length * way))), step)


def distance(found: np.ndarray, expected: np.ndarray) -> float:
    """The distance between two vectors relative to their size (absolute when they are tiny)."""
    found, expected = np.asarray(found, dtype=float), np.asarray(expected, dtype=float)
    if found.size == 0 and expected.size == 0:
        return 0.0
    size = max(np.max(np.abs(expected)), np.max(np.abs(found)), 1e-3)
    return float(np.max(np.abs(found - expected)) / size)
