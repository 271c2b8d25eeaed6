"""Descriptions of a location's value on every path: a constant, a run-time leaf, a structure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from calque.transpiler.frontend.values.containers.container_kinds import MISSING, kind_of
from calque.transpiler.ir.builder import current, type_of
from calque.transpiler.ir.types import ArrayType, promote


class Dead:
    """The value of everything on a path that ends in ``raise``."""


DEAD = Dead()


class Description:
    """The facts on a location's value that every path knows."""

    def instantiate(self, leaves: Callable[[ArrayType], Any], clash: Callable[[str], Any]) -> Any:
        """A value of the description, its leaves made by ``leaves``."""
        raise NotImplementedError

    def same(self, other: Any, dims: Any) -> bool:
        """True if another description says the same."""
        raise NotImplementedError

    def leaf_values(self, value: Any) -> list[Any]:
        """The leaves of a value, as ``instantiate`` makes them; MISSING where it has none."""
        return []

    def leaf_type(self) -> ArrayType | None:
        """The type of a leaf or a constant number; None for other descriptions."""
        return None

    def has_leaves(self) -> bool:
        """True if a part of the value may differ between paths."""
        return True

    def is_plain(self) -> bool:
        """True for numbers, arrays and tuples of them, whose identity is irrelevant."""
        return self.leaf_type() is not None


@dataclass(frozen=True)
class Constant(Description):
    """The same known value every time."""

    value: Any

    def instantiate(self, leaves: Callable[[ArrayType], Any], clash: Callable[[str], Any]) -> Any:
        return self.value

    def same(self, other: Any, dims: Any) -> bool:
        return isinstance(other, Constant) and same_constant(self.value, other.value)

    def leaf_type(self) -> ArrayType | None:
        return type_of(self.value) if is_number(self.value) else None

    def has_leaves(self) -> bool:
        return False


@dataclass(frozen=True)
class Leaf(Description):
    """A run-time number or array."""

    type: ArrayType

    def instantiate(self, leaves: Callable[[ArrayType], Any], clash: Callable[[str], Any]) -> Any:
        return leaves(self.type)

    def same(self, other: Any, dims: Any) -> bool:
        return isinstance(other, Leaf) and same_type(self.type, other.type, dims)

    def leaf_values(self, value: Any) -> list[Any]:
        return [(DEAD if self.type.ndim else 0) if value is None else value]

    def leaf_type(self) -> ArrayType | None:
        return self.type


@dataclass(frozen=True)
class Structure(Description):
    """A container: how to rebuild it from its parts, and the parts."""

    kind: Any  # what must be equal for two structures to join
    rebuild: Callable[[list[Any]], Any]
    parts: tuple[Any, ...]

    def instantiate(self, leaves: Callable[[ArrayType], Any], clash: Callable[[str], Any]) -> Any:
        return self.rebuild([p.instantiate(leaves, clash) for p in self.parts])

    def same(self, other: Any, dims: Any) -> bool:
        return (
            isinstance(other, Structure)
            and self.kind == other.kind
            and all(a.same(b, dims) for a, b in zip(self.parts, other.parts, strict=True))
        )

    def leaf_values(self, value: Any) -> list[Any]:
        values = [None] * len(self.parts) if value is None else self.parts_of(value)
        pairs = zip(self.parts, values, strict=True)
        return [v for part, value in pairs for v in part.leaf_values(value)]

    def parts_of(self, value: Any) -> list[Any]:
        """The parts of a value; MISSING where it is no container."""
        opened = kind_of(value).opened(value)
        return [MISSING] * len(self.parts) if opened is None else opened[2]

    def matched(self, other: Structure) -> tuple[Structure, Structure]:
        """Descriptions of two structures, brought to one form where there are several."""
        return self, other

    def has_leaves(self) -> bool:
        return any(p.has_leaves() for p in self.parts)

    def is_plain(self) -> bool:
        first = self.kind[0]
        is_tuple = isinstance(first, type) and issubclass(first, tuple)
        return is_tuple and all(p.is_plain() for p in self.parts)


@dataclass(frozen=True)
class Clash(Description):
    """Values that do not fit together."""

    message: str

    def instantiate(self, leaves: Callable[[ArrayType], Any], clash: Callable[[str], Any]) -> Any:
        return clash(self.message)

    def same(self, other: Any, dims: Any) -> bool:
        return isinstance(other, Clash)


def describe(value: Any) -> Description:
    """A value's description."""
    kind = kind_of(value)
    opened = kind.opened(value)
    if opened is None:
        own: Description | None = kind.describe(value)
        return Constant(value) if own is None else own
    key, rebuild, parts = opened
    return (kind.structure or Structure)(key, rebuild, tuple(map(describe, parts)))


def is_number(value: Any) -> bool:
    """A known number."""
    return isinstance(value, (bool, int, float, complex, np.generic)) and not isinstance(value, str)


def same_constant(left: Any, right: Any) -> bool:
    """True if two known values are interchangeable.

    >>> same_constant(0.0, -0.0), same_constant(float("nan"), float("nan")), same_constant(1, 1.0)
    (False, True, False)
    """
    if left is right:
        return True
    if type(left) is not type(right):
        return False
    if isinstance(left, (float, complex, np.inexact)):
        return repr(left) == repr(right)  # 0.0 is not -0.0, and NaN is itself
    if isinstance(left, (int, str, bytes, np.generic)):
        return bool(left == right)
    return bool(getattr(left, "__self__", left) is getattr(right, "__self__", right)) and getattr(
        left, "__func__", left
    ) is getattr(right, "__func__", right)


def join_types(left: ArrayType, right: ArrayType, spread: bool) -> ArrayType | None:
    """The type that holds values of both types; None if there is none.

    ``spread`` lets a scalar become an array of the other's shape.
    """
    try:
        dtype, weak = promote([left, right])
    except TypeError:
        return None
    if left.ndim != right.ndim:
        if not spread or (left.ndim and right.ndim):
            return None
        return ArrayType(dtype, left.dims or right.dims)
    dims = current().dims
    joined = tuple(map(dims.join, left.dims, right.dims))
    return ArrayType(dtype, joined, weak and not joined)


def same_type(left: ArrayType, right: ArrayType, dims: Any) -> bool:
    """True if two types agree, their sizes as far as these are known to be equal."""
    if left.dtype != right.dtype or left.weak != right.weak or left.ndim != right.ndim:
        return False
    pairs = zip(left.dims, right.dims, strict=True)
    return all(dims.same(a, b) or dims.is_joined(a) for a, b in pairs)
