"""Functions of SciPy under calque: value and gradient, against SciPy's own value and JAX.

    python benchmarks/scipy_functions.py [--write] [--only PATTERN] [--quick]

Each program is what a user of SciPy writes; JAX has one where `jax.scipy` has the function, or a
few lines of `jax.numpy` do. `--quick` takes small inputs alone, `--write` keeps the table in
benchmarks/results/scipy_functions.md. Exits 1 where results disagree.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
from numpy_programs import on_jax, waiting
from scipy import linalg, optimize, signal, special, stats
from scipy.integrate import solve_ivp
from scipy.interpolate import CubicSpline
from scipy.spatial.distance import cdist

import calque
import measuring
from measuring import shown

RESULTS = Path(__file__).resolve().parent / "results" / "scipy_functions.md"


def gamma_likelihood(a, scale, x):
    return np.sum(stats.gamma.logpdf(x, a, scale=scale))


def gamma_likelihood_jax(a, scale, x):
    return jnp.sum(jsp.stats.gamma.logpdf(x, a, scale=scale))


def student_likelihood(df, loc, scale, x):
    return np.sum(stats.t.logpdf(x, df, loc, scale))


def student_likelihood_jax(df, loc, scale, x):
    return jnp.sum(jsp.stats.t.logpdf(x, df, loc, scale))


def incomplete_gamma(a, x):
    return np.sum(special.gammainc(a, x))


def incomplete_gamma_jax(a, x):
    return jnp.sum(jsp.special.gammainc(a, x))


def beta_quantiles(a, b, q):
    return np.sum(stats.beta.ppf(q, a, b))


def bessel(x):
    return np.sum(special.jv(1.5, x) * special.k0(x))


def soft_maximum(x):
    return np.sum(special.logsumexp(x, axis=1))


def soft_maximum_jax(x):
    return jnp.sum(jsp.special.logsumexp(x, axis=1))


def predators(rates, start):
    def flow(t, y):
        return np.array([y[0] * (rates[0] - y[1]), y[1] * (y[0] - rates[1])])

    return np.sum(solve_ivp(flow, (0.0, 6.0), start, rtol=1e-6, atol=1e-8).y[:, -1])


def distances(a, b):
    return np.sum(cdist(a, b))


def distances_jax(a, b):
    return jnp.sum(jnp.sqrt(jnp.sum((a[:, None] - b[None]) ** 2, axis=-1)))


def exponential(a):
    return np.sum(linalg.expm(a))


def exponential_jax(a):
    return jnp.sum(jsp.linalg.expm(a))


def spline(y, t, x):
    return np.sum(CubicSpline(t, y)(x) ** 2)


def anomaly(x, m, e):
    return x - e * np.sin(x) - m


def kepler(m, e):
    total = 0.0
    for k in range(m.size):
        total += optimize.brentq(anomaly, 0.0, 6.3, args=(m[k], e), xtol=1e-13)
    return total


def filtered(x, b, a):
    return np.sum(signal.lfilter(b, a, x) ** 2)


def filtered_jax(x, b, a):
    b, a = b / a[0], a / a[0]

    def step(state, value):
        y = b[0] * value + state[0]
        return jnp.stack([b[1] * value - a[1] * y + state[1], b[2] * value - a[2] * y]), y

    return jnp.sum(jax.lax.scan(step, jnp.zeros(2), x)[1] ** 2)


@dataclass(frozen=True)
class Row:
    """A program: its arguments for a size, and the places of those by which it has derivatives."""

    name: str
    function: Callable[..., Any]
    inputs: Callable[[np.random.Generator, int], tuple[Any, ...]]
    sizes: tuple[int, int]
    slopes: tuple[int, ...]
    jax: Callable[..., Any] | None = None


def _positive(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.gamma(2.0, 1.0, n) + 0.05


def _biquad(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    return rng.normal(size=n), np.array([0.2, 0.3, 0.1]), np.array([1.0, -0.6, 0.2])


def _knots(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    return rng.normal(size=n), np.linspace(0.0, 1.0, n), rng.uniform(0.0, 1.0, 10 * n)


ROWS = [
    Row(
        *("stats.gamma.logpdf", gamma_likelihood),
        lambda rng, n: (2.3, 0.8, _positive(rng, n)),
        *((1_000, 100_000), (0, 1), gamma_likelihood_jax),
    ),
    Row(
        *("stats.t.logpdf", student_likelihood),
        lambda rng, n: (4.3, 0.1, 0.8, rng.normal(size=n)),
        *((1_000, 100_000), (0, 1, 2), student_likelihood_jax),
    ),
    Row(
        *("special.gammainc", incomplete_gamma),
        lambda rng, n: (_positive(rng, n), _positive(rng, n)),
        *((1_000, 100_000), (0, 1), incomplete_gamma_jax),
    ),
    Row(
        *("stats.beta.ppf", beta_quantiles),
        lambda rng, n: (2.3, 1.7, rng.uniform(0.01, 0.99, n)),
        *((1_000, 20_000), (0, 1, 2)),
    ),
    Row(
        *("special.jv, k0", bessel),
        lambda rng, n: (_positive(rng, n),),
        *((1_000, 100_000), (0,)),
    ),
    Row(
        *("special.logsumexp", soft_maximum),
        lambda rng, n: (rng.normal(size=(n, 50)),),
        *((20, 5_000), (0,), soft_maximum_jax),
    ),
    Row(
        *("integrate.solve_ivp", predators),
        lambda rng, n: (np.array([1.1, 0.9]), np.full(2, 0.5 + 0.1 * n)),
        *((1, 5), (0, 1)),
    ),
    Row(
        *("distance.cdist", distances),
        lambda rng, n: (rng.normal(size=(n, 3)), rng.normal(size=(n, 3))),
        *((30, 500), (0, 1), distances_jax),
    ),
    Row(
        *("linalg.expm", exponential),
        lambda rng, n: (rng.normal(size=(n, n)) / n,),
        *((5, 100), (0,), exponential_jax),
    ),
    Row(
        *("interpolate.CubicSpline", spline),
        _knots,
        *((20, 2_000), (0,)),
    ),
    Row(
        *("optimize.brentq in a loop", kepler),
        lambda rng, n: (rng.uniform(0.2, 6.0, n), 0.3),
        *((10, 1_000), (0, 1)),
    ),
    Row(*("signal.lfilter", filtered), _biquad, *((200, 50_000), (0, 1, 2), filtered_jax)),
]


def measured(row: Row, size: int) -> tuple[list[str], str]:
    """The cells of a row, and what is wrong."""
    args = row.inputs(np.random.default_rng(3), size)
    value = calque.jit(row.function)
    slopes = calque.jit(calque.value_and_grad(row.function, row.slopes))
    with np.errstate(all="ignore"):
        wrong = measuring.difference(value(*args), row.function(*args))
    runs = {
        "SciPy": measuring.sampled(row.function, args),
        "value": measuring.sampled(value, args),
        "gradient": measuring.sampled(slopes, args),
    }
    if row.jax is not None:
        given = on_jax(args)
        theirs = waiting(jax.jit(row.jax))
        both = waiting(jax.jit(jax.value_and_grad(row.jax, row.slopes)))
        wrong = wrong or measuring.difference(slopes(*args), both(*given))
        runs["JAX"], runs["JAX's gradient"] = (measuring.sampled(f, given) for f in (theirs, both))
    found = measuring.times(runs, seconds=1.5)
    over = [
        found["value"] / found["SciPy"],
        found["gradient"] / found["SciPy"],
        *(found[a] / found[b] if b in found else None for a, b in _PAIRS),
    ]
    cells = [shown(found.get(name)) for name in _PEERS]
    return [row.name, str(size), *cells, *map(measuring.ratio, over)], wrong


_PEERS = ("SciPy", "value", "JAX", "gradient", "JAX's gradient")
_PAIRS = (("value", "JAX"), ("gradient", "JAX's gradient"))
_HEAD = [
    *("program", "size", "SciPy", "calque", "JAX", "calque's gradient", "JAX's gradient"),
    *("calque / SciPy", "gradient / SciPy", "calque / JAX", "gradient / JAX's"),
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a regular expression of rows' names")
    parser.add_argument("--quick", action="store_true", help="small inputs")
    parser.add_argument("--write", action="store_true", help=f"keep the table in {RESULTS.name}")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    lines, problems = [], []
    for row in ROWS:
        if not re.search(options.only, row.name):
            continue
        for size in row.sizes[: 1 if options.quick else 2]:
            cells, wrong = measured(row, size)
            print(" | ".join(cells), wrong, flush=True, file=sys.stderr)
            lines.append(cells)
            problems += [f"{row.name}: {wrong}"] if wrong else []
    text = "\n".join(
        [
            "# Functions of SciPy\n",
            f"By `benchmarks/scipy_functions.py`. {measuring.METHOD} {measuring.versions()} "
            "A gradient is the value with its derivatives by all smooth arguments.\n",
            measuring.table(_HEAD, lines),
            *[f"- {line}" for line in problems],
        ]
    )
    print(text)
    if options.write:
        measuring.keep(RESULTS, text)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
