"""Stores in a double loop: the reverse sweep walks the loops back and saves nothing."""

import numpy as np

import calque


def gauss_seidel(u: "f8[n,n]", f: "f8[n,n]"):
    n = u.shape[0]
    for i in range(1, n - 1):
        for j in range(1, n - 1):
            u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - f[i, j])
    return np.sum(u * u)


def by_hand(u, f):
    """The adjoint as one writes it on paper."""
    u = u.copy()
    gauss_seidel(u, f)
    n = u.shape[0]
    u_bar, f_bar = 2.0 * u, np.zeros_like(f)
    for i in range(n - 2, 0, -1):
        for j in range(n - 2, 0, -1):
            cell = 0.25 * u_bar[i, j]
            u_bar[i, j] = 0.0
            u_bar[i - 1, j] += cell
            u_bar[i + 1, j] += cell
            u_bar[i, j - 1] += cell
            u_bar[i, j + 1] += cell
            f_bar[i, j] -= cell
    return u_bar, f_bar


def main():
    rng = np.random.default_rng(0)
    u, f = rng.normal(size=(6, 6)), rng.normal(size=(6, 6))
    before = u.copy()

    gradient = calque.grad(gauss_seidel, argnums=(0, 1))
    u_bar, f_bar = gradient(u, f)
    expected_u, expected_f = by_hand(u, f)
    print(f"u_bar[2]: {u_bar[2]}\nexpected: {expected_u[2]}")
    print(f"f_bar[2]: {f_bar[2]}\nexpected: {expected_f[2]}")
    assert np.allclose(u_bar, expected_u, rtol=1e-12) and np.allclose(f_bar, expected_f, rtol=1e-12)
    print(f"the argument is as it was: {np.array_equal(u, before)}, expected True")
    assert np.array_equal(u, before)

    step, cell = 1e-6, np.zeros_like(u)
    cell[3, 3] = 1e-6
    high = gauss_seidel(u.copy(), f + cell)
    low = gauss_seidel(u.copy(), f - cell)
    difference = (high - low) / (2 * step)
    print(f"f_bar[3, 3]: {f_bar[3, 3]:.8f}, by differences {difference:.8f}")
    assert np.isclose(f_bar[3, 3], difference, atol=1e-7)

    print()
    print(calque.source(gradient, u, f))
    print(calque.explain(gradient, u, f))


if __name__ == "__main__":
    main()
