"""Kernels on a GPU against the card's copy speed and against peers.

    python benchmarks/gpu.py           # on a card: writes results/gpu.md, with the card's name
    python benchmarks/gpu.py --quick   # on a card: checks, times and device tests, in six minutes
    python benchmarks/gpu.py --dry     # tiny arrays on a stand-in for CuPy: tests this script alone

Times are medians of bursts of calls, by the clock. Without a card it says so, and ends.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

import calque

sys.path.insert(0, str(Path(__file__).parent))
import gpu_checks

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # JAX would take the card
RESULTS = Path(__file__).parent / "results" / "gpu.md"
TESTS = Path(__file__).parent.parent / "tests"
REPEATS = 20
LANES = 10**7
compared = True  # with peers


class Case(NamedTuple):
    """A program: ``traffic`` are the bytes it must read and write, 0 where that is no limit."""

    name: str
    call: Callable[..., Any]
    args: tuple[Any, ...]
    traffic: int
    goal: str
    peers: dict[str, Callable[..., Any]]


def selu(x):
    return 1.05 * np.where(x > 0, x, 1.67 * np.exp(x) - 1.67)


def tanh_sum(x):
    return np.sum(np.tanh(x) * x)


def logsumexp_rows(x):
    top = np.max(x, axis=1, keepdims=True)
    return np.log(np.sum(np.exp(x - top), axis=1)) + top[:, 0]


def logsumexp_columns(x):
    top = np.max(x, axis=0)
    return np.log(np.sum(np.exp(x - top), axis=0)) + top


def cross_entropy(logits, targets):
    shifted = logits - calque.stop_gradient(np.max(logits, axis=1, keepdims=True))
    log_norm = np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))
    return -np.mean(np.sum(targets * (shifted - log_norm), axis=1))


def mlp_loss(W_0, b_0, W_1, b_1, x, y):
    hidden = np.tanh(x @ W_0 + b_0)
    error = hidden @ W_1 + b_1 - y
    return np.mean(error * error)


def kepler(mean, eccentricity):
    e = mean
    while np.abs(e - eccentricity * np.sin(e) - mean) > 1e-5:
        e -= (e - eccentricity * np.sin(e) - mean) / (1.0 - eccentricity * np.cos(e))
    return e


def heat_3d(u, steps):
    for _ in range(steps):
        inner = u[1:-1, 1:-1, 1:-1]
        rows = u[:-2, 1:-1, 1:-1] + u[2:, 1:-1, 1:-1] + u[1:-1, :-2, 1:-1] + u[1:-1, 2:, 1:-1]
        change = rows + u[1:-1, 1:-1, :-2] + u[1:-1, 1:-1, 2:] - 6.0 * inner
        u[1:-1, 1:-1, 1:-1] = inner + 0.1 * change
    return np.sum(u * u)


def ten_operations(x, y):
    z = np.tanh(x * y + x) * np.exp(-y) - 0.5 * x
    return np.where(z > 0.0, z, z * y + 1.0)


def in_range(x):
    return (x > 100) & (x < 200)


def brighter(x):
    return np.minimum(x, 200) + np.uint8(55)


def running(x):
    return np.cumsum(x) * 0.5


def picked(table, k):
    return np.sum(table[k] * table[k], axis=1)


def added(table, k, rows):
    out = table * 0.0
    np.add.at(out, k, rows)
    return out


class Drawn:
    """Arrays on the card of one dtype: a million numbers, again and again."""

    def __init__(self, cp: ModuleType, dtype: str):
        self.cp, self.dtype = cp, dtype
        self.rng = np.random.default_rng(0)

    def normal(self, *shape: int) -> Any:
        block = self.rng.standard_normal(min(np.prod(shape), 10**6), np.float32)
        return self.cp.asarray(np.resize(block.astype(self.dtype), shape))

    def uniform(self, low: float, high: float, size: int) -> Any:
        return self.cp.asarray(self.rng.uniform(low, high, size).astype(self.dtype))

    def below(self, end: int, size: int, dtype: str = "int64") -> Any:
        block = self.rng.integers(0, end, min(size, 10**6)).astype(dtype)
        return self.cp.asarray(np.resize(block, size))


def case(name: str, f: Any, args: Any, traffic: int, goal: str, transform: Any = None) -> Case:
    """A function beside CuPy's and JAX's of the same text."""
    made = calque.jit(transform(f) if transform else f)
    peers = {} if transform else {"CuPy": f}
    return Case(name, made, args, traffic, goal, {**peers, **jax_peer(f, args, transform)})


def cases(cp: ModuleType, dtype: str, elements: int, lanes: int) -> Iterator[Case]:
    """The programs for one dtype."""
    drawn = Drawn(cp, dtype)
    yield from of_elements(drawn, elements)
    yield from of_matrices(drawn, round(elements**0.5))
    yield from of_programs(drawn, elements, lanes)


def of_elements(drawn: Drawn, elements: int) -> Iterator[Case]:
    """Long vectors."""
    x = drawn.normal(elements)
    yield case("selu", selu, (x,), 2 * x.nbytes, "90%")
    name = "gradient of sum(tanh(x) * x)"
    yield case(name, tanh_sum, (x,), 2 * x.nbytes, "90%", calque.grad)
    yield case("cumsum(x) * 0.5", running, (x,), 2 * x.nbytes, "")
    if x.dtype.itemsize == 4:
        levels = drawn.below(256, elements, "uint8")
        yield case("uint8 to bool", in_range, (levels,), 2 * levels.nbytes, "")
        yield case("uint8 to uint8", brighter, (levels,), 2 * levels.nbytes, "")


def of_matrices(drawn: Drawn, side: int) -> Iterator[Case]:
    """Rows and columns."""
    a = drawn.normal(side, side)
    for word, axis in (("rows", 1), ("columns", 0)):
        for f in (np.sum, np.mean):
            yield case(f"{f.__name__} over {word}", reduction(f, axis), (a,), a.nbytes, "85%")
        made = logsumexp_rows if axis else logsumexp_columns
        yield case(f"logsumexp over {word}", made, (a,), a.nbytes, "85%")
    targets = abs(drawn.normal(side, side))
    name, traffic = "softmax cross-entropy, gradient", 3 * a.nbytes
    yield case(name, cross_entropy, (a, targets), traffic, "91%", calque.grad)
    k = drawn.below(side, side)
    yield case("rows picked, their squares' sums", picked, (a, k), a.nbytes, "")
    name = "rows added where the data say"
    yield Case(name, calque.jit(added), (a, k, targets), 4 * a.nbytes, "", {})


def of_programs(drawn: Drawn, elements: int, lanes: int) -> Iterator[Case]:
    """A network, lanes with loops of their own, a stencil, and a small call."""
    side = round(elements**0.5)
    rows, hidden = max(8, side // 2), max(4, side // 10)
    normal = drawn.normal
    for many, word in ((rows, ""), (max(4, rows // 50), ", of few rows")):
        net = (normal(hidden, hidden), normal(hidden), normal(hidden, 16), normal(16))
        given = (*net, normal(many, hidden), normal(many, 16))
        step = calque.jit(calque.value_and_grad(mlp_loss, argnums=(0, 1, 2, 3)))
        yield Case(f"MLP step{word}", step, given, 0, "1.05 of JAX's time", mlp_peers(given))
    given = drawn.uniform(0.1, 3.0, lanes), drawn.uniform(0.1, 0.9, lanes)
    each = calque.jit(calque.vmap(kepler))
    yield Case("Newton lanes", each, given, 0, "a third of JAX's time", newton_peers(*given))
    edge = max(4, round((elements / 8) ** (1 / 3)))
    u = normal(edge, edge, edge)
    yield Case("heat_3d, 5 steps", calque.jit(heat_3d), (u, 5), 5 * 2 * u.nbytes, "", {})
    slope = calque.jit(calque.grad(heat_3d))
    traffic = 5 * 4 * u.nbytes  # 5 steps: read and write u, read and write its adjoint
    yield Case("heat_3d, gradient of 5 steps", slope, (u, 5), traffic, "70%", {})
    small = normal(1000), normal(1000)
    yield case("1,000 elements, a call", ten_operations, small, 0, "10 us")


def reduction(f: Any, axis: int) -> Callable[..., Any]:
    """A sum or mean along an axis."""
    if f is np.sum:
        return (lambda x: np.sum(x, axis=1)) if axis else lambda x: np.sum(x, axis=0)
    return (lambda x: np.mean(x, axis=1)) if axis else lambda x: np.mean(x, axis=0)


def jax_peer(f: Any, args: tuple[Any, ...], transform: Any) -> dict[str, Callable[..., Any]]:
    """The same function with ``np`` for JAX's, where that has the GPU."""
    jax = module_on_gpu("jax")
    if jax is None:
        return {}
    library = SimpleNamespace(stop_gradient=jax.lax.stop_gradient)
    names = {**f.__globals__, "np": jax.numpy, "calque": library}
    same = FunctionType(f.__code__, names, f.__name__, f.__defaults__, f.__closure__)
    call = jax.jit(jax.grad(same) if transform else same)
    arrays = [jax.dlpack.from_dlpack(a) for a in args]
    return {"JAX": lambda *_: call(*arrays)}


def mlp_peers(given: tuple[Any, ...]) -> dict[str, Callable[..., Any]]:
    """JAX's and PyTorch's step, where they are installed and have the GPU; products as exact as
    CuPy's, not by TF32."""
    found: dict[str, Callable[..., Any]] = {}
    if jax := module_on_gpu("jax"):
        jnp = jax.numpy

        def loss(W_0, b_0, W_1, b_1, x, y):
            error = jnp.tanh(x @ W_0 + b_0) @ W_1 + b_1 - y
            return jnp.mean(error * error)

        step = jax.jit(jax.value_and_grad(loss, argnums=(0, 1, 2, 3)))
        arrays = [jax.dlpack.from_dlpack(a) for a in given]
        found["JAX"] = lambda *_: flat(step(*arrays))
    if torch := module_on_gpu("torch"):
        tensors = [torch.from_dlpack(a).clone() for a in given]
        weights = [t.requires_grad_() for t in tensors[:4]]

        def torch_loss(W_0, b_0, W_1, b_1, x, y):
            error = torch.tanh(x @ W_0 + b_0) @ W_1 + b_1 - y
            return (error * error).mean()

        compiled = torch.compile(torch_loss)
        found["torch.compile"] = lambda *_: torch.autograd.grad(compiled(*tensors), weights)
    return found


def flat(result: Any) -> tuple[Any, ...]:
    """A value and its gradients, one beside another."""
    value, gradients = result
    return (value, *gradients)


def newton_peers(mean: Any, eccentricity: Any) -> dict[str, Callable[..., Any]]:
    """JAX's lanes, all of which go on until the last one ends."""
    jax = module_on_gpu("jax")
    if jax is None:
        return {}
    jnp = jax.numpy

    def lane(mean, eccentricity):
        def going(e):
            return jnp.abs(e - eccentricity * jnp.sin(e) - mean) > 1e-5

        def step(e):
            residual = e - eccentricity * jnp.sin(e) - mean
            return e - residual / (1.0 - eccentricity * jnp.cos(e))

        return jax.lax.while_loop(going, step, mean)

    many = jax.jit(jax.vmap(lane))
    arrays = [jax.dlpack.from_dlpack(a) for a in (mean, eccentricity)]
    return {"JAX": lambda *_: many(*arrays)}


def module_on_gpu(name: str) -> Any:
    """JAX or PyTorch, if it is installed and has the GPU."""
    if not compared:
        return None
    try:
        if name == "jax":
            import jax

            jax.config.update("jax_enable_x64", True)
            jax.config.update("jax_default_matmul_precision", "highest")
            return jax if jax.default_backend() == "gpu" else None
        import torch

        return torch if torch.cuda.is_available() else None
    except ImportError:
        return None


def seconds(cp: ModuleType, call: Callable[..., Any], args: tuple[Any, ...], repeats: int) -> float:
    """A call's median time in bursts: as in a program, the host is ahead of the card."""

    def burst(calls: int) -> float:
        begun = time.perf_counter()
        for _ in range(calls):
            result = call(*args)
        for leaf in result if isinstance(result, tuple) else (result,):
            getattr(leaf, "block_until_ready", lambda: None)()  # of JAX, which has its own queue
        cp.cuda.Device().synchronize()
        return (time.perf_counter() - begun) / calls

    for _ in range(4):  # the first ones compile, and capture what is launched
        once = burst(1)
    calls = 1 if repeats == 1 else 50 if once < 2e-4 else 10
    return statistics.median(burst(calls) for _ in range(repeats))


def copy_rate(cp: ModuleType, dtype: str, elements: int, repeats: int) -> float:
    """Bytes a second that the card reads and writes when it copies an array."""
    x = cp.asarray(np.ones(elements, dtype))
    y = cp.empty_like(x)

    def copy_over() -> None:
        y[...] = x

    return 2 * x.nbytes / seconds(cp, copy_over, (), repeats)


def table(cp: ModuleType, dtype: str, elements: int, lanes: int, repeats: int) -> list[str]:
    """Lines of the table of one dtype, the copy first."""
    copied = copy_rate(cp, dtype, elements, repeats)
    lines = [f"## {dtype}, {elements:,} elements", ""]
    lines += [f"The card's own copy: {copied / 1e9:,.0f} GB/s.", ""]
    lines += ["| program | ms | GB/s | of the copy | goal | peers, ms |"]
    lines += ["| - | - | - | - | - | - |"]
    for case in cases(cp, dtype, elements, lanes):
        try:
            lines.append(row(cp, case, copied, repeats))
        except Exception as error:  # the rest is measured nevertheless
            lines.append(f"| {case.name} | {type(error).__name__} | | | {case.goal} | |")
            traceback.print_exc()
        print(lines[-1], flush=True)
        if pool := getattr(cp, "get_default_memory_pool", None):
            pool().free_all_blocks()
    return lines


def row(cp: ModuleType, case: Case, copied: float, repeats: int) -> str:
    """A line of the table: the program's time, and its peers'."""
    taken = seconds(cp, case.call, case.args, repeats)
    rate = case.traffic / taken
    speed = [f"{rate / 1e9:,.0f}", f"{rate / copied:.0%}"] if case.traffic else ["", ""]
    others = {}
    for name, f in case.peers.items():
        try:
            others[name] = f"{1000 * seconds(cp, f, case.args, repeats):.4g}"
        except Exception as error:
            others[name] = type(error).__name__
    told = ", ".join(f"{n} {t}" for n, t in others.items())
    return f"| {' | '.join([case.name, f'{1000 * taken:.4g}', *speed, case.goal, told])} |"


def run(cp: ModuleType, card: str, elements: int, lanes: int, repeats: int) -> str:
    """The page."""
    lines = ["# Kernels on a GPU", "", f"By `python benchmarks/gpu.py` on: {card}.", ""]
    lines += ["Medians of 20 bursts of 10 to 50 calls; bytes are the least that must be moved.", ""]
    for dtype in ("float32", "float64"):
        lines += [*table(cp, dtype, elements, lanes, repeats), ""]
    return "\n".join(lines)


def quick(
    cp: ModuleType,
    elements: int,
    lanes: int,
    budget: float = 340.0,
    shapes: tuple[tuple[int, ...], ...] = gpu_checks.SHAPES,
) -> int:
    """Check results, measure each program shortly without peers, and run the device tests.

    ``budget`` are the seconds in which all of it must end; 0 runs no device tests.
    """
    global compared
    compared, begun = False, time.perf_counter()
    wrong = gpu_checks.failures(cp, shapes)
    print("\n".join(wrong) or "All results are NumPy's.", flush=True)
    for dtype in ("float32", "float64"):
        copied = copy_rate(cp, dtype, elements, 3)
        print(f"{dtype}: the card's own copy, {copied / 1e9:,.0f} GB/s", flush=True)
        for case in cases(cp, dtype, elements, lanes):
            if budget and time.perf_counter() - begun > 0.6 * budget:
                print("No time for more measurements.", flush=True)
                break
            try:
                print(row(cp, case, copied, 3), flush=True)
            except Exception as error:  # the rest is measured nevertheless
                print(f"| {case.name} | {type(error).__name__}: {error} |", flush=True)
            if pool := getattr(cp, "get_default_memory_pool", None):
                pool().free_all_blocks()
    if budget:
        print(gpu_checks.device_tests(budget - (time.perf_counter() - begun)), flush=True)
    return 1 if wrong else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dry", action="store_true", help="tiny arrays on a stand-in for CuPy")
    parser.add_argument("--quick", action="store_true", help="checks and short measurements")
    parser.add_argument("--elements", type=int, default=10**8)
    parser.add_argument("--write", type=Path, default=RESULTS, help="the page")
    options = parser.parse_args()
    if options.dry:
        sys.path.insert(0, str(TESTS))
        from cuda_emulator import standin

        with standin.installed() as cp:
            if options.quick:
                return quick(cp, 400, 50, 0.0, ((5, 3), (7, 41)))
            run(cp, "no card: a stand-in", 400, 50, 1)
        print("This was a stand-in: its times say nothing, and none is kept.")
        return 0
    try:
        import cupy as cp

        name = cp.cuda.runtime.getDeviceProperties(0)["name"].decode()
    except Exception as error:  # CuPy is not there, or finds no driver, or no card
        print(f"There is no GPU to measure ({type(error).__name__}: {error}). Nothing was run.")
        return 0
    if options.quick:
        print(f"On: {name}", flush=True)
        return quick(cp, options.elements, LANES)
    options.write.write_text(run(cp, name, options.elements, LANES, REPEATS), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
