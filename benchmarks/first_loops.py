"""A user's first loops: fresh gradients, annealed numbers, small arrays; calque against JAX.

    python benchmarks/first_loops.py [--write] [--only PATTERN]

Each loop is run once before timing, its results are compared, and a time is that of one turn, or of
one call where the loop is within the function. JAX compiles with `jit` where its user could hold on
to the compiled function; in the rows called fresh neither does. `--write` keeps the table in
benchmarks/results/first_loops.md. Exits 1 where results disagree.
"""

# ruff: noqa: B023  (each function is called in the turn that makes it)
from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln as jax_gammaln
from jax.scipy.special import logsumexp as jax_logsumexp
from scipy.special import gammaln, logsumexp

import calque
from measuring import METHOD, difference, ratio, sampled, shown, table, times, versions

RESULTS = Path(__file__).resolve().parent / "results" / "first_loops.md"
TURNS = 20
RNG = np.random.default_rng(5)
jax.config.update("jax_enable_x64", True)
P = RNG.normal(size=10)
BATCHES = list(RNG.normal(size=(TURNS, 10)))


@dataclass(frozen=True)
class Loop:
    """One loop for both: ``turns`` in a call."""

    name: str
    ours: Callable[[], Any]
    theirs: Callable[[], Any]
    turns: int = 1


def waiting(call: Callable[..., Any]) -> Callable[[], Any]:
    """JAX returns before it is done."""
    return lambda: jax.block_until_ready(call())


def compiled(name: str, function: Callable[..., Any], twin: Callable[..., Any], *args: Any) -> Loop:
    """A jitted function of ours beside its twin in JAX, on the same arguments."""
    ours, theirs = calque.jit(function), jax.jit(twin)
    given = [jnp.asarray(a) for a in args]
    return Loop(name, lambda: ours(*args), waiting(lambda: theirs(*given)))


def loss(p, x):
    return np.mean(np.tanh(p * x) ** 2)


def loss_jax(p, x):
    return jnp.mean(jnp.tanh(p * x) ** 2)


class Model:
    def __init__(self, x: Any, function: Callable[..., Any]):
        self.x, self.function = x, function

    def loss(self, p: Any) -> Any:
        return self.function(p, self.x)


def fresh_function() -> Loop:
    given = [jnp.asarray(x) for x in BATCHES]
    p = jnp.asarray(P)
    return Loop(
        "fresh grad(lambda p: loss(p, x))(p)",
        lambda: [calque.grad(lambda p: loss(p, x))(P) for x in BATCHES],
        waiting(lambda: [jax.grad(lambda p: loss_jax(p, x))(p) for x in given]),
        TURNS,
    )


def fresh_jit() -> Loop:
    few = BATCHES[:3]
    given = [jnp.asarray(x) for x in few]
    p = jnp.asarray(P)
    return Loop(
        "fresh jit(grad(lambda p: loss(p, x)))(p)",
        lambda: [calque.jit(calque.grad(lambda p: loss(p, x)))(P) for x in few],
        waiting(lambda: [jax.jit(jax.grad(lambda p: loss_jax(p, x)))(p) for x in given]),
        len(few),
    )


def fresh_method() -> Loop:
    mine, other = Model(BATCHES[0], loss), Model(jnp.asarray(BATCHES[0]), loss_jax)
    p = jnp.asarray(P)
    return Loop(
        "fresh grad(model.loss)(p)",
        lambda: [calque.grad(mine.loss)(P) for _ in range(TURNS)],
        waiting(lambda: [jax.grad(other.loss)(p) for _ in range(TURNS)]),
        TURNS,
    )


def annealed() -> Loop:
    """JAX would not see a captured temperature change: it is an argument there."""
    state = SimpleNamespace(temperature=1.0, step=0)
    x, given = BATCHES[0], jnp.asarray(BATCHES[0])
    p = jnp.asarray(P)

    def energy(p: Any) -> Any:
        return loss(p, x) / state.temperature

    ours = calque.jit(calque.grad(energy))
    theirs = jax.jit(jax.grad(lambda p, t: loss_jax(p, given) / t))
    for step in range(5):
        state.temperature = 2.0 + step
        ours(P)

    def turn() -> list[Any]:
        found = []
        for step in range(TURNS):
            state.temperature = 0.99**step
            found.append(ours(P))
        return found

    return Loop(
        "annealed temperature, captured",
        turn,
        waiting(lambda: [theirs(p, 0.99**step) for step in range(TURNS)]),
        TURNS,
    )


def integer_operand() -> Loop:
    a, w = RNG.normal(size=(300, 20)), np.arange(20)

    def f(a, w):
        total = 0.0
        for k in range(a.shape[0]):
            total = total + np.tanh(np.dot(a[k], w))
        return total

    def twin(a, w):
        return jax.lax.fori_loop(0, a.shape[0], lambda k, t: t + jnp.tanh(jnp.dot(a[k], w)), 0.0)

    return compiled("np.dot with integers, 300 iterations", f, twin, a, w)


def _iterations(name: str, ours: Callable[..., Any], theirs: Callable[..., Any], x: Any) -> Loop:
    """The gradient of a sum over the rows of x."""

    def f(x):
        total = 0.0
        for k in range(x.shape[0]):
            total = total + ours(x[k])
        return total

    def twin(x):
        return jnp.sum(jax.lax.map(theirs, x))

    return compiled(f"gradient of {name}", calque.grad(f), jax.grad(twin), x)


def in_loops() -> list[Loop]:
    rows = RNG.normal(size=(300, 4))
    positive = np.abs(rows[:, 0]) + 0.5

    def picked(v):
        return np.sum(v[v > 0] ** 3)

    def picked_jax(v):
        return jnp.sum(jnp.where(v > 0, v**3, 0.0))

    def listed(v):
        return np.sum(v[[0, 2]] ** 3)

    def listed_jax(v):
        return jnp.sum(v[jnp.array([0, 2])] ** 3)

    return [
        _iterations("logsumexp, 300 iterations of 4", logsumexp, jax_logsumexp, rows),
        _iterations("math.lgamma, 300 iterations", math.lgamma, jax_gammaln, positive),
        _iterations("gammaln, 300 iterations", gammaln, jax_gammaln, positive),
        _iterations("v[v > 0], 300 iterations of 4", picked, picked_jax, rows),
        _iterations("v[[0, 2]], 300 iterations of 4", listed, listed_jax, rows),
    ]


def differences() -> Loop:
    x = RNG.normal(size=1000)
    return compiled(
        "gradient of np.diff, 1000",
        calque.grad(lambda x: np.sum(np.diff(x) ** 2)),
        jax.grad(lambda x: jnp.sum(jnp.diff(x) ** 2)),
        x,
    )


def jacobians() -> Loop:
    rows = RNG.normal(size=(32_000, 3))

    def f(v):
        return np.sin(v) * np.sum(v * v)

    def twin(v):
        return jnp.sin(v) * jnp.sum(v * v)

    return compiled(
        "vmap(jacrev(f)), 32,000 rows",
        calque.vmap(calque.jacrev(f)),
        jax.vmap(jax.jacrev(twin)),
        rows,
    )


def branched_jacobians() -> Loop:
    rows = RNG.normal(size=(32_000, 3))

    def f(v):
        if v[0] > 0:
            return np.sin(v) * v[1]
        return np.zeros_like(v)

    def twin(v):
        return jnp.where(v[0] > 0, jnp.sin(v) * v[1], jnp.zeros_like(v))

    return compiled(
        "vmap(jacrev(f)) with a branch, 32,000 rows",
        calque.vmap(calque.jacrev(f)),
        jax.vmap(jax.jacrev(twin)),
        rows,
    )


def product() -> Loop:
    a, b = RNG.normal(size=(40, 60, 50)), RNG.normal(size=(70, 40, 50))
    return compiled(
        "einsum 'kij,nkj->nki'",
        lambda a, b: np.einsum("kij,nkj->nki", a, b),
        lambda a, b: jnp.einsum("kij,nkj->nki", a, b),
        a,
        b,
    )


def loops() -> list[Loop]:
    """All rows of the table."""
    first = [fresh_function(), fresh_method(), fresh_jit(), annealed(), integer_operand()]
    return [*first, *in_loops(), differences(), jacobians(), branched_jacobians(), product()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"keep the table in {RESULTS.name}")
    parser.add_argument("--only", default="", help="a pattern for names of rows")
    options = parser.parse_args()
    rows, wrong = [], []
    for loop in loops():
        if not re.search(options.only, loop.name):
            continue
        for _ in range(3):
            found, expected = loop.ours(), loop.theirs()
        if off := difference(found, expected):
            wrong.append(f"{loop.name}: {off}")
        seconds = times({"ours": sampled(loop.ours, ()), "JAX": sampled(loop.theirs, ())})
        ours, theirs = seconds["ours"] / loop.turns, seconds["JAX"] / loop.turns
        rows.append([loop.name, shown(theirs), shown(ours), ratio(theirs / ours)])
        print(" | ".join(rows[-1]), flush=True)
    text = "# First loops\n\n" + f"By `benchmarks/first_loops.py`. {METHOD} {versions()}\n\n"
    text += table(["loop", "JAX", "calque", "JAX / calque"], rows)
    if options.write:
        RESULTS.write_text(text, encoding="utf-8")
    for line in wrong:
        print(line, file=sys.stderr)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
