"""The derivative through a `while`: the number of iterations is known only after the last."""

import numpy as np

import calque


def newton_sqrt(a: float):
    x = 0.5 * (1.0 + a)
    while np.abs(x * x - a) > 1e-12 * a:
        x = 0.5 * (x + a / x)
    return x


def main():
    slope = calque.grad(newton_sqrt)
    for a in (2.0, 9.0, 0.25):
        expected = 0.5 / np.sqrt(a)
        print(f"sqrt({a}) = {newton_sqrt(a):.12f}, expected {np.sqrt(a):.12f}")
        print(f"  slope by reverse mode {slope(a):.12f}, expected {expected:.12f}")
        assert np.isclose(slope(a), expected, rtol=1e-5)

        root, root_dot = calque.jvp(newton_sqrt, (a,), (1.0,))
        print(f"  slope by forward mode {root_dot:.12f}")
        assert root == newton_sqrt(a) and np.isclose(root_dot, slope(a), rtol=1e-12)

    print()
    print(calque.source(slope, 2.0))


if __name__ == "__main__":
    main()
