"""Programs whose costs are counted, and their counts."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

import calque
from calque.runtime.saving import cost_report
from calque.runtime.saving.stage_programs import as_transformed
from calque.runtime.spec import parse_args
from calque.transpiler.costs.counting import Cost, cost_of
from calque.transpiler.costs.formulas import Formula
from calque.transpiler.costs.size_symbols import SizeSymbols


def wave(u, c, steps):
    before = u
    for t in range(steps):
        lap = np.zeros_like(u)
        lap[1:-1] = u[2:] - 2 * u[1:-1] + u[:-2]
        u, before = 2 * u - before + c * lap * np.sin(u), u
    return np.sum(u * u)


def diffusion(u, c, steps):
    for t in range(steps):
        u = u + c * np.sin(u)
    return np.sum(u * u)


def perceptron(W1, b1, W2, x, y):
    h = np.tanh(x @ W1 + b1)
    p = h @ W2
    return np.mean((p - y) ** 2)


def branching(x, scale):
    if scale > 0:
        y = np.exp(x)
        z = y * np.sin(y)
    else:
        z = x * 3.0
    return np.sum(z * z)


def triangular(A, b):
    x = b.copy()
    for i in range(b.size):
        for j in range(i):
            x[i] -= A[i, j] * x[j]
        x[i] = x[i] / A[i, i]
    return np.sum(x * x)


def gaussian(A, b):
    L = np.linalg.cholesky(A)
    z = np.linalg.solve(L, b)
    return np.sum(z * z) + np.sum(np.log(np.diag(L)))


def root(x, tol):
    while np.sum(np.abs(x * x - 2.0)) > tol:
        x = x - (x * x - 2.0) / (2.0 * x)
    return np.sum(x)


def counted(fn: Any, *args: Any) -> tuple[Cost, SizeSymbols]:
    """The cost of a program, and its symbols."""
    transformed = as_transformed(fn)
    program, entries = cost_report.sized_program(transformed, args)
    symbols = SizeSymbols.of(entries.values())
    return cost_of(program.traced, symbols), symbols


def number(value: Formula, symbols: SizeSymbols) -> Fraction:
    """The value of a formula whose symbols are all known."""
    found = value.at(symbols.values()).number()
    assert found is not None, str(value)
    return found


def specs(text: str) -> tuple[Any, ...]:
    """The types that a text describes."""
    return parse_args(text)


def draws(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    """Arrays of these shapes."""
    rng = np.random.default_rng(3)
    return [rng.normal(size=shape) for shape in shapes]


# a function, and its arguments by a size
RUNS: dict[str, tuple[Callable[..., Any], Callable[[int], list[Any]]]] = {
    "wave": (wave, lambda k: [*draws((100 * k,)), 0.1, 7 + k]),
    "diffusion": (diffusion, lambda k: [*draws((50 * k,)), 0.1, 9 * k]),
    "checkpointed": (
        calque.checkpoint(diffusion, every=5),
        lambda k: [*draws((50 * k,)), 0.1, 10 * k],
    ),
    "checkpointed by roots": (
        calque.checkpoint(diffusion, every="sqrt"),
        lambda k: [*draws((50 * k,)), 0.1, 10 * k * k],
    ),
    "perceptron": (
        perceptron,
        lambda k: draws((20, 10 * k), (10 * k,), (10 * k, 3), (40, 20), (40, 3)),
    ),
    "branching": (branching, lambda k: [*draws((40 * k,)), 1.0]),
}
