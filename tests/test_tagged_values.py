"""Values of two kinds, and names that only some paths set: each path computes what Python does."""

from __future__ import annotations

import math

import numpy as np
import pytest

import calque
from calque.transpiler.errors import BranchMismatch

VECTOR = np.array([0.3, 0.9, 1.7])


def number_or_array(x, c):
    if c > 0.5:
        y = 2.0
    else:
        y = x * 3.0
    return np.sum(y * x)


def kinds_of_orbit(a, e):
    if e < 0.2:
        kind = "circle"
    elif e < 1.0:
        kind = "ellipse"
    else:
        kind = "hyperbola"
    radius = a
    if kind == "ellipse":
        radius = a * (1.0 - e * e)
    elif kind == "hyperbola":
        radius = a * (e * e - 1.0)
    return radius * np.sin(a)


def set_under_the_same_test(t, p):
    if 0.2 <= t <= 0.8:
        saturation = t * t
    if 0.2 <= t <= 0.8 and saturation < p:
        return p * saturation
    return p * 2.0


def scaled(x, c):
    if c > 0.5:
        return 0.5
    return x


def from_a_call(x, c):
    return np.sum(scaled(x, c) * 2.0 + scaled(x, 1.0 - c))


def pair(x, c):
    if c > 0.5:
        return "above", x * 2.0
    return "below", x * x


def from_a_pair(x, c):
    side, value = pair(x, c)
    total = np.sum(value)
    if side == "above":
        total = total * 3.0
    return total


def chosen_functions(x, c):
    f = np.sin if c > 0.5 else np.cos
    g = math.exp if c > 0.7 else math.sqrt
    return np.sum(f(x)) * g(c)


def called_at_once(x, c):
    return np.sum((np.sin if c > 0.5 else np.cos)(x)) + c


def none_or_text(x, c):
    mode = None
    if c > 0.5:
        mode = "cubic"
    if mode is None:
        return np.sum(x) * c
    if mode == "cubic":
        return np.sum(x**3)
    return c


def in_a_loop(x, c):
    total = 0.0
    for v in x:
        if v > c:
            weight = np.array([v, 2.0 * v])
        else:
            weight = 3.0
        total = total + np.sum(weight * v)
    return total


def with_a_loop(x, c):
    if c > 0.5:
        start = x[:1]
    else:
        start = 0.25
    for _ in range(3):
        start = start * 1.5 + 0.1
    while np.sum(start) < 4.0:
        start = start * 2.0
    return np.sum(start) + c


def left_in_a_loop(x, c):
    if c > 0.5:
        limit = "none"
    else:
        limit = 1.0
    total = 0.0
    for v in x:
        if limit != "none":
            if v > limit:
                break
        total = total + v * v
    return total * c


class Solver:
    def __init__(self, x, c):
        self.pressure = 0.5 if c > 0.5 else x
        self.name = "low" if c < 0.3 else "high"

    def total(self):
        total = np.sum(self.pressure * 2.0)
        return total if self.name == "low" else total * total


def attributes(x, c):
    return Solver(x, c).total() + c


def three_paths(x, c):
    if c > 0.6:
        y = x
    elif c > 0.3:
        y = (x, 2.0 * x)
    else:
        y = 1.0
    if isinstance(y, tuple):
        return np.sum(y[0] * y[1])
    if isinstance(y, float):
        return c * y
    return np.sum(y**3)


def only_where_set(x, c):
    if c > 0.5:
        root = np.sqrt(c)
        shift = x * root
    result = np.sum(x * x)
    if c > 0.5:
        result = result + np.sum(shift) * root
    return result


def stored_into(x, c):
    out = np.zeros(3)
    if c > 0.5:
        target = x * 2.0
    else:
        target = 1.0
    if c > 0.5:
        target[:2] = x[:2] * c
    out[2] = np.sum(target * c)
    return np.sum(out * x)


def stored_under_another_test(x, c):
    y = x * 2.0
    if c > 0.5:
        y = 1.0
    if isinstance(y, np.ndarray):
        y[0] = c
    return np.sum(y * x)


def only_where_the_loop_runs(x, c):
    k = 0
    while k < 3 and x[k] < c:
        last = x[k] * x[k]
        k += 1
    total = np.sum(x)
    if k > 0:
        total = total * last
    return total * c


def a_loop_makes_an_array(x, c):
    y = c
    for v in x:
        if v > c:
            y = np.array([v, c])
    return np.sum(y) * c


def restarted(x, c):
    at = c
    for v in x:
        step = np.sin(at) * v
        if np.sum(step) > 0.3:
            at = 0.25
        else:
            at = np.array([v * c, 0.1])
    return np.sum(at) * c


PROGRAMS = [
    number_or_array, set_under_the_same_test, from_a_call, from_a_pair, chosen_functions,
    called_at_once, none_or_text, in_a_loop, with_a_loop, left_in_a_loop, attributes, three_paths,
    only_where_set, stored_into, stored_under_another_test,
    only_where_the_loop_runs, a_loop_makes_an_array, restarted,
]  # fmt: skip
SCALARS = (kinds_of_orbit, set_under_the_same_test)


def arguments(f):
    x = 0.7 if f in SCALARS else VECTOR
    return [(x, c) for c in (0.1, 0.4, 0.55, 0.95)]


def by_differences(f, x, c):
    """The derivatives of a function with respect to both arguments, by central differences."""
    step, x = 1e-6, np.asarray(x)
    slopes = np.zeros(x.shape)
    for k in np.ndindex(x.shape):
        there, back = x.copy(), x.copy()
        there[k] += step
        back[k] -= step
        slopes[k] = (f(there, c) - f(back, c)) / (2.0 * step)
    return slopes, (f(x, c + step) - f(x, c - step)) / (2.0 * step)


@pytest.mark.parametrize("f", [*PROGRAMS, kinds_of_orbit], ids=lambda f: f.__name__)
@pytest.mark.parametrize("compiled", [False, True], ids=["numpy", "jit"])
@pytest.mark.filterwarnings("ignore::calque.JitFallback")  # arrays that only one path has
def test_each_path_is_differentiated(f, compiled):
    made = calque.value_and_grad(f, argnums=(0, 1))
    made = calque.jit(made) if compiled else made
    for x, c in arguments(f):
        value, slopes = made(x, c)
        np.testing.assert_allclose(value, f(x, c), rtol=1e-13)
        for slope, expected in zip(slopes, by_differences(f, x, c), strict=True):
            np.testing.assert_allclose(slope, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("f", [*PROGRAMS, kinds_of_orbit], ids=lambda f: f.__name__)
def test_a_batch_takes_each_path(f):
    xs, cs = (np.stack(parts) for parts in zip(*arguments(f), strict=True))
    expected = [f(x, c) for x, c in arguments(f)]
    np.testing.assert_allclose(calque.vmap(f)(xs, cs), expected, rtol=1e-13)
    slopes = calque.vmap(calque.grad(f, argnums=1))(xs, cs)
    expected = [by_differences(f, x, c)[1] for x, c in arguments(f)]
    np.testing.assert_allclose(slopes, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_the_forward_mode_agrees(f):
    for x, c in arguments(f):
        _, tangent = calque.jvp(f, (x, c), (np.ones_like(x), 1.0))
        slopes, slope = by_differences(f, x, c)
        np.testing.assert_allclose(tangent, np.sum(slopes) + slope, rtol=1e-6, atol=1e-8)


def unset(x):
    if x > 1.0:
        y = x * x
    return y * 2.0


@pytest.mark.parametrize(
    ("transformed", "expected"), [(calque.jit(unset), 4.5), (calque.grad(unset), 6.0)]
)
def test_an_unset_name_raises_as_in_python(transformed, expected):
    assert transformed(1.5) == expected
    with pytest.raises(UnboundLocalError, match="local variable 'y'"):
        transformed(0.5)


def unset_by_a_loop(x, c):
    total = 0.0
    for v in x:
        if v > c:
            total = total + v
        else:
            low = v * c
    return total + low


@pytest.mark.parametrize("run", [calque.jit(unset_by_a_loop), calque.grad(unset_by_a_loop)])
def test_a_name_that_no_iteration_sets(run):
    assert np.all(np.isfinite(run(VECTOR, 0.5)))
    with pytest.raises(UnboundLocalError, match="'low'"):
        run(VECTOR, 0.1)


def returned(x, c):
    return x if c > 0.5 else 1.0


def test_a_result_of_two_kinds_is_refused():
    with pytest.raises(BranchMismatch, match="do not fit together|cannot be used") as refused:
        calque.jit(returned)(VECTOR, 0.9)
    assert "x if c > 0.5 else 1.0" in str(refused.value)
