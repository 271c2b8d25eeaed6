"""Donation: dead arrays give their memory to new ones; arrays that may be read keep it."""

import re

import numpy as np
import pytest

import calque

N = 64


def layers(x, a, b, c):
    y = np.tanh(x @ a)
    z = np.exp(-((y @ b) ** 2))
    return np.sin(z @ c) + z


def steps(x, a, b, c):
    for w in (a, b, c, b, a):
        x = np.tanh(x @ w) + 0.5
    return x


def halves(x, a, b, c):
    rows = x.reshape(2, -1, 4)
    y = np.stack((rows[0] + rows[1], rows[0] - rows[1]), axis=1)
    rows = y.reshape(2, -1, 8)
    z = np.stack((rows[0] * rows[1], rows[0] - rows[1]), axis=1)
    rows = z.reshape(2, -1, 16)
    w = np.stack((rows[0] * rows[1], rows[0] - rows[1]), axis=1)
    return w.reshape(-1)


def keeps_a_view(x, a, b, c):
    y = np.tanh(x @ a)
    z = np.cos(y @ b)
    w = np.tanh(z @ c)
    return y[::2], np.sin(w @ a)


def keeps_all(x, a, b, c):
    kept = [np.tanh(x @ a)]
    for w in (b, c, a):
        kept.append(np.cos(kept[-1] @ w))
    return kept


def chosen(x, a, b, c):
    y = np.tanh(x @ a)
    z = np.cos(y @ b)
    w = np.tanh(z @ c)
    return np.sin(w @ b) + (y if x[0, 0] > 0 else w)


def sums_of_one_name(x, a, b, c):
    y = (x * (np.sum(x * x) / N**2)) @ b
    return np.sum(y * a)


def read_early(x, a, b, c):
    y = np.tanh(x)
    return y[0, 1] + np.linalg.det(np.cos(np.sort(y, axis=0)))


def added_in_place(x, a, b, c):
    y = np.tanh(x @ a)
    z = np.sin(y @ b)
    u = z @ c
    for i in range(N):
        z[i] += np.cos(u[i])
    w = np.tanh(z @ a)
    u = w @ b
    for i in range(N):
        w[i] += np.sin(u[i])
    v = np.sin(w @ c)
    return np.cos(v @ a)


ARGS = tuple(np.cos(np.arange(N * N) * f).reshape(N, N) / 8 for f in (1.0, 2.1, 3.2, 4.3))
PROGRAMS = [
    *(layers, steps, halves, keeps_a_view, keeps_all, chosen, read_early, sums_of_one_name),
    added_in_place,
]


def handed(function):
    """The pairs (taker, giver) that the launcher names."""
    text = calque.source(calque.jit(function), *ARGS, stage="kernels")
    return re.findall(r"(\w+) = .*# (\w+) is not read again", text)


def each(results):
    return results if isinstance(results, (list, tuple)) else [results]


@pytest.mark.parametrize("function", PROGRAMS)
def test_values_and_arguments(function):
    given = [a.copy() for a in ARGS]
    compiled = calque.jit(function)
    found = compiled(*given)
    other = compiled(-given[0], *given[1:])  # what the first call gave is not its memory
    for a, b in zip(each(found), each(function(*ARGS)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    for a, b in zip(each(other), each(function(-ARGS[0], *ARGS[1:])), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    for a, b in zip(given, ARGS, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("function", PROGRAMS)
def test_gradients(function):
    def loss(x, *rest):
        return sum(np.sum(np.sin(r)) for r in each(function(x, *rest)))

    direction = np.sin(np.arange(N * N)).reshape(N, N)
    step = 1e-3
    at = [loss(ARGS[0] + k * step * direction, *ARGS[1:]) for k in (-2, -1, 1, 2)]
    wanted = (at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * step)
    found = calque.jit(calque.grad(loss))(*ARGS)
    np.testing.assert_allclose(np.sum(found * direction), wanted, rtol=1e-8, atol=1e-9)


def test_what_takes_memory():
    assert len(handed(steps)) == 3


def test_memory_is_handed_on_with_all_that_is_stored_into_it():
    assert handed(added_in_place) == [("z", "y"), ("w", "z"), ("v", "w"), ("out", "v")]
    text = calque.source(calque.jit(added_in_place), *ARGS, stage="kernels")
    assert "= added_in_place_kernel" not in text  # one name, and one memory


def test_arrays_of_one_name_give_their_memory_too():
    assert handed(sums_of_one_name) == [("second_total_parts", "total_parts")]


def test_an_element_is_read_before_its_memory_is_given_away():
    text = calque.source(calque.jit(read_early), *ARGS, stage="kernels")
    assert text.index("y_reshaped[0, 1]") < text.index("y is not read again")


@pytest.mark.parametrize("function", [keeps_a_view, chosen])
def test_what_is_returned_keeps_its_memory(function):
    assert "y" not in [giver for _, giver in handed(function)]


@pytest.mark.parametrize("function", PROGRAMS)
def test_results_are_as_large_as_what_they_show(function):
    for found in each(calque.jit(function)(*ARGS)):
        assert found.base is None or found.base.size <= N * N


def test_what_keeps_all_gives_nothing():
    assert not handed(keeps_all)
