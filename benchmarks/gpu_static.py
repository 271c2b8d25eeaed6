"""Static measures of CUDA kernels, without a GPU: registers, stack, spills, and bytes moved.

    python benchmarks/gpu_static.py           # writes results/gpu_static.md
    python benchmarks/gpu_static.py --dry     # tiny arrays, prints only: tests this script

The kernels are those of tests/golden_cuda. Registers, stack and spills are ptxas's, which NVRTC
has in it. Bytes are counted by the emulator of tests/cuda_emulator: of each launch the cells that
it reads before it has stored to them, and those that it stores, each once, as if the cache had
room for the rest, but once more where a thread comes back to a cell after many other loads, or
after some and a barrier; of calls of CuPy, operands and results.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import logsumexp, softmax

import calque

TESTS = Path(__file__).parent.parent / "tests"
sys.path[:0] = [str(TESTS), str(Path(__file__).parent)]

from cuda_emulator import nvrtc, standin  # noqa: E402
from cuda_emulator.running import code_of, to_device, to_host  # noqa: E402
from gpu import heat_3d  # noqa: E402
from gpu_checks import lowest, normalized  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "gpu_static.md"
GOLDEN = TESTS / "golden_cuda"
ARCHITECTURES = ("sm_80", "sm_90")
STEPS = 20
LEAST_RATIO, ONCE_RATIO = 1.1, 1.15
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


def entropy(logits, targets):
    return np.mean(logsumexp(logits, axis=1) - np.sum(targets * logits, axis=1))


def without_stop(logits, targets):
    shifted = logits - np.max(logits, axis=1, keepdims=True)
    log_norm = np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))
    return -np.mean(np.sum(targets * (shifted - log_norm), axis=1))


def programs(tiny: bool) -> dict[str, tuple[Any, tuple[Any, ...], float]]:
    """Programs that go over rows more than once, their arguments, and the arrays as large as the
    first argument that they must read and store."""
    n, m = (6, 600) if tiny else (60, 3000)
    x, tall, short = single(n, m), single(m, n), single(50 * n, 3)
    targets, edge = abs(single(n, m)), 8 if tiny else 32
    grad, few = calque.grad, 1.0 / 3.0
    return {
        "logsumexp of rows": (lambda x: logsumexp(x, axis=1), (x,), 1.0),
        "logsumexp of few long rows": (lambda x: logsumexp(x, axis=1), (single(2, 20 * m),), 1.0),
        "logsumexp of columns": (lambda x: logsumexp(x, axis=0), (tall,), 1.0),
        "softmax of rows": (lambda x: softmax(x, axis=1), (x,), 2.0),
        "softmax of columns": (lambda x: softmax(x, axis=0), (tall,), 2.0),
        "layer norm": (normalized, (x,), 2.0),
        "gradient of logsumexp": (grad(lambda x: np.sum(logsumexp(x, axis=1) ** 2)), (x,), 2.0),
        "gradient of the softmax's squares": (
            *(grad(lambda x: np.sum(softmax(x, axis=1) ** 2)), (x,)),
            2.0,
        ),
        "cross-entropy": (entropy, (x, targets), 2.0),
        "gradient of cross-entropy": (grad(entropy), (x, targets), 3.0),
        "the same, with the maximum's": (grad(without_stop), (x, targets), 3.0),
        "a minimum chosen in a loop": (lowest, (single(n * m),), 1.0),
        "sums of rows of 3": (lambda x: np.sum(x, axis=1), (short,), 1.0 + few),
        "directions of rows of 3": (
            *(lambda x: x / np.sqrt(np.sum(x * x, axis=1, keepdims=True)), (short,)),
            2.0,
        ),
        "heat_3d, 5 steps": (heat_3d, (single(edge, edge, edge), 5), 10.0),
        "cumsum": (lambda x: np.cumsum(x) * 0.5, (single(n * m),), 2.0),
        "cumsum along rows": (lambda x: np.cumsum(x, axis=1), (x,), 2.0),
    }


def of_programs(tiny: bool) -> list[str]:
    """A line of bytes for each program."""
    lines = []
    for name, (function, args, arrays) in programs(tiny).items():
        with standin.installed():
            given = list(map(to_device, args))
            standin.traffic.clear()
            standin.moved_by_calls.clear()
            calque.jit(function)(*given)
            calls = sum(standin.moved_by_calls)
        size, bytes_moved = args[0].nbytes, sum(map(sum, standin.traffic))
        ratio = (bytes_moved + calls) / (arrays * size)
        mark = "" if ratio <= ONCE_RATIO else " above"
        each = [f"{b / size:.2f}" for b in (bytes_moved, calls, arrays * size)]
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
emulator counts them: what is fetched beside a cell comes on top. A cell to which a thread comes
back after 64 other loads, or after 8 and a barrier, is fetched again: the row of a reduction that
another pass reads.
CuPy: operands and results of its own functions (products, zeros; not of sorts). Least: arguments
and results, each once; of loops over time what each step needs (STEPS).

The aim is at most RATIO times the least. Loops over time have STEP_COUNT steps; what `heat` moves
beside them is its sum. What is above: `heat_grad` puts u back before each step of the sweep back.
`mlp_loss_grad` has products whose operands are in memory, and the sums down their columns read
these again. Running sums of a vector read their terms twice. `np.zeros` of a sum into chosen cells
is needed. Lanes of Kepler's gradient save iterations in memory. `brightness_grad` needs its sum
before it can read again, and stores complex products, of which it gives a view of the real parts.

| module | kernels | CuPy | least | times |
| --- | ---: | ---: | ---: | ---: |
"""


ONCE = """

## Programs that go over their data again

Bytes moved as above, in arrays as large as the first argument; the aim is at most RATIO times the
least. Rows are in shared memory, of which the stand-in has an H200's. What is above: columns of a
softmax are read again, since a thread holds none; so are the terms of a running sum of a vector.

| program | kernels | CuPy | least | times |
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
    once = ONCE.replace("RATIO", str(ONCE_RATIO)) + "\n".join(of_programs(tiny))
    return HEAD + "\n".join(figures) + memory + "\n".join(of_memory(tiny)) + once + "\n"


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
