"""Signs and sums as a textbook has them: ``a - b`` for ``a + -b``, ``s += v`` for ``s = s + v``."""

from __future__ import annotations

import re

import numpy as np
import pytest

import calque


def body_of(fn, *args) -> str:
    source = calque.source(fn, *args)
    return source[source.index("def "):]


def quotient(a: float, b: float):
    return a / (1.0 + b) * b


def test_a_derivative_that_is_taken_away_has_a_minus() -> None:
    text = body_of(calque.grad(quotient, argnums=(0, 1)), 2.0, 3.0)
    assert "+ -" not in text and "= -" not in text.replace("b_bar = -", "")
    h = 1e-6
    want = (quotient(2.0, 3.0 + h) - quotient(2.0, 3.0 - h)) / (2 * h)
    assert abs(calque.grad(quotient, argnums=1)(2.0, 3.0) - want) < 1e-8


def unsigned(x, b):
    y = x * 1.0
    y[:] += -b * 2.0
    z = x + -b * x
    return y + z


def test_numbers_without_a_sign_keep_their_minus() -> None:
    """Of 8 bits, minus 3 is 253."""
    x, b = np.array([1.0, 2.0]), np.array([3, 250], dtype=np.uint8)
    np.testing.assert_array_equal(run(unsigned, x, b), unsigned(x, b))


def run(fn, *args):
    """Run the printed text of a function."""
    namespace: dict = {"np": np}
    exec(calque.source(fn, *args), namespace)
    return namespace[fn.__name__](*args)


def shared(x):
    y = x * 2.0
    z = y
    y = y + x
    return np.sum(y * z)


def twice_read(x):
    y = np.exp(x)
    total = np.sum(y)
    return total * np.sum(y * y) + np.sum(np.sin(y))


def test_a_sum_that_is_still_read_is_not_stored_into() -> None:
    x = np.array([0.3, -0.7, 1.1])
    for fn in (shared, twice_read):
        gradient = calque.grad(fn)(x)
        for k in range(3):
            step = np.zeros(3, complex)
            step[k] = 1e-20j
            np.testing.assert_allclose(gradient[k], fn(x + step).imag / 1e-20, rtol=1e-12)
    np.testing.assert_array_equal(run(shared, x), shared(x))


def test_a_counter_that_is_read_has_a_name() -> None:
    def powers(x: float, n: int):
        for _ in range(n):
            x = x * (1.0 - x)
        return x

    text = body_of(calque.grad(powers), 0.3, 4)
    assert "[_]" not in text and "for k in range(n - 1, -1, -1):" in text


def test_the_size_of_a_result_is_asked_of_its_operand() -> None:
    def loss(x, y):
        return np.mean((x @ y - y) ** 2)

    text = body_of(calque.grad(loss), np.ones((3, 3)), np.ones((3, 3)))
    assert ".size" in text and ").size" not in text


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.float32])
def test_a_sum_of_few_bits_stays_one_in_kernels(dtype: type) -> None:
    """Numba's ``total += x`` has 64 bits, and was printed for NumPy's sum of 8."""

    def totals(values):
        total, product = dtype(1), dtype(3)
        for value in values:
            total += value
            product *= value
        return total, product

    values = np.array([100, 27, 120, 90] * 9).astype(dtype) * dtype(2)
    with np.errstate(all="ignore"):
        wanted = totals(values)
    for found, want in zip(calque.jit(totals)(values), wanted, strict=True):
        np.testing.assert_array_equal(found, want)
        assert found.dtype == want.dtype


def test_both_factors_of_a_square_have_one_cotangent() -> None:
    def norm(x, y):
        z = x * x / (y @ y)
        return np.sum(z * z)

    x, y = np.array([1.0, -2.0, 0.5]), np.array([0.3, 0.7, -1.1])
    text = body_of(calque.grad(norm, argnums=(0, 1)), x, y)
    assert "z_bar = 2.0 * z\n" in text and text.count("2.0 * ") == 3, text
    for k, found in enumerate(calque.grad(norm, argnums=(0, 1))(x, y)):
        for i in range(3):
            moved = [x.astype(complex), y.astype(complex)]
            moved[k][i] += 1e-20j
            np.testing.assert_allclose(found[i], norm(*moved).imag / 1e-20, rtol=1e-12)


def test_the_adjoint_of_a_sum_is_not_carried_through_its_loops() -> None:
    def energy(x):
        total = 0.0
        for i in range(x.shape[0]):
            for j in range(i):
                if x[i] > x[j]:
                    total += (x[i] - x[j]) ** 3
        return 2.0 * total

    x = np.array([0.5, -1.0, 2.0, 0.25])
    assert "total_bar" not in body_of(calque.grad(energy), x)
    found = calque.grad(energy)(x)
    for i in range(4):
        step = np.zeros(4)
        step[i] = 1e-6
        slope = (energy(x + step) - energy(x - step)) / 2e-6
        np.testing.assert_allclose(found[i], slope, rtol=1e-7)
    assert np.all(calque.jit(calque.grad(energy))(x) == found)


def test_an_adjoint_that_all_iterations_read_is_read_from_before_the_loop() -> None:
    def walk(p, scale):
        x = np.zeros(2)
        for _ in range(3):
            x = x + scale * p
            p = np.sin(p)
        return x @ x

    p = np.array([0.3, -0.7])
    found = calque.grad(walk, argnums=(0, 1))(p, 1.5)
    assert "x_bar_" not in body_of(calque.grad(walk, argnums=(0, 1)), p, 1.5)
    for i in range(2):
        moved = p.astype(complex)
        moved[i] += 1e-20j
        x = 1.5 * (moved + np.sin(moved) + np.sin(np.sin(moved)))
        np.testing.assert_allclose(found[0][i], (x @ x).imag / 1e-20, rtol=1e-12)


def cut_in_parts(first_factor, second_factor, third_factor):
    product = first_factor * second_factor * third_factor
    squared = np.exp(product) * np.sin(first_factor) + np.cos(third_factor)
    return np.sum(squared * first_factor / (1.0 + second_factor * second_factor))


def test_a_sum_cut_for_its_width_goes_on_in_place() -> None:
    args = [np.array([0.3, -0.7]), np.array([1.1, 0.2]), np.array([-0.4, 0.9])]
    gradient = calque.grad(cut_in_parts, argnums=(0, 1, 2))
    text = body_of(gradient, *args)
    assert re.search(r"first_factor_bar [+-]= ", text), text
    assert not re.search(r"(\w+) = \1 [+-] ", text), text
    for k, found in enumerate(gradient(*args)):
        for i in range(2):
            moved = [a.astype(complex) for a in args]
            moved[k][i] += 1e-20j
            np.testing.assert_allclose(found[i], cut_in_parts(*moved).imag / 1e-20, rtol=1e-12)


def test_leaves_that_one_loop_unpacks_are_told_apart_by_place() -> None:
    def network(params, x):
        for w, b in params:
            x = np.tanh(x @ w + b)
        return np.sum(x)

    params = [(np.eye(2), np.zeros(2)), (np.ones((2, 2)), np.ones(2))]
    text = body_of(calque.grad(network), params, np.ones((3, 2)))
    assert "return [(w_0_bar, b_0_bar), (w_1_bar, b_1_bar)]" in text, text

    def chosen(layers, x):
        return np.sum(x @ layers[0] @ layers[1])

    text = body_of(calque.grad(chosen), [np.eye(2), np.eye(2)], np.ones((3, 2)))
    assert "(x @ layers[0]).T" in text, text
    assert "np.full((x.shape[0], layers[1].shape[1]), 1.0)" in text, text
