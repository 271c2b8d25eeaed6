"""A layer that is the solution of an equation: its gradient takes one linear solve, no sweep back."""

import numpy as np

import calque


def loss(W: "f8[n,n]", U: "f8[n,m]", b: "f8[n]", x: "f8[m]", target: "f8[n]"):
    def residual(z):
        return np.tanh(W @ z + U @ x + b) - z

    def iterate(residual, z):
        change = residual(z)
        while np.max(np.abs(change)) > 1e-13:
            z = z + change
            change = residual(z)
        return z

    z = calque.custom_root(residual, np.zeros(b.size), iterate)
    return np.sum((z - target) ** 2)


def difference(f, x, step=1e-6):
    """Central differences of a function of one array."""
    found = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        ahead, behind = x.copy(), x.copy()
        ahead[index] += step
        behind[index] -= step
        found[index] = (f(ahead) - f(behind)) / (2.0 * step)
    return found


def main():
    rng = np.random.default_rng(0)
    W, U, b = 0.3 * rng.normal(size=(3, 3)), rng.normal(size=(3, 2)), rng.normal(size=3)
    x, target = rng.normal(size=2), np.array([0.5, -0.5, 0.0])

    slope = calque.grad(loss, argnums=(0, 1, 2))
    W_bar, U_bar, b_bar = slope(W, U, b, x, target)
    cases = (
        ("W", W_bar, difference(lambda W: loss(W, U, b, x, target), W)),
        ("U", U_bar, difference(lambda U: loss(W, U, b, x, target), U)),
        ("b", b_bar, difference(lambda b: loss(W, U, b, x, target), b)),
    )
    for name, found, expected in cases:
        print(f"gradient by {name}:\n{found}, expected\n{expected}")
        assert np.allclose(found, expected, rtol=1e-6, atol=1e-8)

    print()
    print(calque.source(slope, W, U, b, x, target))


if __name__ == "__main__":
    main()
