"""Loops over numbers that are followed in lanes: the patterns of one iteration after the other."""

from __future__ import annotations

import linecache
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from random_loops import Nest
from sampling import sampled

import calque
from calque import sparse
from calque.transpiler.sparsity import detection
from calque.transpiler.sparsity.lanes import NotInLanes


def second_difference(x):
    y = np.zeros_like(x)
    for i in range(1, len(x) - 1):
        y[i] = x[i - 1] * x[i + 1] - x[i] ** 2
    return y


def grid(x):
    n = 5
    u = x[:25].reshape(5, 5)
    out = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            total = -4.0 * u[i, j]
            if i > 0:
                total += u[i - 1, j]
            if i < n - 1:
                total += u[i + 1, j]
            for k in (-1, 1):
                total += u[i, (j + k) % n]
            out[i, j] = total
    return out


def triangle(x):
    n = len(x)
    y = np.zeros(n)
    for i in range(n):
        s = 0.0
        for j in range(i):
            s += x[j] * 0.5
        y[i] += s * x[i]
        y[i] += x[n - 1 - i]
    return y


def switched(x):
    y = np.ones_like(x)
    for i in range(len(x)):
        if x[i] > 0.5:
            y[i] = x[i - 1]
        elif i % 2 == 0:
            y[i] *= x[i - 2]
    return y


def scattering(x):
    y = np.zeros(4)
    place = np.arange(len(x)) % 4
    for i in range(len(x)):
        y[place[i]] += x[i] ** 2
    return y


def carried(x):
    y = np.zeros_like(x)
    last = 0.0
    for i in range(len(x)):
        y[i] = last * x[i]
        last = x[i]
    return y


def in_place(x):
    y = x.copy()
    for i in range(1, len(x)):
        y[i] = y[i - 1] * 0.5 + y[i]
    return y


def own_element(x):
    y = x.copy()
    for i in range(len(x)):
        y[i] = y[i] * x[-1 - i]
        y[i] = 2.0 * y[i]
    return y


def counted(x):
    y = np.zeros_like(x)
    k = 0
    for i in range(len(x)):
        if i % 3 != 1:
            y[k] = x[i]
            k += 1
    return y[:k]


def summed(x):
    total, count = 0.0, 0
    for i in range(0, len(x), 2):
        total += x[i] * x[i]
        count += 1
    return np.array([total / count, x[count]])


IN_LANES = (second_difference, grid, triangle, switched, scattering, own_element)
OTHERS = (carried, in_place, counted, summed)


def one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Follow loops without lanes; what is returned counts those that were followed with them."""

    class Never:
        def __init__(self, *args: Any):
            pass

        def loop(self, *args: Any) -> Any:
            raise NotInLanes

    monkeypatch.setattr(detection, "LaneRun", Never)
    return []


def watched(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each loop that is followed, whether lanes did it."""
    seen: list[bool] = []
    loop = detection.LaneRun.loop

    def watching(self: Any, *args: Any) -> Any:
        try:
            found = loop(self, *args)
        except NotInLanes:
            seen.append(False)
            raise
        seen.append(True)
        return found

    monkeypatch.setattr(detection.LaneRun, "loop", watching)
    return seen


@pytest.mark.parametrize("f", [*IN_LANES, *OTHERS], ids=lambda f: f.__name__)
@pytest.mark.parametrize("what", [sparse.jacobian_sparsity, sparse.hessian_sparsity])
def test_lanes_and_iterations_agree(
    f: Callable[..., Any], what: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def loss(x):
        return np.sum(f(x) ** 3)

    x = np.random.default_rng(3).uniform(size=25)
    function = f if what is sparse.jacobian_sparsity else loss
    with monkeypatch.context() as patch:
        seen = watched(patch)
        found = what(function, x)
    if what is sparse.jacobian_sparsity:
        assert any(seen) == (f in IN_LANES), seen
    one_after_the_other(monkeypatch)
    wanted = what(function, x)
    extra = found.to_scipy().astype(int) - wanted.to_scipy().astype(int)
    assert extra.min() >= 0, "an entry is missing"
    # numbers that are known in some iterations only are not known in lanes
    assert f in (switched, triangle) or extra.nnz == 0, extra.toarray()


@pytest.mark.parametrize("f", [*IN_LANES, *OTHERS], ids=lambda f: f.__name__)
def test_values(f: Callable[..., Any]) -> None:
    x = np.random.default_rng(4).uniform(size=25)
    found = sparse.jacobian(f, x)(x).toarray()
    wanted = calque.jacfwd(f)(x)
    np.testing.assert_allclose(found, wanted.reshape(found.shape), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("f", [second_difference, grid, own_element], ids=lambda f: f.__name__)
def test_gradients_are_followed_in_lanes(f: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(5).uniform(size=25)
    seen = watched(monkeypatch)
    sparse.hessian_sparsity(lambda x: np.sum(f(x) ** 2), x)
    assert seen and all(seen)


def test_an_arm_that_would_raise_is_not_taken() -> None:
    def f(x):
        y = np.zeros_like(x)
        for i in range(len(x)):
            if x[i] > 0.0 and i < len(x) - 1:
                y[i] = x[i + 1]
            else:
                y[i] = x[i]
        return y

    x = np.linspace(-1.0, 1.0, 12)
    found = sparse.jacobian(f, x)(x).toarray()
    np.testing.assert_array_equal(found, calque.jacfwd(f)(x))


def random_nest(seed: int) -> Callable[..., Any]:
    """A random nest of loops that returns its arrays."""
    text = Nest(seed).text().rsplit("    return", 1)[0] + "    return x, y, A, s\n"
    name = f"<nest of arrays {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope: dict[str, Any] = {}
    exec(compile(text, name, "exec"), scope)
    return scope["program"]


@pytest.mark.parametrize("seed", sampled(range(150), 8))
def test_random_nests(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All slopes are in the pattern, and lanes find no less than one iteration after the other."""
    f, n = random_nest(seed), 9
    rng = np.random.default_rng(seed)
    args = (rng.normal(size=n), rng.normal(size=n), rng.normal(size=(n, n)), 2.0)
    found = sparse.jacobian_sparsity(f, *args, argnums=(0, 1, 2)).to_scipy().toarray()

    def of_arrays(x, y, A):
        return f(x, y, A, 2.0)

    columns = []
    for unit in np.eye(2 * n + n * n):
        dots = (unit[:n], unit[n : 2 * n], unit[2 * n :].reshape(n, n))
        _, moved = calque.jvp(of_arrays, args[:3], dots)
        columns.append(np.concatenate([np.ravel(part) for part in moved]))
    slopes = np.stack(columns, axis=1)
    assert not ((np.abs(slopes) > 1e-13) & ~found).any()
    one_after_the_other(monkeypatch)
    single = sparse.jacobian_sparsity(f, *args, argnums=(0, 1, 2)).to_scipy().toarray()
    assert not ((np.abs(slopes) > 1e-13) & ~single).any()
    assert not (single & ~found).any()


PLACES = np.arange(6)


def a_row(x):
    A = np.zeros((3, 6))
    for i in range(6):
        A[1] = x[i]
    return A.ravel()


def chosen_places(x):
    y = np.zeros(6)
    for i in range(6):
        y[PLACES] = x[i]
    return y


def an_empty_loop_within(x):
    y = np.zeros(6)
    s = 0.0
    for i in range(6):
        t = s
        for j in range(i % 2):
            t = x[j]
        s = s + x[i]
        y[i] = t
    return y


def large_integers(x):
    y = np.zeros(6)
    for i in range(6):
        y[i] = x[((i + 1) * (2**62) // 3) % 6] + x[(i + 3) ** 30 % 6]
    return y


def no_logarithm(x):
    y = np.zeros(6)
    for i in range(6):
        if x[i] > 0 and i > 0:
            y[i] = x[i] * math.log(i)
        else:
            y[i] = x[0]
    return y


def no_end(x):
    y = x * 1.0
    for i in range(6):
        k = i
        if x[i] > 0 and k > 0:
            while k % 2 == 0:
                k //= 2
            y[i] = x[k]
    return y


def known_places(x):
    places = np.zeros(6, int)
    weights = np.zeros((6, 6))
    for i in range(6):
        places[i] = (i * 5 + 1) % 6
        weights[i, i - 1] = 2.0
    return weights @ x[places]


MENDED = (a_row, chosen_places, an_empty_loop_within, no_logarithm, no_end)


@pytest.mark.parametrize("f", [*MENDED, known_places], ids=lambda f: f.__name__)
def test_values_of_loops_that_do_not_fit(f: Callable[..., Any]) -> None:
    x = np.array([0.3, -0.5, 0.9, 1.4, -2.0, 0.7])
    jac = sparse.jacobian(f, x)
    for point in (x, -x):
        found, wanted = jac(point).toarray(), calque.jacfwd(f)(point)
        np.testing.assert_allclose(found, wanted, rtol=1e-14)


def test_large_integers_are_python_s() -> None:
    x = np.ones(6)
    found = sparse.jacobian_sparsity(large_integers, x).to_scipy().toarray()
    np.testing.assert_array_equal(found, calque.jacfwd(large_integers)(x) != 0)


def test_arrays_of_known_numbers_stay_known() -> None:
    assert sparse.jacobian_sparsity(known_places, np.ones(6)).nnz == 6
