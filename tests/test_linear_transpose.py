"""linear_transpose: direct code for the transpose, and a refusal where a function is not linear."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import calque
from calque.transpiler.errors import NotLinear

jax.config.update("jax_enable_x64", True)

RNG = np.random.default_rng(3)
W = RNG.normal(size=(3, 4))
X, Y, M = RNG.normal(size=4), RNG.normal(size=3), RNG.normal(size=(3, 4))
N = np.zeros(3) + 1j


def smoothed(x):
    y = np.zeros(x.size)
    for i in range(1, x.size - 1):
        y[i] = 0.25 * x[i - 1] + 0.5 * x[i] + 0.25 * x[i + 1]
    y[0] = x[0]
    return y


def jax_smoothed(x):
    inner = 0.25 * x[:-2] + 0.5 * x[1:-1] + 0.25 * x[2:]
    return jnp.concatenate([x[:1], inner, jnp.zeros(1)])


def recurrence(x):
    total = 0.0
    out = []
    for v in x:
        total = 0.5 * total + v
        out.append(total)
    return np.array(out)


def jax_recurrence(x):
    k = np.arange(x.size)
    lag = k[:, None] - k
    return jnp.where(lag >= 0, 0.5 ** jnp.abs(lag), 0.0) @ x


# the function, its twin, the primals
LINEAR: dict[str, Any] = {
    "product": (lambda x: W @ x, lambda x: W @ x, (X,)),
    "difference": (lambda x: x[1:] - x[:-1], lambda x: x[1:] - x[:-1], (X,)),
    "part of a scan": (lambda x: np.cumsum(x)[::-1], lambda x: jnp.cumsum(x)[::-1], (X,)),
    "two arguments": (lambda x, y: W @ x - 2.0 * y, lambda x, y: W @ x - 2.0 * y, (X, Y)),
    "one is not used": (lambda x, y: 3.0 * x, lambda x, y: 3.0 * x, (X, Y)),
    "trees": (
        lambda t: {"a": t[0].T @ t[1], "b": (np.sum(t[0]),)},
        None,
        ((M, M[0, :3]),),
    ),
    "tree of linear ones": (
        lambda t: {"a": W.T @ t["y"], "b": (np.sum(t["m"], axis=0), t["m"][:, ::2])},
        lambda t: {"a": W.T @ t["y"], "b": (jnp.sum(t["m"], axis=0), t["m"][:, ::2])},
        ({"y": Y, "m": M},),
    ),
    "gather": (lambda x: x[[0, 0, 3]], lambda x: x[jnp.array([0, 0, 3])], (X,)),
    "stores in a loop": (smoothed, jax_smoothed, (X,)),
    "a list that grows": (recurrence, jax_recurrence, (X,)),
    "where": (
        lambda x: np.where(W[0] > 0, x, 0.0) + np.where(W[1] > 0, 0.0, x),
        lambda x: jnp.where(W[0] > 0, x, 0.0) + jnp.where(W[1] > 0, 0.0, x),
        (X,),
    ),
    "joined": (
        lambda x: np.concatenate([x, np.zeros(2), x[:1]]),
        lambda x: jnp.concatenate([x, jnp.zeros(2), x[:1]]),
        (X,),
    ),
    "solve": (
        lambda x: np.linalg.solve(W[:, :3] + 3.0 * np.eye(3), x),
        lambda x: jnp.linalg.solve(W[:, :3] + 3.0 * jnp.eye(3), x),
        (Y,),
    ),
    "a tangent": (
        lambda t: calque.jvp(lambda x: np.sin(x) * x, (X,), (t,))[1],
        lambda t: jax.jvp(lambda x: jnp.sin(x) * x, (X,), (t,))[1],
        (X,),
    ),
    "complex": (lambda z: (1.0 + 2.0j) * z, lambda z: (1.0 + 2.0j) * z, (N,)),
    "a number": (lambda x: 3.0 * x - x / 4.0, lambda x: 3.0 * x - x / 4.0, (2.0,)),
}


def cotangent_of(value: Any) -> Any:
    return jax.tree.map(lambda v: RNG.normal(size=np.shape(v)).astype(np.asarray(v).dtype), value)


def same(found: Any, expected: Any) -> None:
    a, b = jax.tree.leaves(found), jax.tree.leaves(expected)
    for x, y in zip(a, b, strict=True):
        assert np.shape(x) == np.shape(y)
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", [n for n in LINEAR if LINEAR[n][1] is not None])
def test_transposes_are_those_of_jax(name: str) -> None:
    f, twin, primals = LINEAR[name]
    c = cotangent_of(f(*primals))
    c = float(c) if name == "a number" else c
    transposed = calque.linear_transpose(f, *primals)
    found = transposed(c)
    assert isinstance(found, tuple) and len(found) == len(primals)
    same(found, jax.jit(jax.linear_transpose(twin, *primals))(c))
    again = calque.linear_transpose(lambda c: transposed(c), c)(primals)
    same(again, (f(*primals),))


def test_only_types_of_primals_matter() -> None:
    given = (jax.ShapeDtypeStruct((4,), np.float64), calque.spec("f8[4]"), np.full(4, np.nan))
    for primal in given:
        same(calque.linear_transpose(lambda x: W @ x, primal)(Y), (W.T @ Y,))


def test_the_source_is_direct() -> None:
    text = calque.source(calque.linear_transpose(lambda x: x[1:] - x[:-1], X), Y)
    assert "x = " not in text and "np.zeros(4)" in text
    text = calque.source(calque.linear_transpose(lambda x: W @ x, X), Y)
    code = [line.strip() for line in text.splitlines() if line.strip()[:1] != "#"]
    assert code == [
        "def function_linear_transpose(return_bar, *, W):",
        "x_bar = W.T @ return_bar",
        "return x_bar,",
    ]


def test_inside_other_functions() -> None:
    def f(w, c):
        (x_bar,) = calque.linear_transpose(lambda x: w @ x, np.zeros(w.shape[1]))(c)
        return np.sum(x_bar**3)

    def twin(w, c):
        (x_bar,) = jax.linear_transpose(lambda x: w @ x, jnp.zeros(w.shape[1]))(c)
        return jnp.sum(x_bar**3)

    same(calque.grad(f, (0, 1))(W, Y), jax.jit(jax.grad(twin, (0, 1)))(W, Y))
    t = calque.linear_transpose(smoothed, X)
    batch = RNG.normal(size=(3, 4))
    same(calque.vmap(t)(batch)[0], np.stack([t(row)[0] for row in batch]))
    slope = calque.grad(lambda c: np.sum(t(c)[0] ** 2))
    same(slope(X), jax.jit(jax.grad(lambda c: jnp.sum(jax.linear_transpose(jax_smoothed, X)(c)[0] ** 2)))(X))


NOT_LINEAR = {
    "square": lambda x: x * x,
    "sine": lambda x: np.sin(x),
    "a constant is added": lambda x: x + 1.0,
    "a captured array is added": lambda x: x + W[0],
    "a constant in where": lambda x: np.where(W[0] > 0, x, 1.0),
    "a constant element": lambda x: np.concatenate([x, np.ones(1)]),
    "a constant stored": lambda x: stored(x),
    "a branch on the value": lambda x: x if x[0] > 0 else 2.0 * x,
    "a step": lambda x: x + np.sign(x),
    "the rest of a division": lambda x: x % 2.0,
    "the fraction": lambda x: np.modf(x)[0],
    "a loop on the value": lambda x: halved(x),
    "a constant result": lambda x: (x, W[0]),
    "maximum": lambda x: np.maximum(x, 0.0),
    "absolute value": lambda x: np.abs(x),
    "stopped": lambda x: x + calque.stop_gradient(x),
    "product of two": lambda x: np.outer(x, 2.0 * x),
}


def stored(x):
    y = np.zeros(5)
    y[:4] = x
    y[4] = 1.0
    return y


def halved(x):
    while x[0] > 1.0:
        x = 0.5 * x
    return x


@pytest.mark.parametrize("name", NOT_LINEAR)
def test_what_is_not_linear_is_refused(name: str) -> None:
    f = NOT_LINEAR[name]
    with pytest.raises(NotLinear, match="is not linear") as caught:
        calque.linear_transpose(f, X)(cotangent_of(f(X)))
    assert Path(__file__).name in str(caught.value), "the user's line"


def test_wrong_arguments() -> None:
    with pytest.raises(TypeError, match="float or complex"):
        calque.linear_transpose(lambda x: 2 * x, np.arange(3))
    with pytest.raises(TypeError, match="float or complex"):
        calque.linear_transpose(lambda x: 2 * x, 3)
    with pytest.raises(TypeError, match="structure of the result"):
        calque.linear_transpose(lambda x: (x, x), X)(X)
    with pytest.raises((TypeError, ValueError), match="cotangent of type|fit together"):
        calque.linear_transpose(lambda x: W @ x, X)(X[:, None])
    with pytest.raises(ValueError):
        calque.linear_transpose(lambda x: W @ x, X)(X)
