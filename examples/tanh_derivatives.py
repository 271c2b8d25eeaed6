"""Derivatives of derivatives: grad nested to the fourth, of tanh and of a polynomial."""

import numpy as np

import calque


def tanh(x: float):
    y = np.exp(-2.0 * x)
    return (1.0 - y) / (1.0 + y)


def cubic(x: float):
    return x**3 + 2 * x**2 - 3 * x + 1


def tanh_by_hand(x):
    t = np.tanh(x)
    s = 1.0 - t**2
    return s, -2.0 * t * s, s * (6.0 * t**2 - 2.0), s * (16.0 * t - 24.0 * t**3)


def main():
    x = 0.7
    derivative = tanh
    for order, expected in enumerate(tanh_by_hand(x), start=1):
        derivative = calque.grad(derivative)
        print(f"tanh, order {order}: {derivative(x):.12f}, expected {expected:.12f}")
        assert np.isclose(derivative(x), expected, rtol=1e-10)

    derivative = cubic
    for order, expected in enumerate((4.0, 10.0, 6.0, 0.0), start=1):
        derivative = calque.grad(derivative)
        print(f"x^3 + 2 x^2 - 3 x + 1, order {order}, at 1: {derivative(1.0)}, expected {expected}")
        assert np.isclose(derivative(1.0), expected, rtol=1e-12)

    print()
    print(calque.source(calque.grad(tanh), x))
    print(calque.source(calque.grad(calque.grad(cubic)), 1.0))


if __name__ == "__main__":
    main()
