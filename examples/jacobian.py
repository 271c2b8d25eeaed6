"""The Jacobian of a function from three numbers to four, forward and in reverse."""

import numpy as np

import calque


def f(x: "f8[3]"):
    return np.array([x[0], 5 * x[2], 4 * x[1] ** 2 - 2 * x[2], x[2] * np.sin(x[0])])


def main():
    x = np.array([1.0, 2.0, 3.0])
    expected = np.array(
        [[1.0, 0.0, 0.0], [0.0, 0.0, 5.0], [0.0, 16.0, -2.0], [3.0 * np.cos(1.0), 0.0, np.sin(1.0)]]
    )
    for transform in (calque.jacfwd, calque.jacrev):
        print(f"{transform.__name__}:\n{transform(f)(x)}, expected\n{expected}")
        assert np.allclose(transform(f)(x), expected, rtol=1e-14)

    print()
    print(calque.source(calque.jacfwd(f), x))


if __name__ == "__main__":
    main()
