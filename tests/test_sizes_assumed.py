"""Slices that fit as long as one size is not less than another: right for all, short for those."""

import numpy as np
import pytest

import calque

RNG = np.random.default_rng(3)


def row_tails(A, y):
    x = np.zeros_like(y)
    for i in range(min(A.shape[0], y.shape[0])):
        x[i] = np.sum(A[i, i + 1 :]) + A[i, 0]
    return np.sum(x * x)


def own_tails(A, y):
    x = y * 1.0
    for i in range(A.shape[0]):
        if i < y.shape[0]:
            x[i] = np.sum(x[i + 1 :]) * 0.5 + np.sum(A[i, :i])
    return np.sum(x * x)


def back_substituted(A, y):
    x = np.zeros_like(y)
    for i in range(A.shape[0] - 1, -1, -1):
        x[i] = (y[i] - A[i, i + 1 :] @ x[i + 1 :]) / (2.0 + A[i, i] ** 2)
    return np.sum(x * x)


def slope(function, args, ways, step=1e-4):
    at = [
        function(*(a + k * step * w for a, w in zip(args, ways, strict=True)))
        for k in (-2, -1, 1, 2)
    ]
    return (at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * step)


@pytest.mark.parametrize("function", [row_tails, own_tails, back_substituted])
def test_all_sizes(function):
    compiled, gradient = calque.jit(function), calque.jit(calque.grad(function, argnums=(0, 1)))
    for n, m, k in [(4, 4, 4), (3, 6, 5), (6, 3, 5), (5, 4, 2), (2, 1, 1), (1, 1, 1), (4, 4, 4)]:
        if function is back_substituted and not n == m == k:
            continue
        args = RNG.normal(size=(n, m)), RNG.normal(size=k)
        ways = RNG.normal(size=(n, m)), RNG.normal(size=k)
        np.testing.assert_allclose(compiled(*args), function(*args), rtol=1e-12)
        found = sum(np.sum(g * w) for g, w in zip(gradient(*args), ways, strict=True))
        np.testing.assert_allclose(found, slope(function, args, ways), rtol=1e-7, atol=1e-9)


def test_tails_are_read_where_they_are():
    args = RNG.normal(size=(4, 4)), RNG.normal(size=4)
    text = calque.source(calque.jit(back_substituted), *args, stage="kernels")
    assert "[i + 1:]" not in text and "[i, i + 1:]" not in text, text


def element(x, k):
    doubled = 2.0 * x[k]
    return doubled + 1.0


def third_in_an_arm(x, k):
    y = x.copy()
    y[0] = element(x, 2) if k > 2 else element(x, 0)
    if k > 3:
        y[3] += x[0]
        y[0] = 7.0
    return y


def third_in_iterations(x, k):
    y = x.copy()
    for i in range(k):
        if i == 4:
            break
        if i > 1:
            y[0] += x[2]
        y[0] *= 2.0
    i = 2
    while i < k:
        y[0] += element(x, 3) / (i - 1)
        i += 1
    return y


def divided_in_an_arm(x, k):
    n = len(x)
    return x * (3 // (n - 2)) if k > 3 else x + 5 % n


@pytest.mark.parametrize("function", [third_in_an_arm, third_in_iterations, divided_in_an_arm])
def test_what_cannot_be_there_is_an_error_where_it_is_reached(function):
    """Sizes say that an index is outside, but whether it is read is known at run time."""
    compiled = calque.jit(function)
    gradient = calque.grad(lambda x, k: np.sum(function(x, k)))
    for n, k in [(1, 0), (2, 0), (2, 2), (2, 3), (2, 5), (1, 5), (4, 5)]:
        x = np.arange(1.0, 1.0 + n)
        try:
            expected = function(x, k)
        except (IndexError, ZeroDivisionError) as error:
            for made in (compiled, gradient):
                with pytest.raises(type(error)):
                    made(x, k)
        else:
            np.testing.assert_allclose(compiled(x, k), expected)
            steps = 1e-6 * np.eye(n)
            wanted = [(function(x + s, k).sum() - function(x - s, k).sum()) / 2e-6 for s in steps]
            np.testing.assert_allclose(gradient(x, k), wanted, rtol=1e-6)


def counted(x):
    k = 0
    for i in range(len(x)):
        if x[i] > 0.5:
            k += 1
    return k


def as_long_in_a_branch(x, y):
    """The sizes are to be equal only where the branch is taken."""
    k, s = counted(x), 0.0
    if y[0] > 0.5:
        s = np.sum(x[:k] * y)
    return s + np.sum(x[:k] * 2.0)


def as_long_in_each_iteration(x, y):
    k, s = counted(x), 0.0
    for i in range(k):
        s += np.sum((x[:k] + y) * x[i])
    return s + np.sum(x[:k] + y[:k])


def grown_in_iterations(x, y):
    k, s = counted(x), 0.0
    a = x[:k] * 1.0
    b = x[:k] + 1.0
    for i in range(3):
        s += np.sum(a * x[:k])
        a = b + 0.0
        b = y * 1.0
    return s


def stored_as_long(x, y):
    k = counted(x)
    z = np.zeros(len(x))
    z[:k] = y
    z[k:] += x[: len(x) - k] * y[:1]
    return np.sum(z * x)


@pytest.mark.filterwarnings("ignore:A part of:calque.JitFallback")  # NumPy spreads sizes
@pytest.mark.parametrize(
    "function", [as_long_in_a_branch, as_long_in_each_iteration, grown_in_iterations, stored_as_long]
)
@pytest.mark.parametrize("ones", [0, 1, 3, 4])
def test_sizes_that_only_the_running_program_knows(function, ones):
    """NumPy raises where they differ, and spreads what has one element."""
    compiled, gradient = calque.jit(function), calque.jit(calque.grad(function))
    x = np.where(np.arange(6) < ones, 0.7, 0.1) + 0.01 * np.arange(6)
    for y in (np.ones(3), 0.3 * np.ones(3), np.ones(4), 0.2 * np.ones(8), np.ones(1)):
        try:
            expected = function(x, y)
        except ValueError:
            with pytest.raises(ValueError):
                compiled(x, y)
            continue
        np.testing.assert_allclose(compiled(x, y), expected, rtol=1e-13)
        if function is grown_in_iterations:
            continue  # the sweep raises: it does not save what changes its size
        steps = 1e-6 * np.eye(6)
        wanted = [(function(x + s, y) - function(x - s, y)) / 2e-6 for s in steps]
        np.testing.assert_allclose(gradient(x, y), wanted, rtol=1e-6, atol=1e-8)


def every_other(x, y):
    return np.sum((x[::2] + x[1::2]) * y) + np.sum(x[::2])


def test_sizes_in_steps_are_compared_at_each_call():
    compiled = calque.jit(every_other)
    assert "kernel" in compiled.source(np.ones(6), np.ones(3))
    for n, m in [(6, 3), (7, 3), (3, 2), (3, 1), (2, 1), (8, 4), (8, 3), (5, 3), (1, 1), (0, 0)]:
        x, y = RNG.normal(size=n), RNG.normal(size=m)
        try:
            expected = every_other(x, y)
        except ValueError:
            with pytest.raises(ValueError):
                compiled(x, y)
        else:
            np.testing.assert_allclose(compiled(x, y), expected, rtol=1e-13)


def sparse_product(starts, columns, values, x):
    y = np.zeros(starts.size - 1)
    for i in range(starts.size - 1):
        cols = columns[starts[i] : starts[i + 1]]
        y[i] = values[starts[i] : starts[i + 1]] @ x[cols]
    return y


@pytest.mark.filterwarnings("ignore:A part of:calque.JitFallback")  # NumPy spreads sizes
def test_a_loop_over_slices_that_the_data_bound_is_one_kernel():
    """The sizes are compared in each iteration; if they differ, NumPy raises its error."""
    starts, columns = np.array([0, 2, 2, 5]), np.array([0, 2, 0, 1, 2])
    values, x = np.arange(1.0, 6.0), np.array([0.5, -1.0, 2.0])
    compiled = calque.jit(sparse_product)
    text = compiled.source(starts, columns, values, x)
    assert "for i in range(starts.size - 1):" in text.split("def sparse_product_jit")[0]
    assert "sizes do not fit together" in text and "checked_index(j" not in text
    np.testing.assert_allclose(
        compiled(starts, columns, values, x), sparse_product(starts, columns, values, x)
    )
    slope = calque.jit(calque.grad(lambda v: np.sum(sparse_product(starts, columns, v, x))))(values)
    np.testing.assert_allclose(slope, x[columns])
    with pytest.raises(ValueError, match="matmul"):
        compiled(starts, columns, values[:4], x)
    np.testing.assert_allclose(
        compiled(starts, columns, values, x), sparse_product(starts, columns, values, x)
    )


def filled_to(x, y):
    """NumPy spreads what happens to have one element."""
    for i in range(x.size):
        y[: 3 - i] += x[: i + 1][x[: i + 1] > 0.4]
    return y


@pytest.mark.filterwarnings("ignore:A part of:calque.JitFallback")  # NumPy spreads sizes
def test_arguments_are_as_before_when_a_comparison_fails():
    x = np.array([0.5, 0.1, 0.2])
    y, expected = np.ones(3), np.ones(3)
    np.testing.assert_allclose(calque.jit(filled_to)(x, y), filled_to(x, expected))
    np.testing.assert_allclose(y, expected)
