"""Random programs on a GPU: value and gradient against the CPU's, which are tested by themselves."""

from __future__ import annotations

import linecache
from typing import Any

import numpy as np
import pytest
import random_programs
from cuda_emulator import building
from cuda_emulator.running import cuda_text, on_cuda, prepare
from random_columns import Columns
from random_loops import Nest
from random_nests import Nests
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
}
SHAPES = {"columns": "vvmm", "loops": "vvmn", "nests": "mmv", "programs": "nvm"}
SEEDS = {kind: list(range(500 if kind == "programs" else 200)) for kind in TEXTS}
STARTS = {"columns": 40, "loops": 7, "nests": 13, "programs": 54}  # two that were wrong
CHOSEN = [(k, seed) for k in TEXTS for seed in sampled(SEEDS[k], 85, STARTS[k])]
BATCHES = [CHOSEN[k : k + BATCH] for k in range(0, len(CHOSEN), BATCH)]
REFUSED = {("programs", seed) for seed in (56, 179, 199, 318, 338)}  # on the CPU, too


def gradient(kind: str, seed: int) -> Any:
    """A random program's value and gradient."""
    text, name = TEXTS[kind](seed), f"<random {kind} {seed} on a GPU>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    namespace: dict[str, Any] = {}
    exec(compile(text, name, "exec"), namespace)
    fn = namespace["f" if kind == "programs" else "program"]
    return calque.value_and_grad(fn, argnums=tuple(range(len(SHAPES[kind].rstrip("n")))))


def arguments(kind: str, seed: int) -> tuple[Any, ...]:
    """Vectors, matrices and numbers; columns are long enough to be summed in parts."""
    rng = np.random.default_rng([seed, 23])
    n = {"columns": 130, "programs": 4}.get(kind, 9) + seed % 3
    most = 0.1 if kind == "columns" else 1.0  # their sums grow with n, and from round to round
    shapes = {"v": (n,), "m": (n, n), "n": ()}
    return tuple(0.3 if c == "n" else rng.uniform(-most, most, shapes[c]) for c in SHAPES[kind])


@pytest.mark.parametrize("batch", range(len(BATCHES)))
def test_value_and_gradient(batch: int) -> None:
    chosen = [c for c in BATCHES[batch] if c not in REFUSED]
    functions = {c: gradient(*c) for c in chosen}
    prepare(cuda_text(fn, *arguments(*c)) for c, fn in functions.items())
    for (kind, seed), fn in functions.items():
        args = arguments(kind, seed)
        got, want = on_cuda(fn, *args, order=seed % 3), fn(*args)
        said = f"{kind} {seed}"
        np.testing.assert_allclose(got[0], want[0], rtol=1e-9, err_msg=said)
        slopes, wanted = oracle.flat(got[1]), oracle.flat(want[1])
        np.testing.assert_allclose(slopes, wanted, rtol=1e-8, atol=1e-11, err_msg=said)
