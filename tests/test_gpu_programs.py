"""The examples for a GPU and its benchmark on the stand-in for CuPy: their host side, end to end.

Not gpu_mlp: its training takes the emulator minutes.
"""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from cuda_emulator import building, standin

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.skipif(building.MISSING is not None, reason=str(building.MISSING))


@pytest.mark.parametrize("name", ["gpu_selu", "gpu_newton_lanes", "gpu_heat"])
def test_an_example_runs_on_the_device(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Its numbers are as expected there, too: it asserts that itself."""
    with standin.installed():
        before = len(standin.launches)
        runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")
        assert len(standin.launches) > before
    assert "On the CPU" not in capsys.readouterr().out


@pytest.mark.skipif(os.environ.get("CALQUE_TESTS") != "all", reason="it takes 20 s: CALQUE_TESTS=all")
def test_the_benchmark_runs_dry() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "gpu.py"), "--dry"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("| Newton lanes |") == 2 and "none is kept" in done.stdout


@pytest.mark.skipif(os.environ.get("CALQUE_TESTS") != "all", reason="it takes 30 s: CALQUE_TESTS=all")
def test_the_quick_benchmark_checks_results() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "gpu.py"), "--dry", "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("All results are NumPy's.")
    assert done.stdout.count("| Newton lanes |") == 2


def test_the_tests_that_a_card_is_to_confirm_are_there() -> None:
    code = "import gpu_checks as g; print(*(n for n in g.CONFIRMED_BY if not (g.ROOT / 'tests' / n).exists()))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT / "benchmarks", capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


def test_the_benchmark_without_a_card_says_so() -> None:
    code = "import sys, runpy; sys.modules['cupy'] = None; runpy.run_path(sys.argv.pop(1), run_name='__main__')"
    command = [sys.executable, "-c", code]
    done = subprocess.run([*command, str(ROOT / "benchmarks" / "gpu.py")], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("There is no GPU to measure")
