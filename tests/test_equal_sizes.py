"""Run-time sizes that an operation needs to be equal: always NumPy's result, or its error."""

import numpy as np
import pytest

import calque

X = np.arange(1.0, 101.0)


def stored(x, k):
    out = np.zeros(4)
    out[:] = x[:k]
    return out


def multiplied(x, k):
    return np.sum(x[:k] * x[k:])


def masked(x, k):
    return np.sum(x[x > k] * x[:3])


def in_iterations(x, k):
    total = 0.0
    for _ in range(2):
        total = total + x[:k] @ x[2:6]
        k = k - 1
    return total


def fused_with_what_stands_before(x, k):
    warm = np.exp(-x[:4])
    return np.sum(warm) + np.sum(warm * x[:k])


def halves(x, k):
    even, odd = x[0::2], x[1::2]
    return (even - odd) * k


def list_of_halves(x, k):
    found = []
    n = len(x)
    for _ in range(k):
        found.append(x[: n // 2] * 2.0)
        n //= 2
    return found[0], found[-1]


def only_in_an_arm(x, k):
    part = x[:k]
    total = 0.0
    if k == 4:
        total = np.sum(part * np.arange(4.0))
    return total + part.shape[0] * 100 + np.sum(part)


CASES = [
    (stored, 8, 4),
    (stored, 3, 3),
    (stored, 8, 1),
    (multiplied, 6, 3),
    (multiplied, 6, 2),
    (masked, 5, 2.0),
    (masked, 8, 2.0),
    (in_iterations, 8, 4),
    (fused_with_what_stands_before, 8, 4),
    (fused_with_what_stands_before, 8, 3),
    (halves, 6, 2.0),
    (halves, 7, 2.0),
    (list_of_halves, 8, 1),
    (list_of_halves, 8, 2),
    (only_in_an_arm, 8, 4),
    (only_in_an_arm, 8, 3),
]

@pytest.mark.parametrize(("function", "n", "k"), CASES)
def test_as_numpy_or_refused_as_by_it(function, n, k):
    compiled = calque.jit(function)
    try:
        expected = function(X[:n], k)
    except ValueError:
        with pytest.raises(ValueError):
            compiled(X[:n], k)
        return
    found = compiled(X[:n], k)
    pairs = zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]
    for left, right in pairs:
        np.testing.assert_allclose(left, right, rtol=1e-12)


def size_of_what_an_arm_adds(x, k):
    made = np.zeros(k)
    if x[0] > 50:
        made = made + np.ones(4)
    return np.sum(made) + 2 * k + np.sum(x)


def added_in_iterations(x, k):
    part, total = x[:k], 0.0
    for _ in range(k - 3):
        total = total + np.sum(part * np.arange(4.0))
    return total + part.shape[0] * 100 + np.sum(x)


@pytest.mark.parametrize("function", [only_in_an_arm, size_of_what_an_arm_adds, added_in_iterations])
@pytest.mark.parametrize("k", [4, 3])
def test_what_only_an_arm_takes_to_be_equal(function, k):
    expected = function(X[:8], k)
    np.testing.assert_allclose(calque.jit(function)(X[:8], k), expected)
    if function is not size_of_what_an_arm_adds:  # sums of what examples share run for all of them
        found = calque.vmap(function, in_axes=(0, None))(X[:8].reshape(1, 8), k)
        np.testing.assert_allclose(found, [expected])


@pytest.mark.parametrize("k", [3, 1])
def test_the_slope_by_what_one_element_is_spread_over(k):
    def spread_over(y):
        return np.sum(X[:k] * y) + np.sum(y * y)

    def by_number(y, k):
        return np.sum(X[:k] * y) + np.sum(y * y)

    y = np.arange(1.0, 4.0)
    wanted = np.broadcast_to(X[:k], 3) + 2.0 * y
    for gradient in (calque.grad(by_number), calque.jit(calque.grad(by_number))):
        np.testing.assert_allclose(gradient(y, k), wanted)
    np.testing.assert_allclose(calque.grad(spread_over)(y), wanted)


def widened(x, w):
    for _ in range(2):
        half = (x * w).reshape(1, 2, w.size // 2)
        x = x + half.reshape(1, w.size) * np.sum(x)
    return x


def test_what_a_loop_widens_is_not_read_beyond_its_end(monkeypatch):
    monkeypatch.setenv("CALQUE_JIT", "0")  # so that such a read is an IndexError
    x, w = np.full((1, 1), 0.5), X[:4]
    np.testing.assert_allclose(calque.jit(widened)(x, w), widened(x, w))
