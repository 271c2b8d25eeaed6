def heat_rows_value_and_grad_device(comm, u, kappa, steps):
    # forward
    u = np.copy(u)  # the argument is kept as it is
    for t in range(steps):
        above = comm.ppermute(u[-1], [(k, k + 1) for k in range(3)])
        below = comm.ppermute(u[0], [(k + 1, k) for k in range(3)])
        padded = np.vstack([above, u, below])
        change = padded[:-2, 1:-1] + padded[2:, 1:-1] + u[:, :-2] + u[:, 2:] - 4.0 * u[:, 1:-1]
        u[:, 1:-1] += kappa * change

    # reverse
    # return np.sum(u * u)
    u_bar = u + u
    for t in range(steps - 1, -1, -1):
        # u[:, 1:-1] += kappa * change
        change_bar = u_bar[:, 1:-1] * kappa
        # change = padded[:-2, 1:-1] + padded[2:, 1:-1] + u[:, :-2] + u[:, 2:] - 4.0 * u[:, 1:-1]
        u_bar[:, 1:-1] -= change_bar * 4.0
        u_bar[:, 2:] += change_bar
        u_bar[:, :-2] += change_bar
        padded_bar = np.zeros((5, 6))
        padded_bar[2:, 1:-1] += change_bar
        padded_bar[:-2, 1:-1] += change_bar
        # padded = np.vstack((above, u, below))
        above_bar = padded_bar[0, :]
        below_bar = padded_bar[4, :]
        u_bar += padded_bar[1:4, :]
        # below = ppermute(u[0], "i", up)
        u_bar[0] += comm.ppermute(below_bar, [(k, k + 1) for k in range(3)])
        # above = ppermute(u[-1], "i", down)
        u_bar[-1] += comm.ppermute(above_bar, [(k + 1, k) for k in range(3)])
    return np.sum(u * u), u_bar


def heat_rows_value_and_grad_pmap(u, kappa, steps):
    """4 devices, each on its part; whole arrays in and out."""
    if u.shape[0] != 4:
        raise ValueError("u.shape[0] must be 4, the number of devices")
    arguments = [(u[k], kappa, steps) for k in range(4)]
    results = run(heat_rows_value_and_grad_device, arguments, {}, (4,))
    return (
        np.stack([results[k][0] for k in range(4)]), np.stack([results[k][1] for k in range(4)])
    )
