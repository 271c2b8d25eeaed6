"""Times of first calls, each in a process of its own: with an empty cache, and with a filled one.

    python -m cpu_work.first_calls NAME PEER

runs one and prints its seconds; imports are done, and inputs made, before the clock starts.
"""

from __future__ import annotations

import atexit
import functools
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
NAMES = ("selu", "logistic gradient", "MLP step", "vmap of convolve, length 1,000")
LINES = (10, 100, 1000)
PATIENCE = 150.0


@dataclass(frozen=True)
class FirstCall:
    """Seconds of a first call; what went wrong, if it did."""

    seconds: float | None
    problem: str = ""


OPERATIONS = ("np.sin(v{a})", "v{a} * v{b}", "v{a} + v{c}", "np.tanh(v{a})", "v{a} - 0.5 * v{b}")


def line_module(length: int, folder: str) -> Path:
    """A file with a straight line of so many operations; each value is used several times."""
    lines = ["import numpy as np", "", "", "def line(x, y):", "    v0, v1, v2 = x, y, x * y"]
    for k in range(length):
        operation = OPERATIONS[k % len(OPERATIONS)].format(a=k + 2, b=k + 1, c=k)
        lines.append(f"    v{k + 3} = {operation}")
    file = Path(folder) / f"line_{length}.py"
    text = "\n".join([*lines, f"    return np.sum(v{length + 2})", ""])
    file.write_text(text, encoding="utf-8")
    return file


def _arguments(name: str) -> tuple[Any, ...]:
    import numpy as np

    rng = np.random.default_rng(5)
    if name == "selu":
        return (rng.normal(size=(100, 100)),)
    if name == "logistic gradient":
        y = (rng.random(1000) > 0.5).astype(float)
        return 0.1 * rng.normal(size=20), 0.1, rng.normal(size=(1000, 20)), y
    if name == "MLP step":
        sizes = [784, 512, 512, 10]
        params = [
            ((i**-0.5 * rng.normal(size=(i, o))).astype(np.float32), np.zeros(o, np.float32))
            for i, o in itertools.pairwise(sizes)
        ]
        targets = np.eye(10, dtype=np.float32)[rng.integers(0, 10, 128)]
        return params, rng.normal(size=(128, 784)).astype(np.float32), targets
    if name.startswith("vmap"):
        return rng.normal(size=(4, 1000)), rng.normal(size=(4, 3))
    return np.linspace(0.1, 1.0, 100), np.linspace(1.0, 2.0, 100)


def _function(name: str, work: Any, library: Any, line: Any) -> Callable[..., Any]:
    if name == "selu":
        return work.selu
    if name == "logistic gradient":
        return library.grad(work.logistic_loss, argnums=(0, 1))
    if name == "MLP step":
        return work.mlp_step
    if name.startswith("vmap"):
        return library.vmap(work.convolve)
    return library.grad(line) if "gradient" in name else line


def _run(name: str, peer: str) -> float:
    """The seconds of one first call in this process."""
    args = _arguments(name)
    line_file = os.environ.get("LINE_MODULE")
    if peer == "JAX":
        import jax

        from cpu_work import peers

        jax.config.update("jax_enable_x64", True)
        work = peers.as_jax(HERE / "arrays.py")
        line = peers.as_jax(line_file).line if line_file else None
        args = peers.on_device(args)
        jax.block_until_ready(jax.jit(lambda x: x + 1.0)(1.0))
        start = time.perf_counter()
        jax.block_until_ready(jax.jit(_function(name, work, jax, line))(*args))
        return time.perf_counter() - start
    import importlib.util

    import numba  # a first call is counted over the imports, which Numba makes when it compiles

    import calque

    numba.njit(lambda x: x + 1.0)(1.0)
    from cpu_work import arrays

    line = None
    if line_file:
        spec = importlib.util.spec_from_file_location("line_of_operations", line_file)
        module = importlib.util.module_from_spec(spec)
        sys.modules["line_of_operations"] = module
        spec.loader.exec_module(module)
        line = module.line
    function = _function(name, arrays, calque, line)
    if peer == "calque jit":
        function = calque.jit(function)
    start = time.perf_counter()
    function(*args)
    return time.perf_counter() - start


@functools.cache
def _bytecode() -> str:
    """A folder for what imports compile; filled by a first run that nobody times."""
    folder = tempfile.mkdtemp(prefix="bytecode-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def first_call(name: str, peer: str, cache: str, line: Path | None = None) -> FirstCall:
    """One first call in a fresh process, with a cache in the folder given."""
    environment = dict(os.environ, CALQUE_CACHE=cache, PYTHONPYCACHEPREFIX=_bytecode())
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    paths = [str(HERE.parent), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(p for p in paths if p)
    if line is not None:
        environment["LINE_MODULE"] = str(line)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "cpu_work.first_calls", name, peer],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return FirstCall(None, f"over {PATIENCE:g} s")
    if done.returncode:
        return FirstCall(None, (done.stderr.strip().splitlines() or ["failed"])[-1][:200])
    return FirstCall(json.loads(done.stdout.strip().splitlines()[-1]))


def repeated(name: str, peer: str, line: Path | None, times: int) -> tuple[FirstCall, FirstCall]:
    """The fastest cold and the fastest warm call, each cold one with an empty cache."""
    cold, warm = [], []
    with tempfile.TemporaryDirectory() as cache:
        first_call("selu", peer, cache)  # writes the bytecode of what is imported
    for _ in range(times):
        with tempfile.TemporaryDirectory() as cache:
            cold.append(first_call(name, peer, cache, line))
            if cold[-1].seconds is None:
                return cold[-1], cold[-1]
            warm.append(first_call(name, peer, cache, line) if peer == "calque jit" else cold[-1])
    if any(call.seconds is None for call in warm):
        return cold[-1], next(call for call in warm if call.seconds is None)
    return min(cold, key=_seconds), min(warm, key=_seconds)


def _seconds(call: FirstCall) -> float:
    assert call.seconds is not None
    return call.seconds


if __name__ == "__main__":
    print(json.dumps(_run(sys.argv[1], sys.argv[2])))
