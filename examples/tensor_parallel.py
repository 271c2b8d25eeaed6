"""A network on a mesh of 2 x 2 devices: half of the batch, and half of the hidden units."""

import os

os.environ.setdefault("CALQUE_CPU_DEVICES", "4")

import numpy as np

import calque
from calque import P, make_mesh, pmean, psum, shard_map, value_and_grad


def loss(W_0, b_0, W_1, b_1, x, y):
    """On one device."""
    hidden = np.tanh(x @ W_0 + b_0)
    error = hidden @ W_1 + b_1 - y
    return np.mean(error * error)


def mesh_loss(W_0, b_0, W_1, b_1, x, y):
    """A device has half of the hidden units, and half of the examples."""
    hidden = np.tanh(x @ W_0 + b_0)
    error = psum(hidden @ W_1, "model") + b_1 - y
    return pmean(np.mean(error * error), "data")


WEIGHTS = (P(None, "model"), P("model"), P("model", None), P())
EXAMPLES = (P("data"), P("data"))


def main():
    rng = np.random.default_rng(0)
    params = (
        rng.normal(size=(3, 8)),
        rng.normal(size=8),
        rng.normal(size=(8, 2)),
        rng.normal(size=2),
    )
    x, y = rng.normal(size=(12, 3)), rng.normal(size=(12, 2))

    every = (0, 1, 2, 3)
    step = shard_map(
        value_and_grad(mesh_loss, argnums=every),
        mesh=make_mesh((2, 2), ("data", "model")),
        in_specs=(*WEIGHTS, *EXAMPLES),
        out_specs=(P(), WEIGHTS),
    )
    value, slopes = step(*params, x, y)
    expected, expected_slopes = value_and_grad(loss, argnums=every)(*params, x, y)
    print(f"loss {value:.12f}, expected {expected:.12f}")
    assert np.isclose(value, expected, rtol=1e-12)
    for name, found, wanted in zip(("W_0", "b_0", "W_1", "b_1"), slopes, expected_slopes):
        print(f"{name}: {found.ravel()[:2]}, expected {wanted.ravel()[:2]}")
        assert np.allclose(found, wanted, rtol=1e-12, atol=1e-14)

    print()
    print(calque.source(step, *params, x, y, engine="mpi"))


if __name__ == "__main__":
    main()
