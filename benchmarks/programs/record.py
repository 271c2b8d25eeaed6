"""The record of one program of the set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np

# The flags of calque's own kernels: sums may be reordered, NaN and infinities survive.
FAST = {"reassoc", "contract", "nsz"}
compiled = numba.njit(fastmath=FAST)
compiled_parallel = numba.njit(fastmath=FAST, parallel=True)


@dataclass(frozen=True)
class Program:
    """One numerical program: plain NumPy, the same in JAX's best form, and as loops for Numba.

    `arguments(rng, size)` draws inputs; `wrt` are the arguments that the gradient is taken by, none
    where a program has a value only. The loss is the sum of squared magnitudes of all results.
    """

    numpy: Callable[..., Any]
    jax: Callable[..., Any]
    numba: Callable[..., Any]
    arguments: Callable[..., tuple[Any, ...]]
    small: int
    large: int
    wrt: tuple[int, ...] = (0,)

    @property
    def name(self) -> str:
        return self.numpy.__name__

    def static(self) -> tuple[int, ...]:
        """Arguments that are Python ints: JAX takes them as constants."""
        return tuple(k for k, value in enumerate(self.inputs(self.small)) if type(value) is int)

    def inputs(self, size: int) -> tuple[Any, ...]:
        return self.arguments(np.random.default_rng(7), size)
