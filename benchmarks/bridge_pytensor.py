"""A log-posterior with its gradient, in PyTensor's backends: ``examples/pymc_epidemic.py``.

    python benchmarks/bridge_pytensor.py

calque's bridge stands beside finite differences (the Ops of PyMC's guide) and beside the same model
written again for PyTensor, with ``scan``. Processor time, the least of five.
"""

from __future__ import annotations

import runpy
import time
import warnings
from pathlib import Path

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt

import calque

EXAMPLE = runpy.run_path(str(Path(__file__).resolve().parent.parent / "examples/pymc_epidemic.py"))
PEOPLE = EXAMPLE["PEOPLE"]


def by_scan(theta, seen):
    """The example's log-likelihood, in PyTensor's words."""

    def step(day, susceptible, infected, theta):
        new = susceptible * (1.0 - pt.exp(-theta[day // 14] * infected / PEOPLE))
        return susceptible - new, pt.exp(-theta[3]) * infected + new, new

    start = [PEOPLE - theta[4], theta[4], None]
    days = pt.arange(seen.size)
    _, _, new = pytensor.scan(
        step, days, outputs_info=start, non_sequences=[theta], return_updates=False
    )
    expected = new + 1e-3
    return pt.sum(seen * pt.log(expected) - expected)


def seconds_a_call(function, x):
    function(x)
    least = np.inf
    for _ in range(5):
        start, calls = time.process_time(), 0
        while time.process_time() - start < 0.1:
            function(x)
            calls += 1
        least = min(least, (time.process_time() - start) / calls)
    return least


def main():
    cases = EXAMPLE["new_cases"](EXAMPLE["TRUE"], EXAMPLE["DAYS"])
    seen = np.random.default_rng(0).poisson(cases).astype(float)
    ways = {
        "calque.bridges": calque.bridges.pytensor.wrap(EXAMPLE["log_likelihood"]),
        "finite differences": EXAMPLE["BlackBox"](),
        "scan": by_scan,
    }
    print(f"PyTensor {pytensor.__version__}, PyMC {pm.__version__}, NumPy {np.__version__}")
    print("| log-posterior and gradient by | C | Numba |")
    print("| --- | --- | --- |")
    for name, way in ways.items():
        times = []
        for mode in ("CVM", "NUMBA"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = EXAMPLE["model"](way, seen)
                function = model.logp_dlogp_function(ravel_inputs=True, mode=mode)
                function.set_extra_values({})
                x = pm.blocking.DictToArrayBijection.map(model.initial_point())
                times.append(1e6 * seconds_a_call(function, x))
        print(f"| {name} | {times[0]:.0f} us | {times[1]:.0f} us |", flush=True)


if __name__ == "__main__":
    main()
