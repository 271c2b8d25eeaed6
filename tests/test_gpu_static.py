"""benchmarks/gpu_static.py: what it counts, what its page says, and the aims that are kept."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_emulator import building, standin

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden_cuda"
PAGE = (ROOT / "benchmarks" / "results" / "gpu_static.md").read_text(encoding="utf-8")
pytestmark = pytest.mark.skipif(building.MISSING is not None, reason=str(building.MISSING))


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(sys, "path", [*sys.path, str(ROOT / "benchmarks")])
    import gpu_static

    return gpu_static


COUNTED = r"""
extern "C" __global__ void f(const float* __restrict__ x, double* __restrict__ y, double* __restrict__ z)
{
    if (threadIdx.x < 10)
        y[threadIdx.x] = x[threadIdx.x] + x[threadIdx.x + 1];
    if (threadIdx.x < 4)
        y[threadIdx.x] += 1.0;
    if (threadIdx.x < 6)
        atomicAdd(&z[threadIdx.x % 3], 2.0);
}
"""


def test_each_cell_counts_once_and_what_was_stored_before_is_not_fetched() -> None:
    arrays = standin.zeros(64, np.float32), standin.empty(64), standin.zeros(64)
    standin.traffic.clear()
    standin.RawKernel(COUNTED, "f")((1,), (32,), arrays)
    assert standin.traffic == [(11 * 4 + 3 * 8, 10 * 8 + 3 * 8)]


@pytest.mark.parametrize("name", ["selu", "cross_entropy_grad", "sum_of_squares", "column_mean"])
def test_elementwise_kernels_and_sums_move_little_more_than_they_must(name: str, script: Any) -> None:
    kernels, calls, least = script.moved(name, script.arguments(tiny=True)[name])
    assert least <= kernels + calls <= script.LEAST_RATIO * least


def test_calls_of_cupy_are_counted(script: Any) -> None:
    args = script.arguments(tiny=True)["embedding_loss_grad_sorted"]
    kernels, calls, least = script.moved("embedding_loss_grad_sorted", args)
    assert calls == 2 * args[0].nbytes  # zeros_like, which is given it
    assert kernels + calls >= least


def test_the_page_has_all_kernels_and_none_spills() -> None:
    modules = {path.stem: path.read_text(encoding="utf-8") for path in GOLDEN.glob("*.py")}
    kernels = {k for text in modules.values() for k in re.findall(r"^void (\w+)\(", text, re.M)}
    rows = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| ")]
    said = {row[0]: row for row in rows if len(row) == 7}
    assert kernels <= said.keys()
    assert {name: said[name][-1] for name in kernels} == dict.fromkeys(kernels, "0")
    assert modules.keys() <= {row[0] for row in rows if len(row) == 5}


def test_the_page_is_what_the_script_says_of_registers(script: Any) -> None:
    if script.nvrtc.nvrtc() is None:
        pytest.skip("the wheel nvidia-cuda-nvrtc is not installed")
    lines = script.of_compiler("selu")
    assert len(lines) == 1 and re.fullmatch(r"\| selu_kernel( \| \d+){4} \| 0 \| 0 \|", lines[0])
