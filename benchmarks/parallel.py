"""Two devices against one: threads, and MPI ranks. Prints a table; results/parallel.md keeps a run.

    python benchmarks/parallel.py

The work is bound by arithmetic: Kepler's equation by Newton's method for many planets, and its
gradient. One device does all of it; of two, each does half. The peers take turns; medians.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

os.environ["CALQUE_CPU_DEVICES"] = "2"
os.environ.setdefault("OMPI_ALLOW_RUN_AS_ROOT", "1")
os.environ.setdefault("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")

import numpy as np

from calque import grad, jit, pmap, pmean, process_count, process_index, vmap

PLANETS, REPEATS = 200_000, 9


def anomaly(mean, eccentricity):
    found = mean
    for _ in range(8):
        error = found - eccentricity * np.sin(found) - mean
        found = found - error / (1.0 - eccentricity * np.cos(found))
    return found


def loss(scale, mean, eccentricity):
    return np.mean(vmap(anomaly)(mean, scale * eccentricity) ** 2)


def step(scale, mean, eccentricity):
    return pmean(grad(loss)(scale, mean, eccentricity), "i")


mapped = jit(pmap(step, axis_name="i", in_axes=(None, 0, 0), out_axes=None))


def data(devices):
    rng = np.random.default_rng(0)
    mean, eccentricity = rng.uniform(0.0, 3.0, PLANETS), rng.uniform(0.0, 0.8, PLANETS)
    return mean.reshape(devices, -1), eccentricity.reshape(devices, -1)


def timed(call):
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def threads():
    """Median times of one device and of two, taking turns."""
    one, two = data(1), data(2)
    assert np.isclose(mapped(0.9, *one), mapped(0.9, *two), rtol=1e-12)
    times = [[timed(lambda x=x: mapped(0.9, *x)) for x in (one, two)] for _ in range(REPEATS)]
    return np.median(times, axis=0)


def ranks():
    """The median time of this rank's part, printed by the first."""
    mean, eccentricity = data(process_count())
    mine = slice(process_index(), process_index() + 1)
    args = 0.9, mean[mine], eccentricity[mine]
    mapped(*args)
    times = [timed(lambda: mapped(*args)) for _ in range(REPEATS)]
    if process_index() == 0:
        print(np.median(times))


def on_ranks(count):
    mpiexec = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if mpiexec is None:
        return None
    words = [mpiexec, "--oversubscribe", "-n", str(count), sys.executable, __file__, "ranks"]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)
    return float(done.stdout.split()[0])  # mpiexec may end with colours


def main():
    one, two = threads()
    load = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    print(f"Gradient over {PLANETS:,} planets, {load}\n")
    print("| engine | one device | two | ratio | goal |\n| --- | --- | --- | --- | --- |")
    print(f"| threads | {1e3 * one:.1f} ms | {1e3 * two:.1f} ms | {one / two:.2f} | 1.8 |")
    single = min(filter(None, (on_ranks(1) for _ in range(2))), default=None)
    if single is None:
        print("| MPI | mpiexec is not installed | | | |")
        return
    double = min(on_ranks(2) for _ in range(2))
    times = f"{1e3 * single:.1f} ms | {1e3 * double:.1f} ms | {single / double:.2f}"
    print(f"| MPI ranks | {times} | 1.7 |")


if __name__ == "__main__":
    ranks() if sys.argv[1:] == ["ranks"] else main()
