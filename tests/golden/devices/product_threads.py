def product_device(comm, v, M):
    return v @ M


def product_pmap(v, M):
    """4 devices, each on its part; whole arrays in and out."""
    if v.shape[0] != 4:
        raise ValueError("v.shape[0] must be 4, the number of devices")
    if M.shape[0] != 4:
        raise ValueError("M.shape[0] must be 4, the number of devices")
    arguments = [(v[k], M[k]) for k in range(4)]
    results = run(product_device, arguments, {}, (4,))
    return np.stack([results[k] for k in range(4)])
