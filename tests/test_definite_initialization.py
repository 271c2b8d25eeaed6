"""Numbers set only within a loop: compiled if every iteration sets them, with Python's errors."""

import numpy as np
import pytest

import calque


def counted(a, n):
    x = a * 0.5
    for it in range(100):
        error = abs(0.5 * (x + a / x) - x)
        x = 0.5 * (x + a / x)
        if error < 1e-3:
            break
    return x * (1.0 + error) + it * a


def as_many(a, n):
    x = a * 0.5
    for _ in range(n):
        error = abs(0.5 * (x + a / x) - x)
        x = 0.5 * (x + a / x)
    return x * error


def endless(a, n):
    x, k = a * 0.5, 0
    while True:
        step = 0.5 * (a / x - x)
        x, k = x + step, k + 1
        if abs(step) < 1e-3 or k > n:
            break
    return x * (1.0 + step)


def within(a, n):
    total = 0.0
    for i in range(4):
        x = a + i
        for _ in range(20):
            step = 0.5 * (a / x - x)
            x = x + step
            if abs(step) < 1e-2:
                break
        total += x * step
    return total


def backwards(a, n):
    for i in range(n, 0, -1):
        last = a * i
    return last * a


def leaves(a, n):
    total = 0.0
    for i in range(10 * n):
        total += a / (i + 1)
        if total > 4.0:
            return total * i
    return -total * a


PROGRAMS = [leaves, counted, as_many, endless, within, backwards]


@pytest.mark.parametrize("function", PROGRAMS)
def test_values_and_slopes(function):
    compiled, slope = calque.jit(function), calque.jit(calque.grad(function))
    for n in (1, 2, 5):
        assert np.isclose(compiled(2.3, n), function(2.3, n), rtol=1e-13)
        at = [function(2.3 + k * 1e-4, n) for k in (-2, -1, 1, 2)]
        wanted = (at[0] - 8 * at[1] + 8 * at[2] - at[3]) / 12e-4
        assert np.isclose(slope(2.3, n), wanted, rtol=1e-8)
    values = np.array([1.5, 2.3, 7.0])
    found = calque.jit(calque.vmap(function, in_axes=(0, None)))(values, 5)
    np.testing.assert_allclose(found, [function(v, 5) for v in values], rtol=1e-13)


@pytest.mark.parametrize("function", PROGRAMS)
def test_no_loop_is_left_to_python(function):
    text = calque.source(calque.jit(function), 2.3, 5, stage="kernels")
    launcher = text[text.index(f"def {function.__name__}_jit") :]
    assert "for " not in launcher and "while " not in launcher, launcher


def test_the_test_of_an_endless_loop_is_its_flag():
    assert "while not stopped:" in calque.source(endless, 2.3, 5)


@pytest.mark.parametrize("function", [as_many, backwards])
def test_a_loop_without_iterations_sets_nothing(function):
    compiled = calque.jit(function)
    assert np.isclose(compiled(2.3, 3), function(2.3, 3))
    with pytest.raises(UnboundLocalError):
        function(2.3, 0)
    with pytest.raises(UnboundLocalError):
        compiled(2.3, 0)


def test_what_some_iterations_set_is_there_where_one_did():
    def found(v, limit):
        for i in range(v.size):
            if v[i] > limit:
                place = i
        return v * place

    compiled = calque.jit(found)
    np.testing.assert_array_equal(compiled(np.arange(5.0), 2.5), 4.0 * np.arange(5.0))
    with pytest.raises(UnboundLocalError, match="local variable 'place'"):
        compiled(np.arange(5.0), 9.0)


# arrays


def clusters(x, centers, times):
    """The centers of clusters; those of the last iteration are read after the loop."""
    for _ in range(times):
        away = np.sum((x[:, None, :] - centers) ** 2, axis=2)
        share = np.exp(-away) / np.sum(np.exp(-away), axis=1)[:, None]
        centers = share.T @ x / np.sum(share, axis=0)[:, None]
    return np.sum(share * away)


def always(x, centers, times):
    for _ in range(3):
        away = np.sum((x[:, None, :] - centers) ** 2, axis=2)
        centers = centers - 0.1 * away.T @ x
    return np.sum(away) + np.sum(centers)


def until(x, centers, times):
    k = 0
    while k < times and np.max(centers) > 1e-9:
        small = 0.5 * centers
        row = small[0] * k
        centers = np.sin(small)
        k += 1
    return np.sum(row) + np.sum(small)


def nested(x, centers, times):
    total = 0.0
    for i in range(times):
        for _ in range(2):
            last = centers * (1.0 + i)
            centers = np.tanh(last)
        total += np.sum(last * centers)
    return total + np.sum(last)


def of_a_size_of_its_own(x, centers, times):
    for k in range(times):
        part = x[: k + 1] * 2.0
        centers = np.tanh(centers + np.sum(part))
    return np.sum(part) + np.sum(centers)


def set_in_an_arm(x, centers, times):
    for k in range(times):
        if x[0, 0] > 0.0:
            made = np.exp(centers)
        centers = np.tanh(centers)
    return np.sum(made)


@pytest.mark.parametrize(
    "program", [clusters, always, until, nested, of_a_size_of_its_own, set_in_an_arm]
)
def test_arrays_of_the_last_iteration(program):
    rng = np.random.default_rng(3)
    x, centers = rng.normal(size=(6, 2)), rng.normal(size=(3, 2))
    x[0, 0] = 0.5
    value, slopes = calque.jit(program), calque.jit(calque.grad(program, argnums=(0, 1)))
    plain = calque.grad(program, argnums=(0, 1))
    for times in (3, 1, 4):
        np.testing.assert_allclose(value(x, centers, times), program(x, centers, times))
        expected = plain(x, centers, times)
        for found, other in zip(slopes(x, centers, times), expected, strict=True):
            np.testing.assert_allclose(found, other, rtol=1e-10, atol=1e-12)
    if program is not always:
        for form in (value, slopes):
            with pytest.raises(UnboundLocalError):
                form(x, centers, 0)


@pytest.mark.parametrize("program", [clusters, always, nested])
def test_loops_that_set_arrays_are_kernels(program):
    x, centers = np.ones((6, 2)), np.ones((3, 2))
    text = calque.source(calque.jit(program), x, centers, 3, stage="kernels")
    assert "for " not in text.partition("_jit(")[2]
