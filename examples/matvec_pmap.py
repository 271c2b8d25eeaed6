"""A matrix-vector product whose rows are dealt out over four devices: threads, or MPI ranks."""

import os

os.environ.setdefault("CALQUE_CPU_DEVICES", "4")

import numpy as np

import calque


def matvec(A: "f8[n,m]", v: "f8[m]"):
    """The rows that this device has, times the vector."""
    return A @ v


def power_step(A, v):
    """A v of length one: each device has some rows of A and of the vector."""
    w = A @ calque.all_gather(v, "i", tiled=True)
    return w / np.sqrt(calque.psum(w @ w, "i"))


def main():
    rng = np.random.default_rng(0)
    A, v = rng.normal(size=(20, 20)), rng.normal(size=20)
    A = A + A.T + 20.0 * np.outer(v, v) / (v @ v)
    rows = A.reshape(4, 5, 20)

    product = calque.pmap(matvec, axis_name="i", in_axes=(0, None))
    found = product(rows, v).reshape(-1)
    print(f"first rows {found[:3]}, expected {(A @ v)[:3]}")
    assert np.allclose(found, A @ v, rtol=1e-12)

    step = calque.pmap(power_step, axis_name="i")
    w = v.reshape(4, 5)
    for _ in range(60):
        w = step(rows, w)
    values = np.linalg.eigvalsh(A)
    found = np.linalg.norm(product(rows, w.reshape(-1)))
    print(f"largest eigenvalue {found:.10f}, expected {np.max(np.abs(values)):.10f}")
    assert np.isclose(found, np.max(np.abs(values)), rtol=1e-10)

    print()
    print(calque.source(product, rows, v, engine="mpi"))
    print()
    print(calque.source(step, rows, w, engine="mpi"))


if __name__ == "__main__":
    main()
