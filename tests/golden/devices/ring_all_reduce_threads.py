def ring_all_reduce_device(comm, x):
    total = x.copy()  # the argument is kept as it is
    passed = x
    for k in range(3):
        passed = comm.ppermute(passed, [(k, (k + 1) % 4) for k in range(4)])
        total = total + passed
    return total


def ring_all_reduce_pmap(x):
    """4 devices, each on its part; whole arrays in and out."""
    if x.shape[0] != 4:
        raise ValueError("x.shape[0] must be 4, the number of devices")
    arguments = [(x[k],) for k in range(4)]
    results = run(ring_all_reduce_device, arguments, {}, (4,))
    return np.stack([results[k] for k in range(4)])
