"""x + x**2 + x**3 without a temporary: each element is read once and written once."""

import numpy as np

import calque


@calque.jit
def powers(x: "f8[n,n]"):
    return x + x**2 + x**3


def main():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1000, 1000))
    expected = x + x * x + x * x * x
    found = powers(x)
    difference = np.abs(found - expected).max()
    print(f"largest difference from NumPy: {difference:.1e}, expected below 1e-13")
    assert np.allclose(found, expected, rtol=1e-13, atol=1e-13)

    print()
    print(calque.source(powers, x))


if __name__ == "__main__":
    main()
