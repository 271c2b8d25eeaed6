"""Slopes where a factor is infinite or a quotient is 0 / 0: the limit, or JAX's."""

import math

import numpy as np
import pytest

import calque

WAYS = {
    "grad": calque.grad,
    "jit": lambda f: calque.jit(calque.grad(f)),
    "jvp": lambda f: lambda x: calque.jvp(f, (x,), (1.0,))[1],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("function", "want"),
    [
        (lambda x: x**0.5, np.inf),
        (lambda x: math.pow(x, 0.5), np.inf),
        (lambda x: x**1.5, 0.0),
        (lambda x: x**0.0, 0.0),
        (lambda x: np.power(x, 0.0), 0.0),
        (lambda x: x ** np.float64(0.0), 0.0),
        (lambda x: np.asarray(x) ** np.float32(0.0), 0.0),
        (lambda x: x ** (x + 0.5), np.inf),
        (lambda x: abs(complex(x, 0.0)), 0.0),
    ],
)
def test_at_zero(way, function, want):
    with np.errstate(all="ignore"):
        np.testing.assert_equal(np.asarray(WAYS[way](function)(0.0)), want)


@pytest.mark.parametrize("wrap", [lambda f: f, calque.jit])
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_the_modulus_has_slope_zero_at_zero(wrap, dtype):
    z = np.array([0.0, 3.0 - 4.0j], dtype)
    bar = calque.vjp(wrap(np.abs), z)[1](np.ones(2, z.real.dtype))[0]
    np.testing.assert_allclose(bar, [0.0, 0.6 + 0.8j], rtol=1e-6)
    spectrum = wrap(calque.grad(lambda x: np.sum(np.abs(np.fft.fft(x)))))
    np.testing.assert_allclose(spectrum(np.ones(4)), np.ones(4))
    twice = calque.grad(lambda t: np.sum(calque.grad(lambda x: np.abs(x + 0j))(t)))(0.0)
    assert twice == 0.0


@pytest.mark.parametrize("way", ["grad", "jit"])
@pytest.mark.parametrize(
    ("function", "point"),
    [
        (lambda x: math.hypot(x, 2.0 * x), 0.0),
        (lambda x: math.dist([x, 0.0], [0.0, 0.0]), 0.0),
        (np.linalg.norm, np.zeros(3)),
        (np.linalg.norm, np.zeros((2, 3))),
        (lambda x: np.linalg.norm(x, 3), np.zeros(3)),
        (lambda x: np.sum(np.linalg.norm(x, axis=0)), np.zeros((2, 3))),
        (lambda x: np.linalg.norm(x + 0j), np.zeros(3)),
    ],
)
def test_a_length_has_slope_zero_at_zero(way, function, point):
    """As PyTorch's."""
    with np.errstate(all="ignore"):
        np.testing.assert_equal(WAYS[way](function)(point), 0.0 * point)


def test_a_complex_norm_has_its_slope_elsewhere():
    z = np.array([3.0 - 4.0j, 1.0j])
    np.testing.assert_allclose(
        calque.grad(np.linalg.norm)(z), np.conj(z) / np.linalg.norm(z), rtol=1e-12
    )
    assert calque.value_and_grad(np.linalg.norm)(z)[0] == np.linalg.norm(z)


@pytest.mark.parametrize("x", [3.5, np.array([2.0]), np.array([[1.0, -2.0, 0.5]])])
def test_the_deviation_of_one_element_is_constant(x) -> None:
    def total(x):
        return np.sum(np.std(x, axis=0 if np.ndim(x) else None))

    def slopes(x):
        return np.sum(calque.grad(total)(x))

    assert calque.jit(total)(x) == 0
    for found in (calque.grad(total)(x), calque.jit(calque.grad(total))(x), calque.grad(slopes)(x)):
        np.testing.assert_array_equal(found, np.zeros_like(x))
    many = np.stack([x, x])
    np.testing.assert_array_equal(calque.vmap(calque.grad(total))(many), np.zeros_like(many))
    np.testing.assert_array_equal(calque.jvp(total, (x,), (x,))[1], 0.0)


def halved(x):
    if x > 2.0:
        v = x * x
    elif x > 1.5:
        v = x
    else:
        u = math.sqrt(2.0 - x)
        v = math.sqrt(u) if u != 0.0 else 0.0
    return math.sqrt(v) * x


@pytest.mark.parametrize("way", WAYS)
def test_a_condition_of_an_arm_is_not_asked_outside_of_it(way):
    """``math.sqrt`` raises there."""
    np.testing.assert_allclose(WAYS[way](halved)(3.0), 6.0)
    np.testing.assert_allclose(WAYS[way](halved)(1.6), 1.5 * math.sqrt(1.6))
