"""The loops with their arguments and their forms in JAX."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cpu_work import jax_loops, loops


@dataclass(frozen=True)
class LoopCase:
    """One program of loops; `forms` are JAX's, `library` a LAPACK call that does the same."""

    function: Callable[..., Any]
    forms: tuple[Callable[..., Any], ...]
    arguments: Callable[..., tuple[Any, ...]]
    small: int
    large: int
    wrt: tuple[int, ...] = (0,)
    scalar: bool = False  # no whole-array form of it: each element needs the one before
    library: Callable[..., Any] | None = None

    @property
    def name(self) -> str:
        return self.function.__name__

    def inputs(self, quick: bool) -> tuple[Any, ...]:
        return self.arguments(np.random.default_rng(3), self.small if quick else self.large)


def pair(*extra: int) -> Callable[..., tuple[Any, ...]]:
    """Arguments of a sweep: two arrays of slightly different sides, and steps."""

    def arguments(rng: Any, n: int) -> tuple[Any, ...]:
        shape = tuple(n + k for k in range(extra[0]))
        steps = min(n, extra[1])
        return rng.normal(size=shape), rng.normal(size=shape), steps

    return arguments


def one_grid(rng: Any, n: int) -> tuple[Any, ...]:
    return rng.normal(size=(n, n + 1)), min(n, 10)


def fields(rng: Any, n: int) -> tuple[Any, ...]:
    ex, ey, hz = (rng.normal(size=(n, n + 1)) for _ in range(3))
    return ex, ey, hz, rng.normal(size=min(n, 15))


def dominant(rng: Any, n: int) -> tuple[Any, ...]:
    return (rng.normal(size=(n, n)) + 2.0 * n * np.eye(n),)


def positive(rng: Any, n: int) -> tuple[Any, ...]:
    A = rng.normal(size=(n, n))
    return (A @ A.T + n * np.eye(n),)


def tall(rng: Any, n: int) -> tuple[Any, ...]:
    return (rng.normal(size=(n + 5, n)),)


def decaying(rng: Any, n: int) -> tuple[Any, ...]:
    return (0.5 * rng.random(n) / (1.0 + np.arange(n)) ** 1.5,)


def triangle(rng: Any, n: int) -> tuple[Any, ...]:
    return np.tril(rng.normal(size=(n, n)) / n) + 2.0 * np.eye(n), rng.normal(size=n)


def distances(rng: Any, n: int) -> tuple[Any, ...]:
    return (0.1 + rng.random((n, n)),)


CASES = [
    LoopCase(loops.jacobi_1d, (jax_loops.jacobi_1d,), pair(1, 100), 12, 2000, (0, 1)),
    LoopCase(loops.jacobi_2d, (jax_loops.jacobi_2d,), pair(2, 20), 6, 80, (0, 1)),
    LoopCase(loops.heat_3d, (jax_loops.heat_3d,), pair(3, 10), 4, 20, (0, 1)),
    LoopCase(
        loops.seidel_2d,
        (jax_loops.seidel_2d_stores, jax_loops.seidel_2d_scans, jax_loops.seidel_2d_associative),
        *(one_grid, 6, 40),
        scalar=True,
    ),
    LoopCase(loops.fdtd_2d, (jax_loops.fdtd_2d,), fields, 6, 60, (0, 1, 2, 3)),
    LoopCase(loops.lu, (jax_loops.lu, jax_loops.lu_stores), dominant, 6, 50, scalar=True),
    LoopCase(
        *(loops.cholesky, (jax_loops.cholesky, jax_loops.cholesky_stores), positive, 6, 50),
        scalar=True,
        library=jax_loops.cholesky_library,
    ),
    LoopCase(
        loops.gram_schmidt,
        (jax_loops.gram_schmidt, jax_loops.gram_schmidt_stores),
        tall,
        5,
        40,
        scalar=True,
    ),
    LoopCase(loops.durbin, (jax_loops.durbin,), decaying, 7, 200, scalar=True),
    LoopCase(
        loops.triangular_solve,
        (jax_loops.triangular_solve_rows, jax_loops.triangular_solve_columns),
        *(triangle, 6, 200, (0, 1)),
        scalar=True,
        library=jax_loops.triangular_solve_library,
    ),
    LoopCase(
        loops.shortest_paths,
        (jax_loops.shortest_paths, jax_loops.shortest_paths_stores),
        distances,
        6,
        40,
        scalar=True,
    ),
]
