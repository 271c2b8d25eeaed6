"""The record of one row of a family: a derivative by calque, by JAX, and by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Row:
    """One function in one way of writing it, and what is taken of it.

    ``ours`` and ``jax`` are transformed functions, to be jitted by who measures; ``hand`` is the
    derivative as someone would write it; ``primal`` the function that is differentiated.
    """

    name: str
    ours: Callable[..., Any]
    jax: Callable[..., Any]
    arguments: Callable[..., tuple[Any, ...]]
    small: int
    large: int
    primal: Callable[..., Any] | None = None
    hand: Callable[..., Any] | None = None

    def inputs(self, size: int) -> tuple[Any, ...]:
        return self.arguments(np.random.default_rng(7), size)
