"""The heat equation on a grid whose rows are shared by four devices, which exchange their edges.

python halo_exchange.py                  # four threads
mpiexec -n 4 python halo_exchange.py     # four processes
"""

import os

os.environ.setdefault("CALQUE_CPU_DEVICES", "4")

import numpy as np

from calque import (
    P,
    axis_size,
    make_mesh,
    ppermute,
    process_index,
    psum,
    shard,
    shard_map,
    source,
    unshard,
    value_and_grad,
)


def heat(u, kappa, steps):
    """On one device. Above the first row and below the last one it is 0."""
    edge = np.zeros(u.shape[1])
    for _ in range(steps):
        v = np.vstack((edge, u, edge))
        change = v[:-2, 1:-1] + v[2:, 1:-1] + u[:, :-2] + u[:, 2:] - 4.0 * u[:, 1:-1]
        u[:, 1:-1] += kappa * change
    return np.sum(u * u)


def heat_rows(u, kappa, steps):
    """A device has some rows of u. It is sent the row above them and the one below."""
    last = axis_size("rows") - 1
    down = [(k, k + 1) for k in range(last)]
    up = [(k + 1, k) for k in range(last)]
    for _ in range(steps):
        above = ppermute(u[-1], "rows", down)
        below = ppermute(u[0], "rows", up)
        v = np.vstack((above, u, below))
        change = v[:-2, 1:-1] + v[2:, 1:-1] + u[:, :-2] + u[:, 2:] - 4.0 * u[:, 1:-1]
        u[:, 1:-1] += kappa * change
    return psum(np.sum(u * u), "rows")


def main():
    u = np.random.default_rng(0).normal(size=(16, 12))
    kappa, steps = 0.1, 5

    step = shard_map(
        value_and_grad(heat_rows),
        mesh=make_mesh((4,), ("rows",)),
        in_specs=(P("rows"), P(), P()),
        out_specs=(P(), P("rows")),
    )
    mine = shard(u)
    value, slope = step(mine, kappa, steps)
    slope = unshard(slope)

    if process_index() > 0:
        return
    expected, expected_slope = value_and_grad(heat)(u, kappa, steps)
    print(f"value {value:.12f}, expected {expected:.12f}")
    assert np.isclose(value, expected, rtol=1e-12)
    print(f"gradient {slope[7, 4:7]}, expected {expected_slope[7, 4:7]}")
    assert np.allclose(slope, expected_slope, rtol=1e-12, atol=1e-14)

    print()
    print(source(step, mine, kappa, steps, engine="mpi"))


if __name__ == "__main__":
    main()
