"""The derivative of a branch: each side has its own, and both are to be read in the source."""

import numpy as np

import calque


def absolute(x: float):
    if x > 0:
        return x
    return -x


def main():
    slope = calque.grad(absolute)
    for x, expected in ((3.0, 1.0), (-2.0, -1.0), (0.0, -1.0)):
        print(f"x = {x:4}: {slope(x)}, expected {expected}")
        assert slope(x) == expected

    curvature = calque.grad(slope)
    print(f"second derivative at 3.0: {curvature(3.0)}, expected 0.0")
    assert curvature(np.float64(3.0)) == 0.0

    print()
    print(calque.source(slope, 3.0))


if __name__ == "__main__":
    main()
