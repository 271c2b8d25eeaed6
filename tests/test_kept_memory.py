"""Calls reuse memory that earlier calls have freed; keeping that memory is optional."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numba")
resource = pytest.importorskip("resource")

PROGRAM = """
import resource
import numpy as np
import calque
from calque.runtime.kernels.kept_memory import keep_memory

def walk(x, iterations):
    t = 0.0
    while t < iterations:
        x = np.sin(x) * 1.01
        t = t + 1.0
    return np.sum(x)

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1])

gradient = calque.jit(calque.grad(walk))
x = np.linspace(0.0, 1.0, 10_000)
for _ in range(3):
    gradient(x, 200.0)
before = faults()
gradient(x, 200.0)
now, held = faults() - before, resident()
gradient.cache_clear()
print(now, held - resident(), int(keep_memory()))
"""


def measured(folder: Path, **environment: str) -> list[int]:
    """Page faults of a fourth call, pages that are given back by clearing, and what was said."""
    file = folder / "program.py"
    file.write_text(PROGRAM, encoding="utf-8")
    env = {**os.environ, **environment}
    found = subprocess.run(
        [sys.executable, str(file)], env=env, capture_output=True, text=True, check=True
    )
    return [int(word) for word in found.stdout.split()]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a matter of glibc's")
def test_a_call_finds_the_memory_of_the_one_before(tmp_path: Path) -> None:
    faults, freed, said = measured(tmp_path)
    if not said:
        pytest.skip("this C library cannot be told")
    assert faults < 200
    assert freed > 2000  # of the 16 MB that the gradient saves


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a matter of glibc's")
@pytest.mark.parametrize("name", ["CALQUE_KEEP_MEMORY", "MALLOC_TRIM_THRESHOLD_"])
def test_who_says_otherwise_is_heard(tmp_path: Path, name: str) -> None:
    value = "0" if name.startswith("CALQUE") else str(1 << 17)
    faults, _, said = measured(tmp_path, **{name: value})
    assert not said
    assert faults > 2000
