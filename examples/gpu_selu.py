"""An activation on the GPU: one kernel, written out; without a card the CPU computes it."""

import numpy as np

import calque


def selu(x, alpha=1.67, scale=1.05):
    return scale * np.where(x > 0, x, alpha * np.exp(x) - alpha)


def gpu():
    """The first GPU; None, with a word, where there is none."""
    try:
        return calque.devices("gpu")[0]
    except ValueError as error:
        print(f"On the CPU: {str(error).partition('.')[0]}.")
        return None


def main():
    device = gpu()
    x = np.random.default_rng(0).standard_normal((300, 200)).astype(np.float32)
    given = x if device is None else calque.device_put(x, device)
    found = calque.device_get(calque.jit(selu)(given))
    expected = selu(x)
    difference = np.abs(found - expected).max()
    print(f"first values {found[0, :4]}\nexpected     {expected[0, :4]}")
    print(f"largest difference {difference:.1e}, expected below 1e-6")
    assert found.dtype == np.float32 and difference < 1e-6

    print()
    print(calque.source(calque.jit(selu), calque.spec("f4[n,m]"), stage="cuda"))


if __name__ == "__main__":
    main()
