"""Sampled arguments of primitives, from which the table-driven tests are made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Sample = tuple[tuple[Any, ...], dict[str, Any]]
Sampler = Callable[["np.random.Generator"], list[Sample]]


@dataclass(frozen=True)
class Drawn:
    """An argument drawn anew for every test: normal numbers of a shape and dtype."""

    shape: tuple[int, ...]
    dtype: str = "f8"
    shift: Callable[[np.ndarray], np.ndarray] | None = None  # moves it where a function is smooth

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """The array."""
        x = rng.standard_normal(self.shape)
        return np.asarray(x if self.shift is None else self.shift(x), self.dtype)


def single(*shape: int) -> Drawn:
    """A float32 array."""
    return Drawn(shape, "f4")


def case(*args: Any, **params: Any) -> Sample:
    """One call; a tuple among ``args`` is the shape of a float64 array."""
    return args, params


def cases(*calls: Sample) -> Sampler:
    """The ``samples`` of a primitive: each call with its arrays drawn."""

    def draw(rng: np.random.Generator, value: Any) -> Any:
        value = Drawn(value) if isinstance(value, tuple) else value
        return value.draw(rng) if isinstance(value, Drawn) else value

    return lambda rng: [(tuple(draw(rng, a) for a in args), params) for args, params in calls]
