def ring_all_reduce_device(x):
    total = x.copy()  # the argument is kept as it is
    passed = x
    for k in range(3):
        passed_new = np.ascontiguousarray(passed)
        passed = np.zeros((6, 3))
        comm.Sendrecv(passed_new, (comm.rank + 1) % 4, recvbuf=passed, source=(comm.rank - 1) % 4)
        total = total + passed
    return total


def ring_all_reduce_pmap(x):
    """Every rank gives the same arguments, works on its part, and has all results."""
    if world.size != 4:
        raise ValueError(f"{world.size} ranks, and 4 are needed")
    if x.shape[0] != 4:
        raise ValueError("x.shape[0] must be 4, the number of devices")
    result = ring_all_reduce_device(x[comm.rank])
    return all_gather(result)
