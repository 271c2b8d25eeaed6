"""Random numbers of compiled functions, beside JAX's and beside NumPy's generator.

    python benchmarks/random_numbers.py [--write] [--size 1000000]

Each peer draws the same count in one call: calque and JAX from a key, compiled; NumPy's Generator
(PCG64) from its state. Numbers of calque and JAX are compared first. `--write` keeps the table in
benchmarks/results/random_numbers.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import jax
import numpy as np

import calque
from calque import random
from measuring import METHOD, Run, difference, ratio, sampled, shown, table, times, versions

RESULTS = Path(__file__).resolve().parent / "results" / "random_numbers.md"
NAMES = ("uniform", "normal", "exponential")
_OF_NUMPY = {
    "uniform": "random",
    "normal": "standard_normal",
    "exponential": "standard_exponential",
}


def runs(name: str, dtype: Any, size: int) -> dict[str, Run]:
    """A draw of each peer; AssertionError where calque and JAX differ."""
    draw, of_jax = getattr(random, name), getattr(jax.random, name)
    compiled = calque.jit(lambda key: draw(key, (size,), dtype))
    jitted = jax.jit(lambda key: of_jax(key, (size,), dtype))
    key, key_of_jax = random.key(0), jax.random.key(0)
    wrong = difference(compiled(key), np.asarray(jitted(key_of_jax)))
    assert not wrong, f"{name}: {wrong}"
    generator = getattr(np.random.default_rng(0), _OF_NUMPY[name])
    return {
        "calque": sampled(compiled, (key,)),
        "JAX": sampled(lambda k: jitted(k).block_until_ready(), (key_of_jax,)),
        "NumPy": sampled(lambda: generator(size, dtype), ()),
    }


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--size", type=int, default=1_000_000)
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    rows = []
    for name in NAMES:
        for dtype in (np.float64, np.float32):
            found = times(runs(name, dtype, options.size))
            mine = found["calque"]
            rows.append(
                [name, np.dtype(dtype).name, *(shown(found[p]) for p in ("calque", "JAX", "NumPy"))]
                + [ratio(found["JAX"] / mine), ratio(found["NumPy"] / mine)]
            )
    head = ["draw", "dtype", "calque", "JAX", "NumPy", "JAX / calque", "NumPy / calque"]
    text = f"# {options.size:,} random numbers\n\n{METHOD}\n\n{versions()}\n\n{table(head, rows)}"
    print(text)
    if options.write:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
