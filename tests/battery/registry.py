"""The register of battery programs: each is a plain function with sample arguments.

    @program(vector(4), 0.5, diff=(0, 1))
    def damped_energy(x, rate):
        return np.sum(x * x) * np.exp(-rate)

The decorator only writes the function down and returns it unchanged, so that what calque reads is
the function as a user would have written it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from battery.oracle import copied, leaves

PROGRAMS: list[Program] = []


@dataclass(frozen=True)
class Program:
    """One function under test, its sample arguments, and what is differentiated."""

    name: str
    family: str
    fn: Callable[..., Any]
    args: tuple[Any, ...]
    diff: tuple[int, ...]
    refused: str | None
    second: bool

    @property
    def id(self) -> str:
        return f"{self.family}:{self.name}"

    def fresh(self) -> tuple[Any, ...]:
        """The sample arguments, with every array and container copied."""
        return tuple(copied(arg) for arg in self.args)

    def moving(self) -> tuple[Any, ...]:
        """Copies of the arguments that are differentiated."""
        args = self.fresh()
        return tuple(args[position] for position in self.diff)

    def with_moving(self, moving: tuple[Any, ...]) -> tuple[Any, ...]:
        """All arguments, those that are differentiated replaced by copies of `moving`."""
        args = list(self.fresh())
        for position, value in zip(self.diff, moving, strict=True):
            args[position] = copied(value)
        return tuple(args)

    def scalar(self) -> Callable[..., Any]:
        """The function itself if its result is a scalar, else a fixed contraction of its result."""
        return scalar_form(self.fn, self.fresh())


def program(
    *args: Any,
    diff: tuple[int, ...] = (0,),
    name: str | None = None,
    refused: str | None = None,
    second: bool = True,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function; `refused` names the error class it must end with."""

    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        family = getattr(fn, "func", fn).__module__.rsplit("programs_", 1)[-1]
        label = name or fn.__name__
        PROGRAMS.append(Program(label, family, fn, args, diff, refused, second))
        return fn

    return register


def load() -> list[Program]:
    """Import every family, once, and return all programs in order."""
    package = importlib.import_module("battery")
    for info in pkgutil.iter_modules(package.__path__):
        if info.name.startswith("programs_"):
            importlib.import_module(f"battery.{info.name}")
    return PROGRAMS


def scalar_form(fn: Callable[..., Any], args: tuple[Any, ...]) -> Callable[..., Any]:
    """`fn`, or `fn` followed by a contraction with fixed weights where its result is no scalar."""
    result = fn(*args)
    if isinstance(result, float | np.floating):
        return fn
    if isinstance(result, np.ndarray):
        return contracted_array(fn, weights(result.shape))
    return contracted_tree(fn, tuple(weights(np.shape(leaf)) for leaf in leaves(result)))


def contracted_array(fn: Callable[..., Any], weight: np.ndarray) -> Callable[..., Any]:
    """The scalar `sum(fn(...) * weight)`, for a result that is one array."""

    def contracted(*args, **kwargs):
        return np.sum(fn(*args, **kwargs) * weight)

    return contracted


def contracted_tree(fn: Callable[..., Any], seeds: tuple[np.ndarray, ...]) -> Callable[..., Any]:
    """The scalar `sum(leaf * seed)` over all leaves, for a result that is a tuple, list or dict."""

    def result_leaves(tree):
        if isinstance(tree, dict):
            return [leaf for key in sorted(tree) for leaf in result_leaves(tree[key])]
        if isinstance(tree, (tuple, list)):
            return [leaf for child in tree for leaf in result_leaves(child)]
        return [] if tree is None else [tree]

    def contracted(*args, **kwargs):
        total = 0.0
        for leaf, seed in zip(result_leaves(fn(*args, **kwargs)), seeds):
            total = total + np.sum(leaf * seed)
        return total

    return contracted


def weights(shape: tuple[int, ...]) -> np.ndarray:
    """Fixed, irregular numbers of the given shape."""
    return np.cos(1.0 + np.arange(int(np.prod(shape, dtype=int)))).reshape(shape)


def vector(size: int, seed: int = 0, low: float = -1.0, high: float = 1.0) -> np.ndarray:
    """A fixed vector with entries drawn evenly from [low, high)."""
    return np.random.default_rng([size, seed]).uniform(low, high, size)


def matrix(
    rows: int, columns: int, seed: int = 0, low: float = -1.0, high: float = 1.0
) -> np.ndarray:
    """A fixed matrix with entries drawn evenly from [low, high)."""
    return np.random.default_rng([rows, columns, seed]).uniform(low, high, (rows, columns))


def tensor(*shape: int, seed: int = 0) -> np.ndarray:
    """A fixed array of any rank with entries drawn evenly from [-1, 1)."""
    return np.random.default_rng([*shape, seed]).uniform(-1.0, 1.0, shape)


def definite(size: int, seed: int = 0) -> np.ndarray:
    """A fixed, well-conditioned, symmetric positive definite matrix."""
    root = matrix(size, size, seed)
    return root @ root.T + size * np.eye(size)
