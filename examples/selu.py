"""An activation compiled: one loop over the elements, at the speed of memory."""

import numpy as np

import calque


@calque.jit
def selu(x: "f8[n,m]", alpha=1.67, scale=1.05):
    return scale * np.where(x > 0, x, alpha * np.exp(x) - alpha)


def main():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 400))
    expected = 1.05 * np.where(x > 0, x, 1.67 * np.exp(x) - 1.67)
    found = selu(x)
    difference = np.abs(found - expected).max()
    print(f"largest difference from NumPy: {difference:.1e}, expected below 1e-14")
    assert np.allclose(found, expected, rtol=1e-13, atol=1e-14)

    single = selu(x.astype(np.float32))
    print(f"float32 stays {single.dtype}, expected float32")
    assert single.dtype == np.float32

    print()
    print(calque.source(selu, x))


if __name__ == "__main__":
    main()
