"""The sums of several leaves over MPI ranks: one call for each, or one for all in one buffer.

    mpiexec --oversubscribe -n 2 python benchmarks/packed_sums.py

Each is what a generated program could write for ``psum`` of a tree; the ways take turns. Prints
the shortest time of a call in microseconds; results/parallel.md keeps a run.
"""

import time

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
REPEATS, MOST = 25, 100_000  # elements that one repetition adds, about


def separate(leaves):
    for x in leaves:
        comm.Allreduce(MPI.IN_PLACE, x)
    return leaves


def started(leaves):
    MPI.Request.Waitall([comm.Iallreduce(MPI.IN_PLACE, x) for x in leaves])
    return leaves


def packed(leaves):
    whole = np.concatenate([x.ravel() for x in leaves])
    comm.Allreduce(MPI.IN_PLACE, whole)
    found, end = [], 0
    for x in leaves:
        found.append(whole[end : end + x.size].reshape(x.shape))
        end += x.size
    return found


def shortest(way, leaves):
    count, found = max(2, min(200, MOST // (leaves[0].size * len(leaves)))), []
    for _ in range(REPEATS):
        comm.Barrier()
        began = time.perf_counter()
        for _ in range(count):
            way(leaves)
        found.append((time.perf_counter() - began) / count)
        for x in leaves:
            x[...] = 1.0
    return 1e6 * min(found)


def main():
    ways = (separate, started, packed)
    if comm.rank == 0:
        print("| leaves | elements | Allreduce | Iallreduce | packed |")
        print("| --- | --- | --- | --- | --- |")
    for number in (4, 8):
        for size in (10, 100, 1000, 10_000, 100_000):
            leaves = [np.ones(size) for _ in range(number)]
            times = [shortest(way, leaves) for way in ways]
            if comm.rank == 0:
                print(f"| {number} | {size:,} |", " | ".join(f"{t:.1f}" for t in times), "|")


if __name__ == "__main__":
    main()
