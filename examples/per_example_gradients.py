"""The gradient of the loss for every example of a batch, written as one program."""

import numpy as np

import calque


def loss(w: "f8[d]", x: "f8[d]", y: float):
    return (np.tanh(x @ w) - y) ** 2


def main():
    rng = np.random.default_rng(0)
    w, x, y = rng.normal(size=3), rng.normal(size=(5, 3)), rng.normal(size=5)
    gradients = calque.vmap(calque.grad(loss), in_axes=(None, 0, 0))
    expected = np.stack([calque.grad(loss)(w, a, b) for a, b in zip(x, y, strict=True)])
    difference = np.abs(gradients(w, x, y) - expected).max()
    print(f"largest difference from one gradient at a time: {difference:.1e}, expected about 0")
    assert np.allclose(gradients(w, x, y), expected, rtol=1e-12)

    print()
    print(calque.source(gradients, w, x, y))


if __name__ == "__main__":
    main()
