"""The last element of a list that grows is carried, and the adjoint of what grows is no sum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
from calque.transpiler.algebra import last_elements


def appended(k, h, end):
    hs = [h]
    t = 0
    while t < end:
        hs.append(hs[-1] + 0.1 * np.sin(k * hs[-1]))
        t += 1
    return np.sum(np.array(hs) ** 2)


def appended_by_some(k, h, end):
    hs = [h]
    for i in range(k.shape[0]):
        if k[i] > 0:
            hs.append(np.tanh(k * hs[-1] + end))
    return np.sum(np.array(hs) ** 2) + np.sum(hs[-1])


def adaptive(k, h, end):
    ts, ys = [0.0], [h]
    step = 0.1
    while ts[-1] < end:
        y = ys[-1]
        s = np.sin(k * y)
        error = step * np.max(np.abs(s))
        if error < 0.15:
            ts.append(ts[-1] + step)
            ys.append(y + step * s)
        step = step * (1.1 if error < 0.1 else 0.8)
    return np.sum(np.array(ys) ** 2) * ts[-1]


def by_either_arm(k, h, end):
    hs = [k, h]
    t = 0.0
    while t < end:
        if np.sum(hs[-1]) > 0.0:
            hs.append(0.5 * hs[-1] - k)
        else:
            hs.append(k * k + hs[-1])
        t += 0.25 + 0.01 * np.cos(hs[-1][0])
    return np.sum(np.array(hs) ** 2)


def numbers(k, h, end):
    xs = [0.5]
    while len(xs) < 3 * end:
        xs.append(np.sin(k[0] * xs[-1]) + h[1])
    return xs[-1]


def of_other_types(k, h, end):
    xs = [1]
    while len(xs) < 3 * end:
        xs.append(xs[-1] * k[0])
    return xs[-1] + h[0]


def two_before(k, h, end):
    hs = [k, h]
    t = 0
    while t < end:
        hs.append(np.sin(k * hs[-1]) + hs[-2])
        t += 1
    return np.sum(np.array(hs) ** 2)


CARRIED = [appended, appended_by_some, adaptive, by_either_arm, numbers]
SOME = [of_other_types, two_before]


def two_in_an_iteration(k, h, end):
    hs = [h]
    while len(hs) < 2 * end:
        hs.append(np.sin(k * hs[-1]))
        hs.append(hs[-1] * hs[-2])
    return np.sum(np.array(hs) ** 2)


def taken_back(k, h, end):
    hs = [h]
    t = 0
    while t < end:
        hs.append(np.sin(k * hs[-1]))
        if t % 3 == 2:
            hs.pop()
        t += 1
    return np.sum(np.array(hs) ** 2)


def replaced(k, h, end):
    hs = [h]
    t = 0
    while t < end:
        hs[-1] = hs[-1] * 0.9
        hs.append(np.sin(k * hs[-1]))
        t += 1
    return np.sum(np.array(hs) ** 2)


def stored_into(k, h, end):
    hs = [h.copy()]
    t = 0
    while t < end:
        hs[-1][0] = 2.0
        hs.append(np.sin(k * hs[-1]))
        t += 1
    return np.sum(np.array(hs) ** 2)


def from_nothing(k, h, end):
    hs = []
    t = 0
    while t < end:
        hs.append(h * t if t == 0 else np.sin(k * hs[-1]))
        t += 1
    return np.sum(np.array(hs) ** 2) + np.sum(h)


OTHERS = [two_in_an_iteration, taken_back, replaced, stored_into, from_nothing]


def arguments(n: int = 5) -> tuple[Any, ...]:
    rng = np.random.default_rng(3)
    return 0.7 * rng.normal(size=n), rng.normal(size=n), 4.0


def differences(f: Callable[..., Any], args: tuple[Any, ...], which: int) -> Any:
    """The gradient for one argument, by central differences."""
    found = np.zeros_like(args[which])
    for i in range(found.size):
        ends = []
        for step in (1e-6, -1e-6):
            moved = [np.copy(a) if isinstance(a, np.ndarray) else a for a in args]
            moved[which][i] += step
            ends.append(float(f(*moved)))
        found[i] = (ends[0] - ends[1]) / 2e-6
    return found


@pytest.mark.parametrize("f", CARRIED + SOME + OTHERS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("jit", [False, True], ids=["numpy", "kernels"])
def test_gradients_of_lists_that_read_their_last(f: Callable[..., Any], jit: bool) -> None:
    args = arguments()
    value_and_grad = calque.value_and_grad(f, argnums=(0, 1))
    value, bars = (calque.jit(value_and_grad) if jit else value_and_grad)(*args)
    np.testing.assert_allclose(value, f(*args), rtol=1e-13)
    for which, bar in enumerate(bars):
        np.testing.assert_allclose(bar, differences(f, args, which), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("f", CARRIED, ids=lambda f: f.__name__)
def test_the_last_element_is_not_read_back(f: Callable[..., Any]) -> None:
    text = calque.source(calque.grad(f, argnums=(0, 1)), *arguments())
    forward = text.partition("# reverse")[0]
    assert "count - 1" not in forward and "_last" in forward


@pytest.mark.parametrize("f", CARRIED, ids=lambda f: f.__name__)
def test_no_iteration_copies_or_sums_all_rows(f: Callable[..., Any]) -> None:
    text = calque.source(calque.jit(calque.grad(f, argnums=(0, 1))), *arguments())
    assert "hs.copy()" not in text and "broadcast_to" not in text and ".shape[0] == 1" not in text


@pytest.mark.parametrize("f", OTHERS, ids=lambda f: f.__name__)
def test_what_is_not_only_appended_to_is_read(
    f: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any) -> None:
        raise AssertionError("carried")

    monkeypatch.setattr(last_elements, "_add", never)
    calque.source(calque.grad(f, argnums=(0, 1)), *arguments())


def test_another_array_of_another_length_is_what_was_stored() -> None:
    def grown(k, h, end):
        hs = [h]
        while len(hs) < end:
            hs.append(k * hs[-1])
        return np.sum(hs[-1])

    k, h, _ = arguments()
    jitted = calque.jit(grown)
    assert jitted(k, h, 3) == pytest.approx(np.sum(k * k * h))


@pytest.mark.parametrize("n", [1, 2, 13])
def test_lists_of_rows_of_any_length(n: int) -> None:
    args = arguments(max(n, 2))
    args = args[0][:n], args[1][:n], args[2]
    found = calque.jit(calque.grad(appended, argnums=1))(*args)
    np.testing.assert_allclose(found, differences(appended, args, 1), rtol=1e-6)


def test_lanes_whose_lists_need_different_room() -> None:
    def grown(x, count):
        hs, k = [x * 0.1], 0
        while k < count:
            hs.append(np.tanh(hs[-1]) * 1.1 + x * 0.01)
            k += 1
        return np.sum(np.array(hs) ** 2)

    x = np.random.default_rng(0).standard_normal((4, 5))
    counts = np.array([3, 20, 33, 8])  # there is room for 16 at first
    alone = [calque.grad(grown)(row, int(count)) for row, count in zip(x, counts)]
    np.testing.assert_allclose(alone[2], differences(grown, (x[2], 33), 0), rtol=1e-5)
    for batched in (calque.vmap(calque.grad(grown)), calque.jit(calque.vmap(calque.grad(grown)))):
        np.testing.assert_allclose(batched(x, counts), alone)
