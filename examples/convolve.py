"""A convolution written for one signal, batched over either axis, or over a list of arguments."""

import numpy as np

import calque


def convolve(x: "f8[n]", w: "f8[3]"):
    out = []
    for i in range(1, len(x) - 1):
        out.append(np.dot(x[i - 1 : i + 2], w))
    return np.array(out)


def main():
    x, w = np.arange(5.0), np.array([2.0, 3.0, 4.0])
    print(f"one signal: {convolve(x, w)}, expected [11. 20. 29.]")
    signals, kernels = np.stack([x, x + 1.0]), np.stack([w, w + 1.0])

    both = calque.vmap(convolve)
    expected = np.stack([convolve(a, b) for a, b in zip(signals, kernels, strict=True)])
    assert np.array_equal(both(signals, kernels), expected)

    columns = calque.vmap(convolve, in_axes=1, out_axes=1)
    assert np.array_equal(columns(signals.T, kernels.T), expected.T)

    shared = calque.vmap(convolve, in_axes=[0, None])
    print(f"two signals, one kernel:\n{shared(signals, w)}")
    assert np.array_equal(shared(signals, w), np.stack([convolve(a, w) for a in signals]))

    print()
    print(calque.source(shared, signals, w))


if __name__ == "__main__":
    main()
