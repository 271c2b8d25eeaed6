"""shard_map: derivatives by shared values are summed once, at a point that all devices reach."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque
from calque import (
    P,
    checkpoint,
    custom_jvp,
    custom_vjp,
    grad,
    jit,
    make_mesh,
    psum,
    shard_map,
    value_and_grad,
)
from calque.transpiler.errors import DivergentCollective


@pytest.fixture(autouse=True)
def four_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALQUE_CPU_DEVICES", "4")


def in_iterations(x: Any, w: Any) -> Any:
    for _ in range(3):
        x = np.tanh(x * w[0] + w)
    return np.sum(x)


def twice(x: Any, w: Any) -> Any:
    return np.sum(np.tanh(x * w) * w)


def in_one_arm(x: Any, w: Any) -> Any:
    y = np.sum(x)
    if y > 0.0:
        y = y * np.sum(w * w)
    return y


def until(x: Any, w: Any) -> Any:
    y = np.sum(x)
    while y < 3.0:
        y = y + w[0] * w[0] + 0.1 * w[1]
    return y * y


def named_in_iterations(x: Any, w: Any) -> Any:
    y = np.sum(x)
    while y < 3.0:
        step = np.array([w[0] * w[1], 0.2])
        if y > 1.0:
            step = 1.5 * step
        y = y + np.sum(step)
    return y * y


def carried(x: Any, w: Any) -> Any:
    total = np.sum(w)
    for k in range(3):
        total = total * 0.5 + np.sum(w) * k
        if x[0] > 0.0:
            total = total * x[1]
    return total


def stored(x: Any, w: Any) -> Any:
    v = w * 1.0
    for k in range(2):
        v[k] += x[k] * w[0]
        v[1 - k] *= v[k]
    return np.sum(v * w)


def iterations_that_differ(x: Any, w: Any) -> Any:
    y = 0.0
    for k in range(int(np.sum(x > 0.0))):
        for j in range(2):
            y = y + w[j] ** (k + 1) * x[j]
    return y


PROGRAMS = [in_iterations, twice, in_one_arm, until, named_in_iterations, carried, stored, iterations_that_differ]
X, W = np.linspace(-1.0, 1.4, 8), np.array([0.7, 1.1])
STEP = 1e-6


def summed(f: Any) -> Any:
    def loss(x: Any, w: Any) -> Any:
        return psum(f(x, w), "i")

    return loss


def on_four(f: Any, out_specs: Any) -> Any:
    return shard_map(f, mesh=make_mesh((4,), ("i",)), in_specs=(P("i"), P()), out_specs=out_specs)


def by_differences(f: Any, of: Any, at: np.ndarray) -> np.ndarray:
    moved = STEP * np.eye(at.size)
    return np.array([(of(f, at + d) - of(f, at - d)) / (2.0 * STEP) for d in moved])


def by_w(f: Any, w: np.ndarray) -> float:
    return sum(f(part.copy(), w) for part in X.reshape(4, 2))


def by_x(f: Any, x: np.ndarray) -> float:
    return sum(f(part.copy(), W) for part in x.reshape(4, 2))


@pytest.mark.filterwarnings("ignore:A part of:calque.JitFallback")  # sums over devices in a loop
@pytest.mark.parametrize("how", [lambda f: f, jit, checkpoint], ids=["numpy", "kernels", "checkpoint"])
@pytest.mark.parametrize("f", PROGRAMS)
def test_the_derivative_is_that_of_the_sum(f: Any, how: Any) -> None:
    loss = how(summed(f)) if how is checkpoint else summed(f)
    g = value_and_grad(loss, argnums=(0, 1))
    g = jit(g) if how is jit else g
    value, (x_bar, w_bar) = on_four(g, (P(), (P("i"), P())))(X, W)
    np.testing.assert_allclose(value, by_w(f, W), rtol=1e-12)
    np.testing.assert_allclose(w_bar, by_differences(f, by_w, W), rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(x_bar, by_differences(f, by_x, X), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("f", PROGRAMS)
def test_and_its_derivative_too(f: Any) -> None:
    def along(x: Any, w: Any) -> Any:
        return np.sum(grad(summed(f), argnums=1)(x, w) * np.array([1.0, -0.5]))

    def slope(w: np.ndarray) -> float:
        return on_four(along, P())(X, w)

    found = on_four(grad(along, argnums=1), P())(X, W)
    wanted = [(slope(W + d) - slope(W - d)) / (2.0 * STEP) for d in STEP * np.eye(2)]
    np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("f", [f for f in PROGRAMS if f is not carried])  # it sums in each iteration
def test_no_sum_stands_in_a_loop_or_an_arm(f: Any) -> None:
    text = calque.source(on_four(grad(summed(f), argnums=1), P()), X, W)
    assert text.count("comm.psum") == (2 if f is stored else 1), text
    assert not [line for line in text.splitlines() if line.startswith(" " * 8) and "psum" in line], text


def test_what_is_the_same_in_all_iterations_is_not_saved() -> None:
    text = calque.source(on_four(grad(summed(in_iterations)), P("i")), X, W)
    assert text.count("_saved = ") == 1 and "u_saved" not in text and "w_saved" not in text, text


# calls that keep their identity in derivatives


def inner(x: Any, w: Any) -> Any:
    return psum(np.sum(np.tanh(x * w)), "i") + np.sum(w)


@custom_jvp
def with_tangent(x: Any, w: Any) -> Any:
    return inner(x, w)


@with_tangent.defjvp
def _(primals: Any, tangents: Any) -> Any:
    (x, w), (x_dot, w_dot) = primals, tangents
    y = np.tanh(x * w)
    return with_tangent(x, w), psum(np.sum((1.0 - y * y) * (x_dot * w + x * w_dot)), "i") + np.sum(w_dot)


@custom_vjp
def with_cotangent(x: Any, w: Any) -> Any:
    return np.sum(np.tanh(x * w)) + np.sum(w)


with_cotangent.defvjp(
    lambda x, w: (with_cotangent(x, w), (x, w)),
    lambda kept, y_bar: tuple(
        (1.0 - np.tanh(kept[0] * kept[1]) ** 2) * kept[1 - k] * y_bar + k * y_bar for k in range(2)
    ),
)


def around(f: Any) -> Any:
    def loss(x: Any, w: Any) -> Any:
        total = np.sum(x) * f(x, w) + np.sum(w)
        return psum(total, "i")

    return loss


@pytest.mark.parametrize("twice", [False, True], ids=["gradient", "second"])
@pytest.mark.parametrize(
    "f, plain",
    [(checkpoint(inner), inner), (with_tangent, inner), (with_cotangent, with_cotangent), (checkpoint(with_tangent), inner)],
    ids=["checkpoint", "custom_jvp", "custom_vjp", "nested"],
)
def test_a_sum_within_a_call(f: Any, plain: Any, twice: bool) -> None:
    def value(x: np.ndarray, w: np.ndarray) -> float:
        return on_four(around(plain), P())(x, w)

    def of(f: Any) -> Any:
        return grad(lambda x, w: np.sum(grad(around(f), argnums=1)(x, w) ** 2), argnums=1)

    if twice:
        wanted = [
            (sum(on_four(grad(around(plain), argnums=1), P())(X, W + d) ** 2) - sum(on_four(grad(around(plain), argnums=1), P())(X, W - d) ** 2)) / (2.0 * STEP)
            for d in STEP * np.eye(2)
        ]
        np.testing.assert_allclose(on_four(of(f), P())(X, W), wanted, rtol=1e-6)
        return
    x_bar, w_bar = on_four(grad(around(f), argnums=(0, 1)), (P("i"), P()))(X, W)
    np.testing.assert_allclose(w_bar, [(value(X, W + d) - value(X, W - d)) / (2.0 * STEP) for d in STEP * np.eye(2)], rtol=1e-7)
    np.testing.assert_allclose(x_bar, [(value(X + d, W) - value(X - d, W)) / (2.0 * STEP) for d in STEP * np.eye(8)], rtol=1e-7)


def test_a_sum_within_a_call_to_which_not_all_come_is_refused() -> None:
    def chooses(x: Any, w: Any) -> Any:
        y = np.sum(x)
        if y > 0.0:
            y = checkpoint(inner)(x, w)
        return psum(y, "i")

    with pytest.raises(DivergentCollective, match="return psum"):
        on_four(grad(chooses), P("i"))(X, W)
