def product_device(v, M):
    return v @ M


def product_pmap(v, M):
    """Every rank gives the same arguments, works on its part, and has all results."""
    if world.size != 4:
        raise ValueError(f"{world.size} ranks, and 4 are needed")
    if v.shape[0] != 4:
        raise ValueError("v.shape[0] must be 4, the number of devices")
    if M.shape[0] != 4:
        raise ValueError("M.shape[0] must be 4, the number of devices")
    result = product_device(v[comm.rank], M[comm.rank])
    return all_gather(result)
