"""The Hessian of Rosenbrock's function, and its product with a vector without forming it."""

import numpy as np

import calque


def rosenbrock(x: "f8[n]"):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def main():
    x, v = np.array([1.0, 2.0, 3.0]), np.array([1.0, 0.0, -1.0])
    found = calque.hessian(rosenbrock)(x)
    expected = np.array([[402.0, -400.0, 0.0], [-400.0, 3802.0, -800.0], [0.0, -800.0, 200.0]])
    print(f"Hessian:\n{found}, expected\n{expected}")
    assert np.allclose(found, expected)
    assert np.allclose(calque.hvp(rosenbrock, (x,), (v,)), expected @ v)

    print()
    print(calque.source(calque.hessian(rosenbrock), x))


if __name__ == "__main__":
    main()
