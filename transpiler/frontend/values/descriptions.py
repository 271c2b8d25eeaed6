"""Descriptions of a location's value on every path: a constant, a run-time leaf, a structure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from calque.transpiler.ir.types import ArrayType


class Dead:
    """The value of everything on a path that ends in ``raise``."""


DEAD = Dead()


@dataclass(frozen=True)
class Constant:
    """The same known value every time."""

    value: Any


@dataclass(frozen=True)
class Leaf:
    """A run-time number or array."""

    type: ArrayType


@dataclass(frozen=True)
class Structure:
    """A container: how to rebuild it from its parts, and the parts."""

    kind: Any  # what must be equal for two structures to join
    rebuild: Callable[[list[Any]], Any]
    parts: tuple[Any, ...]


@dataclass(frozen=True)
class Clash:
    """Values that do not fit together."""

    message: str


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
