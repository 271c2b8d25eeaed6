"""Programs that the CUDA path once got wrong, as small as they go."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuda_emulator import building
from cuda_emulator.running import on_cuda

import calque

pytestmark = pytest.mark.skipif(building.MISSING is not None, reason=str(building.MISSING))
FACTORS = np.array([0, 1, 0, -1, 0, 1, -1, -1, 1])
RNG = np.random.default_rng(0)


def planes_scaled_one_by_one(field):
    """The loop over planes is each thread's own, within the examples that threads share."""
    out = np.zeros_like(field)
    for i in range(9):
        out[i] = field[i] * FACTORS[i]
    return np.sum(out**2)


def pooled_counts(y):
    """The counter of the loop has another name by the time that its bounds are asked for."""
    sums, counts = [], []
    for v in y:
        sums.append(v)
        counts.append(1)
        while len(sums) > 1 and sums[-2] / counts[-2] > sums[-1] / counts[-1]:
            s, c = sums.pop(), counts.pop()
            sums[-1] += s
            counts[-1] += c
    total = 0.0
    for s, c in zip(sums, counts):
        total += c * (s / c) ** 2
    return total


CASES = [
    (planes_scaled_one_by_one, RNG.normal(size=(3, 9, 4, 5))),
    (pooled_counts, RNG.normal(size=(4, 7))),
]


@pytest.mark.parametrize(("fn", "batch"), CASES, ids=[fn.__name__ for fn, _ in CASES])
def test_gradients_of_a_batch(fn: Any, batch: np.ndarray) -> None:
    gradients = calque.vmap(calque.grad(fn))
    np.testing.assert_allclose(on_cuda(gradients, batch), gradients(batch), rtol=1e-12, atol=1e-14)
