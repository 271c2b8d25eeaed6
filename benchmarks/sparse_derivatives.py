"""Sparse Jacobians and Hessians: calque, asdex (on JAX) and CasADi, prepared and evaluated.

    python benchmarks/sparse_derivatives.py [--write] [--only PATTERN] [--quick]

Preparation is processor time from the function to a pattern with colours: calque's and asdex's
`jacobian` or `hessian`, CasADi's symbols and its `Function`. The first one of a process, which
imports and compiles, is a column of its own. Evaluation is a call that gives a matrix of SciPy in
compressed sparse rows: calque's function as it is, asdex's under `jax.jit` with what makes the
matrix, CasADi's `Function`; for bundle adjustment also a program of C++ by hand, on one thread.
Matrices are compared before they are timed.
`--quick` takes small sizes, `--write` keeps the table in benchmarks/results/sparse_derivatives.md.
Exits 1 where matrices differ.
"""

from __future__ import annotations

import argparse
import ctypes
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import asdex
import casadi
import jax
import jax.numpy as jnp
import numpy as np
from scipy import sparse as matrices

import measuring
from calque import sparse
from measuring import shown

METHOD = (
    "`python benchmarks/sparse_derivatives.py --write`. Preparation is processor time from the "
    "function to a coloured pattern: the first one of the process, which imports and compiles (or "
    "loads calque's kernels from its cache), and the least of two further ones. Evaluation gives a "
    "matrix in compressed sparse rows, in wall time; the kernels' compilation is not in it."
)
RESULTS = Path(__file__).resolve().parent / "results" / "sparse_derivatives.md"


def line(u):
    """A Brusselator of two fields on a line, u = (a, b)."""
    n = u.shape[0] // 2
    a, b = u[:n], u[n:]
    grown = a**2 * b
    out = np.empty_like(u)
    out[:n] = 1.0 + grown - 4.4 * a
    out[n:] = 3.4 * a - grown
    out[1 : n - 1] += 0.02 * (a[2:] - 2.0 * a[1:-1] + a[:-2])
    out[n + 1 : 2 * n - 1] += 0.02 * (b[2:] - 2.0 * b[1:-1] + b[:-2])
    return out


def line_jax(u):
    n = u.shape[0] // 2
    a, b = u[:n], u[n:]
    grown = a**2 * b
    spread = [jnp.pad(0.02 * (z[2:] - 2.0 * z[1:-1] + z[:-2]), 1) for z in (a, b)]
    return jnp.concatenate([1.0 + grown - 4.4 * a + spread[0], 3.4 * a - grown + spread[1]])


def line_casadi(u):
    n = u.shape[0] // 2
    a, b = u[:n], u[n:]
    grown = a**2 * b
    spread = [casadi.vertcat(0, 0.02 * (z[2:] - 2.0 * z[1:-1] + z[:-2]), 0) for z in (a, b)]
    return casadi.vertcat(1.0 + grown - 4.4 * a + spread[0], 3.4 * a - grown + spread[1])


def torus(u):
    """A Brusselator of two fields on a square that closes on itself."""
    return _torus(np, u)


def torus_jax(u):
    return _torus(jnp, u)


def _torus(xp, u):
    side = round((u.shape[0] / 2) ** 0.5)
    a, b = u[: side * side].reshape(side, side), u[side * side :].reshape(side, side)

    def spread(z):
        around = xp.roll(z, 1, 0) + xp.roll(z, -1, 0) + xp.roll(z, 1, 1) + xp.roll(z, -1, 1)
        return 0.02 * (around - 4.0 * z)

    grown = a**2 * b
    rates = (1.0 + grown - 4.4 * a + spread(a), 3.4 * a - grown + spread(b))
    return xp.concatenate([rates[0].ravel(), rates[1].ravel()])


def torus_casadi(u):
    side = round((u.shape[0] / 2) ** 0.5)
    size = side * side
    place = np.arange(size).reshape(side, side)

    def spread(z):
        around = sum(
            z[np.roll(place, k, axis).ravel().tolist()] for k in (1, -1) for axis in (0, 1)
        )
        return 0.02 * (around - 4.0 * z)

    a, b = u[:size], u[size:]
    grown = a**2 * b
    return casadi.vertcat(1.0 + grown - 4.4 * a + spread(a), 3.4 * a - grown + spread(b))


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def rosenbrock_jax(x):
    return jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def rosenbrock_casadi(x):
    return casadi.sum1(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def chain(x):
    """Springs between neighbours, and next ones, of a chain in space: energies."""
    return _chain(np, x)


def chain_jax(x):
    return _chain(jnp, x)


def _chain(xp, x):
    p = x.reshape(-1, 3)
    near, far = p[1:] - p[:-1], p[2:] - p[:-2]
    lengths, spans = xp.sqrt(xp.sum(near**2, axis=1)), xp.sqrt(xp.sum(far**2, axis=1))
    return xp.sum((lengths - 1.0) ** 2) + 0.3 * xp.sum((spans - 1.8) ** 2)


def chain_casadi(x):
    p = casadi.reshape(x, 3, -1)
    near, far = p[:, 1:] - p[:, :-1], p[:, 2:] - p[:, :-2]
    lengths, spans = casadi.sqrt(casadi.sum1(near**2)), casadi.sqrt(casadi.sum1(far**2))
    return casadi.sum2((lengths - 1.0) ** 2) + 0.3 * casadi.sum2((spans - 1.8) ** 2)


def _observations(size):
    """For numbers of cameras and points in a vector: which camera sees which point."""
    cameras = max(2, size // 500)
    points = (size - 11 * cameras) // 3
    seen = np.arange(4 * points)
    return cameras, points, seen * 7 % cameras, seen // 4


def bundle(x):
    """The reprojection errors of bundle adjustment: cameras of 11 numbers, points of 3."""
    return _projected(np, *_seen(x))


def bundle_jax(x):
    return _projected(jnp, *_seen(x))


def _seen(x):
    """The camera and the point of each observation."""
    cameras, points, camera, point = _observations(x.shape[0])
    c = x[: 11 * cameras].reshape(cameras, 11)[camera]
    return c, x[11 * cameras : 11 * cameras + 3 * points].reshape(points, 3)[point]


def _projected(xp, c, p):
    """Rodrigues' formula, a pinhole and two distortions, for all observations at once."""
    r, x = c[:, :3], p - c[:, 3:6]
    theta = xp.sqrt(xp.sum(r**2, axis=1))
    w = r / theta[:, None]
    cosine, sine = xp.cos(theta)[:, None], xp.sin(theta)[:, None]
    along = xp.sum(w * x, axis=1)[:, None] * (1.0 - cosine)
    across = xp.stack(
        [
            w[:, 1] * x[:, 2] - w[:, 2] * x[:, 1],
            w[:, 2] * x[:, 0] - w[:, 0] * x[:, 2],
            w[:, 0] * x[:, 1] - w[:, 1] * x[:, 0],
        ],
        axis=1,
    )
    y = x * cosine + across * sine + w * along
    u, v = y[:, 0] / y[:, 2], y[:, 1] / y[:, 2]
    square = u**2 + v**2
    factor = 1.0 + c[:, 9] * square + c[:, 10] * square**2
    columns = [u * factor * c[:, 6] + c[:, 7], v * factor * c[:, 6] + c[:, 8]]
    return xp.stack(columns, axis=1).reshape(-1)


@dataclass(frozen=True)
class Problem:
    """A function in three forms, its derivative's kind and sizes."""

    name: str
    mine: Callable[..., Any]
    on_jax: Callable[..., Any]
    on_casadi: Callable[..., Any] | None
    kind: str
    size: int
    quick: int


PROBLEMS = (
    Problem("Brusselator on a line", line, line_jax, line_casadi, "jacobian", 40_000, 400),
    Problem("Brusselator on a torus", torus, torus_jax, torus_casadi, "jacobian", 80_000, 800),
    Problem("Rosenbrock", rosenbrock, rosenbrock_jax, rosenbrock_casadi, "hessian", 10**6, 500),
    Problem("bundle adjustment", bundle, bundle_jax, None, "jacobian", 24_000, 700),
    Problem("springs of a chain", chain, chain_jax, chain_casadi, "hessian", 30_000, 300),
)
ASDEX_MOST = 100_000  # inputs of a Hessian that asdex prepares in minutes


def processor_time(make: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds of a call, and what it gives."""
    start = time.process_time()
    made = make()
    return time.process_time() - start, made


def casadi_function(problem: Problem, size: int) -> Any:
    """CasADi's Function for a problem's derivative."""
    x = casadi.SX.sym("x", size)
    if problem.kind == "hessian":
        return casadi.Function("f", [x], [casadi.hessian(problem.on_casadi(x), x)[0]])
    return casadi.Function("f", [x], [casadi.jacobian(problem.on_casadi(x), x)])


def in_rows(found: Any) -> Any:
    """CasADi's matrix as one of SciPy."""
    return matrices.csr_array(found.sparse())


def peers(problem: Problem, x: Any) -> dict[str, Callable[[], Callable[[Any], Any]]]:
    """For each library, what prepares a derivative and gives the function to call."""
    size = len(x)
    found: dict[str, Callable[[], Callable[[Any], Any]]] = {
        "calque": lambda: getattr(sparse, problem.kind)(problem.mine, x)
    }
    if problem.kind == "jacobian" or size <= ASDEX_MOST:
        prepare = getattr(asdex, problem.kind)

        def on_jax() -> Callable[[Any], Any]:
            made = prepare(problem.on_jax, jnp.asarray(x), output_format="bcoo")
            compiled = jax.jit(made)

            def call(x: Any) -> Any:
                entries = compiled(x)
                places = np.asarray(entries.indices)
                shape = (entries.shape[0], entries.shape[1])
                values = np.asarray(entries.data)
                return matrices.coo_array((values, (places[:, 0], places[:, 1])), shape).tocsr()

            return call

        found["asdex"] = on_jax

    def symbols() -> Callable[[Any], Any]:
        made = casadi_function(problem, size)
        return lambda x: in_rows(made(x))

    if problem.on_casadi is not None:
        found["CasADi"] = symbols
    if problem.mine is bundle and shutil.which("g++"):
        found["C++ by hand"] = lambda: bundle_by_hand(size)
    return found


def bundle_by_hand(size: int) -> Callable[[Any], Any]:
    """The Jacobian of ``bundle`` by the hand-written C++ program, on one thread."""
    source = Path(__file__).resolve().parent / "programs" / "bundle_jacobian.cpp"
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "bundle.so"
        options = ["-O3", "-march=native", "-ffast-math", "-shared", "-fPIC"]
        subprocess.run(["g++", *options, str(source), "-o", str(library)], check=True)
        compiled = ctypes.CDLL(str(library))
    cameras, _, camera, point = _observations(size)
    firsts = np.repeat(11 * camera, 2)[:, None]
    columns = [[0, 1, 2, 3, 4, 5, 6, k, 9, 10] for k in (7, 8)]
    of_camera = firsts + np.tile(columns, (len(camera), 1))
    of_point = 11 * cameras + 3 * np.repeat(point, 2)[:, None] + np.arange(3)
    indices = np.hstack([of_camera, of_point]).astype(np.int32).reshape(-1)
    starts = np.arange(0, len(indices) + 1, 13, dtype=np.int32)

    def call(x: Any) -> Any:
        data = np.empty(len(indices))
        given = [x, x[11 * cameras :], camera, point, data]
        places = [ctypes.c_void_p(a.ctypes.data) for a in given]
        compiled.jacobian(ctypes.c_long(len(camera)), *places)
        shape = 2 * len(camera), size
        return matrices.csr_array((data, indices.copy(), starts.copy()), shape)

    return call


def measured(problem: Problem, quick: bool) -> tuple[list[str], str]:
    """A row of the table, and how matrices differ, if they do."""
    x = np.random.default_rng(1).uniform(0.2, 1.0, problem.quick if quick else problem.size)
    makers = peers(problem, x)
    first, calls, again = {}, {}, {}
    for name, make in makers.items():
        first[name], calls[name] = processor_time(make)
        again[name] = min(processor_time(make)[0] for _ in range(2)) if first[name] < 20 else None
    wanted = calls["calque"](x)
    for name, call in calls.items():
        error = abs(call(x) - wanted).max() / abs(wanted).max()
        if not error <= 1e-9:
            return [], f"{problem.name}: {name} is off by {error:.1e}"
    seconds = measuring.times({name: measuring.sampled(call, (x,)) for name, call in calls.items()})
    cells = [f"{problem.name}, {problem.kind}", f"{len(x):,}", f"{wanted.nnz:,}"]
    for column in (first, again, seconds):
        cells += [shown(column.get(name)) for name in ("calque", "asdex", "CasADi")]
    return [*cells, shown(seconds.get("C++ by hand"))], ""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    rows, wrong = [], []
    for problem in PROBLEMS:
        if re.search(options.only, problem.name):
            cells, error = measured(problem, options.quick)
            print(error or " | ".join(cells), flush=True)
            rows, wrong = rows + [cells] * (not error), wrong + [error] * bool(error)
    head = ["derivative", "inputs", "entries"]
    for what in ("first preparation", "preparation", "evaluation"):
        head += [f"{what}: calque", "asdex", "CasADi"]
    head.append("C++ by hand")
    text = (
        f"# Sparse derivatives\n\n{METHOD}\n\n{measuring.versions()} asdex {version('asdex')}, "
        f"CasADi {casadi.__version__}.\n\n"
    )
    text += measuring.table(head, rows)
    print("\n" + text)
    if options.write:
        measuring.keep(RESULTS, text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
