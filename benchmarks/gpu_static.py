"""Static measures of CUDA kernels, without a GPU: registers, stack, spills, and bytes moved.

    python benchmarks/gpu_static.py           # writes results/gpu_static.md
    python benchmarks/gpu_static.py --dry     # tiny arrays, prints only: tests this script

The kernels are those of tests/golden_cuda. Registers, stack and spills are ptxas's, which NVRTC
has in it. Bytes are counted by the emulator of tests/cuda_emulator: of each launch the cells that
it reads before it has stored to them, and those that it stores, each once, as if the cache had
room for the rest; of calls of CuPy, operands and results.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np

TESTS = Path(__file__).parent.parent / "tests"
sys.path.insert(0, str(TESTS))

from cuda_emulator import nvrtc, standin  # noqa: E402
from cuda_emulator.running import code_of, to_device, to_host  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "gpu_static.md"
GOLDEN = TESTS / "golden_cuda"
ARCHITECTURES = ("sm_80", "sm_90")
STEPS = 20
LEAST_RATIO = 1.1
RNG = np.random.default_rng(2)


def single(*shape: int) -> np.ndarray:
    """Numbers of float32."""
    return RNG.standard_normal(shape).astype(np.float32)


def arguments(tiny: bool) -> dict[str, tuple[Any, ...]]:
    """For each module, arrays so large that a block's own sums are little beside them."""
    n, m = (40, 70) if tiny else (400, 256)
    long, rows = n * m // 2, 20 if tiny else 600
    matrix, vector = (RNG.standard_normal(shape) for shape in ((n, m), long))
    embedding = single(50, 32), RNG.integers(0, 50, rows), single(rows, 32)
    few = 200 if tiny else 4000
    kepler = RNG.uniform(0.0, 3.0, few), RNG.uniform(0.0, 0.9, few)
    mlp = single(16, 24), single(24), single(24, 8), single(8), single(rows, 16), single(rows, 8)
    return {
        "selu": (single(n, m),),
        "cross_entropy_grad": (single(n, m), abs(single(n, m))),
        "sum_of_squares": (single(n, m),),
        "column_mean": (RNG.standard_normal((8 * n, m // 8)),),
        "kepler_vmap": kepler,
        "kepler_grad_vmap": kepler,
        "heat": (matrix, 0.1 * abs(matrix), STEPS),
        "heat_grad": (matrix, 0.1 * abs(matrix), STEPS),
        "embedding_loss_grad": embedding,
        "embedding_loss_grad_sorted": embedding,
        "mlp_loss_grad": mlp,
        "running_share": (vector,),
        "running_shares": (single(n, m),),
        "distances": (vector,),
        "clipped_products": (vector, vector[::-1].copy()),
        "newton_root_vmap": (np.exp(1j * RNG.uniform(0.0, 0.5, few)),),
        "brightness_grad": (vector, np.exp(1j * vector)),
    }


# arrays as large as the first argument that a step of a loop over time must read or store
PER_STEP = {
    "heat": (3, "u, kappa; u"),
    "heat_grad": (10, "u, kappa; u, saved; then saved, kappa, and u_bar, kappa_bar both ways"),
}


def least(name: str, args: tuple[Any, ...], results: tuple[Any, ...]) -> int:
    """The bytes of arguments and results, each once; of loops over time, of each step."""
    if name in PER_STEP:
        return PER_STEP[name][0] * STEPS * int(args[0].nbytes)
    arrays = [a for a in (*args, *results) if isinstance(a, np.ndarray)]
    return sum(int(a.nbytes) for a in arrays)


def moved(name: str, args: tuple[Any, ...]) -> tuple[int, int, int]:
    """Bytes that launches move, that calls of CuPy do, and the least possible."""
    with standin.installed():
        module: dict[str, Any] = {}
        exec(compile((GOLDEN / f"{name}.py").read_text("utf-8"), f"{name}.py", "exec"), module)
        launcher = next(v for k, v in module.items() if k.endswith("_jit"))
        given = list(map(to_device, args))
        standin.traffic.clear()
        standin.moved_by_calls.clear()
        result = launcher(*given)
        calls = sum(standin.moved_by_calls)
        results = tuple(map(to_host, result if isinstance(result, tuple) else (result,)))
    kernels = sum(fetched + stored for fetched, stored in standin.traffic)
    return kernels, calls, least(name, args, results)


def of_compiler(name: str) -> list[str]:
    """A line of figures for each kernel of a module."""
    code = code_of((GOLDEN / f"{name}.py").read_text("utf-8"))
    figures = {
        (architecture, index): nvrtc.compiled(code, architecture, (f"-DIndex={index}",))
        for architecture in ARCHITECTURES
        for index in ("int", "long long")
    }
    lines = []
    for kernel in re.findall(r"^void (\w+)\(", code, re.M):
        found = [figures[a, i][kernel] for a in ARCHITECTURES for i in ("int", "long long")]
        registers = [str(f.registers) for f in found]
        stack, spills = max(f.stack for f in found), max(f.spills for f in found)
        lines.append(f"| {kernel} | {' | '.join(registers)} | {stack} | {spills} |")
    return lines


def of_memory(tiny: bool) -> list[str]:
    """A line of bytes for each module."""
    lines = []
    for name, args in arguments(tiny).items():
        kernels, calls, needed = moved(name, args)
        ratio = (kernels + calls) / needed
        mark = "" if ratio <= LEAST_RATIO else " above"
        elements = max(a.size for a in args if isinstance(a, np.ndarray))
        each = [f"{b / elements:.2f}" for b in (kernels, calls, needed)]
        lines.append(f"| {name} | {' | '.join(each)} | {ratio:.2f}{mark} |")
    return lines


HEAD = """\
# Kernels of CUDA C without a card

Written by `python benchmarks/gpu_static.py`, for the modules of tests/golden_cuda.

## Registers, stack and spills

Of a thread, as ptxas says them, which NVRTC has in it. `int` and `long long` are the width of
indices; stack and spills are bytes, the most of the four. The 40 bytes of stack of kernels with
sines are of CUDA's own function, for large arguments.

| kernel | sm_80 int | long long | sm_90 int | long long | stack | spills |
| --- | ---: | ---: | ---: | ---: | ---: | ---: |
"""
MEMORY = """

## Bytes moved, for an element of the largest argument

Kernels: of each launch the cells that it fetches, and those that it stores, each once, as the
emulator counts them: what a cache has no room for, and what is fetched beside a cell, comes on top.
CuPy: operands and results of its own functions (products, zeros; not of sorts). Least: arguments
and results, each once; of loops over time what each step needs (STEPS).

The aim is at most RATIO times the least. Loops over time have STEP_COUNT steps; what `heat` moves
beside them is the last step's array, to the caller's, and its sum. What is above: `heat_grad` puts
u back before each step of the sweep back. `mlp_loss_grad` has products whose operands are in
memory, and the sums down their columns read these again. Running sums of a vector read their terms
twice. `np.zeros` of a sum into chosen cells is needed. Lanes of Kepler's gradient save iterations
in memory. `brightness_grad` needs its sum before it can read again, and stores complex products, of
which it gives a view of the real parts.

| module | kernels | CuPy | least | times |
| --- | ---: | ---: | ---: | ---: |
"""


def page(tiny: bool) -> str:
    """The whole page."""
    missing = {p.stem for p in GOLDEN.glob("*.py")} ^ set(arguments(True))
    if missing:
        raise SystemExit(f"arguments or modules are missing: {', '.join(sorted(missing))}")
    steps = "; ".join(f"{name}: {words}" for name, (_, words) in PER_STEP.items())
    memory = MEMORY.replace("(STEPS)", f"({steps})").replace("RATIO", str(LEAST_RATIO))
    memory = memory.replace("STEP_COUNT", str(STEPS))
    figures = [line for name in arguments(True) for line in of_compiler(name)]
    return HEAD + "\n".join(figures) + memory + "\n".join(of_memory(tiny)) + "\n"


def programs_section() -> str:
    """The last section of the page, which gpu_round_trips.py writes."""
    before = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else ""
    found = re.search(r"\n## Programs\n.*", before, re.S)
    return found[0] if found else ""


def main() -> None:
    """Write the page, or print it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--dry", action="store_true", help="tiny arrays; nothing is kept")
    dry = parser.parse_args().dry
    if nvrtc.nvrtc() is None:
        raise SystemExit("NVRTC is not installed: pip install nvidia-cuda-nvrtc")
    text = page(dry)
    if dry:
        print(text)
    else:
        RESULTS.write_text(text + programs_section(), encoding="utf-8")


if __name__ == "__main__":
    main()
