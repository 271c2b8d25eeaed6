"""The work on whole arrays, small calls and batched loops, with its peers."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numba
import numpy as np
from jax import lax

import calque
from cpu_work import arrays
from cpu_work.peers import as_jax

Function = Callable[..., Any]
TWIN = as_jax(arrays.__file__)
FAST = {"reassoc", "contract", "nsz"}


@dataclass(frozen=True)
class Case:
    """One row: ours and JAX's (not yet jitted), arguments, the least ratio JAX / calque.

    `beside` are peers that are shown for comparison only, such as a copy. `limit` is the most
    seconds a call may take, `copies` the most copies of the first argument.
    """

    name: str
    ours: Function
    jax: Function | None
    args: tuple[Any, ...]
    goal: float | None = None
    beside: dict[str, Function] = field(default_factory=dict)
    limit: float | None = None
    copies: float | None = None
    exact: Function | None = None  # the result by formula, where JAX has none
    busy: bool = False  # measured again with both cores busy elsewhere


def selu_loop(x):
    out = np.empty_like(x)
    flat, result = x.reshape(-1), out.reshape(-1)
    alpha, scale = x.dtype.type(1.67), x.dtype.type(1.05)
    for i in numba.prange(flat.size):
        v = flat[i]
        result[i] = scale * (v if v > 0 else alpha * np.exp(v) - alpha)
    return out


selu_serial = numba.njit(fastmath=FAST)(selu_loop)
selu_numba = numba.njit(parallel=True, fastmath=FAST)(selu_loop)


@numba.njit(parallel=True, fastmath=FAST)
def tanh_energy_slope_numba(x):
    out = np.empty_like(x)
    flat, result = x.reshape(-1), out.reshape(-1)
    for i in numba.prange(flat.size):
        t = np.tanh(flat[i])
        result[i] = t + flat[i] * (1 - t * t)
    return out


@numba.njit(parallel=True, fastmath=FAST)
def powers_numba(x):
    out = np.empty_like(x)
    flat, result = x.reshape(-1), out.reshape(-1)
    for i in numba.prange(flat.size):
        v = flat[i]
        result[i] = v + v * v + v * v * v
    return out


def copy(x, *_):
    return x.copy()


def newton_root(a):
    x = a
    while abs(x * x - a) > 1e-12 * a:
        x = 0.5 * (x + a / x)
    return x


def newton_root_jax(a):
    return lax.while_loop(lambda x: jnp.abs(x * x - a) > 1e-12 * a, lambda x: 0.5 * (x + a / x), a)


@numba.njit(parallel=True)
def newton_roots_numba(a):
    out = np.empty_like(a)
    for i in numba.prange(a.size):
        x = a[i]
        while abs(x * x - a[i]) > 1e-12 * a[i]:
            x = 0.5 * (x + a[i] / x)
        out[i] = x
    return out


def sum_of_roots(a):
    return np.sum(calque.vmap(newton_root)(a))


def classification(rng: Any, batch: int) -> tuple[Any, ...]:
    """An MLP 784-512-512-10 with a batch, float32."""

    def normal(*shape: int, scale: float = 1.0) -> Any:
        return (scale * rng.normal(size=shape)).astype(np.float32)

    sizes = [784, 512, 512, 10]
    params = [(normal(i, o, scale=i**-0.5), normal(o)) for i, o in itertools.pairwise(sizes)]
    targets = np.eye(10, dtype=np.float32)[rng.integers(0, 10, batch)]
    return params, normal(batch, 784), targets


def logistic_data(rng: Any, n: int, d: int) -> tuple[Any, ...]:
    y = (rng.random(n) > 0.5).astype(float)
    return 0.1 * rng.normal(size=d), 0.1, rng.normal(size=(n, d)), y


def elementwise_cases(rng: Any, side: int) -> list[Case]:
    cases = []
    for dtype in (np.float64, np.float32):
        x = rng.normal(size=(side, side)).astype(dtype)
        what = f"{side} x {side}, {np.dtype(dtype).name}"
        beside = {"copy": copy, "Numba": selu_numba}
        cases += [
            Case(
                *(f"selu, {what}", arrays.selu, TWIN.selu, (x,), 4.0, beside),
                copies=1.3,
            ),
            Case(
                *(f"gradient of sum(tanh(x) * x), {what}", calque.grad(arrays.tanh_energy)),
                *(jax.grad(TWIN.tanh_energy), (x,), 4.0),
                {"copy": copy, "Numba": tanh_energy_slope_numba},
            ),
        ]
        goal = 1.5 if dtype is np.float64 else None
        cases.append(
            Case(
                *(f"`x + x**2 + x**3`, {what}", arrays.powers, TWIN.powers, (x,), goal),
                {"copy": copy, "Numba": powers_numba},
            )
        )
    return cases


def array_cases(quick: bool) -> list[Case]:
    """Rows of the first table."""
    rng = np.random.default_rng(11)
    cases = elementwise_cases(rng, 100 if quick else 5000)
    for size, goal in ((10, 5.0), (10_000, 2.0), (1_000_000, 2.0)):
        x = rng.normal(size=size)
        what = f"selu, {size:,} elements"
        beside = {"copy": copy, "Numba": selu_serial if size < 100_000 else selu_numba}
        cases.append(Case(what, arrays.selu, TWIN.selu, (x,), goal, beside, busy=size <= 10_000))
    regression = logistic_data(rng, *((100, 10) if quick else (10_000, 100)))
    mlp = classification(rng, 8 if quick else 128)
    by_rows = ([(w.T.copy(), b) for w, b in mlp[0]], *mlp[1:])
    x = rng.normal(size=20 if quick else 1000)
    lanes = 10.0 ** rng.uniform(-3.0, 3.0, 100 if quick else 100_000)
    cases += [
        Case(
            "logistic loss, gradient, 10,000 x 100",
            calque.grad(arrays.logistic_loss, argnums=(0, 1)),
            jax.grad(TWIN.logistic_loss, argnums=(0, 1)),
            *(regression, 1.5),
            busy=True,
        ),
        Case(
            *("MLP 784-512-512-10, SGD step, batch 128, float32", arrays.mlp_step),
            *(TWIN.mlp_step, mlp, 1.3),
            busy=True,
        ),
        Case(
            *("the same with weights (out, in), as x @ w.T", arrays.mlp_step_by_rows),
            *(TWIN.mlp_step_by_rows, by_rows, 1.3),
            busy=True,
        ),
        Case(
            "the same by vmap over examples",
            *(arrays.mlp_step_by_example, TWIN.mlp_step_by_example, mlp, 1.3),
        ),
        Case(
            *("hessian of Rosenbrock, 1,000", calque.hessian(arrays.rosenbrock)),
            *(jax.hessian(TWIN.rosenbrock), (x,), 1.0),
        ),
        Case(
            *("Newton `while`, vmap over 100,000", calque.vmap(newton_root)),
            *(jax.vmap(newton_root_jax), (lanes,), 5.0),
            {"Numba": newton_roots_numba},
        ),
        Case(
            *("its gradient", calque.grad(sum_of_roots), None, (lanes,)),
            exact=lambda a: 0.5 / np.sqrt(a),
        ),
    ]
    return cases


def call_cases() -> list[Case]:
    """Rows of the table of small calls."""
    x = np.linspace(0.1, 1.0, 10)
    return [
        Case(
            *("scalar function, one line", arrays.line_of_code, TWIN.line_of_code, (0.5,)),
            limit=2e-6,
            busy=True,
        ),
        Case(
            *("gradient of a 10-vector", calque.grad(arrays.cubes), jax.grad(TWIN.cubes), (x,)),
            limit=3e-6,
            busy=True,
        ),
        Case(
            "gradient by a namedtuple",
            *(calque.grad(arrays.peak_misfit), jax.grad(TWIN.peak_misfit)),
            (arrays.Peak(2.0, 0.4, 0.2), x, np.cos(x)),
            limit=5e-6,
        ),
    ]
