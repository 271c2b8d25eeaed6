"""Random programs on a GPU: value and gradient against the CPU's, which are tested by themselves."""

from __future__ import annotations

import linecache
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import random_programs
from cuda_emulator import building
from cuda_emulator.running import cuda_text, few_blocks, on_cuda, prepare
from random_columns import Columns
from random_loops import Nest
from random_nests import Nests
from random_sums import Sums
from random_swaps import Swaps
from sampling import sampled

import calque
from battery import oracle

pytestmark = pytest.mark.skipif(building.MISSING is not None, reason=str(building.MISSING))
BATCH = 10

TEXTS = {
    "columns": lambda seed: Columns(seed).text(),
    "loops": lambda seed: Nest(seed).text(),
    "nests": lambda seed: Nests(seed).text(),
    "programs": random_programs.text,
    "swaps": lambda seed: Swaps(seed).text(),
}
SHAPES = {"columns": "vvmm", "loops": "vvmn", "nests": "mmv", "programs": "nvm", "swaps": "vmn"}
SEEDS = {kind: list(range(500 if kind == "programs" else 200)) for kind in TEXTS}
STARTS = {"columns": 40, "loops": 7, "nests": 13, "programs": 54, "swaps": 19}  # that were wrong
STEPS = {"swaps": 15}
CHOSEN = [(k, seed) for k in TEXTS for seed in sampled(SEEDS[k], STEPS.get(k, 85), STARTS[k])]
BATCHES = [CHOSEN[k : k + BATCH] for k in range(0, len(CHOSEN), BATCH)]
REFUSED = {("programs", seed) for seed in (56, 179, 199, 318, 338)}  # on the CPU, too


def defined(text: str, name: str) -> Any:
    """The function that a text defines."""
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    namespace: dict[str, Any] = {}
    exec(compile(text, name, "exec"), namespace)
    return namespace.get("program") or namespace["f"]


def gradient(kind: str, seed: int) -> Any:
    """A random program's value and gradient."""
    fn = defined(TEXTS[kind](seed), f"<random {kind} {seed} on a GPU>")
    return calque.value_and_grad(fn, argnums=tuple(range(len(SHAPES[kind].rstrip("n")))))


def arguments(kind: str, seed: int) -> tuple[Any, ...]:
    """Vectors, matrices and numbers; columns are long enough to be summed in parts."""
    rng = np.random.default_rng([seed, 23])
    n = {"columns": 130, "programs": 4}.get(kind, 9) + seed % 3
    most = 0.1 if kind == "columns" else 1.0  # their sums grow with n, and from iteration to iteration
    shapes = {"v": (n,), "m": (n, n), "n": ()}
    return tuple(0.3 if c == "n" else rng.uniform(-most, most, shapes[c]) for c in SHAPES[kind])


@pytest.mark.parametrize("batch", range(len(BATCHES)))
def test_value_and_gradient(batch: int) -> None:
    chosen = [c for c in BATCHES[batch] if c not in REFUSED]
    functions = {c: gradient(*c) for c in chosen}
    prepare(cuda_text(fn, *arguments(*c)) for c, fn in functions.items())
    for (kind, seed), fn in functions.items():
        args = arguments(kind, seed)
        with few_blocks() if seed % 2 else nullcontext():
            got, want = on_cuda(fn, *args, order=seed % 3), fn(*args)
        said = f"{kind} {seed}"
        np.testing.assert_allclose(got[0], want[0], rtol=1e-9, err_msg=said)
        slopes, wanted = oracle.flat(got[1]), oracle.flat(want[1])
        np.testing.assert_allclose(slopes, wanted, rtol=1e-8, atol=1e-11, err_msg=said)


def sizes_and_places(seed: int) -> tuple[np.ndarray, ...]:
    """A vector, a matrix, a cube and places: rows of a few elements, of a warp and of a block."""
    rng = np.random.default_rng([seed, 3])
    p = int(rng.choice([1, 5, 12, 40]))
    q = max(p, int(rng.choice([4, 33, 70, 2100] if p < 6 else [33, 70])))
    r = 2 if q > 1000 else int(rng.choice([3, 35]))
    shapes = (p,), (p, q), (p, q, r)
    return *(rng.uniform(-1.0, 1.0, shape) for shape in shapes), rng.integers(0, 4, p)


SUM_BATCHES = [sampled(range(k, k + 100), 4) for k in range(0, 200, 100)]


@pytest.mark.parametrize("seeds", SUM_BATCHES, ids=["to 100", "to 200"])
def test_numbers_that_loops_of_every_depth_add_to(seeds: range) -> None:
    functions = {seed: defined(Sums(seed).text(), f"<random sums {seed}>") for seed in seeds}
    prepare(cuda_text(fn, *sizes_and_places(seed)) for seed, fn in functions.items())
    for seed, fn in functions.items():
        want = fn(*sizes_and_places(seed))
        with few_blocks() if seed % 2 else nullcontext():
            found = on_cuda(fn, *sizes_and_places(seed), order=seed % 3)
        for got, value in zip(found, want, strict=True):
            np.testing.assert_allclose(got, value, rtol=1e-9, atol=1e-11, err_msg=f"sums {seed}")
