"""The cost of derivatives: running time against the primal's, time to generate, time of a call.

    python benchmarks/transform.py [--write]

Medians of interleaved runs; `--write` keeps the table in benchmarks/results/transform.md.
"""

from __future__ import annotations

import argparse
import linecache
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import calque
from calque.runtime.transformed import Transformed

RESULTS = Path(__file__).resolve().parent / "results" / "transform.md"


def logistic_loss(w, b, x, y):
    z = x @ w + b
    p = 1.0 / (1.0 + np.exp(-z))
    ll = y * np.log(p) + (1.0 - y) * np.log(1.0 - p)
    return -np.mean(ll)


def mlp_loss(params, x):
    for w, b in params:
        x = np.tanh(x @ w + b)
    return np.mean(x * x)


def cross_entropy(logits, targets):
    shifted = logits - np.max(logits, axis=1, keepdims=True)
    log_norm = np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))
    return -np.mean(np.sum(targets * (shifted - log_norm), axis=1))


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def heat(u, steps):
    for _ in range(steps):
        u[1:-1] = u[1:-1] + 0.1 * (u[2:] - 2.0 * u[1:-1] + u[:-2])
    return np.sum(u * u)


def gaussian_mixture(x, means, scales):
    z = (x[:, None] - means) / scales
    return np.sum(np.log(np.sum(np.exp(-0.5 * z * z) / scales, axis=1)))


def scalar_loop(x, n):
    s = 0.5
    for _ in range(n):
        s = s * x + 0.1 * s * s
    return s


def scalar_newton(a):
    x = a
    while abs(x * x - a) > 1e-12:
        x = 0.5 * (x + a / x)
    return x


def programs() -> list[tuple[str, Callable[..., Any], tuple[Any, ...]]]:
    """Array-level programs with their arguments."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return rng.normal(size=shape)

    layers = [(0.1 * normal(64, 128), normal(128)), (0.1 * normal(128, 10), normal(10))]
    y = (rng.random(2000) > 0.5).astype(float)
    targets = np.eye(10)[rng.integers(0, 10, 5000)]
    return [
        (
            "logistic regression, 2000 x 50",
            logistic_loss,
            (0.1 * normal(50), 0.1, normal(2000, 50), y),
        ),
        ("two-layer network, batch 256", mlp_loss, (layers, normal(256, 64))),
        ("softmax cross-entropy, 5000 x 10", cross_entropy, (normal(5000, 10), targets)),
        ("Rosenbrock, 100,000", rosenbrock, (normal(100_000),)),
        ("heat equation, 100 steps on 10,000", heat, (normal(10_000), 100)),
        (
            "mixture density, 5000 x 20",
            gaussian_mixture,
            (normal(5000), normal(20), 1.0 + rng.random(20)),
        ),
    ]


def interleaved(runs: list[Callable[[], Any]], repeats: int = 15) -> list[float]:
    """The median time of each of several runs, taken in turn."""
    times: list[list[float]] = [[] for _ in runs]
    for run in runs:
        run()
    for _ in range(repeats):
        for found, run in zip(times, runs, strict=True):
            start = time.perf_counter()
            run()
            found.append(time.perf_counter() - start)
    return [statistics.median(found) for found in times]


def private(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments that a primal may store into, as a derivative copies its own."""
    return tuple(a.copy() if isinstance(a, np.ndarray) else a for a in args)


def ratio(name: str, f: Callable[..., Any], args: tuple[Any, ...], goal: float) -> list[str]:
    """One row: the gradient's time against the primal's."""
    gradient = calque.grad(f)
    stores = f is heat
    primal, reverse = interleaved(
        [lambda: f(*(private(args) if stores else args)), lambda: gradient(*args)]
    )
    shown = (f"{1e3 * primal:.3f} ms", f"{1e3 * reverse:.3f} ms", f"{reverse / primal:.2f}")
    return [name, *shown, f"{goal:g}", "yes" if reverse <= goal * primal else "NO"]


def straight_line(length: int) -> Callable[..., Any]:
    """A function of so many operations, one a line."""
    operations = ["np.sin(x)", "x * y", "x + 0.5", "y - x", "np.tanh(x)"]
    lines = ["def line(x, y):"]
    lines += [f"    x = {operations[k % len(operations)]}" for k in range(length)]
    text = "\n".join([*lines, "    return np.sum(x)", ""])
    file = f"<straight line of {length}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    namespace: dict[str, Any] = {"np": np}
    exec(compile(text, file, "exec"), namespace)
    return namespace["line"]


def transformation(
    f: Callable[..., Any], args: tuple[Any, ...], argnums: Any, repeats: int
) -> float:
    """The median time from function and arguments to generated function."""
    times = []
    for _ in range(repeats):
        transformed = Transformed(
            "grad", f, argnums=argnums, has_aux=False, holomorphic=False, allow_int=False
        )
        start = time.perf_counter()
        transformed.program(*args)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def writing() -> list[list[str]]:
    """Rows: the time to write a derivative."""
    args = programs()[0][2]
    regression = transformation(logistic_loss, args, (0, 1), 15)
    line = transformation(straight_line(1000), (np.ones(3), np.ones(3)), 0, 3)
    half = transformation(straight_line(500), (np.ones(3), np.ones(3)), 0, 3)
    return [
        _row("logistic regression", regression, "ms", 1e3, 30.0),
        _row("500 operations in a line", half, "s", 1.0, 0.5),
        _row("1,000 operations in a line", line, "s", 1.0, 1.0),
    ]


def calls() -> list[list[str]]:
    """Rows: what a call costs beyond the generated function."""
    x, weights = np.ones(3), np.ones(3)
    tree = {"w": x, "b": 2.0}
    cases: list[tuple[str, Callable[..., Any], tuple[Any, ...], float]] = [
        ("one array", lambda x: np.sum(x * x), (x,), 4.0),
        ("array and number", lambda x, y: np.sum(x * y), (x, 2.0), 4.0),
        ("captured array and function", lambda x: np.sum(_square(weights * x)), (x,), 4.0),
        ("a dict", lambda d: np.sum(d["w"] * d["b"]), (tree,), 20.0),
    ]
    rows = []
    for name, f, args, goal in cases:
        gradient = calque.grad(f)
        gradient(*args)
        program = gradient.program(*args)
        call, hidden = program.call, program.hidden(None)

        def direct(call: Any = call, args: Any = args, hidden: Any = hidden) -> None:
            for _ in range(1000):
                call(*args, **hidden)

        def dispatched(gradient: Any = gradient, args: Any = args) -> None:
            for _ in range(1000):
                gradient(*args)

        plain, whole = interleaved([direct, dispatched])
        rows.append(_row(name, (whole - plain) / 1000, "us", 1e6, goal))
    return rows


def _square(x: Any) -> Any:
    return x * x


def _row(name: str, seconds: float, unit: str, factor: float, goal: float) -> list[str]:
    value = seconds * factor
    return [name, f"{value:.3g} {unit}", f"{goal:g} {unit}", "yes" if value <= goal else "NO"]


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"


def report() -> str:
    """All tables."""
    ratios = [ratio(name, f, args, 4.0) for name, f, args in programs()]
    loops = [
        ratio("scalar loop, 10,000 steps", scalar_loop, (0.9, 10_000), 6.0),
        ratio("scalar Newton, `while`", scalar_newton, (2.0,), 6.0),
    ]
    head = ["program", "primal", "gradient", "ratio", "goal", "kept"]
    version = f"Python {platform.python_version()}, NumPy {np.__version__}"
    return "\n".join(
        [
            "# Cost of derivatives\n",
            f"By `benchmarks/transform.py`; medians, interleaved; {version}.\n",
            "## Gradient against primal, arrays\n",
            table(head, ratios),
            "## Gradient against primal, scalar loops\n",
            table(head, loops),
            "## Writing the derivative\n",
            table(["function", "time", "goal", "kept"], writing()),
            "## A call, beyond the generated function\n",
            table(["arguments", "time", "goal", "kept"], calls()),
        ]
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
