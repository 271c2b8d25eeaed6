"""Stencil sweeps as plain loops with stores: compiled forward, and compiled in reverse."""

import numpy as np

import calque


def jacobi(a: "f8[n]", b: "f8[n]", steps: int = 20):
    for _ in range(steps):
        for i in range(1, a.shape[0] - 1):
            b[i] = (a[i - 1] + a[i] + a[i + 1]) / 3.0
        for i in range(1, a.shape[0] - 1):
            a[i] = (b[i - 1] + b[i] + b[i + 1]) / 3.0
    return np.sum(a * a)


def seidel(u: "f8[n,m]", steps: int = 4):
    for _ in range(steps):
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
    return np.sum(u**3)


def heat(u: "f8[n,m]", steps: int = 10):
    for _ in range(steps):
        inner = u[1:-1, 1:-1]
        change = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * inner
        u[1:-1, 1:-1] = inner + 0.1 * change
    return np.sum(u * u)


def slope(f, args, direction, step=1e-6):
    """The derivative along a direction of the first argument, by differences."""
    first, *rest = args

    def at(t):
        return f(first + t * direction, *[x.copy() for x in rest])

    return (at(step) - at(-step)) / (2.0 * step)


def main():
    rng = np.random.default_rng(0)
    cases = {
        jacobi: (rng.normal(size=60), rng.normal(size=60)),
        seidel: (rng.normal(size=(12, 15)),),
        heat: (rng.normal(size=(12, 15)),),
    }
    for f, args in cases.items():
        fast, gradient = calque.jit(f), calque.jit(calque.grad(f))
        value, plain = fast(*[x.copy() for x in args]), f(*[x.copy() for x in args])
        direction = rng.normal(size=args[0].shape)
        found = np.sum(gradient(*args) * direction)
        expected = slope(f, args, direction)
        print(f"{f.__name__}: value {value:.6f}, expected {plain:.6f}; ", end="")
        print(f"slope {found:.6f}, expected {expected:.6f}")
        assert np.isclose(value, plain, rtol=1e-12)
        assert np.isclose(found, expected, rtol=1e-6)

    print()
    print(calque.source(calque.jit(calque.grad(seidel)), rng.normal(size=(12, 15))))


if __name__ == "__main__":
    main()
