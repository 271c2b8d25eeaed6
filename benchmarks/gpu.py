"""Kernels on a GPU, beside the card's own copy and peers: bandwidth where memory is the limit.

    python benchmarks/gpu.py           # on a card: writes results/gpu.md, with the card's name
    python benchmarks/gpu.py --dry     # tiny arrays on a stand-in for CuPy: tests this script alone

Times are medians between events on the device. Without a card it says so, and ends.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

import calque

RESULTS = Path(__file__).parent / "results" / "gpu.md"
TESTS = Path(__file__).parent.parent / "tests"
ROUNDS = 20
LANES = 10**7


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


def cases(cp: ModuleType, dtype: str, elements: int, lanes: int) -> Iterator[Case]:
    """The programs for one dtype."""
    rng = np.random.default_rng(0)
    width = np.dtype(dtype).itemsize
    side = round(elements**0.5)
    edge = max(4, round((elements / 8) ** (1 / 3)))

    def normal(*shape: int) -> Any:
        return cp.asarray(rng.standard_normal(shape, np.float32).astype(dtype))

    x = normal(elements)
    yield Case("selu", calque.jit(selu), (x,), 2 * x.nbytes, "90%", peers_of(selu, cp))
    slope = calque.jit(calque.grad(tanh_sum))
    yield Case("gradient of sum(tanh(x) * x)", slope, (x,), 2 * x.nbytes, "90%", {})
    del x
    a = normal(side, side)
    for word, axis in (("rows", 1), ("columns", 0)):
        for f in (np.sum, np.mean):
            name = f"{f.__name__} over {word}"
            made = reduction(f, axis)
            yield Case(name, calque.jit(made), (a,), a.nbytes, "85%", peers_of(made, cp))
        made = logsumexp_rows if axis else logsumexp_columns
        yield Case(f"logsumexp over {word}", calque.jit(made), (a,), a.nbytes, "85%", {})
    targets = cp.asarray((rng.random((side, side), np.float32) / side).astype(dtype))
    slope = calque.jit(calque.grad(cross_entropy))
    yield Case("softmax cross-entropy, gradient", slope, (a, targets), 3 * a.nbytes, "91%", {})
    del a, targets
    rows, hidden = max(8, side // 2), max(4, side // 10)
    net = (normal(hidden, hidden), normal(hidden), normal(hidden, 16), normal(16))
    step = calque.jit(calque.value_and_grad(mlp_loss, argnums=(0, 1, 2, 3)))
    given = (*net, normal(rows, hidden), normal(rows, 16))
    yield Case("MLP step", step, given, 0, "1.05 of JAX's time", mlp_peers(given))
    mean = cp.asarray(rng.uniform(0.1, 3.0, lanes).astype(dtype))
    eccentricity = cp.asarray(rng.uniform(0.1, 0.9, lanes).astype(dtype))
    many = calque.jit(calque.vmap(kepler))
    peers = newton_peers(mean, eccentricity)
    yield Case("Newton lanes", many, (mean, eccentricity), 0, "a third of JAX's time", peers)
    u = normal(edge, edge, edge)
    slope = calque.jit(calque.grad(heat_3d))
    traffic = 5 * 4 * width * edge**3  # 5 steps: read and write u, read and write its adjoint
    yield Case("heat_3d, gradient of 5 steps", slope, (u, 5), traffic, "70%", {})
    small = normal(1000), normal(1000)
    yield Case("1,000 elements, a call", calque.jit(ten_operations), small, 0, "10 us", {})


def reduction(f: Any, axis: int) -> Callable[..., Any]:
    """A sum or mean along an axis."""
    if f is np.sum:
        return (lambda x: np.sum(x, axis=1)) if axis else lambda x: np.sum(x, axis=0)
    return (lambda x: np.mean(x, axis=1)) if axis else lambda x: np.mean(x, axis=0)


def peers_of(f: Callable[..., Any], cp: ModuleType) -> dict[str, Callable[..., Any]]:
    """The same expression by CuPy: NumPy's functions hand CuPy's arrays on to it."""
    return {"CuPy": f}


def mlp_peers(given: tuple[Any, ...]) -> dict[str, Callable[..., Any]]:
    """JAX's and PyTorch's step, where they are installed and have the GPU."""
    found: dict[str, Callable[..., Any]] = {}
    if jax := module_on_gpu("jax"):
        jnp = jax.numpy

        def loss(W_0, b_0, W_1, b_1, x, y):
            error = jnp.tanh(x @ W_0 + b_0) @ W_1 + b_1 - y
            return jnp.mean(error * error)

        step = jax.jit(jax.value_and_grad(loss, argnums=(0, 1, 2, 3)))
        arrays = [jax.dlpack.from_dlpack(a) for a in given]
        found["JAX"] = lambda *_: jax.block_until_ready(step(*arrays))
    if torch := module_on_gpu("torch"):
        tensors = [torch.from_dlpack(a).clone() for a in given]
        weights = [t.requires_grad_() for t in tensors[:4]]

        def torch_loss(W_0, b_0, W_1, b_1, x, y):
            error = torch.tanh(x @ W_0 + b_0) @ W_1 + b_1 - y
            return (error * error).mean()

        compiled = torch.compile(torch_loss)
        found["torch.compile"] = lambda *_: torch.autograd.grad(compiled(*tensors), weights)
    return found


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
    return {"JAX": lambda *_: jax.block_until_ready(many(*arrays))}


def module_on_gpu(name: str) -> Any:
    """JAX or PyTorch, if it is installed and has the GPU."""
    try:
        if name == "jax":
            import jax

            jax.config.update("jax_enable_x64", True)
            return jax if jax.default_backend() == "gpu" else None
        import torch

        return torch if torch.cuda.is_available() else None
    except ImportError:
        return None


def seconds(cp: ModuleType, call: Callable[..., Any], args: tuple[Any, ...], rounds: int) -> float:
    """The median of a call's time: between events, and by the clock for the stand-in, for peers."""
    events = getattr(cp.cuda, "Event", None)
    times = []
    for k in range(rounds + 2):  # the first two compile
        if events is None:
            begun = time.perf_counter()
            call(*args)
            taken = time.perf_counter() - begun
        else:
            begin, end = events(), events()
            cp.cuda.Device().synchronize()
            begin.record()
            call(*args)
            end.record()
            cp.cuda.Device().synchronize()
            taken = cp.cuda.get_elapsed_time(begin, end) / 1000.0
        times += [taken] if k > 1 else []
    return statistics.median(times)


def copy_rate(cp: ModuleType, dtype: str, elements: int, rounds: int) -> float:
    """Bytes a second that the card reads and writes when it copies an array."""
    x = cp.asarray(np.ones(elements, dtype))
    y = cp.empty_like(x)

    def copy_over() -> None:
        y[...] = x

    return 2 * x.nbytes / seconds(cp, copy_over, (), rounds)


def table(cp: ModuleType, dtype: str, elements: int, lanes: int, rounds: int) -> list[str]:
    """Lines of the table of one dtype, the copy first."""
    copied = copy_rate(cp, dtype, elements, rounds)
    lines = [f"## {dtype}, {elements:,} elements", ""]
    lines += [f"The card's own copy: {copied / 1e9:,.0f} GB/s.", ""]
    lines += ["| program | ms | GB/s | of the copy | goal | peers, ms |"]
    lines += ["| - | - | - | - | - | - |"]
    for case in cases(cp, dtype, elements, lanes):
        taken = seconds(cp, case.call, case.args, rounds)
        rate = case.traffic / taken
        speed = [f"{rate / 1e9:,.0f}", f"{rate / copied:.0%}"] if case.traffic else ["", ""]
        others = {n: seconds(cp, f, case.args, rounds) for n, f in case.peers.items()}
        told = ", ".join(f"{n} {1000 * t:.4g}" for n, t in others.items())
        row = [case.name, f"{1000 * taken:.4g}", *speed, case.goal, told]
        lines.append(f"| {' | '.join(row)} |")
        print(lines[-1], flush=True)
    return lines


def run(cp: ModuleType, card: str, elements: int, lanes: int, rounds: int) -> str:
    """The page."""
    lines = ["# Kernels on a GPU", "", f"By `python benchmarks/gpu.py` on: {card}.", ""]
    lines += ["Medians between events on the device; bytes are the least that must be moved.", ""]
    for dtype in ("float32", "float64"):
        lines += [*table(cp, dtype, elements, lanes, rounds), ""]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dry", action="store_true", help="tiny arrays on a stand-in for CuPy")
    parser.add_argument("--elements", type=int, default=10**8)
    options = parser.parse_args()
    if options.dry:
        sys.path.insert(0, str(TESTS))
        from cuda_emulator import standin

        with standin.installed() as cp:
            run(cp, "no card: a stand-in", 400, 50, 1)
        print("This was a stand-in: its times say nothing, and none is kept.")
        return 0
    try:
        import cupy as cp

        name = cp.cuda.runtime.getDeviceProperties(0)["name"].decode()
    except Exception as error:  # CuPy is not there, or finds no driver, or no card
        print(f"There is no GPU to measure ({type(error).__name__}: {error}). Nothing was run.")
        return 0
    RESULTS.write_text(run(cp, name, options.elements, LANES, ROUNDS), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
