"""Every lane gets what it would get alone: nothing from an arm that it does not take.

Each program is run with NumPy's errors raised and warnings as errors: batched over lanes that
disagree, over lanes of which none takes an arm, over one lane and none; its value against a loop,
its gradient, through `vmap` and under it, against differences of the plain function.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from lane_programs import CASES, Case
from sampling import sampled

import calque
from calque.transpiler.errors import UnsupportedFunction

NAMES = list(CASES)


@pytest.fixture(autouse=True)
def _strict() -> Iterator[None]:
    with np.errstate(all="raise", under="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def selections(c: Case) -> list[list[int]]:
    """All lanes; each alone; some twice; none."""
    every = list(range(c.size))
    return [every, *([k] for k in every), [0, 0, *every[::-1]], []]


def moving(c: Case) -> tuple[int, ...]:
    """The arguments that have a derivative."""
    return tuple(
        k for k, a in enumerate(c.args) if isinstance(a, float) or np.asarray(a).dtype.kind == "f"
    )


@pytest.mark.parametrize("name", NAMES)
def test_value(name: str) -> None:
    c = CASES[name]
    batched = calque.vmap(c.fn, in_axes=c.axes)
    for picked in selections(c):
        found = batched(*c.lanes(picked))
        expected = np.array([c.fn(*c.one(k)) for k in picked], dtype=float)
        np.testing.assert_allclose(found, expected, rtol=1e-13, atol=0)


def slopes(c: Case, lane: int) -> list[np.ndarray]:
    """Derivatives of the plain function by central differences, extrapolated once."""
    found = []
    for position in moving(c):
        point = np.asarray(c.one(lane)[position], dtype=float)
        slope = np.zeros(point.shape)

        def at(place: Any, step: float, position: int = position) -> float:
            args = list(c.one(lane))
            moved = np.array(args[position], dtype=float)
            moved[place] += step
            args[position] = moved if moved.ndim else moved[()]
            return float(c.fn(*args))

        for place in np.ndindex(*point.shape):
            h = 1e-4 * max(1.0, abs(float(point[place])) if point[place] else 1e-2)
            wide = (at(place, 2 * h) - at(place, -2 * h)) / (4 * h)
            narrow = (at(place, h) - at(place, -h)) / (2 * h)
            slope[place] = (4 * narrow - wide) / 3
        found.append(slope)
    return found


# lanes that stand on an edge, where the slope is that of the arm they take
EDGES = {
    "logarithm": {1: [0.0]},
    "quotient": {0: [0.0]},
    "short_circuit": {3: [2.0]},
    "newton": {1: [3.0]},
    "finite_or_nothing": {1: [0.0], 2: [0.0]},
    "cube_of_a_finite_number": {1: [0.0]},
}


def expected_slopes(name: str, lane: int) -> list[np.ndarray]:
    known = EDGES.get(name, {}).get(lane)
    if known is not None:
        return [np.asarray(k) for k in known]
    return slopes(CASES[name], lane)


@pytest.mark.parametrize("name", sampled(NAMES, 2))
def test_gradient_of_each(name: str) -> None:
    c = CASES[name]
    gradient = calque.vmap(calque.grad(c.fn, argnums=moving(c)), in_axes=c.axes)
    for picked in selections(c):
        found = gradient(*c.lanes(picked))
        rows = [expected_slopes(name, k) for k in picked]
        for k, column in enumerate(found):
            expected = np.array([row[k] for row in rows]).reshape(column.shape)
            np.testing.assert_allclose(column, expected, rtol=2e-6, atol=2e-7)


@pytest.mark.parametrize("name", sampled(NAMES, 2))
def test_gradient_of_the_sum(name: str) -> None:
    c = CASES[name]

    def total(*args: Any) -> Any:
        values = calque.vmap(c.fn, in_axes=c.axes)(*args)
        return np.sum(values * np.arange(1.0, 1.0 + values.shape[0]))

    gradient = calque.grad(total, argnums=moving(c))
    for picked in selections(c):
        found = gradient(*c.lanes(picked))
        rows = [expected_slopes(name, k) for k in picked]
        for k, position in enumerate(moving(c)):
            parts = [(i + 1.0) * row[k] for i, row in enumerate(rows)]
            if c.axes[position] is None:
                expected = np.sum(parts, axis=0) if parts else np.zeros_like(found[k])
            else:
                expected = np.array(parts).reshape(found[k].shape)
            np.testing.assert_allclose(found[k], expected, rtol=2e-6, atol=2e-6)


# where lanes work


def source_of(name: str) -> str:
    c = CASES[name]
    return calque.vmap(c.fn, in_axes=c.axes).source(*c.args)


def test_a_store_goes_to_the_lanes_of_the_whole_array() -> None:
    text = source_of("stores_while_alive")
    assert "x[lanes, k_lanes] = " in text
    assert "x_lanes" not in text


def test_an_arm_stores_in_place() -> None:
    text = source_of("store_in_an_arm")
    assert "x[lanes, 1] = " in text
    assert "x_lanes" not in text


@pytest.mark.parametrize("name", ["shared_index", "shared_endless_loop", "shared_quotient"])
def test_what_may_fail_is_guarded(name: str) -> None:
    assert "if np.any(x_above_10):" in source_of(name)


def test_what_cannot_fail_is_not_guarded() -> None:
    assert "if " not in source_of("logarithm")
    assert "lanes = np.flatnonzero(p > 0.0)" in source_of("logarithm").replace("p_above", "p > 0.0")


def test_sizes_that_differ_are_refused() -> None:
    def ragged(n: int) -> Any:
        return np.sum(np.ones(n))

    np.testing.assert_array_equal(calque.vmap(ragged)(np.array([1, 2])), [1.0, 2.0])
    with pytest.raises(UnsupportedFunction, match="would differ from one example to the next"):
        calque.vmap(np.ones)(np.array([1, 2]))


def grows(x):
    """The loop's condition reads the element that the iteration has appended."""
    xs = [x[0]]
    while xs[-1] < 10.0:
        xs.append(xs[-1] * 1.5 + 1.0)
    return sum(xs)


def stores_ahead(x):
    y, k = np.zeros(30), 0
    y[0] = x[0]
    while y[k] < 10.0:
        y[k + 1] = 1.5 * y[k] + x[1] ** 2 + 1.0
        k += 1
    return y[k] * x[2] + k


def replaced(x):
    y, z, k = x.copy(), 2.0 * x, 0
    while np.abs(y[k % 3]) > 0.31 and k < 12:
        z = 0.6 * z
        y = z
        k += 1
    return np.sum(y * x) + k


def swapped(x):
    a, b, k = x.copy(), 3.0 + x, 0
    while a[0] + k < 4.0:
        b[0] += 0.25
        a, b = b, a
        k += 1
    return a[0] * b[1] + k


def found_in_iterations(x):
    """A loop that is left in the middle, by what it has just stored."""
    y, total = x.copy(), 0.0
    for i in range(y.shape[0] - 1):
        y[i + 1] += 0.5 * y[i]
        if y[i + 1] > 1.0:
            break
        total += y[i + 1] ** 2
    return total + y[1]


@pytest.mark.parametrize("function", [grows, stores_ahead, replaced, swapped, found_in_iterations])
@pytest.mark.parametrize("jitted", [False, True])
def test_tests_of_loops_read_what_the_iteration_has_stored(function, jitted):
    x = np.array([[0.3, -1.2, 0.9], [0.9, -3.6, 2.7], [-0.1, 1.6, 0.5], [20.0, 0.8, 0.9]])
    way = np.cos(np.arange(12.0)).reshape(4, 3)
    wanted = np.array([function(row) for row in x])
    slopes = [(function(r + 1e-6 * w) - function(r - 1e-6 * w)) / 2e-6 for r, w in zip(x, way)]
    values, gradients = calque.vmap(function), calque.vmap(calque.grad(function))
    if jitted:
        values, gradients = calque.jit(values), calque.jit(gradients)
    np.testing.assert_allclose(values(x), wanted, rtol=1e-13)
    np.testing.assert_allclose(np.sum(gradients(x) * way, axis=1), slopes, rtol=1e-6, atol=1e-8)


def two_lists(x):
    """Each arm leaves as it was what the other one changes."""
    above, below = [], []
    for i in range(3):
        if x[i] > 0.0:
            above.append(x[i])
        else:
            below.append(2.0 * x[i])
    total = 0.0
    for v in above:
        total += v
    for v in below:
        total += v * v
    return total + len(above) * x[0]


def many_on_one_side(x):
    """One list grows beyond its first room while the other one stays."""
    above, below = [x[0]], [x[1]]
    for i in range(40):
        if x[0] + 0.1 * i > 0.3:
            above.append(x[1] * i)
        else:
            below.append(x[2] * i)
    return sum(above) * below[-1] + above[-1] ** 2


def arms_that_swap(x):
    a, b = x.copy(), 2.0 * x
    for i in range(3):
        if x[i] > 0.5:
            for k in range(int(x[i] * 2.0)):
                a[k % 3] += x[i]
        elif x[i] > 0.0:
            a, b = b, a
        else:
            while b[i] < 1.0:
                b[i] += 0.7
    return a @ x + b[0] ** 2


@pytest.mark.parametrize("function", [two_lists, many_on_one_side, arms_that_swap])
@pytest.mark.parametrize("jitted", [False, True])
def test_what_an_arm_leaves_as_it_was(function, jitted):
    x = np.array([[0.31, -1.2, 0.9], [0.9, -3.6, 2.7], [-0.13, 1.6, 0.45], [-4.0, 0.8, -0.9]])
    way = np.cos(np.arange(12.0)).reshape(4, 3)
    wanted = np.array([function(row) for row in x])
    slopes = [(function(r + 1e-6 * w) - function(r - 1e-6 * w)) / 2e-6 for r, w in zip(x, way)]
    values, gradients = calque.vmap(function), calque.vmap(calque.grad(function))
    if jitted:
        values, gradients = calque.jit(values), calque.jit(gradients)
    np.testing.assert_allclose(values(x), wanted, rtol=1e-13)
    np.testing.assert_allclose(np.sum(gradients(x) * way, axis=1), slopes, rtol=1e-6, atol=1e-7)


def longer_each_iteration(x):
    y = x[:1]
    while y.shape[0] < 5 and y[-1] < 3.0:
        y = np.concatenate([y, y[-1:] * 1.5 + 0.3])
    return y


def summed(x):
    return np.sum(longer_each_iteration(x) ** 2)


def test_arrays_of_another_size_in_each_iteration():
    """They have no common shape: each example runs the loop, and what comes out has to be summed."""
    x = np.array([[0.31, -1.2], [0.9, -3.6], [-0.13, 1.6], [4.0, 0.8]])
    wanted = [summed(row) for row in x]
    np.testing.assert_allclose(calque.vmap(summed)(x), wanted, rtol=1e-13)
    np.testing.assert_allclose(calque.jit(calque.vmap(summed))(x), wanted, rtol=1e-13)
    slopes = [(summed(row + [1e-6, 0]) - summed(row - [1e-6, 0])) / 2e-6 for row in x]
    np.testing.assert_allclose(calque.vmap(calque.grad(summed))(x)[:, 0], slopes, rtol=1e-7)
    with pytest.raises(UnsupportedFunction, match="of different sizes"):
        calque.vmap(longer_each_iteration)(x)


def up_to_the_first_large_one(x):
    total, i = 0.0, 0
    while i < len(x) and x[i] < 1.5:
        total = total + x[i] ** 2
        i = i + 1
    return total + i * x[0]


@pytest.mark.parametrize("jitted", [False, True])
def test_an_element_that_the_iteration_has_read_is_not_there_in_the_next(jitted: bool) -> None:
    rows = np.array([[0.1, 0.2, 0.3], [0.1, 2.0, 0.3], [0.5, 0.2, 1.9], [3.0, 0.1, 0.2]])
    wrap = calque.jit if jitted else lambda f: f
    found = wrap(calque.vmap(up_to_the_first_large_one))(rows)
    expected = [up_to_the_first_large_one(row) for row in rows]
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    slopes = wrap(calque.vmap(calque.grad(up_to_the_first_large_one)))(rows)
    alone = [calque.grad(up_to_the_first_large_one)(row) for row in rows]
    np.testing.assert_allclose(slopes, alone, rtol=1e-14)
    slopes = wrap(calque.grad(lambda r: np.sum(calque.vmap(up_to_the_first_large_one)(r))))(rows)
    np.testing.assert_allclose(slopes, alone, rtol=1e-14)
