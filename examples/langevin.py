"""Langevin dynamics: two thousand chains, each with a key of its own, settle into a density."""

import numpy as np

import calque
from calque import grad, random, vmap


def energy(x):
    """Of the density exp(-energy(x)): a bent valley."""
    return 0.5 * x[0] ** 2 + 0.5 * ((x[1] - 0.5 * x[0] ** 2) / 0.8) ** 2


def chain(key, start, steps, rate):
    """Return the last point of one chain."""
    x = start
    for _ in range(steps):
        key, drawn = random.split(key)
        noise = random.normal(drawn, (2,))
        x = x - rate * grad(energy)(x) + np.sqrt(2.0 * rate) * noise
    return x


def moments(points=400, reach=8.0):
    """Means and variances of the density, by sums over a grid."""
    axis = np.linspace(-reach, reach, points)
    x = np.stack(np.meshgrid(axis, axis, indexing="ij"))
    weights = np.exp(-energy(x))
    weights /= np.sum(weights)
    means = np.sum(weights * x, axis=(1, 2))
    return means, np.sum(weights * (x - means[:, None, None]) ** 2, axis=(1, 2))


def main():
    count, steps, rate = 2000, 150, 0.03
    keys = random.split(random.key(0), count)
    starts = np.zeros((count, 2))

    chains = vmap(chain, in_axes=(0, 0, None, None))
    ends = chains(keys, starts, steps, rate)
    alone = chain(keys[7], starts[7], steps, rate)
    print(f"chain 7 ends at {ends[7]}, expected {alone}, where it ends alone")
    assert np.allclose(ends[7], alone, rtol=1e-10)

    means, variances = moments()
    print(f"means {ends.mean(axis=0)}, expected {means}")
    print(f"variances {ends.var(axis=0)}, expected {variances}")
    assert np.allclose(ends.mean(axis=0), means, atol=0.1)
    assert np.allclose(ends.var(axis=0), variances, rtol=0.15)

    print()
    print(calque.source(chains, keys, starts, steps, rate))


if __name__ == "__main__":
    main()
