"""A layer written for one example, batched: one large product, the maximum an axis further on."""

import numpy as np

import calque


def forward(x: "f8[d]", w: "f8[d,k]", b: float):
    return np.max(np.dot(x, w) + b, 0)


def main():
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(8, 3)), rng.normal(size=(3, 4))
    many = calque.vmap(forward, in_axes=(0, None, None))
    expected = np.array([forward(row, w, 0.5) for row in x])
    print(f"largest difference from a loop: {np.abs(many(x, w, 0.5) - expected).max()}, expected 0")
    assert np.allclose(many(x, w, 0.5), expected, rtol=1e-14)

    print()
    print(calque.source(many, x, w, 0.5))


if __name__ == "__main__":
    main()
