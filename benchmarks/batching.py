"""The cost of batching: against NumPy batched by hand, against JAX, and of a call without `jit`.

    python benchmarks/batching.py [--write]

Medians of interleaved runs, peers in one process; `--write` keeps the tables in
benchmarks/results/batching.md. JAX runs compiled, in double precision, on the CPU. Other programs
on the machine disturb a median, JAX's threads most: a ratio counts as kept only if that of the
medians and that of the fastest runs both keep the goal.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from transform import table

import calque

RESULTS = Path(__file__).resolve().parent / "results" / "batching.md"
LANES = 100_000
GOAL_BY_HAND, GOAL_JAX, GOAL_CALL = 1.2, 2.0, 4.0

jax.config.update("jax_enable_x64", True)


@dataclass(frozen=True)
class Times:
    """Of one run, in seconds."""

    median: float
    fastest: float


def interleaved(runs: list[Callable[[], Any]], repeats: int = 31) -> list[Times]:
    """Several runs, taken in turn."""
    times: list[list[float]] = [[] for _ in runs]
    for run in runs:
        run()
    for _ in range(repeats):
        for found, run in zip(times, runs, strict=True):
            start = time.perf_counter()
            run()
            found.append(time.perf_counter() - start)
    return [Times(statistics.median(found), min(found)) for found in times]


# straight-line code: for one example, and for all, as one would write it


def layer(x, w, b):
    return np.tanh(x @ w + b)


def layer_by_hand(x, w, b):
    return np.tanh(x @ w + b)


def logistic(w, x, y):
    p = 1.0 / (1.0 + np.exp(-(x @ w)))
    return -(y * np.log(p) + (1.0 - y) * np.log(1.0 - p))


def logistic_by_hand(w, x, y):
    p = 1.0 / (1.0 + np.exp(-(x @ w)))
    return -(y * np.log(p) + (1.0 - y) * np.log(1.0 - p))


def squared_error(w, x, y):
    return (np.tanh(x @ w) - y) ** 2


def squared_error_gradients_by_hand(w, x, y):
    t = np.tanh(x @ w)
    return (2.0 * (t - y) * (1.0 - t * t))[:, None] * x


def convolve(x, w):
    out = []
    for i in range(1, len(x) - 1):
        out.append(np.dot(x[i - 1 : i + 2], w))
    return np.array(out)


def convolve_by_hand(x, w):
    out = np.empty((x.shape[0], x.shape[1] - 2))
    for i in range(1, x.shape[1] - 1):
        out[:, i - 1] = x[:, i - 1 : i + 2] @ w
    return out


def softmax(x):
    shifted = np.exp(x - np.max(x))
    return shifted / np.sum(shifted)


def softmax_by_hand(x):
    shifted = np.exp(x - np.max(x, axis=1, keepdims=True))
    return shifted / np.sum(shifted, axis=1, keepdims=True)


def straight_line() -> list[list[str]]:
    """Rows: `vmap` against the same written for all examples by hand."""
    rng = np.random.default_rng(0)
    x, w, y = rng.normal(size=(5000, 50)), 0.1 * rng.normal(size=50), rng.random(5000)
    weights, b = rng.normal(size=(256, 128)), rng.normal(size=128)
    gradients = calque.grad(squared_error)
    cases: list[tuple[str, Any, Any, Callable[..., Any], tuple[Any, ...]]] = [
        (
            "layer, 512 x 256 to 128",
            layer,
            (0, None, None),
            layer_by_hand,
            (rng.normal(size=(512, 256)), weights, b),
        ),
        ("logistic loss, 5000 x 50", logistic, (None, 0, 0), logistic_by_hand, (w, x, y)),
        (
            "per-example gradients, 5000 x 50",
            gradients,
            (None, 0, 0),
            squared_error_gradients_by_hand,
            (w, x, y),
        ),
        ("convolution, 5000 signals of 50", convolve, (0, None), convolve_by_hand, (x, w[:3])),
        ("softmax, 5000 x 50", softmax, 0, softmax_by_hand, (x,)),
    ]
    rows = []
    for name, f, axes, by_hand, args in cases:
        many = calque.vmap(f, in_axes=axes)
        np.testing.assert_allclose(many(*args), by_hand(*args), rtol=1e-10)

        def run(many: Any = many, args: Any = args) -> Any:
            return many(*args)

        def hand(by_hand: Any = by_hand, args: Any = args) -> Any:
            return by_hand(*args)

        plain, ours = interleaved([hand, run])
        rows.append(_compared(name, plain, ours, GOAL_BY_HAND))
    return rows


# a `while` that ends at a different step for every lane


def kepler(m, k):
    e = m
    while np.abs(e - k * np.sin(e) - m) > 1e-12:
        e = e - (e - k * np.sin(e) - m) / (1.0 - k * np.cos(e))
    return e


def kepler_jax(m, k):
    return jax.lax.while_loop(
        lambda e: jnp.abs(e - k * jnp.sin(e) - m) > 1e-12,
        lambda e: e - (e - k * jnp.sin(e) - m) / (1.0 - k * jnp.cos(e)),
        m,
    )


def lambert(x):
    w = np.log(1.0 + x)
    while np.abs(w * np.exp(w) - x) > 1e-10 * x:
        w = w - (w * np.exp(w) - x) / (np.exp(w) * (w + 1.0))
    return w


def lambert_jax(x):
    return jax.lax.while_loop(
        lambda w: jnp.abs(w * jnp.exp(w) - x) > 1e-10 * x,
        lambda w: w - (w * jnp.exp(w) - x) / (jnp.exp(w) * (w + 1.0)),
        jnp.log(1.0 + x),
    )


def square_root(a):
    x = a
    while np.abs(x * x - a) > 1e-10 * a:
        x = 0.5 * (x + a / x)
    return x


def square_root_jax(a):
    return jax.lax.while_loop(
        lambda x: jnp.abs(x * x - a) > 1e-10 * a, lambda x: 0.5 * (x + a / x), a
    )


def square_roots_without_lanes(a, iterations):
    """The arithmetic alone: every lane takes as many iterations as the slowest one."""
    x = a
    for _ in range(iterations):
        x = 0.5 * (x + a / x)
        np.any(np.abs(x * x - a) > 1e-10 * a)
    return x


def wide_range() -> np.ndarray:
    """Numbers whose square roots take from one step to eleven."""
    return np.exp(np.random.default_rng(0).uniform(-10.0, 10.0, LANES))


def newton() -> list[list[str]]:
    """Rows: Newton loops over many lanes, in NumPy, against JAX's compiled ones."""
    rng = np.random.default_rng(0)
    wide = wide_range()
    cases: list[tuple[str, Any, Any, tuple[Any, ...]]] = [
        (
            "Kepler's equation",
            kepler,
            kepler_jax,
            (rng.uniform(0.0, 3.1, LANES), rng.uniform(0.0, 0.9, LANES)),
        ),
        ("Lambert's W", lambert, lambert_jax, (wide,)),
        ("square root", square_root, square_root_jax, (wide,)),
    ]
    rows = []
    for name, f, peer, args in cases:
        many, compiled = calque.vmap(f), jax.jit(jax.vmap(peer))
        given = tuple(map(jnp.asarray, args))
        found = many(*args)
        alone = np.array([f(*(a[k] for a in args)) for k in range(0, LANES, 50)])
        exact = "yes" if np.array_equal(found[::50], alone) else "NO"

        def ours(many: Any = many, args: Any = args) -> Any:
            return many(*args)

        def theirs(compiled: Any = compiled, given: Any = given) -> Any:
            return compiled(*given).block_until_ready()

        jax_time, our_time = interleaved([theirs, ours])
        rows.append([*_compared(name, jax_time, our_time, GOAL_JAX), exact])
    return rows


# a gradient that is not compiled


def sum_of_squares(x):
    return np.sum(x * x)


def log_cosh(x):
    return np.sum(np.log(np.cosh(x)))


def quadratic(x):
    return x @ x + np.sum(x)


def calls() -> list[list[str]]:
    """Rows: a gradient of ten numbers, with the check of the signature."""
    x = np.linspace(0.1, 1.0, 10)
    rows = []
    cases: list[tuple[str, Any, Any]] = [
        ("sum of squares", sum_of_squares, lambda x: jnp.sum(x * x)),
        ("quadratic", quadratic, lambda x: x @ x + jnp.sum(x)),
        ("sum of log cosh", log_cosh, lambda x: jnp.sum(jnp.log(jnp.cosh(x)))),
    ]
    for name, f, peer in cases:
        gradient, theirs = calque.grad(f), jax.grad(peer)
        generated = gradient.program(x).call
        given = jnp.asarray(x)

        def many(gradient: Any = gradient) -> None:
            for _ in range(1000):
                gradient(x)

        def bare(generated: Any = generated) -> None:
            for _ in range(1000):
                generated(x)

        def one(theirs: Any = theirs, given: Any = given) -> None:
            theirs(given).block_until_ready()

        whole, body, peer_time = interleaved([many, bare, one], 15)
        shown = [f"{t.median * 1e3:.2f} us" for t in (whole, body)]
        shown.append(f"{peer_time.median * 1e6:.0f} us")
        kept = "yes" if whole.median * 1e3 <= GOAL_CALL else "NO"
        rows.append([name, *shown, f"{GOAL_CALL:g} us", kept])
    return rows


def _compared(name: str, theirs: Times, ours: Times, goal: float) -> list[str]:
    ratios = ours.median / theirs.median, ours.fastest / theirs.fastest
    shown = (f"{1e3 * theirs.median:.3f} ms", f"{1e3 * ours.median:.3f} ms")
    kept = "yes" if max(ratios) <= goal else "NO"
    return [name, *shown, *(f"{r:.2f}" for r in ratios), f"{goal:g}", kept]


def report() -> str:
    """All tables."""
    version = f"Python {platform.python_version()}, NumPy {np.__version__}, JAX {jax.__version__}"
    head = ["ours", "ratio", "ratio of fastest", "goal", "kept"]
    load = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    return "\n".join(
        [
            "# Cost of batching\n",
            f"By `benchmarks/batching.py`; medians, interleaved; {version}; {load}.\n",
            "## `vmap` against NumPy batched by hand\n",
            table(["program", "by hand", *head], straight_line()),
            f"## Newton's method, {LANES:,} lanes, a `while` that ends at each lane's own step\n",
            table(["equation", "JAX, compiled", *head, "each lane as alone"], newton()),
            why(),
            "## A gradient of ten numbers, not compiled\n",
            table(
                ["function", "a call", "of which NumPy", "JAX, not compiled", "goal", "kept"],
                calls(),
            ),
        ]
    )


def why() -> str:
    """Explain the time of the square root, in a paragraph for the page of results."""
    a = wide_range()
    compiled, given = jax.jit(jax.vmap(square_root_jax)), jnp.asarray(a)
    found, x, iterations = calque.vmap(square_root)(a), a, 0
    while np.any(np.abs(x * x - a) > 1e-10 * a):
        x, iterations = 0.5 * (x + a / x), iterations + 1
    np.testing.assert_allclose(square_roots_without_lanes(a, iterations), found, rtol=1e-9)
    theirs, ours = interleaved(
        [
            lambda: compiled(given).block_until_ready(),
            lambda: square_roots_without_lanes(a, iterations),
        ]
    )
    return (
        "If an iteration is a function such as `sin` or `exp`, NumPy source keeps up with\n"
        "compiled code. For the square root it is little more than a division, in one pass over\n"
        "memory if compiled, in a pass for each operation in NumPy. The arithmetic alone,\n"
        f"{iterations} iterations over whole arrays with no lane kept apart, takes at best "
        f"{1e3 * ours.fastest:.2f} ms, where JAX takes {1e3 * theirs.fastest:.2f};\n"
        "the rest is to gather the lanes that go on, and to put back what they found.\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"keep the table in {RESULTS.name}")
    options = parser.parse_args()
    text = report()
    print(text)
    if options.write:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
